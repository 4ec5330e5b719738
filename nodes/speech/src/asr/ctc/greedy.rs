//! Greedy CTC decoding: the most probable label of each step, without a lexicon.

/// A word as a sequence of labels, with the steps of its first and last letter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SpelledWord {
    pub(super) labels: Vec<usize>,
    pub(super) first_step: u32,
    pub(super) last_step: u32,
}

/// Joins labels to words. Label 0 is the CTC blank.
#[derive(Debug, Default)]
pub(super) struct GreedyDecoder {
    space: usize,
    words: Vec<SpelledWord>,
    /// Label of the last step.
    last: usize,
    /// True if the next letter begins a word.
    is_between_words: bool,
    step: u32,
}

impl GreedyDecoder {
    pub(super) fn new(space: usize) -> Self {
        Self { space, is_between_words: true, ..Self::default() }
    }

    /// Begins a new utterance.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.space);
    }

    /// Adds the most probable label of the next step.
    pub(super) fn update(&mut self, label: usize) {
        if label == self.space {
            self.is_between_words = true;
        } else if label != 0 && label != self.last {
            if self.is_between_words {
                let first_step = self.step;
                self.words.push(SpelledWord { first_step, ..SpelledWord::default() });
            }
            self.is_between_words = false;
            if let Some(word) = self.words.last_mut() {
                word.labels.push(label);
                word.last_step = self.step;
            }
        }
        self.last = label;
        self.step += 1;
    }

    /// The words so far.
    pub(super) fn words(&self) -> &[SpelledWord] {
        &self.words
    }
}

/// Index of the greatest value.
pub(super) fn argmax(values: &[f32]) -> usize {
    let best = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the labels of each word and the steps of its first and last letter; label 9 is the
    /// space.
    fn check(labels: &[usize], expected: &[(&[usize], u32, u32)]) {
        let mut greedy = GreedyDecoder::new(9);
        labels.iter().for_each(|&label| greedy.update(label));
        let found: Vec<_> = greedy
            .words()
            .iter()
            .map(|word| (&word.labels[..], word.first_step, word.last_step))
            .collect();
        assert_eq!(found, expected, "{labels:?}");
    }

    #[test]
    fn repeated_labels_are_one_letter_unless_a_blank_separates_them() {
        check(&[1, 1, 0, 2, 0, 2], &[(&[1, 2, 2], 0, 5)]);
    }

    #[test]
    fn any_number_of_spaces_separates_words() {
        check(&[9, 0, 9, 1, 9, 9, 0, 9, 1, 9], &[(&[1], 3, 3), (&[1], 8, 8)]);
        check(&[], &[]);
    }

    #[test]
    fn argmax_is_the_index_of_the_greatest_value() {
        assert_eq!(argmax(&[-3.0, -1.0, -2.0]), 1);
        assert_eq!(argmax(&[]), 0);
    }
}
