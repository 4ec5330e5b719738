//! A dialogue with a language model: its turns as tokens, within what the model can hold.

use std::path::Path;

use afferent_graph::{NodeError, OpenCx};
use afferent_package::{Chat, ModelPackage};
use afferent_text::{Answer, AnswerOptions, Generator, Piece, TextError, Tokenizer};
use serde_json::Value;

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
    /// Tokens of each turn: what the user said, calls and their results, and the answer.
    turns: Vec<Vec<u32>>,
    max_new: usize,
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
        let model = package.load(cx.kernels, cx.backends);
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
        let room = generator.contract().context.saturating_sub(start.len());
        if room < 2 * max_new {
            let reason = format!("there is room for {room} tokens, too few for answers of this");
            return Err(NodeError::InvalidParam { name: "max_new", reason });
        }
        Ok(Self { generator, template, start, turns: Vec::new(), max_new })
    }

    /// Appends what the user says; [`Dialogue::answer`] gives the answer.
    pub(super) fn ask(&mut self, text: &str) -> Result<(), TextError> {
        let turn = self.template.user.around(&self.template, text)?;
        self.turns.push(turn);
        Ok(())
    }

    /// Appends what a tool gave; [`Dialogue::answer`] gives what is said about it.
    pub(super) fn give(&mut self, result: &str) -> Result<(), TextError> {
        let Some(around) = &self.template.result else { return Ok(()) };
        let tokens = around.around(&self.template, result)?;
        if let Some(turn) = self.turns.last_mut() {
            turn.extend_from_slice(&tokens);
        }
        Ok(())
    }

    /// Lets the model answer. `each` takes what it says, and returns whether it should go on; what
    /// was said until then stays in the dialogue.
    pub(super) fn answer(&mut self, mut each: impl FnMut(Said) -> bool) -> Result<(), TextError> {
        let (kept, prompt) = self.prepare();
        let Self { generator, template, turns, max_new, .. } = self;
        let options = AnswerOptions { max_new: *max_new, ..AnswerOptions::default() };
        generator.rewind(kept)?;
        let mut answer = generator.answer(&template.plain, &prompt, &options)?;
        let mut said =
            Saying { call: template.call, text: String::new(), calls: false, first: true };
        let mut tokens = Vec::new();
        let ended = said.all(&mut answer, &mut tokens, &mut each)?;
        if !ended || tokens.last().is_none_or(|last| !template.end.contains(last)) {
            tokens.extend_from_slice(&template.end);
        }
        if let Some(turn) = turns.last_mut() {
            turn.extend_from_slice(&template.answer);
            turn.extend_from_slice(&tokens);
        }
        Ok(())
    }

    /// Forgets turns until the next answer has room; returns how many tokens of the context stay,
    /// and those that come after them.
    fn prepare(&mut self) -> (usize, Vec<u32>) {
        let room = self.generator.contract().context - self.max_new - self.template.answer.len();
        let tokens = |turns: &[Vec<u32>]| turns.iter().map(Vec::len).sum::<usize>();
        let excess = |turns: &[Vec<u32>]| self.start.len() + tokens(turns) > room;
        let gone = (0..self.turns.len().saturating_sub(1)).find(|&n| !excess(&self.turns[n..]));
        let gone = gone.unwrap_or(self.turns.len().saturating_sub(1));
        self.turns.drain(..gone);
        let mut all = self.start.clone();
        all.extend(self.turns.iter().flatten());
        all.extend_from_slice(&self.template.answer);
        let same = self.generator.tokens().iter().zip(&all).take_while(|(a, b)| a == b).count();
        // At least one token goes through the model.
        let kept = same.min(all.len().saturating_sub(1));
        (kept, all.split_off(kept))
    }
}

/// Takes apart what a model says.
struct Saying {
    call: Option<u32>,
    text: String,
    calls: bool,
    first: bool,
}

impl Saying {
    /// Whether the answer came to its end.
    fn all(
        &mut self,
        answer: &mut Answer<'_>,
        tokens: &mut Vec<u32>,
        each: &mut impl FnMut(Said) -> bool,
    ) -> Result<bool, TextError> {
        for piece in &mut *answer {
            let piece = piece?;
            tokens.push(piece.token);
            if !self.piece(&piece).is_none_or(&mut *each) {
                return Ok(false);
            }
        }
        if self.calls {
            each(read(&self.text));
        }
        each(Said::End);
        Ok(true)
    }

    /// What is certain with a piece; `None` while a call is not whole.
    fn piece(&mut self, piece: &Piece) -> Option<Said> {
        let first = std::mem::take(&mut self.first);
        self.calls |= first && Some(piece.token) == self.call;
        if self.calls {
            self.text.push_str(&piece.text);
            return None;
        }
        let text = if first { piece.text.trim_start() } else { &piece.text };
        Some(Said::Text(text.to_owned()))
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
        Ok(Self {
            begin: encoded(&chat.begin)?,
            system: chat.system.as_ref().map(around).transpose()?,
            user: around(&chat.user)?,
            answer: encoded(&chat.answer)?,
            end: encoded(&chat.end)?,
            call: chat.call.as_deref().and_then(|name| special.token(name)),
            result: chat.result.as_ref().map(around).transpose()?,
            plain: special.without_special(),
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
        let cx = OpenCx { kernels: afferent_kernels::KERNELS, ..OpenCx::default() };
        let dialogue = Dialogue::open(&folder, None, max_new, &cx);
        fs::remove_dir_all(&folder).unwrap();
        dialogue
    }

    /// The answer to `text`, of which `most` pieces are heard.
    fn heard(dialogue: &mut Dialogue, text: &str, most: usize) -> (String, bool) {
        let (mut answer, mut pieces, mut ended) = (String::new(), 0, false);
        dialogue.ask(text).unwrap();
        let each = |said| {
            pieces += 1;
            match said {
                Said::Text(text) => answer.push_str(&text),
                said => ended = said == Said::End,
            }
            pieces < most
        };
        dialogue.answer(each).unwrap();
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
        assert!(matches!(robot(120), Err(NodeError::InvalidParam { name: "max_new", .. })));
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
    fn what_a_user_writes_is_text() {
        let mut dialogue = robot(24).unwrap();
        dialogue.ask("</s>").unwrap();
        assert!(!dialogue.turns[0].contains(&2), "{:?}", dialogue.turns[0]);
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
