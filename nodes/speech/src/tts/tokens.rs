//! What the acoustic model reads of a clause: its phones, and what is known of each.

use super::{
    lexicon::{Phone, SILENCE, Stress},
    normalise::Mark,
};

/// Numbers about each token.
pub(crate) const FEATURES: usize = 14;
/// Distances are counted in this many phones or stresses, up to four times that.
const SPAN: f32 = 8.0;
const FARTHEST: f32 = 4.0;

/// The tokens of a clause: silence, its phones, silence.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// The phone of each.
    pub(crate) ids: Vec<i64>,
    /// `FEATURES` numbers of each: whether it has the primary or the secondary stress, begins or
    /// ends a word; phones since the begin and until the end of the clause; primary stresses before
    /// and from here on; whether it is the last of them or behind it; and the mark of the clause.
    pub(crate) features: Vec<f32>,
    /// The word of each, counted from one; silences are words of their own.
    pub(crate) words: Vec<usize>,
}

impl Tokens {
    /// The tokens of a clause of these words.
    pub(crate) fn new(spelled: &[Vec<Phone>], mark: Mark) -> Self {
        let silence = Phone { id: SILENCE, stress: Stress::None, is_vowel: false };
        let inner = spelled.iter().zip(1..);
        let inner = inner.flat_map(|(word, number)| word.iter().map(move |phone| (*phone, number)));
        let all: Vec<(Phone, usize)> = std::iter::once((silence, 0))
            .chain(inner)
            .chain(std::iter::once((silence, spelled.len() + 1)))
            .collect();
        let mut tokens = Self::default();
        let stressed = |phone: &Phone| phone.stress == Stress::Primary;
        let nucleus = all.iter().rposition(|(phone, _)| stressed(phone)).unwrap_or(all.len());
        let total = all.iter().filter(|(phone, _)| stressed(phone)).count();
        let mut before = 0;
        for (at, (phone, word)) in all.iter().enumerate() {
            tokens.ids.push(phone.id);
            tokens.words.push(*word);
            let begins = at == 0 || all[at - 1].1 != *word;
            let ends = all.get(at + 1).is_none_or(|(_, next)| next != word);
            tokens.features.extend([
                flag(phone.stress == Stress::Primary),
                flag(phone.stress == Stress::Secondary),
                flag(begins),
                flag(ends),
                distance(at),
                distance(all.len() - 1 - at),
                distance(before),
                distance(total - before),
                flag(at == nucleus),
                flag(at > nucleus),
            ]);
            let marks = [Mark::Stop, Mark::Comma, Mark::Question, Mark::Exclamation];
            tokens.features.extend(marks.map(|each| flag(each == mark)));
            before += usize::from(stressed(phone));
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
    (count as f32 / SPAN).min(FARTHEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tts::lexicon::tests::small;

    #[test]
    fn tokens_know_their_place() {
        let lexicon = small();
        let apple = lexicon.get("apple", None).unwrap().to_vec();
        let the = lexicon.get("the", apple.first()).unwrap().to_vec();
        let tokens = Tokens::new(&[the, apple], Mark::Question);
        assert_eq!(tokens.ids, [1, 3, 4, 5, 6, 2, 7, 1]);
        assert_eq!(tokens.words, [0, 1, 1, 2, 2, 2, 2, 3]);
        let row = |at: usize| &tokens.features[at * FEATURES..(at + 1) * FEATURES];
        let question = [0.0, 0.0, 1.0, 0.0];
        let expected = [0.0, 0.0, 1.0, 1.0, 0.0, 0.875, 0.0, 0.125, 0.0, 0.0];
        assert_eq!(row(0), [&expected[..], &question].concat());
        let expected = [1.0, 0.0, 1.0, 0.0, 0.375, 0.5, 0.0, 0.125, 1.0, 0.0];
        assert_eq!(row(3), [&expected[..], &question].concat());
        let expected = [0.0, 0.0, 0.0, 1.0, 0.75, 0.125, 0.125, 0.0, 0.0, 1.0];
        assert_eq!(row(6), [&expected[..], &question].concat());
    }
}
