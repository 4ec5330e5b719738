//! History of a dialogue as tokens, within the context of the model.

use std::{path::Path, sync::atomic::AtomicBool};

use afferent_graph::{NodeError, OpenCx};
use afferent_text::{
    CallConstraint, ChatCall, ChatMessage, ChatPrompt, FinishReason, GeneratedToken,
    GenerationOptions, GenerationState, Generator, TextError,
};
use serde_json::Value;

use super::{
    answer::{AnswerParser, Ended, MARKERS, Part},
    files::Opened,
    format::{Format, message},
    settings::Settings,
    template::ChatParts,
    tool_json::{format_result, parse_call},
};
use crate::heard_words::first_words;

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
        let mut dialogue = Self { generator, format, turns, answer, options, constraint };
        let failed = |error: TextError| {
            let reason = error.to_string();
            NodeError::Model { path: path.to_owned(), reason }
        };
        // A Jinja template may refuse a dialogue without a user.
        let with_user = |dialogue: &Self, text: &str| {
            let turn = Turn { messages: vec![message("user", text.to_owned())], ..Turn::default() };
            dialogue.prompt(&[turn]).map(|prompt| prompt.tokens().to_vec()).map_err(failed)
        };
        let prompt = with_user(&dialogue, "a")?;
        let overhead = prompt.len();
        let available = dialogue.generator.contract().max_context_len.saturating_sub(overhead);
        let needed = settings.max_new.saturating_mul(2);
        if available < needed {
            let reason = format!(
                "the system prompt leaves {available} tokens of the model's context, but {needed} \
                 are needed; shorten `system` or lower `max_new`"
            );
            return Err(NodeError::InvalidParam { name: "max_new".into(), reason });
        }
        if let Some(file) = &settings.prompt_cache {
            let other = with_user(&dialogue, "b")?;
            let common = prompt.iter().zip(&other).take_while(|(a, b)| a == b).count();
            dialogue.read_prefix(&prompt[..common], file).map_err(failed)?;
        }
        Ok(dialogue)
    }

    /// Makes `prefix` the context, with its state from `file` if that has it; otherwise reads it and
    /// writes the file.
    fn read_prefix(&mut self, prefix: &[u32], file: &Path) -> Result<(), TextError> {
        let generator = &mut self.generator;
        match generator.load_state(file) {
            Ok(true) if generator.tokens() == prefix => return Ok(()),
            Ok(_) => {}
            Err(TextError::State(error)) if error.is_foreign() => return Err(error.into()),
            Err(error) => tracing::warn!("llm: {error}; it will be replaced"),
        }
        generator.reset();
        if prefix.is_empty() {
            return Ok(());
        }
        generator.push(prefix)?;
        generator.logits(None)?;
        if let Err(error) = generator.save_state(file) {
            tracing::warn!("llm: {error}; the next start reads the system prompt again");
        }
        Ok(())
    }

    /// Appends the user text of turn `number`, or replaces it. [`Dialogue::begin_answer`] begins
    /// the answer.
    pub(super) fn push_user(&mut self, number: u64, text: &str) -> Result<(), TextError> {
        self.stop();
        if let Some(last) = self.turns.last_mut() {
            last.close_call();
        }
        let mut turn = Turn { number, ..Turn::default() };
        match &self.format {
            Format::Parts(_, template) => {
                turn.tokens = template.user.encode(&template.plain, text)?
            }
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
                turn.tokens
                    .extend(message.encode(&template.plain, &format_result(result, fields))?);
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

    /// Notes that `text` was said instead of an answer to turn `number`, if that is the last turn. A
    /// format of parts has no such answers.
    pub(super) fn push_apology(&mut self, number: u64, text: &str) {
        self.stop();
        let last = self.turns.last_mut().filter(|turn| turn.number == number);
        let Some(turn) = last else { return };
        turn.close_call();
        match turn.messages.last_mut() {
            Some(last) if last.role == "assistant" => last.content.push_str(text),
            Some(_) => turn.messages.push(message("assistant", text.to_owned())),
            None => {}
        }
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
    /// Answers a call that has no result, because templates refuse a call without one and messages
    /// that do not alternate.
    fn close_call(&mut self) {
        let Some(last) = self.messages.last() else { return };
        let result = last.tool_calls.first().map(|call| ChatMessage {
            name: Some(call.name.clone()),
            tool_call_id: Some(call.id.clone()),
            ..message("tool", r#"{"error": "no result"}"#.to_owned())
        });
        let is_answered = result.is_none() && last.role == "assistant";
        self.messages.extend(result);
        if !is_answered {
            self.messages.push(message("assistant", String::new()));
        }
    }

    /// Appends an answer and the end marker, in a format of parts.
    fn keep(&mut self, template: &ChatParts, mut tokens: Vec<u32>, text: &str, is_call: bool) {
        let ChatParts { answer: start, end, .. } = template;
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

#[cfg(test)]
mod tests;
