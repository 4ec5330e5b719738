//! YAML text as a tree with the location of every key and value.
//!
//! The tree is built from the events of granit-parser, the parser below serde-saphyr. A serde
//! deserializer stops at the first fault, and the spanned trees of saphyr and marked-yaml know only
//! the start of a value; the events have byte ranges, and their parser is fuzzed, forbids `unsafe`,
//! bounds nesting, and needs two small crates.

mod allowance;
mod node;

use std::{collections::HashMap, ops::Range, sync::Arc};

use granit_parser::{Event, Parser, ScalarStyle, Span};

pub(crate) use allowance::Allowance;
pub use node::{Key, Map, Node, Value};

use crate::{Diagnostic, Location, diagnostic::Source};

/// Longest text in bytes.
pub(crate) const MAX_TEXT: usize = 1 << 20;
/// Most values of a file, including repetitions by aliases.
const MAX_VALUES: usize = 20_000;
/// Longest key in bytes: messages repeat names of nodes and parameters.
const MAX_KEY: usize = 256;
/// Deepest nesting, including aliases.
const MAX_DEPTH: usize = 32;

/// Parses the part `span` of `source`; faults go to `faults`. `None` if it is not YAML or exceeds
/// `allowance`.
pub(crate) fn parse(
    source: &Arc<Source>,
    span: Range<usize>,
    faults: &mut Vec<Diagnostic>,
    allowance: &mut Allowance,
) -> Option<Node> {
    let text = source.text.get(span.clone())?;
    if text.len() > MAX_TEXT {
        let message = format!("the file is longer than {MAX_TEXT} bytes");
        faults.push(Diagnostic::error(Some(&Location::new(source, 0..0)), message));
        return None;
    }
    let limit = MAX_DEPTH + 1;
    let options = granit_parser::options! {
        emit_comments: false, flow_nesting_limit: limit, block_nesting_limit: limit
    };
    let mut builder =
        Builder { source, offset: span.start, faults, open: Vec::new(), anchors: HashMap::new() };
    let (mut root, mut values) = (None, 0);
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, location) = match event {
            Ok((event, span)) => (event, builder.location(span)),
            Err(error) => {
                let at = builder.offset + error.marker().byte_offset().unwrap_or(0);
                let message = format!("not valid YAML: {}", error.info());
                let before = source.text.get(..at).unwrap_or_default();
                let line =
                    source.text[before.rfind('\n').map_or(0, |end| end + 1)..].lines().next();
                let help = line.filter(|line| line.contains("${"));
                let help = help.map(|_| "within braces, write \"${…}\" in quotes".to_owned());
                let fault = Diagnostic::error(Some(&Location::new(source, at..at + 1)), message);
                builder.faults.push(fault.help(help));
                return None;
            }
        };
        let ends = matches!(event, Event::SequenceEnd | Event::MappingEnd);
        let finished = match builder.handle(event, location) {
            Ok(finished) => finished,
            Err(fault) => {
                builder.faults.push(fault);
                return None;
            }
        };
        let Some(node) = finished else { continue };
        values += if ends { 1 } else { node.size };
        if values > MAX_VALUES {
            let message = format!("the file holds more than {MAX_VALUES} values");
            builder.faults.push(Diagnostic::error(Some(&node.location), message));
            return None;
        }
        // The values within a list or a map are already accounted for.
        let bytes = if ends { size_of::<Node>() } else { node.bytes() };
        allowance.take(bytes, &node.location, builder.faults)?;
        match builder.open.last_mut() {
            Some(open) => open.push(node, builder.faults),
            None if root.is_some() => {
                let message = "the file holds one document; this is a second one";
                builder.faults.push(Diagnostic::error(Some(&node.location), message));
            }
            None => root = Some(node),
        }
    }
    let nothing = || Value::Scalar { text: String::new(), quoted: false };
    Some(root.unwrap_or_else(|| Node::leaf(Location::new(source, span.clone()), nothing())))
}

struct Builder<'a> {
    source: &'a Arc<Source>,
    /// Start of the parsed part in the source.
    offset: usize,
    faults: &'a mut Vec<Diagnostic>,
    /// Lists and maps around the current event.
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
}

/// A list or map that has not ended.
struct Open {
    anchor: usize,
    location: Location,
    is_map: bool,
    entries: Map,
    items: Vec<Node>,
    /// In a map: the key of the next value; the inner `None` is an unusable key.
    key: Option<Option<Key>>,
    depth: usize,
    size: usize,
}

