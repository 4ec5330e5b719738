//! A dialogue with a language model: its turns as tokens, within what the model can hold.

use std::{
    io::{self, Write},
    path::Path,
    sync::atomic::AtomicBool,
};

use afferent_graph::{NodeError, OpenCx};
use afferent_package::{Chat, ModelPackage};
use afferent_text::{
    GeneratedToken, GenerationOptions, GenerationState, Generator, TextError, Tokenizer,
};
use serde::Serialize;
use serde_json::{
    Value,
    ser::{Formatter, Serializer},
};

/// What a model said, as far as it is certain.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// More of the answer; may be empty.
    Text(String),
    /// The whole answer is a call of a tool: its name and arguments.
    Call(String, Value),
    /// The answer is a call, but not one that can be understood.
    Unreadable(String),
    /// The answer is over.
    End,
}

/// A model, and what was said so far.
///
/// The oldest turns are forgotten when the next answer has no room. What the cache of the model
/// holds of the rest is kept.
pub(super) struct Dialogue {
    generator: Generator,
    template: Template,
    /// Tokens that every dialogue begins with.
    start: Vec<u32>,
    turns: Vec<Turn>,
    /// The answer under way.
    saying: Option<Saying>,
    options: GenerationOptions,
}

/// What the user said, calls and their results, and the answer.
#[derive(Default)]
struct Turn {
    number: u64,
    tokens: Vec<u32>,
    /// How many of the tokens stand before the last answer, or call.
    before_answer: usize,
    /// The text of the last answer.
    answer: String,
}

