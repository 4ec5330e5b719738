//! Jinja with the functions, filters and output formats of Python that chat templates use.

use std::fmt::Write;

use minijinja::{
    Environment, Error, ErrorKind, Output, State, Value,
    value::{Kwargs, ValueKind},
};

use crate::TextError;

/// Name of the template in its environment.
pub(super) const NAME: &str = "chat template";

/// Most instructions of one run. A template needs some dozens for each message.
const MAX_INSTRUCTIONS: u64 = 20_000_000;

/// Compiles a template. Blocks have the whitespace rules of `transformers`.
pub(super) fn compile(source: &str) -> Result<Environment<'static>, TextError> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_fuel(Some(MAX_INSTRUCTIONS));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(format);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| -> Result<String, Error> {
        let now = jiff::fmt::strtime::format(&format, &jiff::Zoned::now());
        now.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
    });
    let source = without_generation_tags(source);
    environment.add_template_owned(NAME, source).map_err(|error| failed(&error))?;
    Ok(environment)
}

/// Error with the line of the template.
pub(super) fn failed(error: &Error) -> TextError {
    let line = error.line().map_or(String::new(), |line| format!("line {line}: "));
    let reason = match error.detail() {
        Some(detail) if error.kind() == ErrorKind::InvalidOperation => detail.to_owned(),
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    TextError::ChatTemplate { reason: format!("{line}{reason}") }
}

/// Replaces the tags `generation` and `endgeneration`, which mark answers for training.
fn without_generation_tags(source: &str) -> String {
    let mut replaced = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (text, tag) = rest.split_at(at);
        replaced.push_str(text);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        let name = tag.trim_matches(['{', '%', '-', '+', '}']).trim();
        match name {
            "generation" => replaced.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => replaced.push_str(&tag.replace("endgeneration", "endif")),
            _ => replaced.push_str(tag),
        }
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

/// Writes a value as Python's `str`.
fn format(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let written = match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::None => out.write_str("None"),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        _ => write!(out, "{value}"),
    };
    written.map_err(|error| Error::new(ErrorKind::WriteFailure, error.to_string()))
}

/// Filter `tojson`, as `json.dumps` of Python without escapes of other scripts.
fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let _: Option<bool> = kwargs.get("ensure_ascii")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let sort_keys: Option<bool> = kwargs.get("sort_keys")?;
    kwargs.assert_all_used()?;
    let default = if indent.is_some() { "," } else { ", " };
    let (comma, colon) = match separators.as_deref() {
        Some([comma, colon]) => (comma.as_str(), colon.as_str()),
        _ => (default, ": "),
    };
    let sort_keys = sort_keys == Some(true);
    let mut writer = JsonWriter { text: String::new(), indent, comma, colon, sort_keys };
    writer.write(value, 0)?;
    Ok(Value::from_safe_string(writer.text))
}

/// Deepest nesting of `tojson`.
const MAX_DEPTH: usize = 64;

/// Writes JSON in the formats of Python's `json.dumps`.
struct JsonWriter<'a> {
    text: String,
    /// Spaces of each level; `None` writes one line.
    indent: Option<usize>,
    comma: &'a str,
    colon: &'a str,
    sort_keys: bool,
}

impl JsonWriter<'_> {
    fn write(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let invalid = |reason: &str| Error::new(ErrorKind::InvalidOperation, reason.to_owned());
        if depth > MAX_DEPTH {
            return Err(invalid("tojson: the value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::Undefined => return Err(invalid("tojson: the value is undefined")),
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.text.push_str(&value.to_string()),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list('[', ']', items.len(), depth, |writer, at| {
                    writer.write(&items[at], depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.list('{', '}', keys.len(), depth, |writer, at| {
                    writer.string(&keys[at].to_string());
                    writer.text.push_str(writer.colon);
                    writer.write(&value.get_item(&keys[at])?, depth + 1)
                })?;
            }
            other => return Err(invalid(&format!("tojson: {other} has no JSON"))),
        }
        Ok(())
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        len: usize,
        depth: usize,
        mut write: impl FnMut(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.text.push(open);
        for at in 0..len {
            if at > 0 {
                self.text.push_str(self.comma);
            }
            self.line(depth + 1);
            write(self, at)?;
        }
        if len > 0 {
            self.line(depth);
        }
        self.text.push(close);
        Ok(())
    }

    /// Begins a line, if lines are indented.
    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                control if control < ' ' => {
                    // Writing to a string does not fail.
                    let _ = write!(self.text, "\\u{:04x}", u32::from(control));
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(source: &str) -> String {
        let environment = compile(source).expect("a template");
        let template = environment.get_template(NAME).expect("it exists");
        template.render(minijinja::context! { text => " a\u{1}\"é ", none => () }).expect("it runs")
    }

    #[test]
    fn values_are_written_as_in_python() {
        let check =
            |source: &str, expected: &str| assert_eq!(rendered(source), expected, "{source}");
        check("{{ true }} {{ none }} {{ absent }} {{ 1.0 }}", "True None  1.0");
        check("{{ {'b': [1, 2.5, none], 'a': {}} | tojson }}", r#"{"b": [1, 2.5, null], "a": {}}"#);
        check("{{ {'a': [1]} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ]\n}");
        check("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", r#"{"a": 2, "b": 1}"#);
        check("{{ text | tojson }}", "\" a\\u0001\\\"é \"");
        check("{{ text.strip() | length }}", "4");
        check("{{ 'a<b' | tojson }}", "\"a<b\"");
        check("{% generation %}x{% endgeneration %}", "x");
        check("  {%- generation -%} x {%- endgeneration -%} ", "x");
        check("{{ strftime_now('%Y') | int > 2000 }}", "True");
    }

    #[test]
    fn errors_have_a_line() {
        let check = |source: &str, expected: &str| {
            let environment = compile(source);
            let run = |environment: Environment<'static>| {
                let template = environment.get_template(NAME).expect("it exists");
                template.render(()).map_err(|error| failed(&error)).expect_err("an error")
            };
            let error = environment.map_or_else(|error| error, run).to_string();
            assert!(error.contains(expected), "{source}: {error}");
        };
        check("a\n{{ raise_exception('no tools') }}", "line 2: no tools");
        check("{% if %}", "line 1: syntax error");
        check("{{ {}.a.b }}", "line 1");
        check(
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "fuel",
        );
    }
}
