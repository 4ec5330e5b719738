//! Sequences of words that share their beginnings.

use std::collections::HashMap;

/// A word with the steps of its first and last letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpokenWord {
    pub(super) word: u32,
    pub(super) first_step: u32,
    pub(super) last_step: u32,
}

/// Sequences by number; each is another one and a word behind it.
#[derive(Debug, Default)]
pub(super) struct Words {
    sequences: Vec<(u32, SpokenWord)>,
    numbers: HashMap<(u32, u32), u32>,
}

impl Words {
    /// The sequence without words.
    pub(super) const NONE: u32 = u32::MAX;

    pub(super) fn clear(&mut self) {
        self.sequences.clear();
        self.numbers.clear();
    }

    /// The number of `before` and `word` behind it.
    pub(super) fn add(&mut self, before: u32, word: u32) -> u32 {
        let new = u32::try_from(self.sequences.len()).expect("an utterance has fewer sequences");
        let number = *self.numbers.entry((before, word)).or_insert(new);
        if number == new {
            self.sequences.push((before, SpokenWord { word, first_step: 0, last_step: 0 }));
        }
        number
    }

    /// Sets the steps of the last word of a sequence.
    pub(super) fn time(&mut self, sequence: u32, (first_step, last_step): (u32, u32)) {
        if let Some((_, word)) = self.sequences.get_mut(sequence as usize) {
            (word.first_step, word.last_step) = (first_step, last_step);
        }
    }

    /// The steps of the last word of a sequence.
    pub(super) fn times(&self, sequence: u32) -> (u32, u32) {
        let last = self.backwards(sequence).next();
        last.map_or((0, 0), |word| (word.first_step, word.last_step))
    }

    /// The words of a sequence, the last first.
    pub(super) fn backwards(&self, sequence: u32) -> impl Iterator<Item = SpokenWord> {
        let at = |number: u32| self.sequences.get(number as usize);
        let steps = std::iter::successors(at(sequence), move |(before, _)| at(*before));
        steps.map(|&(_, word)| word)
    }

    /// The words of a sequence.
    pub(super) fn list(&self, sequence: u32) -> Vec<SpokenWord> {
        let mut words: Vec<SpokenWord> = self.backwards(sequence).collect();
        words.reverse();
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sequences_are_one() {
        let mut words = Words::default();
        let a = words.add(Words::NONE, 1);
        let ab = words.add(a, 2);
        assert_eq!(words.add(Words::NONE, 1), a);
        assert_ne!(words.add(Words::NONE, 2), ab);
        words.time(ab, (3, 4));
        words.time(Words::NONE, (5, 6));
        let spoken = |word, first_step, last_step| SpokenWord { word, first_step, last_step };
        assert_eq!(words.list(ab), [spoken(1, 0, 0), spoken(2, 3, 4)]);
        assert_eq!(words.list(Words::NONE), []);
    }
}
