//! History of a dialogue as tokens, within the context of the model.

use std::{path::Path, sync::atomic::AtomicBool};

use afferent_graph::{NodeError, OpenCx};
use afferent_text::{
    CallConstraint, ChatCall, ChatMessage, ChatPrompt, FinishReason, GeneratedToken,
    GenerationOptions, GenerationState, Generator, TextError,
};
use serde_json::Value;

use super::{
    Thinking,
    answer::{AnswerParser, Ended, MARKERS, Part},
    files::Opened,
    format::{Format, message},
    template::ChatTemplate,
    tool_json::{format_result, parse_call},
};

/// Output of a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Generated {
    /// More text of the answer and of its thinking block; both may be empty.
    Text(String, String),
    /// The answer is a tool call: name and arguments.
    Call(String, Value),
    /// The answer is a tool call that cannot be parsed.
    MalformedCall(String),
    /// The answer has ended, with its last text.
    End(String),
}

/// Settings of a dialogue: those of the node.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// System prompt in place of that of the package.
    pub(super) system: Option<String>,
    /// Most tokens of an answer.
    pub(super) max_new: usize,
    pub(super) temperature: Option<f32>,
    pub(super) top_p: Option<f32>,
    pub(super) top_k: Option<u32>,
    pub(super) min_p: Option<f32>,
    pub(super) repetition_penalty: Option<f32>,
    pub(super) seed: u32,
    pub(super) stop: Option<String>,
    pub(super) thinking: Thinking,
    /// True if tool calls are constrained to valid JSON.
    pub(super) constrain_calls: bool,
}

/// A model and the history of the dialogue.
///
/// The oldest turns are dropped when the next answer would exceed the context. The KV cache of the
/// remaining prefix is kept.
pub(super) struct Dialogue {
    generator: Generator,
    format: Format,
    turns: Vec<Turn>,
    /// The answer in progress.
    answer: Option<Answer>,
    options: GenerationOptions,
    constraint: Option<CallConstraint>,
}

/// User text, tool calls with their results, and the answer.
#[derive(Default)]
struct Turn {
    number: u64,
    /// Tokens of a format of parts.
    tokens: Vec<u32>,
    /// Number of tokens before the last answer or tool call.
    before_answer: usize,
    /// Messages of a Jinja template.
    messages: Vec<ChatMessage>,
    /// Text of the last answer.
    answer: String,
}

/// Prompt of the next answer.
enum Prompt {
    Parts(Vec<u32>),
    Jinja(ChatPrompt),
}

impl Prompt {
    fn tokens(&self) -> &[u32] {
        match self {
            Self::Parts(tokens) => tokens,
            Self::Jinja(prompt) => &prompt.tokens,
        }
    }
}

