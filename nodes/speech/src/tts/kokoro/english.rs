//! Phonemes of English words, from the dictionary of a voice of this project.

use std::collections::HashMap;

use super::{
    espeak::Espeak,
    phonemizer::{PhonemeWord, Phonemizer},
};
use crate::tts::{
    normalize::{self, ClauseEnd, Language},
    own::lexicon::{Lexicon, Phoneme, Stress},
    sentences::{self, WrittenWord},
};

/// Symbols of the phonemes of the dictionary, which have the names of espeak-ng.
#[rustfmt::skip] // as a table
const SYMBOLS: &[(&str, &str)] = &[
    ("0", "ɑ"), ("3", "əɹ"), ("3:", "ɜɹ"), ("?", "t"), ("@", "ə"), ("@-", "ə"), ("@2", "ə"),
    ("@L", "ᵊl"), ("A:", "ɑ"), ("A@", "ɑɹ"), ("D", "ð"), ("E", "ɛ"), ("I", "ɪ"), ("I#", "ᵻ"),
    ("I2", "i"), ("N", "ŋ"), ("O", "ɔ"), ("O2", "ɔ"), ("O:", "ɔ"), ("O@", "ɔɹ"), ("OI", "Y"),
    ("S", "ʃ"), ("T", "θ"), ("U", "ʊ"), ("U@", "ʊɹ"), ("V", "ʌ"), ("Z", "ʒ"), ("a", "æ"),
    ("a#", "ə"), ("aI", "I"), ("aI3", "Iəɹ"), ("aI@", "Iə"), ("aU", "W"), ("aa", "æ"), ("b", "b"),
    ("d", "d"), ("dZ", "ʤ"), ("e@", "ɛɹ"), ("eI", "A"), ("f", "f"), ("g", "ɡ"), ("h", "h"),
    ("i", "i"), ("i:", "i"), ("i@", "iə"), ("i@3", "ɪɹ"), ("j", "j"), ("k", "k"), ("l", "l"),
    ("m", "m"), ("n", "n"), ("n-", "ᵊn"), ("o@", "ɔɹ"), ("oU", "O"), ("p", "p"), ("r", "ɹ"),
    ("r-", "ɹ"), ("s", "s"), ("t", "t"), ("t#", "T"), ("t2", "t"), ("tS", "ʧ"), ("u:", "u"),
    ("v", "v"), ("w", "w"), ("z", "z"),
];

/// Converter by the dictionary. Unknown words go through espeak-ng, or else are spelled letter by letter.
#[derive(Debug)]
pub(super) struct English {
    lexicon: Lexicon,
    symbols: HashMap<&'static str, &'static str>,
    espeak: Option<Espeak>,
}

impl English {
    /// `espeak` converts the words that the dictionary lacks.
    pub(super) fn new(lexicon: Lexicon, espeak: Option<Espeak>) -> Self {
        Self { lexicon, symbols: SYMBOLS.iter().copied().collect(), espeak }
    }

    /// Symbols of phonemes.
    fn symbols(&self, phonemes: &[Phoneme]) -> String {
        let mut text = String::new();
        for phoneme in phonemes {
            text.push_str(match phoneme.stress {
                Stress::Primary => "ˈ",
                Stress::Secondary => "ˌ",
                Stress::None => "",
            });
            let name = self.lexicon.name(phoneme);
            text.push_str(name.and_then(|name| self.symbols.get(name)).copied().unwrap_or(""));
        }
        text
    }

    /// Symbols of a word that is not in the dictionary.
    fn spell(&self, word: &str) -> Result<String, String> {
        if let Some(espeak) = &self.espeak {
            return Ok(espeak.symbols(word)?.concat());
        }
        let mut buffer = [0; 4];
        let letters = word.chars().map(|letter| {
            let phonemes = self.lexicon.get(letter.encode_utf8(&mut buffer), None);
            phonemes.map(|phonemes| self.symbols(phonemes))
        });
        let spelled: Option<String> = letters.collect();
        if spelled.is_none() {
            tracing::warn!(
                "tts: {word:?} is not in lexicon.txt, and espeak-ng, which would know it, is not installed"
            );
        }
        Ok(spelled.unwrap_or_default())
    }
}

impl Phonemizer for English {
    fn phonemize(&mut self, sentence: &[WrittenWord<'_>]) -> Result<Vec<PhonemeWord>, String> {
        let first = sentence.first().map_or(1, |word| word.number);
        let text = sentences::join(sentence);
        let mut found = Vec::new();
        for clause in
            normalize::clauses(&text, Language::English, |word| self.lexicon.contains(word))
        {
            let mut words: Vec<PhonemeWord> = Vec::new();
            let mut next: Option<Phoneme> = None;
            for (word, written) in clause.words.iter().zip(&clause.written).rev() {
                let known = self.lexicon.get(word, next.as_ref());
                let phonemes = match known {
                    Some(known) => self.symbols(known),
                    None => self.spell(word)?,
                };
                next = known.and_then(|known| known.first()).copied();
                let (text, written) = (word.clone(), written + first - 1);
                words.push(PhonemeWord { text, written, phonemes, mark: None });
            }
            words.retain(|word| !word.phonemes.is_empty());
            words.reverse();
            if let Some(last) = words.last_mut() {
                last.mark = Some(match clause.end {
                    ClauseEnd::Statement => '.',
                    ClauseEnd::Comma => ',',
                    ClauseEnd::Question => '?',
                    ClauseEnd::Exclamation => '!',
                });
            }
            found.extend(words);
        }
        Ok(found)
    }

    fn unspeakable(&self, text: &str) -> Vec<String> {
        normalize::unspeakable(text).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The dictionary of the shipped voice.
    fn english() -> English {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/models/tts/lexicon.txt");
        English::new(Lexicon::open(&path).unwrap(), None)
    }

    #[test]
    fn all_phonemes_of_the_dictionary_have_symbols() {
        let english = english();
        for id in 2.. {
            let phoneme = Phoneme { id, stress: Stress::None, is_vowel: false };
            let Some(name) = english.lexicon.name(&phoneme) else {
                assert!(id > 60, "{id}");
                break;
            };
            let symbols = english.symbols(&[phoneme]);
            let is_known = |symbol| crate::tts::kokoro::symbols::id(symbol).is_some();
            assert!(!symbols.is_empty() && symbols.chars().all(is_known), "{name}: {symbols}");
        }
    }

    #[test]
    fn words_have_phonemes_marks_and_positions() {
        let mut english = english();
        let words = sentences::sentences("Skipped. Yes, at 7:30 the actor is able");
        let found = english.phonemize(&words[1]).unwrap();
        let found: Vec<(&str, &str, u32, Option<char>)> = found
            .iter()
            .map(|word| (&*word.text, &*word.phonemes, word.written, word.mark))
            .collect();
        assert_eq!(found[0], ("yes", "jˈɛs", 2, Some(',')));
        assert_eq!((found[2].0, found[2].2, found[3].0, found[3].2), ("seven", 4, "thirty", 4));
        assert_eq!(found.last(), Some(&("able", "ˈAbᵊl", 8, Some('.'))));
        assert!(found.contains(&("actor", "ˈæktəɹ", 6, None)), "{found:?}");
    }
}
