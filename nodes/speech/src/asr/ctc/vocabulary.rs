//! Vocabulary of a search: the words of the language model, and hot words.

use super::{
    language_model::{EMPTY, LanguageModel},
    lexicon::{Lexicon, spell},
    word_sequences::WordSequences,
};

/// Words, their spelling, and their probabilities.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pub(super) language_model: LanguageModel,
    pub(super) lexicon: Lexicon,
    /// Text of each word, by its id.
    texts: Vec<String>,
    hot_phrases: Vec<HotPhrase>,
}

/// An expected phrase.
#[derive(Debug)]
struct HotPhrase {
    /// Words of the phrase, the last one first.
    words: Vec<u32>,
    bonus: f32,
}

impl Vocabulary {
    /// The words of `language_model` that `labels` can spell.
    pub(super) fn new(language_model: LanguageModel, labels: &[String]) -> Self {
        let mut lexicon = Lexicon::new();
        // Markers such as `</s>` have ids, but no texts.
        let mut texts = vec![String::new(); language_model.word_count()];
        for (id, word) in language_model.words() {
            word.clone_into(&mut texts[id as usize]);
            if let Some(spelling) = spell(word, labels) {
                lexicon.add(id, &spelling, language_model.score(EMPTY, id).0);
            }
        }
        Self { language_model, lexicon, texts, hot_phrases: Vec::new() }
    }

    /// Adds a hot phrase, which adds `bonus` per word to hypotheses that contain it. Unknown words
    /// are added to the vocabulary.
    ///
    /// # Errors
    /// A word that `labels` cannot spell.
    pub(super) fn add_hot_phrase(
        &mut self,
        phrase: &str,
        labels: &[String],
        bonus: f32,
    ) -> Result<(), String> {
        let mut words = Vec::new();
        for text in phrase.split_whitespace() {
            let spelling = spell(text, labels);
            let spelling = spelling.ok_or_else(|| format!("the model cannot spell {text:?}"))?;
            let known = self.texts.iter().position(|known| known == text);
            let id = u32::try_from(known.unwrap_or(self.texts.len())).unwrap_or(u32::MAX);
            if known.is_none() {
                self.texts.push(text.to_owned());
            }
            // The lookahead includes the bonus from the first letter on.
            self.lexicon.add(id, &spelling, self.language_model.score(EMPTY, id).0 + bonus);
            words.push(id);
        }
        words.reverse();
        let bonus = bonus * words.len() as f32;
        self.hot_phrases.push(HotPhrase { words, bonus });
        Ok(())
    }

    /// Total bonus of the hot phrases at the end of `sequence`.
    pub(super) fn hot_bonus(&self, sequences: &WordSequences, sequence: u32) -> f32 {
        let is_at_end = |phrase: &&HotPhrase| {
            let mut heard = sequences.backwards(sequence);
            phrase.words.iter().all(|&word| heard.next().is_some_and(|heard| heard.word == word))
        };
        self.hot_phrases.iter().filter(is_at_end).map(|phrase| phrase.bonus).sum()
    }

    /// Text of a word.
    pub(super) fn text(&self, word: u32) -> &str {
        self.texts.get(word as usize).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_word_does_not_reuse_the_id_of_a_marker() {
        let language_model = LanguageModel::parse("\\1-grams:\n-1 a\n-1 </s>\n-1 <unk>\n").unwrap();
        let labels = ["", " ", "a", "b"].map(str::to_owned);
        let mut vocabulary = Vocabulary::new(language_model, &labels);
        vocabulary.add_hot_phrase("a b", &labels, 1.0).unwrap();
        assert_eq!(vocabulary.texts, ["a", "", "", "b"]);
        assert_eq!(vocabulary.hot_phrases[0].words, [3, 0]);
    }
}
