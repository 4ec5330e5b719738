//! Parts of a streamed answer.

use serde_json::Value;

/// Part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// Text that continues the answer.
    Text(String),
    /// Parts of tool calls.
    Calls(Vec<CallPart>),
    /// The answer is complete.
    End,
}

/// Part of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallPart {
    /// Number of the call in the answer.
    pub(super) index: usize,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// Reads a line of a stream of server-sent events; `None` for one without a part.
pub(super) fn read_line(line: &str) -> Option<Event> {
    let data = line.trim().strip_prefix("data:")?.trim();
    if data == "[DONE]" {
        return Some(Event::End);
    }
    let json: Value = serde_json::from_str(data).ok()?;
    let delta = json.get("choices")?.get(0)?.get("delta")?;
    if let Some(calls) = delta.get("tool_calls").and_then(Value::as_array) {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("").to_owned();
        let part = |(position, call): (usize, &Value)| {
            let index = call.get("index").and_then(Value::as_u64);
            let function = call.get("function");
            CallPart {
                index: index.and_then(|index| usize::try_from(index).ok()).unwrap_or(position),
                id: text(call.get("id")),
                name: text(function.and_then(|function| function.get("name"))),
                arguments: text(function.and_then(|function| function.get("arguments"))),
            }
        };
        return Some(Event::Calls(calls.iter().enumerate().map(part).collect()));
    }
    let text = delta.get("content")?.as_str().filter(|text| !text.is_empty())?;
    Some(Event::Text(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_stream_are_read() {
        let check = |line: &str, expected: Option<Event>| {
            assert_eq!(read_line(line), expected, "{line}");
        };
        let text = |text: &str| Some(Event::Text(text.to_owned()));
        check(r#"data: {"choices":[{"delta":{"content":"hi"}}]}"#, text("hi"));
        check("data:{\"choices\":[{\"delta\":{\"content\":\" you\"}}]}\r\n", text(" you"));
        check("data: [DONE]", Some(Event::End));
        let part = CallPart {
            index: 1,
            id: "a".to_owned(),
            name: "f".to_owned(),
            arguments: "{\"x\"".to_owned(),
        };
        check(
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}}]}"#,
            Some(Event::Calls(vec![part])),
        );
        for nothing in [
            "",
            ": keep-alive",
            "event: x",
            "data: {",
            "data: {}",
            r#"data: {"choices":[]}"#,
            r#"data: {"choices":[{"delta":{"role":"assistant","content":null}}]}"#,
            r#"data: {"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}"#,
        ] {
            check(nothing, None);
        }
    }
}