impl Builder<'_> {
    fn location(&self, span: Span) -> Location {
        let range = span.byte_range().unwrap_or(0..0);
        Location::new(self.source, self.offset + range.start..self.offset + range.end)
    }

    /// Value that ends with this event, if any.
    fn handle(&mut self, event: Event<'_>, location: Location) -> Result<Option<Node>, Diagnostic> {
        if event.tag().is_some_and(|tag| !tag.is_yaml_core_schema()) {
            let message = "tags mean nothing here; quote a text that starts with \"!\"";
            self.faults.push(Diagnostic::error(Some(&location), message));
        }
        let (anchor, node) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let (text, quoted) = (text.into_owned(), style != ScalarStyle::Plain);
                (anchor, Node::leaf(location, Value::Scalar { text, quoted }))
            }
            Event::SequenceStart(_, anchor, _) => return Ok(self.start(anchor, location, false)),
            Event::MappingStart(_, anchor, _) => return Ok(self.start(anchor, location, true)),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(None) };
                (open.anchor, open.end(&location))
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => (0, node.clone()),
                None => {
                    let message = "the alias stands inside of what it refers to";
                    return Err(Diagnostic::error(Some(&location), message));
                }
            },
            _ => return Ok(None),
        };
        if self.open.len() + node.depth > MAX_DEPTH {
            let message = format!("the file nests deeper than {MAX_DEPTH} levels");
            return Err(Diagnostic::error(Some(&node.location), message));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(Some(node))
    }

    fn start(&mut self, anchor: usize, location: Location, is_map: bool) -> Option<Node> {
        let (entries, items) = (Map::new(), Vec::new());
        self.open.push(Open {
            anchor,
            location,
            is_map,
            entries,
            items,
            key: None,
            depth: 0,
            size: 0,
        });
        None
    }
}

impl Open {
    fn push(&mut self, node: Node, faults: &mut Vec<Diagnostic>) {
        self.depth = self.depth.max(node.depth);
        self.size += node.size;
        if !self.is_map {
            self.items.push(node);
            return;
        }
        match self.key.take() {
            None => self.key = Some(self.new_key(node, faults)),
            Some(Some(key)) => self.entries.push((key, node)),
            Some(None) => {}
        }
    }

    fn new_key(&self, node: Node, faults: &mut Vec<Diagnostic>) -> Option<Key> {
        let Node { location, value: Value::Scalar { text, .. }, .. } = node else {
            let message = format!("a key must be a word, not {}", node.kind());
            faults.push(Diagnostic::error(Some(&node.location), message));
            return None;
        };
        if text.len() > MAX_KEY {
            let message = format!("a key is longer than {MAX_KEY} bytes");
            faults.push(Diagnostic::error(Some(&location), message));
            return None;
        }
        if let Some((first, _)) = self.entries.iter().find(|(key, _)| key.text == text) {
            let message = format!("\"{text}\" is given twice");
            let help = format!("the first one is in line {}", first.location.line());
            faults.push(Diagnostic::error(Some(&location), message).help(help));
            return None;
        }
        Some(Key { text, location })
    }

    fn end(self, last: &Location) -> Node {
        let location = self.location.to(last);
        let value = if self.is_map { Value::Map(self.entries) } else { Value::Seq(self.items) };
        Node { location, value, depth: self.depth + 1, size: self.size + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Node>, Vec<String>) {
        let source = Arc::new(Source { name: "x".into(), text: text.into(), order: 0 });
        let mut faults = Vec::new();
        let node = parse(&source, 0..text.len(), &mut faults, &mut Allowance::default());
        (node, faults.into_iter().map(|fault| fault.message).collect())
    }

    #[test]
    fn keys_and_values_have_locations() {
        let (node, faults) = read("ä: {b: 'c d'}\nlist:\n  - x\n  - &a [1, 2]\nagain: *a\n");
        assert!(faults.is_empty(), "{faults:?}");
        let node = node.unwrap();
        let quoted = node.get("ä").unwrap().get("b").unwrap();
        assert_eq!((quoted.location.text(), quoted.location.column()), ("'c d'", 8));
        assert_eq!(node.get("again").unwrap().location.text(), "[1, 2]");
        assert_eq!(node.as_map().unwrap()[1].0.location.line(), 2);
    }

    #[test]
    fn faults_are_named() {
        let deep = "[".repeat(5000);
        let bomb = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
            format!("{text}a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)
        });
        let wide = "- x\n".repeat(MAX_VALUES + 1);
        let key = format!("{}: 1", "k".repeat(MAX_KEY + 1));
        let long = format!("- &a {}\n{}", "x".repeat(MAX_TEXT / 2), "- *a\n".repeat(1000));
        let cases = [
            ("a: 1\nb: 2\na: 3", "\"a\" is given twice"),
            ("[a]: 1", "a key must be a word, not a list"),
            ("a: !x 1", "tags mean nothing here; quote a text that starts with \"!\""),
            ("a\n---\nb", "the file holds one document; this is a second one"),
            ("a: &a [*a]", "the alias stands inside of what it refers to"),
            ("a: [1, 2", "not valid YAML: "),
            ("{---", "not valid YAML: "),
            ("a: *b", "not valid YAML: "),
            (&deep, "not valid YAML: recursion limit exceeded"),
            (&bomb, "the file holds more than 20000 values"),
            (&wide, "the file holds more than 20000 values"),
            (&key, "a key is longer than 256 bytes"),
            (&long, "the files hold more than 67108864 bytes of values"),
        ];
        for (text, expected) in cases {
            let (_, faults) = read(text);
            let text = &text[..text.len().min(100)];
            assert!(faults.len() == 1 && faults[0].starts_with(expected), "{text}: {faults:?}");
        }
        assert!(read("").0.unwrap().is_null());
    }
}
