//! Word sequences of hypotheses, stored as a trie: they share their beginnings.

use std::collections::HashMap;

/// A word with the steps of its first and last letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimedWord {
    pub(super) word: u32,
    pub(super) first_step: u32,
    pub(super) last_step: u32,
}

/// Sequences by id; each is another sequence followed by one word.
#[derive(Debug, Default)]
pub(super) struct WordSequences {
    sequences: Vec<(u32, TimedWord)>,
    ids: HashMap<(u32, u32), u32>,
}

impl WordSequences {
    /// The empty sequence.
    pub(super) const EMPTY: u32 = u32::MAX;

    pub(super) fn clear(&mut self) {
        self.sequences.clear();
        self.ids.clear();
    }

    /// Id of the sequence `before` followed by `word`.
    pub(super) fn append(&mut self, before: u32, word: u32) -> u32 {
        let new = u32::try_from(self.sequences.len()).expect("an utterance has fewer sequences");
        let id = *self.ids.entry((before, word)).or_insert(new);
        if id == new {
            self.sequences.push((before, TimedWord { word, first_step: 0, last_step: 0 }));
        }
        id
    }

    /// Sets the steps of the last word of a sequence.
    pub(super) fn set_steps(&mut self, sequence: u32, (first_step, last_step): (u32, u32)) {
        if let Some((_, word)) = self.sequences.get_mut(sequence as usize) {
            (word.first_step, word.last_step) = (first_step, last_step);
        }
    }

    /// Steps of the last word of a sequence.
    pub(super) fn last_steps(&self, sequence: u32) -> (u32, u32) {
        let last = self.backwards(sequence).next();
        last.map_or((0, 0), |word| (word.first_step, word.last_step))
    }

    /// Words of a sequence, the last one first.
    pub(super) fn backwards(&self, sequence: u32) -> impl Iterator<Item = TimedWord> {
        let at = |id: u32| self.sequences.get(id as usize);
        let entries = std::iter::successors(at(sequence), move |(before, _)| at(*before));
        entries.map(|&(_, word)| word)
    }

    /// Words of a sequence.
    pub(super) fn words(&self, sequence: u32) -> Vec<TimedWord> {
        let mut words: Vec<TimedWord> = self.backwards(sequence).collect();
        words.reverse();
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sequences_have_one_id() {
        let mut sequences = WordSequences::default();
        let a = sequences.append(WordSequences::EMPTY, 1);
        let ab = sequences.append(a, 2);
        assert_eq!(sequences.append(WordSequences::EMPTY, 1), a);
        assert_ne!(sequences.append(WordSequences::EMPTY, 2), ab);
        sequences.set_steps(ab, (3, 4));
        sequences.set_steps(WordSequences::EMPTY, (5, 6));
        let timed = |word, first_step, last_step| TimedWord { word, first_step, last_step };
        assert_eq!(sequences.words(ab), [timed(1, 0, 0), timed(2, 3, 4)]);
        assert_eq!(sequences.words(WordSequences::EMPTY), []);
    }
}
