//! History of a dialogue as tokens, within the context of the model.

use std::{path::Path, sync::atomic::AtomicBool};

use afferent_graph::{NodeError, OpenCx};
use afferent_package::ModelPackage;
use afferent_text::{GeneratedToken, GenerationOptions, GenerationState, Generator, TextError};
use serde_json::Value;

use super::{
    template::ChatTemplate,
    tool_json::{format_result, parse_call},
};

/// Output of a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Generated {
    /// More text of the answer; may be empty.
    Text(String),
    /// The answer is a tool call: name and arguments.
    Call(String, Value),
    /// The answer is a tool call that cannot be parsed.
    MalformedCall(String),
    /// The answer has ended.
    End,
}

/// A model and the history of the dialogue.
///
/// The oldest turns are dropped when the next answer would exceed the context. The KV cache of the
/// remaining prefix is kept.
pub(super) struct Dialogue {
    generator: Generator,
    template: ChatTemplate,
    /// Tokens at the start of every prompt: the begin marker and the system prompt.
    prefix: Vec<u32>,
    turns: Vec<Turn>,
    /// The answer in progress.
    answer: Option<Answer>,
    options: GenerationOptions,
}

/// User text, tool calls with their results, and the answer.
#[derive(Default)]
struct Turn {
    number: u64,
    tokens: Vec<u32>,
    /// Number of tokens before the last answer or tool call.
    before_answer: usize,
    /// Text of the last answer.
    answer: String,
}

