//! Parts of a text that a model speaks at once.

use std::time::Duration;

use super::{own::SpokenWord, sentences::WrittenWord};

/// A part of a text: a sentence, or a piece of a long one.
#[derive(Debug, Clone)]
pub(super) struct TextPart {
    /// Written words with their positions.
    pub(super) words: Vec<(String, u32)>,
    pub(super) is_end: bool,
}

impl TextPart {
    /// `is_end` is true at the end of a sentence.
    pub(super) fn new(words: &[WrittenWord<'_>], is_end: bool) -> Self {
        let mut all: Vec<(String, u32)> = Vec::new();
        for word in words {
            match all.last_mut() {
                Some((text, number)) if *number == word.number => text.push_str(word.text),
                _ => all.push((word.text.to_owned(), word.number)),
            }
        }
        Self { words: all, is_end }
    }

    pub(super) fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|(text, _)| text.as_str()).collect();
        words.join(" ")
    }

    /// The first half of the words, and the second.
    pub(super) fn halves(&self) -> (Self, Self) {
        let (first, second) = self.words.split_at(self.words.len() / 2);
        let first = Self { words: first.to_vec(), is_end: false };
        (first, Self { words: second.to_vec(), is_end: self.is_end })
    }

    /// Words of a sound of this length, which is divided by their letters.
    pub(super) fn spoken_words(&self, len: Duration) -> Vec<SpokenWord> {
        let letters = |text: &str| text.chars().count() + 1;
        let total: usize = self.words.iter().map(|(text, _)| letters(text)).sum();
        let at = |letters: usize| len.mul_f64(letters as f64 / total.max(1) as f64);
        let mut before = 0;
        let words = self.words.iter().map(|(text, number)| {
            let start = before;
            before += letters(text);
            let text = text.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
            SpokenWord { text, written: *number, start: at(start), end: at(before) }
        });
        words.filter(|word| !word.text.is_empty()).collect()
    }
}
