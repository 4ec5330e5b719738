//! Words from pieces of text with times.

/// Collects words from pieces of text. Whitespace separates them.
#[derive(Debug, Default)]
pub(super) struct WordBuilder<T> {
    words: Vec<TimedWord<T>>,
    /// True if the next piece may continue the last word.
    is_open: bool,
}

/// Word with its start and end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TimedWord<T> {
    pub(super) text: String,
    pub(super) start: T,
    pub(super) end: T,
}

impl<T: Copy> WordBuilder<T> {
    pub(super) fn new() -> Self {
        Self { words: Vec::new(), is_open: false }
    }

    /// Adds a piece that was said from `start` to `end`. Punctuation does not prolong a word.
    pub(super) fn push(&mut self, piece: &str, start: T, end: T) {
        let mut rest = piece;
        while !rest.is_empty() {
            let gap = rest.len() - rest.trim_start().len();
            self.is_open &= gap == 0;
            rest = &rest[gap..];
            let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (part, after) = rest.split_at(len);
            rest = after;
            if part.is_empty() {
                break;
            }
            match self.words.last_mut().filter(|_| self.is_open) {
                Some(word) => {
                    word.text.push_str(part);
                    if !part.chars().all(|c| c.is_ascii_punctuation()) {
                        word.end = end;
                    }
                }
                None => self.words.push(TimedWord { text: part.to_owned(), start, end }),
            }
            self.is_open = true;
        }
    }

    /// The words so far.
    pub(super) fn words(&self) -> &[TimedWord<T>] {
        &self.words
    }

    /// Removes and returns the words.
    pub(super) fn take(&mut self) -> Vec<TimedWord<T>> {
        self.is_open = false;
        std::mem::take(&mut self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_separates_words() {
        let mut builder = WordBuilder::new();
        for (time, piece) in [" mon", "day", "?\n", "us", " a b", " ", "c", ""].iter().enumerate() {
            builder.push(piece, time, time + 1);
        }
        let found = builder.take();
        let found: Vec<(&str, usize, usize)> =
            found.iter().map(|word| (word.text.as_str(), word.start, word.end)).collect();
        assert_eq!(found, [("monday?", 0, 2), ("us", 3, 4), ("a", 4, 5), ("b", 4, 5), ("c", 6, 7)]);
        assert!(builder.words().is_empty());
    }
}