impl Dialogue {
    /// Opens the package at `path`. `system` replaces its instructions, and an answer has at most
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
            return Err(failed("model.yaml names no tokenizer or no chat template".to_owned()));
        };
        let tokenizer = package.folder().join(tokenizer);
        let opened = || {
            let template = Template::new(&tokenizer, chat)?;
            let start = template.start(system.or(chat.instructions.as_deref()))?;
            Ok((Generator::new(model)?, template, start))
        };
        let (generator, template, start) =
            opened().map_err(|error: TextError| failed(error.to_string()))?;
        if chat.call.is_some() && chat.result.is_none() {
            let reason = "model.yaml: chat.call needs chat.result, how a tool's result is written";
            return Err(failed(reason.to_owned()));
        }
        let framed = start.len() + template.answer.len();
        let room = generator.contract().max_context_len.saturating_sub(framed);
        if room < max_new.saturating_mul(2) {
            let reason = format!("there is room for {room} tokens, too few for answers of this");
            return Err(NodeError::InvalidParam { name: "max_new".into(), reason });
        }
        // What ends an answer is a token, or a text.
        let end = template.plain.token_id(chat.end.trim());
        let options = GenerationOptions {
            max_new_tokens: max_new,
            extra_eos: end.into_iter().collect(),
            stop: if end.is_none() { vec![chat.end.clone()] } else { Vec::new() },
            ..GenerationOptions::default()
        };
        Ok(Self { generator, template, start, turns: Vec::new(), saying: None, options })
    }

    /// Appends what the user says in a turn, in place of what was said in it before;
    /// [`Dialogue::begin`] lets the model answer.
    pub(super) fn ask(&mut self, number: u64, text: &str) -> Result<(), TextError> {
        self.stop();
        let tokens = self.template.user.around(&self.template, text)?;
        self.turns.pop_if(|last| last.number == number);
        self.turns.push(Turn { number, tokens, ..Turn::default() });
        Ok(())
    }

    /// Forgets the last turn.
    pub(super) fn forget_last(&mut self) {
        self.saying = None;
        self.turns.pop();
    }

    /// Appends what `tool` gave; [`Dialogue::begin`] lets the model say something about it.
    pub(super) fn give(&mut self, tool: &str, result: &str) -> Result<(), TextError> {
        self.stop();
        let Some(around) = &self.template.result else { return Ok(()) };
        let fields = self.template.results.iter().find(|(name, _)| name == tool);
        let fields = fields.map_or(&[][..], |(_, fields)| fields);
        let tokens = around.around(&self.template, &learnt(result, fields))?;
        if let Some(turn) = self.turns.last_mut() {
            turn.tokens.extend_from_slice(&tokens);
        }
        Ok(())
    }

    /// Begins an answer, of which [`Dialogue::next`] gives piece after piece.
    pub(super) fn begin(&mut self) -> Result<(), TextError> {
        let (kept, prompt) = self.prepare();
        let Self { generator, template, options, .. } = self;
        let (needed, limit) = (kept + prompt.len() + 1, generator.contract().max_context_len);
        if needed > limit {
            return Err(TextError::ContextFull { needed, limit });
        }
        generator.rewind(kept)?;
        let state = GenerationState::start(generator, &template.plain, &prompt, options)?;
        self.saying = Some(Saying {
            state,
            call: template.call,
            text: String::new(),
            calls: false,
            tokens: Vec::new(),
        });
        Ok(())
    }

    /// The next of what the model says; an answer ends with a call or with [`Said::End`].
    pub(super) fn next(&mut self, canceled: &AtomicBool) -> Result<Said, TextError> {
        let Self { generator, template, saying, .. } = self;
        let Some(current) = saying else { return Ok(Said::End) };
        if let Some(piece) = current.state.next(generator, &template.plain, Some(canceled))? {
            return Ok(Said::Text(current.add(&piece)));
        }
        let ended = saying.take().map(|saying| (saying.calls, saying.text.clone(), saying));
        let Some((calls, text, saying)) = ended else { return Ok(Said::End) };
        self.keep(saying);
        Ok(if calls { read(&text) } else { Said::End })
    }

    /// Whether an answer is under way.
    pub(super) fn is_answering(&self) -> bool {
        self.saying.is_some()
    }

    /// Ends the answer under way; what was said of it stays in the dialogue.
    pub(super) fn stop(&mut self) {
        if let Some(saying) = self.saying.take() {
            self.keep(saying);
        }
    }

    fn keep(&mut self, mut saying: Saying) {
        let Self { template: Template { answer, end, .. }, turns, .. } = self;
        // The model may have said a part of it.
        let said = (0..=end.len()).rev().find(|&length| saying.tokens.ends_with(&end[..length]));
        saying.tokens.extend_from_slice(&end[said.unwrap_or(0)..]);
        if let Some(turn) = turns.last_mut() {
            turn.before_answer = turn.tokens.len();
            turn.tokens.extend_from_slice(answer);
            turn.tokens.extend_from_slice(&saying.tokens);
            turn.answer = if saying.calls { String::new() } else { saying.text };
        }
    }

    /// Takes back what was not heard of the answer in turn `number`, if that is the last one: only
    /// its first `words` words were.
    pub(super) fn keep_heard(&mut self, number: u64, words: usize) -> Result<(), TextError> {
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

    /// The answer that stays of a turn.
    #[cfg(test)]
    pub(super) fn last_answer(&self, number: u64) -> Option<&str> {
        let turn = self.turns.iter().find(|turn| turn.number == number)?;
        Some(turn.answer.trim())
    }

    /// Forgets turns until the next answer has room, but none for a last turn that does not fit by
    /// itself; returns how many tokens of the context stay, and those that come after them.
    fn prepare(&mut self) -> (usize, Vec<u32>) {
        let context = self.generator.contract().max_context_len;
        let room = context - self.options.max_new_tokens - self.template.answer.len();
        let tokens = |turns: &[Turn]| turns.iter().map(|turn| turn.tokens.len()).sum::<usize>();
        let excess = |turns: &[Turn]| self.start.len() + tokens(turns) > room;
        let last = self.turns.len().saturating_sub(1);
        let framed = self.start.len() + self.template.answer.len();
        // With room for a token of the answer.
        let fits = framed + tokens(&self.turns[last..]) < context;
        let gone = (0..last).find(|&n| !excess(&self.turns[n..])).unwrap_or(last);
        self.turns.drain(..if fits { gone } else { 0 });
        let mut all = self.start.clone();
        all.extend(self.turns.iter().flat_map(|turn| &turn.tokens));
        all.extend_from_slice(&self.template.answer);
        let same = self.generator.tokens().iter().zip(&all).take_while(|(a, b)| a == b).count();
        // At least one token goes through the model.
        let kept = same.min(all.len().saturating_sub(1));
        (kept, all.split_off(kept))
    }
}