impl Dialogue {
    /// Opens the package or program at `path`.
    pub(super) fn open(path: &Path, settings: &Settings, cx: &OpenCx) -> Result<Self, NodeError> {
        let Opened { generator, format, options, constraint } = Opened::open(path, settings, cx)?;
        let (turns, answer) = (Vec::new(), None);
        let dialogue = Self { generator, format, turns, answer, options, constraint };
        // A Jinja template may refuse a dialogue without a user.
        let shortest = Turn { messages: vec![message("user", "a".to_owned())], ..Turn::default() };
        let prompt = dialogue.prompt(&[shortest]).map_err(|error| NodeError::Model {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let overhead = prompt.tokens().len();
        let available = dialogue.generator.contract().max_context_len.saturating_sub(overhead);
        let needed = settings.max_new.saturating_mul(2);
        if available < needed {
            let reason = format!(
                "the system prompt leaves {available} tokens of the model's context, but {needed} \
                 are needed; shorten `system` or lower `max_new`"
            );
            return Err(NodeError::InvalidParam { name: "max_new".into(), reason });
        }
        Ok(dialogue)
    }

    /// Appends the user text of turn `number`, or replaces it. [`Dialogue::begin_answer`] begins
    /// the answer.
    pub(super) fn push_user(&mut self, number: u64, text: &str) -> Result<(), TextError> {
        self.stop();
        let mut turn = Turn { number, ..Turn::default() };
        match &self.format {
            Format::Parts(_, template) => turn.tokens = template.user.encode(template, text)?,
            Format::Jinja(_) => turn.messages.push(message("user", text.to_owned())),
        }
        self.turns.pop_if(|last| last.number == number);
        self.turns.push(turn);
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
        let Some(turn) = self.turns.last_mut() else { return Ok(()) };
        match &self.format {
            Format::Parts(_, template) => {
                let Some(message) = &template.result else { return Ok(()) };
                let fields = template.result_fields.iter().find(|(name, _)| name == tool);
                let fields = fields.map_or(&[][..], |(_, fields)| fields);
                turn.tokens.extend(message.encode(template, &format_result(result, fields))?);
            }
            Format::Jinja(_) => {
                let calls = turn.messages.last().map_or(&[][..], |last| &last.tool_calls);
                let tool_call_id = calls.first().map(|call| call.id.clone());
                let name = Some(tool.to_owned());
                let content = format_result(result, &[]);
                turn.messages.push(ChatMessage { name, tool_call_id, ..message("tool", content) });
            }
        }
        Ok(())
    }

    /// Begins an answer; [`Dialogue::next`] returns it piece by piece.
    pub(super) fn begin_answer(&mut self) -> Result<(), TextError> {
        let prompt = self.prepare()?;
        let tokens = prompt.tokens();
        let limit = self.generator.contract().max_context_len;
        let needed = tokens.len() + 1;
        if needed > limit {
            return Err(TextError::ContextFull { needed, limit });
        }
        let cached = self.generator.tokens().iter().zip(tokens);
        let cached = cached.take_while(|(a, b)| a == b).count();
        // At least one token must run through the model.
        let cached = cached.min(tokens.len().saturating_sub(1));
        let Self { generator, format, options, .. } = self;
        generator.rewind(cached)?;
        let rest = &tokens[cached..];
        let state = GenerationState::start(generator, format.tokenizer(), rest, options)?;
        let reader = match (format, prompt) {
            (Format::Jinja(format), Prompt::Jinja(prompt)) => {
                let is_thinking = format.begin(prompt);
                Reader::Jinja {
                    parser: AnswerParser::new(format.tool_format, is_thinking),
                    thinking: String::new(),
                    raw: String::new(),
                }
            }
            (Format::Parts(_, template), _) => {
                Reader::Parts { call_token: template.call, is_call: false }
            }
            (Format::Jinja(_), Prompt::Parts(_)) => unreachable!("the prompt has the format"),
        };
        self.answer = Some(Answer { state, text: String::new(), tokens: Vec::new(), reader });
        Ok(())
    }

    /// The next piece of the answer. An answer ends with a call or with [`Generated::End`].
    pub(super) fn next(&mut self, cancel: &AtomicBool) -> Result<Generated, TextError> {
        let Self { generator, format, answer, constraint, .. } = self;
        let Some(current) = answer else { return Ok(Generated::End(String::new())) };
        if let Some(token) = current.state.next(generator, format.tokenizer(), Some(cancel))? {
            let was_call = current.call().is_some();
            let (text, thinking) = current.add(&token, format);
            // A call begins with this token; what it has after the mark is read already.
            if let (false, Some(begun), Some(constraint)) = (was_call, current.call(), constraint) {
                let mut constraint = constraint.clone();
                if constraint.push(begun.as_bytes()) {
                    current.state.constrain(constraint);
                }
            }
            return Ok(Generated::Text(text, thinking));
        }
        let Some(answer) = answer.take() else { return Ok(Generated::End(String::new())) };
        Ok(self.finish(answer))
    }

    /// True while an answer is in progress.
    pub(super) fn is_answering(&self) -> bool {
        self.answer.is_some()
    }

    /// Ends the answer in progress; the generated part stays in the history.
    pub(super) fn stop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.finish(answer);
        }
    }