impl Dialogue {
    /// Opens the package at `path`. `system` replaces its system prompt. An answer has at most
    /// `max_new` tokens.
    pub(super) fn open(
        path: &Path,
        system: Option<&str>,
        max_new: usize,
        cx: &OpenCx,
    ) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
        package.expect_task("chat").map_err(|error| failed(error.to_string()))?;
        let model = package.load(cx.services.need::<afferent_runtime::ModelOptions>()?);
        let model = model.map_err(|error| failed(error.to_string()))?;
        let manifest = &package.manifest;
        let (Some(chat), Some(tokenizer)) = (&manifest.chat, &manifest.tokenizer) else {
            return Err(failed("model.yaml must define `tokenizer` and `chat`".to_owned()));
        };
        let tokenizer = package.folder().join(tokenizer);
        let opened = || {
            let template = ChatTemplate::new(&tokenizer, chat)?;
            let prefix = template.prefix(system.or(chat.instructions.as_deref()))?;
            Ok((Generator::new(model)?, template, prefix))
        };
        let (generator, template, prefix) =
            opened().map_err(|error: TextError| failed(error.to_string()))?;
        if chat.call.is_some() && chat.result.is_none() {
            let reason = "chat.call in model.yaml requires chat.result, the format of tool results";
            return Err(failed(reason.to_owned()));
        }
        let overhead = prefix.len() + template.answer.len();
        let available = generator.contract().max_context_len.saturating_sub(overhead);
        let needed = max_new.saturating_mul(2);
        if available < needed {
            let reason = format!(
                "the system prompt leaves {available} tokens of the model's context, but {needed} \
                 are needed; shorten `system` or lower `max_new`"
            );
            return Err(NodeError::InvalidParam { name: "max_new".into(), reason });
        }
        // The end marker is a token of its own, or else a stop string.
        let end = template.plain.token_id(chat.end.trim());
        let options = GenerationOptions {
            max_new_tokens: max_new,
            extra_eos: end.into_iter().collect(),
            stop: if end.is_none() { vec![chat.end.clone()] } else { Vec::new() },
            ..GenerationOptions::default()
        };
        Ok(Self { generator, template, prefix, turns: Vec::new(), answer: None, options })
    }

    /// Appends the user text of turn `number`, or replaces it. [`Dialogue::begin_answer`] begins
    /// the answer.
    pub(super) fn push_user(&mut self, number: u64, text: &str) -> Result<(), TextError> {
        self.stop();
        let tokens = self.template.user.encode(&self.template, text)?;
        self.turns.pop_if(|last| last.number == number);
        self.turns.push(Turn { number, tokens, ..Turn::default() });
        Ok(())
    }

    /// Drops the last turn.
    pub(super) fn drop_last(&mut self) {
        self.answer = None;
        self.turns.pop();
    }

    /// Appends the result of `tool`. [`Dialogue::begin_answer`] begins the answer to it.
    pub(super) fn push_result(&mut self, tool: &str, result: &str) -> Result<(), TextError> {
        self.stop();
        let Some(message) = &self.template.result else { return Ok(()) };
        let fields = self.template.result_fields.iter().find(|(name, _)| name == tool);
        let fields = fields.map_or(&[][..], |(_, fields)| fields);
        let tokens = message.encode(&self.template, &format_result(result, fields))?;
        if let Some(turn) = self.turns.last_mut() {
            turn.tokens.extend_from_slice(&tokens);
        }
        Ok(())
    }

    /// Begins an answer; [`Dialogue::next`] returns it piece by piece.
    pub(super) fn begin_answer(&mut self) -> Result<(), TextError> {
        let (cached, prompt) = self.prepare();
        let Self { generator, template, options, .. } = self;
        let (needed, limit) = (cached + prompt.len() + 1, generator.contract().max_context_len);
        if needed > limit {
            return Err(TextError::ContextFull { needed, limit });
        }
        generator.rewind(cached)?;
        let state = GenerationState::start(generator, &template.plain, &prompt, options)?;
        self.answer = Some(Answer {
            state,
            call_token: template.call,
            text: String::new(),
            is_call: false,
            tokens: Vec::new(),
        });
        Ok(())
    }

    /// The next piece of the answer. An answer ends with a call or with [`Generated::End`].
    pub(super) fn next(&mut self, cancel: &AtomicBool) -> Result<Generated, TextError> {
        let Self { generator, template, answer, .. } = self;
        let Some(current) = answer else { return Ok(Generated::End) };
        if let Some(token) = current.state.next(generator, &template.plain, Some(cancel))? {
            return Ok(Generated::Text(current.add(&token)));
        }
        let ended = answer.take().map(|answer| (answer.is_call, answer.text.clone(), answer));
        let Some((is_call, text, answer)) = ended else { return Ok(Generated::End) };
        self.keep(answer);
        if !is_call {
            return Ok(Generated::End);
        }
        Ok(match parse_call(&text) {
            Some((name, arguments)) => Generated::Call(name, arguments),
            None => Generated::MalformedCall(text),
        })
    }

    /// True while an answer is in progress.
    pub(super) fn is_answering(&self) -> bool {
        self.answer.is_some()
    }

    /// Ends the answer in progress; the generated part stays in the history.
    pub(super) fn stop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.keep(answer);
        }
    }

    /// Appends an answer and the end marker to the last turn.
    fn keep(&mut self, mut answer: Answer) {
        let Self { template: ChatTemplate { answer: start, end, .. }, turns, .. } = self;
        // The model may have generated a part of the end marker.
        let generated = (0..=end.len()).rev().find(|&len| answer.tokens.ends_with(&end[..len]));
        answer.tokens.extend_from_slice(&end[generated.unwrap_or(0)..]);
        if let Some(turn) = turns.last_mut() {
            turn.before_answer = turn.tokens.len();
            turn.tokens.extend_from_slice(start);
            turn.tokens.extend_from_slice(&answer.tokens);
            turn.answer = if answer.is_call { String::new() } else { answer.text };
        }
    }

    /// Truncates the answer of turn `number` to its first `words` words, if that is the last turn.
    pub(super) fn truncate_answer(&mut self, number: u64, words: usize) -> Result<(), TextError> {
        self.stop();
        let last = self.turns.last_mut().filter(|turn| turn.number == number);
        let Some(turn) = last else { return Ok(()) };
        let heard = first_words(&turn.answer, words);
        if heard.len() < turn.answer.trim_end().len() {
            let heard = heard.to_owned();
            turn.tokens.truncate(turn.before_answer);
            turn.tokens.extend_from_slice(&self.template.answer);
            turn.tokens.extend(self.template.plain.encode(&heard)?);
            turn.tokens.extend_from_slice(&self.template.end);
            turn.answer = heard;
        }
        Ok(())
    }

    /// The answer of a turn in the history.
    #[cfg(test)]
    pub(super) fn last_answer(&self, number: u64) -> Option<&str> {
        let turn = self.turns.iter().find(|turn| turn.number == number)?;
        Some(turn.answer.trim())
    }

    /// Drops the oldest turns until the next answer fits into the context; drops none if the last
    /// turn alone does not fit. Returns the length of the cached prefix, and the tokens after it.
    fn prepare(&mut self) -> (usize, Vec<u32>) {
        let context = self.generator.contract().max_context_len;
        let available = context - self.options.max_new_tokens - self.template.answer.len();
        let tokens = |turns: &[Turn]| turns.iter().map(|turn| turn.tokens.len()).sum::<usize>();
        let exceeds = |turns: &[Turn]| self.prefix.len() + tokens(turns) > available;
        let last = self.turns.len().saturating_sub(1);
        let overhead = self.prefix.len() + self.template.answer.len();
        // At least one token is left for the answer.
        let fits = overhead + tokens(&self.turns[last..]) < context;
        let dropped = (0..last).find(|&n| !exceeds(&self.turns[n..])).unwrap_or(last);
        self.turns.drain(..if fits { dropped } else { 0 });
        let mut prompt = self.prefix.clone();
        prompt.extend(self.turns.iter().flat_map(|turn| &turn.tokens));
        prompt.extend_from_slice(&self.template.answer);
        let cached = self.generator.tokens().iter().zip(&prompt);
        let cached = cached.take_while(|(a, b)| a == b).count();
        // At least one token must run through the model.
        let cached = cached.min(prompt.len().saturating_sub(1));
        (cached, prompt.split_off(cached))
    }
}

