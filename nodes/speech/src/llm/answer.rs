//! Splits generated text into thinking, answer, and tool call.

use afferent_package::ToolFormat;
use indexmap::IndexMap;
use serde_json::{Deserializer, Value};

/// Tokens that the parser needs the names of, although they are special.
pub(super) const MARKERS: &[&str] = &[
    THINK,
    THINK_END,
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
];

/// Start of a thinking block.
pub(super) const THINK: &str = "<think>";

/// End of a thinking block.
const THINK_END: &str = "</think>";

/// Piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    /// Text of the answer.
    Text(String),
    /// Text of a thinking block.
    Thinking(String),
}

/// Tool call: the name and the arguments in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ParsedCall {
    pub(super) name: String,
    pub(super) arguments: IndexMap<String, Value>,
}

/// End of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ended {
    /// The answer was text.
    Text,
    /// The answer ended with a call. Further calls of the same answer are dropped.
    Call(ParsedCall),
    /// The answer ended with a call that cannot be parsed.
    MalformedCall(String),
}

/// Reads generated text piece by piece. Holds back text that may be the start of a mark.
#[derive(Debug)]
pub(super) struct AnswerParser {
    format: Option<ToolFormat>,
    state: State,
    held: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Before the first text that is not whitespace.
    Start,
    Thinking,
    Text,
    /// In a call after its mark.
    Call,
    /// In an answer that begins with a brace and may be a call.
    BareCall,
}

impl AnswerParser {
    /// An answer that may have calls in `format`. `is_thinking` is true if the prompt ends with the
    /// start of a thinking block.
    pub(super) fn new(format: Option<ToolFormat>, is_thinking: bool) -> Self {
        let state = if is_thinking { State::Thinking } else { State::Start };
        Self { format, state, held: String::new() }
    }