    /// Appends an answer to the last turn. Returns its end.
    fn finish(&mut self, mut answer: Answer) -> Generated {
        let Some(turn) = self.turns.last_mut() else { return Generated::End(String::new()) };
        match (&mut self.format, answer.reader) {
            (Format::Parts(_, template), Reader::Parts { is_call, .. }) => {
                turn.keep(template, answer.tokens, &answer.text, is_call);
                match is_call.then(|| parse_call(&answer.text)) {
                    None => Generated::End(String::new()),
                    Some(Some((name, arguments))) => Generated::Call(name, arguments),
                    Some(None) => Generated::MalformedCall(answer.text),
                }
            }
            (Format::Jinja(format), Reader::Jinja { mut parser, mut thinking, raw }) => {
                let (part, ended) = parser.finish();
                let mut last = String::new();
                match part {
                    Some(Part::Text(text)) => last = text,
                    Some(Part::Thinking(text)) => thinking.push_str(&text),
                    None => {}
                }
                let is_start = answer.text.trim_start().is_empty();
                answer.text.push_str(&last);
                format.push_generated(&answer.tokens, &raw);
                let mut said = message("assistant", answer.text.clone());
                said.reasoning_content = (!thinking.trim().is_empty()).then_some(thinking);
                let generated = match ended {
                    Ended::Text if is_start => Generated::End(last.trim_start().to_owned()),
                    Ended::Text => Generated::End(last),
                    Ended::Call(call) => {
                        let arguments = Value::from_iter(call.arguments.clone());
                        said.tool_calls.push(ChatCall {
                            id: format.next_call_id(),
                            name: call.name.clone(),
                            arguments: serde_json::to_string(&call.arguments).unwrap_or_default(),
                        });
                        Generated::Call(call.name, arguments)
                    }
                    Ended::MalformedCall(text) => Generated::MalformedCall(text),
                };
                turn.messages.push(said);
                turn.answer = answer.text;
                generated
            }
            _ => unreachable!("the answer has the format of the dialogue"),
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
            match &self.format {
                Format::Parts(_, template) => {
                    turn.tokens.truncate(turn.before_answer);
                    turn.tokens.extend_from_slice(&template.answer);
                    turn.tokens.extend(template.plain.encode(&heard)?);
                    turn.tokens.extend_from_slice(&template.end);
                }
                Format::Jinja(_) => {
                    if let Some(said) = turn.messages.pop_if(|last| last.role == "assistant") {
                        turn.messages.push(ChatMessage { content: heard.clone(), ..said });
                    }
                }
            }
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
    /// turn alone does not fit. Returns the prompt.
    fn prepare(&mut self) -> Result<Prompt, TextError> {
        let context = self.generator.contract().max_context_len;
        let available = context.saturating_sub(self.options.max_new_tokens);
        let last = self.turns.len().saturating_sub(1);
        let whole = self.prompt(&self.turns)?;
        if whole.tokens().len() <= available || last == 0 {
            return Ok(whole);
        }
        for dropped in 1..=last {
            let prompt = self.prompt(&self.turns[dropped..])?;
            let len = prompt.tokens().len();
            // At least one token is left for the answer to the last turn.
            if len <= available || dropped == last && len < context {
                self.turns.drain(..dropped);
                return Ok(prompt);
            }
        }
        Ok(whole)
    }

    /// Prompt of `turns`.
    fn prompt(&self, turns: &[Turn]) -> Result<Prompt, TextError> {
        Ok(match &self.format {
            Format::Parts(prefix, template) => {
                let turns = turns.iter().flat_map(|turn| &turn.tokens);
                Prompt::Parts(prefix.iter().chain(turns).chain(&template.answer).copied().collect())
            }
            Format::Jinja(format) => {
                Prompt::Jinja(format.prompt(turns.iter().flat_map(|turn| &turn.messages))?)
            }
        })
    }
}

impl Turn {
    /// Appends an answer and the end marker, in a format of parts.
    fn keep(&mut self, template: &ChatTemplate, mut tokens: Vec<u32>, text: &str, is_call: bool) {
        let ChatTemplate { answer: start, end, .. } = template;
        // The model may have generated a part of the end marker.
        let generated = (0..=end.len()).rev().find(|&len| tokens.ends_with(&end[..len]));
        tokens.extend_from_slice(&end[generated.unwrap_or(0)..]);
        self.before_answer = self.tokens.len();
        self.tokens.extend_from_slice(start);
        self.tokens.extend_from_slice(&tokens);
        self.answer = if is_call { String::new() } else { text.to_owned() };
    }
}

/// An answer in progress.
struct Answer {
    state: GenerationState,
    /// Text so far, without thinking and calls.
    text: String,
    tokens: Vec<u32>,
    reader: Reader,
}

/// Reads an answer in the format of the dialogue.
enum Reader {
    /// The whole answer is a call if its first token is `call_token`.
    Parts { call_token: Option<u32>, is_call: bool },
    /// `raw` is the text with the names of special tokens.
    Jinja { parser: AnswerParser, thinking: String, raw: String },
}

impl Answer {
    /// Text of a call so far, after its mark.
    fn call(&self) -> Option<&str> {
        match &self.reader {
            Reader::Parts { is_call, .. } => is_call.then_some(self.text.as_str()),
            Reader::Jinja { parser, .. } => parser.call(),
        }
    }

    /// Adds a token. Returns the text of the answer and of thinking that it completes.
    fn add(&mut self, token: &GeneratedToken, format: &Format) -> (String, String) {
        let is_first = self.tokens.is_empty();
        self.tokens.push(token.token);
        let is_start = self.text.trim_start().is_empty();
        let (mut said, mut thought) = (String::new(), String::new());
        match &mut self.reader {
            Reader::Parts { call_token, is_call } => {
                *is_call |= is_first && Some(token.token) == *call_token;
                self.text.push_str(&token.text);
                if !*is_call {
                    said.push_str(&token.text);
                }
            }
            Reader::Jinja { parser, thinking, raw } => {
                let name = format.tokenizer().special_name(token.token);
                raw.push_str(&token.text);
                raw.push_str(name.unwrap_or_default());
                let is_end = matches!(self.state.finish_reason(), Some(FinishReason::Eos(_)));
                let mark = name.filter(|name| !is_end && MARKERS.contains(name));
                for part in parser.push(&format!("{}{}", token.text, mark.unwrap_or_default())) {
                    match part {
                        Part::Text(text) => said.push_str(&text),
                        Part::Thinking(text) => thought.push_str(&text),
                    }
                }
                thinking.push_str(&thought);
                self.text.push_str(&said);
            }
        }
        let said = if is_start { said.trim_start().to_owned() } else { said };
        (said, thought)
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
        let dialogue = open(&folder, max_new);
        fs::remove_dir_all(&folder).unwrap();
        dialogue
    }

    fn open(path: &Path, max_new: usize) -> Result<Dialogue, NodeError> {
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let settings = Settings {
            system: None,
            max_new,
            temperature: None,
            top_p: None,
            top_k: None,
            min_p: None,
            repetition_penalty: None,
            seed: 0,
            stop: None,
            thinking: Thinking::Drop,
            constrain_calls: false,
        };
        Dialogue::open(path, &settings, &cx)
    }

    /// The same model as a bare program, with the files of a hub beside it but for `without`.
    fn bare_robot(without: &str) -> Result<Dialogue, NodeError> {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/text/tests/data");
        let thread = std::thread::current().id();
        let name = format!("afferent-bare-robot-{}-{thread:?}", std::process::id());
        let folder: PathBuf = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(data.join("robot.pte"), folder.join("robot.pte")).unwrap();
        fs::copy(data.join("robot.json"), folder.join("tokenizer.json")).unwrap();
        let template = "{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}\
            {{ 'Q: ' + message.content + '\nA:' }}{% else %}{{ message.content + eos_token }}\
            {% endif %}{% endfor %}";
        let config = serde_json::json!({"bos_token": "<s>", "eos_token": "</s>",
            "chat_template": template});
        fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
        if !without.is_empty() {
            fs::remove_file(folder.join(without)).unwrap();
        }
        let dialogue = open(&folder.join("robot.pte"), 24);
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
                Generated::Text(text, _) => answer.push_str(&text),
                Generated::End(text) => {
                    answer.push_str(&text);
                    ended = true;
                    break;
                }
                _ => break,
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
    fn a_bare_program_answers_with_the_files_beside_it() {
        let mut dialogue = bare_robot("").unwrap();
        check(&mut dialogue, "what comes after monday?", "tuesday");
        let before = dialogue.generator.tokens().to_vec();
        check(&mut dialogue, "what next?", "wednesday");
        assert!(dialogue.generator.tokens().starts_with(&before));
        for day in ["thursday", "friday", "saturday", "sunday", "monday"].repeat(2) {
            if day == "thursday" && dialogue.turns.len() > 4 {
                check(&mut dialogue, "what comes after wednesday?", day);
            } else {
                check(&mut dialogue, "what next?", day);
            }
        }
        assert!(dialogue.turns.len() < 12 && dialogue.generator.tokens().len() <= 128);
        dialogue.push_user(99, "</s><s>").unwrap();
        dialogue.begin_answer().unwrap();
        let tokens = dialogue.generator.tokens();
        assert_eq!(tokens.iter().filter(|&&token| token == 1).count(), 1, "{tokens:?}");
        dialogue.drop_last();
        check(&mut dialogue, "go on from march", "april, may, june");
        let number = dialogue.turns.last().unwrap().number;
        dialogue.truncate_answer(number, 2).unwrap();
        assert_eq!(dialogue.last_answer(number), Some("april, may,"));
        check(&mut dialogue, "what comes after monday?", "tuesday");
    }

    #[test]
    fn missing_files_of_a_bare_program_are_named() {
        let check = |without: &str, expected: &str| {
            let error = bare_robot(without).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("tokenizer.json", "no tokenizer beside the program");
        check("tokenizer_config.json", "no chat template; copy tokenizer_config.json");
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
