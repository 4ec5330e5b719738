//! The likeliest label of every step, without a lexicon.

/// A word as it was spelled, with the steps of its first and last letter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SpelledWord {
    pub(super) labels: Vec<usize>,
    pub(super) first_step: u32,
    pub(super) last_step: u32,
}

/// Joins labels to words. Label 0 is the blank.
#[derive(Debug, Default)]
pub(super) struct Greedy {
    space: usize,
    words: Vec<SpelledWord>,
    /// Label of the last step.
    last: usize,
    /// Whether the next letter begins a word.
    between: bool,
    step: u32,
}

impl Greedy {
    pub(super) fn new(space: usize) -> Self {
        Self { space, between: true, ..Self::default() }
    }

    /// Begins a new utterance.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.space);
    }

    /// Takes the likeliest label of the next step.
    pub(super) fn update(&mut self, label: usize) {
        if label == self.space {
            self.between = true;
        } else if label != 0 && label != self.last {
            if self.between {
                let first_step = self.step;
                self.words.push(SpelledWord { first_step, ..SpelledWord::default() });
            }
            self.between = false;
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

/// The place of the highest of `chances`.
pub(super) fn likeliest(chances: &[f32]) -> usize {
    let best = chances.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(label, _)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as digits of labels and their steps; label 9 is the space.
    fn check(labels: &[usize], expected: &[(&[usize], u32, u32)]) {
        let mut greedy = Greedy::new(9);
        labels.iter().for_each(|&label| greedy.update(label));
        let found: Vec<_> = greedy
            .words()
            .iter()
            .map(|word| (&word.labels[..], word.first_step, word.last_step))
            .collect();
        assert_eq!(found, expected, "{labels:?}");
    }

    #[test]
    fn repeated_labels_are_one_unless_a_blank_is_between() {
        check(&[1, 1, 0, 2, 0, 2], &[(&[1, 2, 2], 0, 5)]);
    }

    #[test]
    fn spaces_divide_words_however_many() {
        check(&[9, 0, 9, 1, 9, 9, 0, 9, 1, 9], &[(&[1], 3, 3), (&[1], 8, 8)]);
        check(&[], &[]);
    }

    #[test]
    fn the_highest_chance_is_the_likeliest() {
        assert_eq!(likeliest(&[-3.0, -1.0, -2.0]), 1);
        assert_eq!(likeliest(&[]), 0);
    }
}
