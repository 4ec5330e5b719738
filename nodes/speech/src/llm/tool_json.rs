//! JSON of tool calls and results.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{
    Value,
    ser::{Formatter, Serializer},
};

/// A tool result in the format of the training data: `fields` first, in their order, then all
/// others, with a space after commas and colons. Text that is not JSON is returned unchanged.
pub(super) fn format_result(json: &str, fields: &[String]) -> String {
    let value: Option<Value> = serde_json::from_str(json).ok();
    let formatted = value.as_ref().and_then(|value| {
        let Value::Object(object) = value else { return spaced(value) };
        let position = |name: &String| fields.iter().position(|field| field == name);
        let mut pairs: Vec<_> = object.iter().collect();
        pairs.sort_by_key(|(name, _)| position(name).unwrap_or(fields.len()));
        let pair = |(name, value): (&String, &Value)| {
            Some(format!("{}: {}", spaced(&Value::from(name.as_str()))?, spaced(value)?))
        };
        let pairs = pairs.into_iter().map(pair).collect::<Option<Vec<_>>>()?;
        Some(format!("{{{}}}", pairs.join(", ")))
    });
    formatted.unwrap_or_else(|| json.to_owned())
}

/// Name and arguments of a tool call; `None` if it is malformed.
pub(super) fn parse_call(text: &str) -> Option<(String, Value)> {
    let call: Value = serde_json::from_str(text).ok()?;
    let (name, arguments) = (call["name"].as_str()?, &call["arguments"]);
    arguments.is_object().then(|| (name.to_owned(), arguments.clone()))
}

/// JSON with a space after commas and colons.
fn spaced(value: &Value) -> Option<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, SpacedFormatter)).ok()?;
    String::from_utf8(text).ok()
}

/// Formatter of [`spaced`].
struct SpacedFormatter;

impl Formatter for SpacedFormatter {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_formatted_as_in_training() {
        let nested = r#"{"a":[1,{"b":"c,d"}],"e":true}"#;
        assert_eq!(format_result(nested, &[]), r#"{"a": [1, {"b": "c,d"}], "e": true}"#);
        let fields = ["time", "day"].map(str::to_owned);
        let now = r#"{"day":"monday","other":1,"time":"16:10"}"#;
        let expected = r#"{"time": "16:10", "day": "monday", "other": 1}"#;
        assert_eq!(format_result(now, &fields), expected);
        assert_eq!(
            (format_result("late", &fields), format_result("[1,2]", &fields)),
            ("late".into(), "[1, 2]".into())
        );
    }

    #[test]
    fn calls_are_parsed_or_rejected() {
        let call = r#"{"name": "where_is", "arguments": {"thing": "keys"}}"#;
        assert_eq!(parse_call(call), Some(("where_is".to_owned(), json!({"thing": "keys"}))));
        for wrong in ["", "{}", r#"{"name": "x"}"#, r#"{"name": "x", "arguments": 5}"#, "x"] {
            assert_eq!(parse_call(wrong), None, "{wrong}");
        }
    }
}
