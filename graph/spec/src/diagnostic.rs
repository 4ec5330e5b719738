//! Diagnostics of a graph: message, location, help.

use std::{fmt, ops::Range, path::Path, sync::Arc};

use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};

/// Source text of a graph: a file, or one `--set` of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Path of the file as the caller gave it, or `--set`.
    pub(crate) name: String,
    /// The whole text.
    pub(crate) text: String,
    /// Order of diagnostics: the file first, then changes of the command line.
    pub(crate) order: usize,
}

impl Source {
    /// Order of the first included file.
    pub(crate) const PARTS: usize = 1 << 32;
}

/// Span in a graph file or a `--set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    source: Arc<Source>,
    span: Range<usize>,
}

/// Severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The graph cannot start.
    Error,
    /// The graph can start, but probably does something else than intended.
    Warning,
}

/// One fault of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// Complete message; it names the node and the port or parameter.
    pub message: String,
    /// Suggested fix.
    pub help: Option<String>,
    /// Location; `None` for a graph built in Rust.
    pub location: Option<Location>,
}

/// Diagnostics of a graph, sorted by location.
///
/// `Display` writes them like a compiler; see [`Diagnostics::render`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Location {
    /// Span of `source`, clamped to the text.
    pub(crate) fn new(source: &Arc<Source>, span: Range<usize>) -> Self {
        let start = source.text.floor_char_boundary(span.start);
        let end = source.text.ceil_char_boundary(span.end.max(start));
        Self { source: Arc::clone(source), span: start..end }
    }

    /// Part of this span, relative to its start.
    pub(crate) fn part(&self, span: Range<usize>) -> Self {
        let start = self.span.start;
        Self::new(&self.source, start + span.start..start + span.end)
    }

    /// From the start of this span to the end of `last`.
    pub(crate) fn to(&self, last: &Self) -> Self {
        let end = last.span.end.max(self.span.end);
        Self::new(&self.source, self.span.start..end)
    }

    /// Path of the file as the caller gave it, or `--set`.
    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// Folder of the file; `None` for the command line.
    pub(crate) fn folder(&self) -> Option<&Path> {
        Path::new(&self.source.name).parent().filter(|_| !self.is_command_line())
    }

    /// True for a value of the command line.
    pub(crate) fn is_command_line(&self) -> bool {
        (1..Source::PARTS).contains(&self.source.order)
    }

    /// Text of the span.
    pub fn text(&self) -> &str {
        &self.source.text[self.span.clone()]
    }

    /// Byte range in the file.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Line, from 1.
    pub fn line(&self) -> usize {
        self.source.text[..self.span.start].matches('\n').count() + 1
    }

    /// Column in characters, from 1.
    pub fn column(&self) -> usize {
        self.source.text[self.line_start()..self.span.start].chars().count() + 1
    }

    fn line_start(&self) -> usize {
        self.source.text[..self.span.start].rfind('\n').map_or(0, |at| at + 1)
    }

    /// First line of the span, and the part of the line that it covers.
    fn in_line(&self) -> (&str, Range<usize>) {
        let start = self.line_start();
        let line = self.source.text[start..].lines().next().unwrap_or_default();
        let first = (self.span.start - start).min(line.len());
        let last = (self.span.end - start).min(line.len());
        let covered = line[first..last].trim_end().len();
        (line, first..first + covered)
    }

    fn sort_key(&self) -> (usize, usize) {
        (self.source.order, self.span.start)
    }
}

impl Diagnostic {
    /// Builds an error.
    pub fn error(location: Option<&Location>, message: impl Into<String>) -> Self {
        let (message, location) = (message.into(), location.cloned());
        Self { severity: Severity::Error, message, help: None, location }
    }

    /// Builds a warning.
    pub fn warning(location: Option<&Location>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(location, message) }
    }

    /// Adds help.
    pub fn help(self, help: impl Into<Option<String>>) -> Self {
        Self { help: help.into(), ..self }
    }

    /// Renders the diagnostic like a compiler, with terminal colors or without.
    pub fn render(&self, color: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(&self.message));
        if let Some(location) = &self.location {
            let (line, covered) = location.in_line();
            let mark = AnnotationKind::Primary.span(covered);
            let snippet = Snippet::source(line).line_start(location.line()).path(location.file());
            group = group.element(Element::from(snippet.annotation(mark)));
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

impl Diagnostics {
    /// Most diagnostics that are rendered; more have a common cause.
    pub(crate) const SHOWN: usize = 100;

    /// Sorts `faults` by location and removes duplicates.
    pub fn new(mut faults: Vec<Diagnostic>) -> Self {
        let key = |fault: &Diagnostic| fault.location.as_ref().map(Location::sort_key);
        faults.sort_by_key(key);
        let mut seen = std::collections::HashSet::new();
        faults.retain(|fault| seen.insert((key(fault), fault.message.clone())));
        Self(faults)
    }

    /// Diagnostics in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of errors.
    pub fn errors(&self) -> usize {
        self.iter().filter(|fault| fault.severity == Severity::Error).count()
    }

    /// Number of warnings.
    pub fn warnings(&self) -> usize {
        self.0.len() - self.errors()
    }

    /// Renders the diagnostics like a compiler, at most 100, and a last line with their number.
    pub fn render(&self, color: bool) -> String {
        let mut text = String::new();
        for fault in self.iter().take(Self::SHOWN) {
            text.push_str(&fault.render(color));
            text.push_str("\n\n");
        }
        if self.0.len() > Self::SHOWN {
            text.push_str(&format!("the first {} are shown\n\n", Self::SHOWN));
        }
        let counts = [(self.errors(), "error"), (self.warnings(), "warning")];
        let words = counts.iter().filter(|(count, _)| *count > 0);
        let words: Vec<_> = words.map(|(count, word)| counted(*count, word)).collect();
        text + &words.join(", ")
    }
}

/// `1 error`, `2 errors`.
pub fn counted(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

impl<'d> IntoIterator for &'d Diagnostics {
    type Item = &'d Diagnostic;
    type IntoIter = std::slice::Iter<'d, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str, span: Range<usize>) -> Diagnostic {
        let source = Arc::new(Source { name: "a.yaml".into(), text: text.into(), order: 0 });
        Diagnostic::error(Some(&Location::new(&source, span)), "wrong")
    }

    #[test]
    fn it_looks_like_a_compiler() {
        let fault = fault("one: 1\ntwo: {treshold: 2}\n", 13..21).help("fix it".to_owned());
        let expected = "\
error: wrong
 --> a.yaml:2:7
  |
2 | two: {treshold: 2}
  |       ^^^^^^^^
  |
  = help: fix it";
        assert_eq!(fault.render(false), expected);
        let location = fault.location.as_ref().unwrap();
        assert_eq!((location.line(), location.column(), location.text()), (2, 7, "treshold"));
        assert!(fault.render(true).contains("\u{1b}["));
        let both = Diagnostics::new(vec![fault.clone(), Diagnostic::error(None, "x"), fault]);
        assert!(both.to_string().starts_with("error: x\n\n"), "{both}");
        assert!(both.to_string().ends_with("\n\n2 errors"), "{both}");
    }

    #[test]
    fn any_span_can_be_drawn() {
        let text = "ä\t日本: \u{1}\r\nx";
        for start in 0..text.len() + 3 {
            for end in 0..text.len() + 3 {
                assert!(fault(text, start..end).render(false).contains("a.yaml:"));
            }
        }
        let long = "x".repeat(100_000);
        assert!(fault(&long, 50_000..50_001).render(false).len() < 1000);
        fault("", 0..0).render(true);
    }
}