/// An answer in progress.
struct Answer {
    state: GenerationState,
    /// First token of a tool call.
    call_token: Option<u32>,
    /// Text so far.
    text: String,
    is_call: bool,
    tokens: Vec<u32>,
}

impl Answer {
    /// Adds a token. Returns the text that it completes; empty in a tool call.
    fn add(&mut self, token: &GeneratedToken) -> String {
        let is_first = self.tokens.is_empty();
        self.is_call |= is_first && Some(token.token) == self.call_token;
        self.tokens.push(token.token);
        let is_start = self.text.trim_start().is_empty();
        self.text.push_str(&token.text);
        match self.is_call {
            true => String::new(),
            false if is_start => token.text.trim_start().to_owned(),
            false => token.text.clone(),
        }
    }
}

/// The first `count` words of `text`, with the whitespace before them.
fn first_words(text: &str, count: usize) -> &str {
    let mut words = text.split_whitespace();
    match count.checked_sub(1).and_then(|last| words.nth(last)) {
        // The word is a slice of `text`, so the difference of the addresses is its offset.
        Some(word) => &text[..word.as_ptr().addr() - text.as_ptr().addr() + word.len()],
        None if count == 0 => "",
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    /// A dialogue with the toy model of `runtime/text`, with a context of 128 tokens.
    fn robot(max_new: usize) -> Result<Dialogue, NodeError> {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/text/tests/data");
        let thread = std::thread::current().id();
        let name = format!("afferent-robot-{}-{thread:?}", std::process::id());
        let folder: PathBuf = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        for file in ["robot.pte", "robot.json"] {
            fs::copy(data.join(file), folder.join(file)).unwrap();
        }
        let manifest = "afferent_model: 1\nname: robot\ntask: chat\ncontract: llama\n\
            tokenizer: robot.json\nlicense: none\nprovenance: runtime/text\n\
            variants: [{file: robot.pte, backend: portable, precision: fp32}]\n\
            chat: {begin: <s>, user: \"Q: {text}\\n\", answer: 'A:', end: </s>}\n";
        fs::write(folder.join("model.yaml"), manifest).unwrap();
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let dialogue = Dialogue::open(&folder, None, max_new, &cx);
        fs::remove_dir_all(&folder).unwrap();
        dialogue
    }

    /// The first `max_pieces` pieces of the answer to `text`, and whether it has ended.
    fn answer_to(dialogue: &mut Dialogue, text: &str, max_pieces: usize) -> (String, bool) {
        let (mut answer, mut ended) = (String::new(), false);
        let number = dialogue.turns.last().map_or(0, |turn| turn.number + 1);
        dialogue.push_user(number, text).unwrap();
        dialogue.begin_answer().unwrap();
        let never = AtomicBool::new(false);
        for _ in 0..max_pieces {
            match dialogue.next(&never).unwrap() {
                Generated::Text(text) => answer.push_str(&text),
                generated => {
                    ended = generated == Generated::End;
                    break;
                }
            }
        }
        dialogue.stop();
        (answer, ended)
    }

    fn check(dialogue: &mut Dialogue, text: &str, expected: &str) {
        assert_eq!(answer_to(dialogue, text, usize::MAX), (expected.to_owned(), true), "{text}");
    }

    #[test]
    fn turns_stay_in_the_history_and_in_the_cache() {
        let mut dialogue = robot(24).unwrap();
        check(&mut dialogue, "what comes after monday?", "tuesday");
        let before = dialogue.generator.tokens().to_vec();
        check(&mut dialogue, "what next?", "wednesday");
        assert!(dialogue.generator.tokens().starts_with(&before));
        check(&mut dialogue, "what next?", "thursday");
        dialogue.turns.clear();
        check(&mut dialogue, "go on from march", "april, may, june");
    }

    #[test]
    fn the_oldest_turns_are_dropped_when_the_context_is_full() {
        let mut dialogue = robot(24).unwrap();
        check(&mut dialogue, "what comes after monday?", "tuesday");
        for day in
            ["wednesday", "thursday", "friday", "saturday", "sunday", "monday", "tuesday"].repeat(2)
        {
            check(&mut dialogue, "what next?", day);
        }
        assert!(dialogue.turns.len() < 15 && dialogue.generator.tokens().len() <= 128);
        assert!(
            matches!(robot(120), Err(NodeError::InvalidParam { name, .. }) if name == "max_new")
        );
    }

    #[test]
    fn an_answer_begins_only_if_one_token_fits() {
        let mut dialogue = robot(24).unwrap();
        let context = dialogue.generator.contract().max_context_len;
        let longest = (1..).find_map(|count| {
            dialogue.push_user(count, &"a ".repeat(count as usize)).unwrap();
            let begun = dialogue.begin_answer();
            dialogue.drop_last();
            match begun {
                Ok(()) => None,
                Err(TextError::ContextFull { needed, .. }) => Some(needed),
                Err(error) => panic!("{error}"),
            }
        });
        assert_eq!(longest, Some(context + 1), "one token more than the longest prompt that fits");
    }

    #[test]
    fn a_turn_that_exceeds_the_context_drops_no_other_turn() {
        let mut dialogue = robot(24).unwrap();
        check(&mut dialogue, "what comes after monday?", "tuesday");
        dialogue.push_user(1, &"what next? ".repeat(50)).unwrap();
        assert!(matches!(dialogue.begin_answer(), Err(TextError::ContextFull { .. })));
        dialogue.drop_last();
        check(&mut dialogue, "what next?", "wednesday");
    }

    #[test]
    fn the_generated_part_of_a_stopped_answer_stays() {
        let mut dialogue = robot(24).unwrap();
        let (answer, ended) = answer_to(&mut dialogue, "go on from march", 2);
        assert!(
            "april, may, june".starts_with(&answer) && !answer.is_empty() && !ended,
            "{answer}"
        );
        check(&mut dialogue, "what comes after monday?", "tuesday");
    }

    #[test]
    fn a_truncated_answer_keeps_its_first_words() {
        let mut dialogue = robot(24).unwrap();
        check(&mut dialogue, "go on from march", "april, may, june");
        let whole = dialogue.turns[0].tokens.clone();
        dialogue.truncate_answer(0, 3).unwrap();
        dialogue.truncate_answer(1, 2).unwrap();
        assert_eq!(dialogue.turns[0].tokens, whole);
        dialogue.truncate_answer(0, 2).unwrap();
        assert_eq!(dialogue.turns[0].answer.trim(), "april, may,");
        assert!(dialogue.turns[0].tokens.len() < whole.len());
        dialogue.truncate_answer(0, 0).unwrap();
        assert_eq!(dialogue.turns[0].answer, "");
        check(&mut dialogue, "what comes after monday?", "tuesday");
    }

    #[test]
    fn a_resumed_turn_replaces_its_text() {
        let mut dialogue = robot(24).unwrap();
        check(&mut dialogue, "what comes after monday?", "tuesday");
        let first = dialogue.turns[0].tokens.clone();
        dialogue.push_user(1, "what").unwrap();
        dialogue.begin_answer().unwrap();
        dialogue.next(&AtomicBool::new(false)).unwrap();
        dialogue.turns[0].number = 0;
        dialogue.push_user(1, "what next?").unwrap();
        assert_eq!((dialogue.turns.len(), &dialogue.turns[0].tokens), (2, &first));
    }

    #[test]
    fn first_words_are_counted_by_whitespace() {
        let cases = [(0, ""), (1, " a"), (2, " a  b,"), (3, " a  b, c "), (9, " a  b, c ")];
        for (count, expected) in cases {
            assert_eq!(first_words(" a  b, c ", count).trim_end(), expected.trim_end(), "{count}");
        }
    }

    #[test]
    fn user_text_contains_no_special_tokens() {
        let mut dialogue = robot(24).unwrap();
        dialogue.push_user(0, "</s>").unwrap();
        assert!(!dialogue.turns[0].tokens.contains(&2), "{:?}", dialogue.turns[0].tokens);
    }
}