/// An answer under way.
struct Saying {
    state: GenerationState,
    /// The token that a call begins with.
    call: Option<u32>,
    /// All of its text.
    text: String,
    calls: bool,
    tokens: Vec<u32>,
}

impl Saying {
    /// Takes in a piece; the text that is certain with it, of an answer that is no call.
    fn add(&mut self, piece: &GeneratedToken) -> String {
        let first = self.tokens.is_empty();
        self.calls |= first && Some(piece.token) == self.call;
        self.tokens.push(piece.token);
        let starts = self.text.trim_start().is_empty();
        self.text.push_str(&piece.text);
        match self.calls {
            true => String::new(),
            false if starts => piece.text.trim_start().to_owned(),
            false => piece.text.clone(),
        }
    }
}

/// The beginning of `text`, with what stands before them, that has `count` words.
fn first_words(text: &str, count: usize) -> &str {
    let mut words = text.split_whitespace();
    match count.checked_sub(1).and_then(|last| words.nth(last)) {
        // A word is a part of the text, so that the difference of their places is its place there.
        Some(word) => &text[..word.as_ptr().addr() - text.as_ptr().addr() + word.len()],
        None if count == 0 => "",
        None => text,
    }
}

/// A result as models learn it: its `fields` in their order, what else it has behind them, and a
/// space behind commas and colons. What is no JSON stays as it is.
fn learnt(json: &str, fields: &[String]) -> String {
    let value: Option<Value> = serde_json::from_str(json).ok();
    let written = value.as_ref().and_then(|value| {
        let Value::Object(object) = value else { return spaced(value) };
        let place = |name: &String| fields.iter().position(|field| field == name);
        let mut pairs: Vec<_> = object.iter().collect();
        pairs.sort_by_key(|(name, _)| place(name).unwrap_or(fields.len()));
        let pair = |(name, value): (&String, &Value)| {
            Some(format!("{}: {}", spaced(&Value::from(name.as_str()))?, spaced(value)?))
        };
        let pairs = pairs.into_iter().map(pair).collect::<Option<Vec<_>>>()?;
        Some(format!("{{{}}}", pairs.join(", ")))
    });
    written.unwrap_or_else(|| json.to_owned())
}

/// JSON with a space behind commas and colons.
fn spaced(value: &Value) -> Option<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Spaced)).ok()?;
    String::from_utf8(text).ok()
}

/// See [`spaced`].
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

/// A call, from its JSON.
fn read(text: &str) -> Said {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let parts = value.as_ref().and_then(|call| Some((call["name"].as_str()?, &call["arguments"])));
    match parts {
        Some((name, arguments)) if arguments.is_object() => {
            Said::Call(name.to_owned(), arguments.clone())
        }
        _ => Said::Unreadable(text.to_owned()),
    }
}

/// The texts of [`Chat`] as tokens.
struct Template {
    /// Takes what a user says as text only.
    plain: Tokenizer,
    begin: Vec<u32>,
    system: Option<Around>,
    user: Around,
    answer: Vec<u32>,
    end: Vec<u32>,
    call: Option<u32>,
    result: Option<Around>,
    /// Names of tools, and of what each gives.
    results: Vec<(String, Vec<String>)>,
}

/// The text around what is said, cut where that stands.
#[derive(Clone)]
struct Around {
    before: Vec<u32>,
    /// Ends with what belongs to the first word, mostly a space.
    lead: String,
    after: Vec<u32>,
}

