//! Input tokens of the acoustic model: phonemes of a clause with their features.

use super::lexicon::{Phoneme, SILENCE, Stress};
use crate::tts::normalize::ClauseEnd;

/// Features per token.
pub(crate) const TOKEN_FEATURES: usize = 14;
/// Unit of distance features, in phonemes or stresses.
const DISTANCE_UNIT: f32 = 8.0;
/// Greatest distance feature.
const MAX_DISTANCE: f32 = 4.0;

/// Tokens of a clause: silence, its phonemes, silence.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// Phoneme id of each token.
    pub(crate) ids: Vec<i64>,
    /// [`TOKEN_FEATURES`] numbers per token: flags for primary stress, secondary stress, word
    /// start, and word end; distances from the start and to the end of the clause; primary stresses
    /// before, and from here on; flags for the last primary stress and for a position after it;
    /// one-hot clause end.
    pub(crate) features: Vec<f32>,
    /// Word of each token, counted from one; silences are words of their own.
    pub(crate) words: Vec<usize>,
}

impl Tokens {
    /// Tokens of a clause with the phonemes of each word.
    pub(crate) fn new(words: &[Vec<Phoneme>], end: ClauseEnd) -> Self {
        let silence = Phoneme { id: SILENCE, stress: Stress::None, is_vowel: false };
        let inner = words.iter().zip(1..);
        let inner =
            inner.flat_map(|(word, number)| word.iter().map(move |phoneme| (*phoneme, number)));
        let all: Vec<(Phoneme, usize)> = std::iter::once((silence, 0))
            .chain(inner)
            .chain(std::iter::once((silence, words.len() + 1)))
            .collect();
        let mut tokens = Self::default();
        let is_stressed = |phoneme: &Phoneme| phoneme.stress == Stress::Primary;
        let nucleus =
            all.iter().rposition(|(phoneme, _)| is_stressed(phoneme)).unwrap_or(all.len());
        let total = all.iter().filter(|(phoneme, _)| is_stressed(phoneme)).count();
        let mut before = 0;
        for (at, (phoneme, word)) in all.iter().enumerate() {
            tokens.ids.push(phoneme.id);
            tokens.words.push(*word);
            let is_start = at == 0 || all[at - 1].1 != *word;
            let is_end = all.get(at + 1).is_none_or(|(_, next)| next != word);
            tokens.features.extend([
                flag(phoneme.stress == Stress::Primary),
                flag(phoneme.stress == Stress::Secondary),
                flag(is_start),
                flag(is_end),
                distance(at),
                distance(all.len() - 1 - at),
                distance(before),
                distance(total - before),
                flag(at == nucleus),
                flag(at > nucleus),
            ]);
            let ends = [
                ClauseEnd::Statement,
                ClauseEnd::Comma,
                ClauseEnd::Question,
                ClauseEnd::Exclamation,
            ];
            tokens.features.extend(ends.map(|each| flag(each == end)));
            before += usize::from(is_stressed(phoneme));
        }
        tokens
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}

fn flag(value: bool) -> f32 {
    if value { 1.0 } else { 0.0 }
}

fn distance(count: usize) -> f32 {
    (count as f32 / DISTANCE_UNIT).min(MAX_DISTANCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tts::own::lexicon::tests::small;

    #[test]
    fn token_features_describe_stress_and_position() {
        let lexicon = small();
        let apple = lexicon.get("apple", None).unwrap().to_vec();
        let the = lexicon.get("the", apple.first()).unwrap().to_vec();
        let tokens = Tokens::new(&[the, apple], ClauseEnd::Question);
        assert_eq!(tokens.ids, [1, 3, 4, 5, 6, 2, 7, 1]);
        assert_eq!(tokens.words, [0, 1, 1, 2, 2, 2, 2, 3]);
        let row = |at: usize| &tokens.features[at * TOKEN_FEATURES..(at + 1) * TOKEN_FEATURES];
        let question = [0.0, 0.0, 1.0, 0.0];
        let expected = [0.0, 0.0, 1.0, 1.0, 0.0, 0.875, 0.0, 0.125, 0.0, 0.0];
        assert_eq!(row(0), [&expected[..], &question].concat());
        let expected = [1.0, 0.0, 1.0, 0.0, 0.375, 0.5, 0.0, 0.125, 1.0, 0.0];
        assert_eq!(row(3), [&expected[..], &question].concat());
        let expected = [0.0, 0.0, 0.0, 1.0, 0.75, 0.125, 0.125, 0.0, 0.0, 1.0];
        assert_eq!(row(6), [&expected[..], &question].concat());
    }
}
