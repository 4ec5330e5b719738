//! Parts of a streamed answer.

use std::io::{self, BufRead, Read};

use serde_json::Value;

use crate::server::MAX_TEXT;

/// Part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// Text that continues the answer.
    Text(String),
    /// Parts of tool calls.
    Calls(Vec<CallPart>),
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

/// Passes the parts of a stream of server-sent events to `pass`, up to its end or until `pass` returns
/// false.
pub(super) fn read_events(
    reader: &mut dyn BufRead,
    pass: &mut dyn FnMut(Event) -> bool,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.take(MAX_TEXT).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        let Some(data) = line.trim().strip_prefix("data:").map(str::trim) else { continue };
        if data == "[DONE]" || read_event(data).is_some_and(|event| !pass(event)) {
            return Ok(());
        }
    }
}

/// Reads the data of an event; `None` for one without a part.
fn read_event(data: &str) -> Option<Event> {
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

    fn read(stream: &str) -> Vec<Event> {
        let mut events = Vec::new();
        read_events(&mut stream.as_bytes(), &mut |event| {
            events.push(event);
            true
        })
        .unwrap();
        events
    }

    #[test]
    fn the_events_of_a_stream_are_read_up_to_its_end() {
        let text = |text: &str| Event::Text(text.to_owned());
        let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n\
                      data:{\"choices\":[{\"delta\":{\"content\":\" you\"}}]}\r\n\r\n";
        assert_eq!(read(stream), [text("hi"), text(" you")]);
        assert_eq!(read(&format!("data: [DONE]\n\n{stream}")), []);
        let mut count = 0;
        read_events(&mut stream.as_bytes(), &mut |_| {
            count += 1;
            false
        })
        .unwrap();
        assert_eq!(count, 1, "the rest is not read");
    }

    #[test]
    fn parts_of_calls_are_read_and_lines_without_a_part_are_not() {
        let part = CallPart {
            index: 1,
            id: "a".to_owned(),
            name: "f".to_owned(),
            arguments: "{\"x\"".to_owned(),
        };
        let line = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}}]}"#;
        assert_eq!(read(line), [Event::Calls(vec![part])]);
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
            assert_eq!(read(nothing), [], "{nothing}");
        }
    }
}