impl Template {
    fn new(path: &Path, chat: &Chat) -> Result<Self, TextError> {
        let special = Tokenizer::open(path)?;
        let around = |text: &String| Around::new(&special, text);
        let encoded = |text: &str| special.encode(text);
        let token = |name: &String| {
            let reason = format!("chat.call in model.yaml is {name:?}, which is no token of it");
            let path = path.to_owned();
            special.token_id(name).ok_or(TextError::Tokenizer { path, reason })
        };
        let (begin, end) = (encoded(&chat.begin)?, encoded(&chat.end)?);
        let (user, answer) = (around(&chat.user)?, encoded(&chat.answer)?);
        let system = chat.system.as_ref().map(around).transpose()?;
        let result = chat.result.as_ref().map(around).transpose()?;
        let call = chat.call.as_ref().map(token).transpose()?;
        let mut used = [begin.as_slice(), &answer, &end].concat();
        for around in [Some(&user), system.as_ref(), result.as_ref()].into_iter().flatten() {
            used.extend(around.before.iter().chain(&around.after));
        }
        used.extend(call);
        Ok(Self {
            plain: special.with_special_as_text(&used),
            begin,
            system,
            user,
            answer,
            end,
            call,
            result,
            results: chat
                .tools
                .iter()
                .map(|tool| (tool.name.clone(), tool.result.keys().cloned().collect()))
                .collect(),
        })
    }

    /// The begin of a dialogue.
    fn start(&self, system: Option<&str>) -> Result<Vec<u32>, TextError> {
        let mut tokens = self.begin.clone();
        if let (Some(around), Some(text)) = (&self.system, system) {
            tokens.extend(around.around(self, text)?);
        }
        Ok(tokens)
    }
}

impl Around {
    fn new(special: &Tokenizer, text: &str) -> Result<Self, TextError> {
        let (before, after) = text.split_once("{text}").unwrap_or((text, ""));
        let bare = before.trim_end();
        let lead = before[bare.len()..].to_owned();
        Ok(Self { before: special.encode(bare)?, lead, after: special.encode(after)? })
    }

