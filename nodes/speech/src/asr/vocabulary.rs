//! The words of a search: those of the language model, and hot ones.

use super::{
    language::{EMPTY, Language},
    lexicon::{Lexicon, spelled},
    words::Words,
};

/// Words, how they are spelled, and how likely they are.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pub(super) language: Language,
    pub(super) lexicon: Lexicon,
    /// By their numbers.
    texts: Vec<String>,
    hot: Vec<HotPhrase>,
}

/// A phrase that is expected.
#[derive(Debug)]
struct HotPhrase {
    /// The last first.
    words: Vec<u32>,
    bonus: f32,
}

impl Vocabulary {
    /// The words of `language` that `labels` can spell.
    pub(super) fn new(language: Language, labels: &[String]) -> Self {
        let mut lexicon = Lexicon::new();
        // The marks have numbers, but no texts.
        let mut texts = vec![String::new(); language.count()];
        for (number, word) in language.words() {
            word.clone_into(&mut texts[number as usize]);
            if let Some(spelling) = spelled(word, labels) {
                lexicon.add(number, &spelling, language.next(EMPTY, number).0);
            }
        }
        Self { language, lexicon, texts, hot: Vec::new() }
    }

    /// Expects a phrase: hearing it adds `bonus` for each of its words. Words that are unknown
    /// become known.
    ///
    /// # Errors
    /// The word that cannot be spelled.
    pub(super) fn expect(
        &mut self,
        phrase: &str,
        labels: &[String],
        bonus: f32,
    ) -> Result<(), String> {
        let mut words = Vec::new();
        for text in phrase.split_whitespace() {
            let spelling = spelled(text, labels);
            let spelling = spelling.ok_or_else(|| format!("the model cannot spell {text:?}"))?;
            let known = self.texts.iter().position(|known| known == text);
            let number = u32::try_from(known.unwrap_or(self.texts.len())).unwrap_or(u32::MAX);
            if known.is_none() {
                self.texts.push(text.to_owned());
            }
            // The bonus is looked forward to from the first letter on.
            self.lexicon.add(number, &spelling, self.language.next(EMPTY, number).0 + bonus);
            words.push(number);
        }
        words.reverse();
        let bonus = bonus * words.len() as f32;
        self.hot.push(HotPhrase { words, bonus });
        Ok(())
    }

    /// What the hot phrases that end where `sequence` ends add.
    pub(super) fn bonus(&self, words: &Words, sequence: u32) -> f32 {
        let ends = |phrase: &&HotPhrase| {
            let mut heard = words.backwards(sequence);
            phrase.words.iter().all(|&word| heard.next().is_some_and(|heard| heard.word == word))
        };
        self.hot.iter().filter(ends).map(|phrase| phrase.bonus).sum()
    }

    /// The text of a word.
    pub(super) fn text(&self, word: u32) -> &str {
        self.texts.get(word as usize).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_word_is_no_mark_that_is_listed_last() {
        let language = Language::parse("\\1-grams:\n-1 a\n-1 </s>\n-1 <unk>\n").unwrap();
        let labels = ["", " ", "a", "b"].map(str::to_owned);
        let mut vocabulary = Vocabulary::new(language, &labels);
        vocabulary.expect("a b", &labels, 1.0).unwrap();
        assert_eq!(vocabulary.texts, ["a", "", "", "b"]);
        assert_eq!(vocabulary.hot[0].words, [3, 0]);
    }
}
