//! Keeps control tokens of contents text, from the template to the tokens.

use crate::{TextError, Tokenizer};

/// Mark inside of a control token that is text, a noncharacter of Unicode.
const MARK: char = '\u{fdd0}';

/// Encodes texts that have marks in control tokens of contents.
pub(super) struct Guard {
    /// Tokenizer that recognizes control tokens; for texts without marks. SentencePiece models have
    /// none.
    special: Option<Tokenizer>,
    plain: Tokenizer,
    /// Control tokens, the longest first.
    control: Vec<(String, u32)>,
}

impl Guard {
    /// Control tokens are the special tokens of `tokenizer`, and its added tokens that occur in
    /// `template`.
    pub(super) fn new(tokenizer: Tokenizer, template: &str) -> Self {
        let mut control = tokenizer.control_tokens(template);
        control.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then(a.0.cmp(&b.0)));
        let ids: Vec<u32> = control.iter().map(|&(_, id)| id).collect();
        let special = tokenizer.finds_special().then(|| tokenizer.clone());
        Self { special, plain: tokenizer.with_special_as_text(&ids), control }
    }

    pub(super) fn plain(&self) -> &Tokenizer {
        &self.plain
    }

    pub(super) fn is_control(&self, token: u32) -> bool {
        self.control.iter().any(|&(_, id)| id == token)
    }

    /// The longest control token at the start of `text`.
    pub(super) fn control_at(&self, text: &str) -> Option<(&str, u32)> {
        let found = self.control.iter().find(|(name, _)| text.starts_with(name.as_str()))?;
        Some((found.0.as_str(), found.1))
    }

    /// Inserts a mark into each control token in `text`. A mark that `text` has already becomes
    /// U+FFFD.
    pub(super) fn mark(&self, text: &str) -> String {
        let mut marked = String::with_capacity(text.len());
        for (at, character) in text.char_indices() {
            let is_mark = character == MARK;
            marked.push(if is_mark { char::REPLACEMENT_CHARACTER } else { character });
            if self.control_at(&text[at..]).is_some() {
                marked.push(MARK);
            }
        }
        marked
    }

    /// Tokens of a text with marks. `is_start` is false for text after a control token.
    pub(super) fn encode(&self, marked: &str, is_start: bool) -> Result<Vec<u32>, TextError> {
        if let Some(special) = self.special.as_ref().filter(|_| !marked.contains(MARK)) {
            return special.encode_part(marked, is_start);
        }
        let mut tokens = Vec::new();
        let (mut rest, mut is_start) = (marked, is_start);
        while !rest.is_empty() {
            let stretch = self.stretch(rest);
            let (text, after) = rest.split_at(stretch);
            if !text.is_empty() {
                tokens.extend(self.encode_stretch(text, is_start)?);
            }
            rest = after;
            if let Some((name, id)) = self.control_at(rest) {
                tokens.push(id);
                rest = &rest[name.len()..];
            }
            is_start = false;
        }
        Ok(tokens)
    }

    fn encode_stretch(&self, text: &str, is_start: bool) -> Result<Vec<u32>, TextError> {
        self.plain.encode_part(&without_marks(text), is_start)
    }

    /// Length of the text before the next control token.
    fn stretch(&self, text: &str) -> usize {
        let starts = text.char_indices().map(|(at, _)| at);
        let mut found = starts.filter(|&at| self.control_at(&text[at..]).is_some());
        found.next().unwrap_or(text.len())
    }
}

/// The text without its marks.
pub(super) fn without_marks(marked: &str) -> String {
    marked.replace(MARK, "")
}