    /// Mark before a call.
    fn call_mark(&self) -> Option<&'static str> {
        Some(match self.format? {
            ToolFormat::Hermes => "<tool_call>",
            ToolFormat::Llama => "<|python_tag|>",
            ToolFormat::Mistral => "[TOOL_CALLS]",
        })
    }

    /// Text of a call after its mark.
    pub(super) fn call(&self) -> Option<&str> {
        (self.state == State::Call).then_some(self.held.as_str())
    }

    /// Adds text. Returns what is certain.
    pub(super) fn push(&mut self, text: &str) -> Vec<Part> {
        self.held.push_str(text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// Moves to the next state. Returns false if that needs more text.
    fn step(&mut self, parts: &mut Vec<Part>) -> bool {
        match self.state {
            State::Start => self.start(),
            State::Thinking => {
                let found = self.held.find(THINK_END);
                let text = self.take_before(found, &[THINK_END]);
                parts.extend((!text.is_empty()).then_some(Part::Thinking(text)));
                if found.is_some() {
                    self.state = State::Start;
                }
                found.is_some()
            }
            State::Text => {
                let Some(mark) = self.call_mark() else {
                    let text = std::mem::take(&mut self.held);
                    parts.extend((!text.is_empty()).then_some(Part::Text(text)));
                    return false;
                };
                let found = self.held.find(mark);
                let text = self.take_before(found, &[mark]);
                parts.extend((!text.is_empty()).then_some(Part::Text(text)));
                if found.is_some() {
                    self.state = State::Call;
                }
                false
            }
            State::Call | State::BareCall => false,
        }
    }

    /// Leaves the start as soon as the first text tells what the answer is.
    fn start(&mut self) -> bool {
        let text = self.held.trim_start();
        if text.is_empty() {
            return false;
        }
        if let Some(rest) = text.strip_prefix(THINK) {
            (self.state, self.held) = (State::Thinking, rest.to_owned());
            return true;
        }
        if THINK.starts_with(text) {
            return false;
        }
        let is_bare = self.format == Some(ToolFormat::Llama) && text.starts_with('{');
        self.state = if is_bare { State::BareCall } else { State::Text };
        true
    }

    /// Takes the text before `found`, and removes the mark there; without a mark, the text that
    /// cannot be the start of one of `marks`.
    fn take_before(&mut self, found: Option<usize>, marks: &[&str]) -> String {
        let Some(at) = found else {
            let starts = self.held.char_indices().map(|(at, _)| at);
            let is_start =
                |at: &usize| marks.iter().any(|mark| mark.starts_with(&self.held[*at..]));
            let certain = starts.filter(is_start).min().unwrap_or(self.held.len());
            let held = self.held.split_off(certain);
            return std::mem::replace(&mut self.held, held);
        };
        let mut rest = self.held.split_off(at);
        let mark = marks.iter().find(|mark| rest.starts_with(**mark)).map_or(0, |mark| mark.len());
        rest.drain(..mark);
        std::mem::replace(&mut self.held, rest)
    }

    /// Ends the answer. Returns the text held back.
    pub(super) fn finish(&mut self) -> (Option<Part>, Ended) {
        let text = std::mem::take(&mut self.held);
        let is_empty = text.is_empty();
        match (self.state, self.format) {
            (State::Call, Some(format)) => match parse_call(format, &text) {
                Some(call) => (None, Ended::Call(call)),
                None => (None, Ended::MalformedCall(text)),
            },
            (State::BareCall, Some(format)) => match parse_call(format, &text) {
                Some(call) => (None, Ended::Call(call)),
                None => (Some(Part::Text(text)), Ended::Text),
            },
            (State::Thinking, _) => ((!is_empty).then_some(Part::Thinking(text)), Ended::Text),
            _ => ((!is_empty).then_some(Part::Text(text)), Ended::Text),
        }
    }
}

/// Parses the text after the mark of a call.
fn parse_call(format: ToolFormat, text: &str) -> Option<ParsedCall> {
    let text = text.trim_start();
    // Mistral since 2025: the name is in front of the arguments.
    if let (ToolFormat::Mistral, Some((name, rest))) = (format, text.split_once("[ARGS]")) {
        let name = name.split_once("[CALL_ID]").map_or(name, |(name, _)| name).trim();
        let is_name = !name.is_empty() && !name.contains(['{', '[', '"']);
        return is_name
            .then(|| first_json(rest))
            .flatten()
            .map(|arguments| ParsedCall { name: name.to_owned(), arguments });
    }
    let text =
        if format == ToolFormat::Mistral { text.trim_start_matches(['[', ' ']) } else { text };
    let mut call: IndexMap<String, Value> = first_json(text)?;
    let name = call.get("name")?.as_str()?.to_owned();
    let arguments = ["arguments", "parameters"].iter().find_map(|name| call.shift_remove(*name))?;
    // Some models write the arguments as a string that holds JSON. Parsing the text again keeps the
    // order of its names.
    let arguments = match arguments {
        Value::String(text) => first_json(&text)?,
        Value::Object(_) => arguments_in_order(text)?,
        _ => return None,
    };
    Some(ParsedCall { name, arguments })
}

/// The first JSON object of `text`; text after it is ignored, such as `</tool_call>`.
fn first_json<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    Deserializer::from_str(text).into_iter().next()?.ok()
}