    /// The tokens of `text` and of what stands around it.
    fn around(&self, template: &Template, text: &str) -> Result<Vec<u32>, TextError> {
        let mut tokens = self.before.clone();
        tokens.extend(template.plain.encode(&format!("{}{text}", self.lead))?);
        tokens.extend_from_slice(&self.after);
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use serde_json::json;

    use super::*;

    /// A dialogue with the toy model of `runtime/text`, whose context has 128 tokens.
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
            tokenizer: robot.json\nlicence: none\nprovenance: runtime/text\n\
            variants: [{file: robot.pte, backend: portable, precision: fp32}]\n\
            chat: {begin: <s>, user: \"Q: {text}\\n\", answer: 'A:', end: </s>}\n";
        fs::write(folder.join("model.yaml"), manifest).unwrap();
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let dialogue = Dialogue::open(&folder, None, max_new, &cx);
        fs::remove_dir_all(&folder).unwrap();
        dialogue
    }

    /// The answer to `text`, of which `most` pieces are heard.
    fn heard(dialogue: &mut Dialogue, text: &str, most: usize) -> (String, bool) {
        let (mut answer, mut ended) = (String::new(), false);
        let number = dialogue.turns.last().map_or(0, |turn| turn.number + 1);
        dialogue.ask(number, text).unwrap();
        dialogue.begin().unwrap();
        let never = AtomicBool::new(false);
        for _ in 0..most {
            match dialogue.next(&never).unwrap() {
                Said::Text(text) => answer.push_str(&text),
                said => {
                    ended = said == Said::End;
                    break;
                }
            }
        }
        dialogue.stop();
        (answer, ended)
    }

    fn check(dialogue: &mut Dialogue, text: &str, expected: &str) {
        assert_eq!(heard(dialogue, text, usize::MAX), (expected.to_owned(), true), "{text}");
    }

    #[test]
    fn turns_are_kept_in_mind_and_in_the_cache() {
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
    fn the_oldest_turns_are_forgotten_when_there_is_no_room() {
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
    fn an_answer_that_begins_has_room_for_a_token() {
        let mut dialogue = robot(24).unwrap();
        let context = dialogue.generator.contract().max_context_len;
        let longest = (1..).find_map(|count| {
            dialogue.ask(count, &"a ".repeat(count as usize)).unwrap();
            let begun = dialogue.begin();
            dialogue.forget_last();
            match begun {
                Ok(()) => None,
                Err(TextError::ContextFull { needed, .. }) => Some(needed),
                Err(error) => panic!("{error}"),
            }
        });
        assert_eq!(longest, Some(context + 1), "one token more than the longest that begins");
    }

    #[test]
    fn a_turn_that_cannot_fit_makes_no_other_forgotten() {
        let mut dialogue = robot(24).unwrap();
        check(&mut dialogue, "what comes after monday?", "tuesday");
        dialogue.ask(1, &"what next? ".repeat(50)).unwrap();
        assert!(matches!(dialogue.begin(), Err(TextError::ContextFull { .. })));
        dialogue.forget_last();
        check(&mut dialogue, "what next?", "wednesday");
    }

    #[test]
    fn an_answer_that_is_stopped_stays_as_far_as_it_was_said() {
        let mut dialogue = robot(24).unwrap();
        let (answer, ended) = heard(&mut dialogue, "go on from march", 2);
        assert!(
            "april, may, june".starts_with(&answer) && !answer.is_empty() && !ended,
            "{answer}"
        );
        check(&mut dialogue, "what comes after monday?", "tuesday");
    }

    #[test]
    fn only_what_was_heard_stays() {
        let mut dialogue = robot(24).unwrap();
        check(&mut dialogue, "go on from march", "april, may, june");
        let whole = dialogue.turns[0].tokens.clone();
        dialogue.keep_heard(0, 3).unwrap();
        dialogue.keep_heard(1, 2).unwrap();
        assert_eq!(dialogue.turns[0].tokens, whole);
        dialogue.keep_heard(0, 2).unwrap();
        assert_eq!(dialogue.turns[0].answer.trim(), "april, may,");
        assert!(dialogue.turns[0].tokens.len() < whole.len());
        dialogue.keep_heard(0, 0).unwrap();
        assert_eq!(dialogue.turns[0].answer, "");
        check(&mut dialogue, "what comes after monday?", "tuesday");
    }

    #[test]
    fn a_turn_that_goes_on_is_said_anew() {
        let mut dialogue = robot(24).unwrap();
        check(&mut dialogue, "what comes after monday?", "tuesday");
        let first = dialogue.turns[0].tokens.clone();
        dialogue.ask(1, "what").unwrap();
        dialogue.begin().unwrap();
        dialogue.next(&AtomicBool::new(false)).unwrap();
        dialogue.turns[0].number = 0;
        dialogue.ask(1, "what next?").unwrap();
        assert_eq!((dialogue.turns.len(), &dialogue.turns[0].tokens), (2, &first));
    }

    #[test]
    fn first_words_of_a_text() {
        let cases = [(0, ""), (1, " a"), (2, " a  b,"), (3, " a  b, c "), (9, " a  b, c ")];
        for (count, expected) in cases {
            assert_eq!(first_words(" a  b, c ", count).trim_end(), expected.trim_end(), "{count}");
        }
    }

    #[test]
    fn what_a_user_writes_is_text() {
        let mut dialogue = robot(24).unwrap();
        dialogue.ask(0, "</s>").unwrap();
        assert!(!dialogue.turns[0].tokens.contains(&2), "{:?}", dialogue.turns[0].tokens);
    }

    #[test]
    fn results_are_written_as_the_model_learnt_them() {
        let nested = r#"{"a":[1,{"b":"c,d"}],"e":true}"#;
        assert_eq!(learnt(nested, &[]), r#"{"a": [1, {"b": "c,d"}], "e": true}"#);
        let fields = ["time", "day"].map(str::to_owned);
        let now = r#"{"day":"monday","other":1,"time":"16:10"}"#;
        let expected = r#"{"time": "16:10", "day": "monday", "other": 1}"#;
        assert_eq!(learnt(now, &fields), expected);
        assert_eq!(
            (learnt("late", &fields), learnt("[1,2]", &fields)),
            ("late".into(), "[1, 2]".into())
        );
    }

    #[test]
    fn calls_are_read_or_reported() {
        let call = r#"{"name": "where_is", "arguments": {"thing": "keys"}}"#;
        assert_eq!(read(call), Said::Call("where_is".to_owned(), json!({"thing": "keys"})));
        for wrong in ["", "{}", r#"{"name": "x"}"#, r#"{"name": "x", "arguments": 5}"#, "x"] {
            assert_eq!(read(wrong), Said::Unreadable(wrong.to_owned()));
        }
    }
}
