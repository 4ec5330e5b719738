//! Substitution of `${param}`, `${env:NAME}` and `${env:NAME:-default}`.
//!
//! A value that consists of `${param}` becomes the given value with its location; within a longer
//! text, its text is inserted. `$${` stands for a literal `${`. YAML requires quotes around a `${`
//! within braces. A value that cannot be substituted becomes [`Value::Faulty`], which is reported
//! once.

use std::env;

use crate::{
    Diagnostic, Location,
    load::reader::Reader,
    suggest,
    yaml::{Map, Node, Value},
};

impl Reader {
    /// Substitutes in every text below `node`; `params` are those of the graph.
    pub fn fill(&mut self, node: &mut Node, params: &Map) {
        match &mut node.value {
            Value::Seq(items) => items.iter_mut().for_each(|item| self.fill(item, params)),
            Value::Map(map) => map.iter_mut().for_each(|(_, value)| self.fill(value, params)),
            Value::Scalar { text, .. } if text.contains("${") => {
                let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
                let given = whole.and_then(|name| params.iter().find(|(key, _)| key.text == name));
                let given = given.filter(|(_, value)| !value.is_null());
                match given {
                    Some((_, value)) => match self.take(value.bytes(), &node.location) {
                        Some(()) => *node = value.clone(),
                        None => node.value = Value::Faulty,
                    },
                    None => {
                        let filled = self.filled(text, &node.location, params);
                        node.value = filled
                            .map_or(Value::Faulty, |text| Value::Scalar { text, quoted: true });
                    }
                }
            }
            Value::Scalar { .. } | Value::Faulty => {}
        }
    }

    /// Marks every text below `node` that still needs a substitution as unknown.
    pub(crate) fn forget_unfilled(node: &mut Node) {
        match &mut node.value {
            Value::Seq(items) => items.iter_mut().for_each(Self::forget_unfilled),
            Value::Map(map) => map.iter_mut().for_each(|(_, value)| Self::forget_unfilled(value)),
            Value::Scalar { text, .. } if text.contains("${") => node.value = Value::Faulty,
            Value::Scalar { .. } | Value::Faulty => {}
        }
    }

    /// Substitutes in `text`.
    fn filled(&mut self, text: &str, location: &Location, params: &Map) -> Option<String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                filled.push_str(before);
                filled.push_str("${");
                rest = &from[2..];
                continue;
            }
            filled.push_str(before);
            let Some(end) = from.find('}') else {
                let help = "for the characters themselves, write \"$${\"".to_owned();
                let message = "\"${\" is not closed by \"}\"";
                self.faults.push(Diagnostic::error(Some(location), message).help(help));
                return None;
            };
            let value = self.value_of(&from[2..end], location, params)?;
            self.take(value.len(), location)?;
            filled.push_str(&value);
            rest = &from[end + 1..];
        }
        filled.push_str(rest);
        Some(filled)
    }

    fn value_of(&mut self, name: &str, location: &Location, params: &Map) -> Option<String> {
        if let Some(name) = name.strip_prefix("env:") {
            let (name, default) = match name.split_once(":-") {
                Some((name, default)) => (name, Some(default.to_owned())),
                None => (name, None),
            };
            // The operating system has no variable of such a name, and the standard library panics
            // on one.
            let sound = !name.is_empty() && !name.contains(['=', '\0']);
            let value = if sound { env::var(name).ok() } else { None };
            let value = value.filter(|value| !value.is_empty()).or(default);
            if value.is_none() {
                let message = format!("the environment variable \"{name}\" is not set");
                let help = format!("with a default: \"${{env:{name}:-default}}\"");
                self.faults.push(Diagnostic::error(Some(location), message).help(help));
            }
            let value = value?;
            self.origin.environment.insert(name.to_owned(), value.clone());
            return Some(value);
        }
        let found = params.iter().find(|(key, _)| key.text == name);
        if found.is_some_and(|(_, value)| value.is_null()) {
            let message = format!("parameter \"{name}\" of the graph has no value");
            let help = format!("give it one: --set {name}=VALUE, or in \"params\"");
            self.faults.push(Diagnostic::error(Some(location), message).help(help));
            return None;
        }
        match found.map(|(_, value)| &value.value) {
            Some(Value::Scalar { text, .. }) => return Some(text.clone()),
            Some(Value::Faulty) => {}
            Some(_) => {
                self.error(location, format!("parameter \"{name}\" must be a single value here"))
            }
            None => {
                let known = params.iter().map(|(key, _)| key.text.as_str());
                let help = suggest::help(&self.faults, name, known, "the parameters of this graph");
                let message = format!("unknown parameter \"{name}\" of the graph");
                self.faults.push(Diagnostic::error(Some(location), message).help(help));
            }
        }
        None
    }
}