/// The object `arguments` or `parameters` of the first JSON object of `text`.
fn arguments_in_order(text: &str) -> Option<IndexMap<String, Value>> {
    #[derive(serde::Deserialize)]
    struct Call {
        #[serde(alias = "parameters")]
        arguments: IndexMap<String, Value>,
    }
    first_json::<Call>(text).map(|call| call.arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thinking, text, and end of `pieces`.
    fn parse(format: Option<ToolFormat>, pieces: &[&str]) -> (String, String, Ended) {
        let mut parser = AnswerParser::new(format, false);
        let (mut thinking, mut text) = (String::new(), String::new());
        let mut add = |part: Part| match part {
            Part::Text(part) => text.push_str(&part),
            Part::Thinking(part) => thinking.push_str(&part),
        };
        pieces.iter().flat_map(|piece| parser.push(piece)).for_each(&mut add);
        let (part, ended) = parser.finish();
        part.into_iter().for_each(&mut add);
        (thinking, text, ended)
    }

    /// Checks whole text, and text letter by letter.
    fn check(format: Option<ToolFormat>, text: &str, expected: (&str, &str, Ended)) {
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        for pieces in [&[text][..], &letters] {
            let (thinking, said, ended) = parse(format, pieces);
            let found = (thinking.as_str(), said.trim(), ended);
            assert_eq!(found, expected, "{text:?} in {} pieces", pieces.len());
        }
    }

    fn call(name: &str, arguments: &[(&str, Value)]) -> Ended {
        let arguments = arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Ended::Call(ParsedCall { name: name.to_owned(), arguments: arguments.collect() })
    }

    #[test]
    fn thinking_is_split_off() {
        check(None, "a <b> c", ("", "a <b> c", Ended::Text));
        check(None, "\n<think>\nhm</think>\n\nyes", ("\nhm", "yes", Ended::Text));
        check(None, "<think></think>yes", ("", "yes", Ended::Text));
        check(None, "<think>hm < 3", ("hm < 3", "", Ended::Text));
        check(None, "<thin", ("", "<thin", Ended::Text));
        check(None, "so <think> is a tag", ("", "so <think> is a tag", Ended::Text));
        let mut parser = AnswerParser::new(None, true);
        let parts = [Part::Thinking("hm".into()), Part::Text("yes".into())];
        assert_eq!(parser.push("hm</think>yes"), parts);
    }

    #[test]
    fn calls_are_parsed() {
        use ToolFormat::{Hermes, Llama, Mistral};
        let keys = call("find", &[("what", "keys".into()), ("a", 1.into())]);
        let json = r#"{"name": "find", "arguments": {"what": "keys", "a": 1}}"#;
        let hermes = format!("<tool_call>\n{json}\n</tool_call>");
        check(Some(Hermes), &hermes, ("", "", keys.clone()));
        check(Some(Hermes), &format!("well <{hermes}{hermes}"), ("", "well <", keys.clone()));
        check(Some(Hermes), &format!("<think>a</think>\n{hermes}"), ("a", "", keys.clone()));
        check(Some(Hermes), json, ("", json, Ended::Text));
        let llama = json.replace("arguments", "parameters");
        check(Some(Llama), &llama, ("", "", keys.clone()));
        check(Some(Llama), &format!("<|python_tag|>{llama}; {llama}"), ("", "", keys.clone()));
        check(Some(Llama), "{not json", ("", "{not json", Ended::Text));
        check(Some(Mistral), &format!("[TOOL_CALLS][{json}, {json}]"), ("", "", keys.clone()));
        check(Some(Mistral), &format!("[TOOL_CALLS] [ {json}]"), ("", "", keys.clone()));
        let new = r#"[TOOL_CALLS]find[ARGS]{"what": "keys", "a": 1}"#;
        check(Some(Mistral), new, ("", "", keys.clone()));
        let text = r#"<tool_call>{"name": "find", "arguments": "{\"what\": \"keys\", \"a\": 1}"}"#;
        check(Some(Hermes), text, ("", "", keys));
        let none = call("now", &[]);
        check(Some(Hermes), r#"<tool_call>{"name": "now", "arguments": {}}"#, ("", "", none));
        check(None, &hermes, ("", &hermes, Ended::Text));
    }

    #[test]
    fn malformed_calls_are_reported() {
        for text in
            ["", "{", "{}", r#"{"name": "x"}"#, r#"{"name": "x", "arguments": 5}"#, "[ARGS]"]
        {
            for (format, mark) in
                [(ToolFormat::Hermes, "<tool_call>"), (ToolFormat::Mistral, "[TOOL_CALLS]")]
            {
                let (_, said, ended) = parse(Some(format), &[mark, text]);
                assert_eq!((said.as_str(), ended), ("", Ended::MalformedCall(text.to_owned())));
            }
        }
    }
}
