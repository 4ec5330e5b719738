//! Conversion of text to the symbols of Kokoro.

use afferent_graph::{NodeError, choices};

use super::{english::English, espeak::Espeak};
use crate::{
    programs::Programs,
    tts::{own::lexicon::Lexicon, sentences::WrittenWord},
};

choices! {
    /// Source of phonemes.
    pub enum TtsPhonemizer {
        /// The dictionary of the package for American English, if there is one; otherwise espeak-ng.
        Auto = "auto",
        /// The program espeak-ng.
        Espeak = "espeak",
        /// The dictionary `lexicon.txt` of the package, for English.
        Own = "own",
    }
}

/// A word with its phonemes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PhonemeWord {
    pub(super) text: String,
    /// Position of the written word in the text, counted from one.
    pub(super) written: u32,
    /// Symbols of the word.
    pub(super) phonemes: String,
    /// Punctuation mark after the word, which is a symbol of its own.
    pub(super) mark: Option<char>,
}

/// Converter of words to symbols.
pub(super) trait Phonemizer: Send {
    /// Words of a sentence with their phonemes.
    ///
    /// # Errors
    /// The reason.
    fn phonemize(&mut self, sentence: &[WrittenWord<'_>]) -> Result<Vec<PhonemeWord>, String>;

    /// Words of `text` that cannot be spoken.
    fn unspeakable(&self, text: &str) -> Vec<String>;
}

/// Opens the phonemizer for a language, such as `en`.
///
/// # Errors
/// [`NodeError::Model`] and [`NodeError::InvalidParam`].
pub(super) fn open(
    programs: &Programs,
    choice: TtsPhonemizer,
    language: &str,
) -> Result<Box<dyn Phonemizer>, NodeError> {
    let lexicon = programs.package.companion("lexicon.txt");
    let is_english = language == "en" || language.starts_with("en-");
    let invalid = |reason: String| NodeError::InvalidParam { name: "phonemizer".into(), reason };
    if choice == TtsPhonemizer::Own && !is_english {
        return Err(invalid(format!("own knows English only, and the language is {language}")));
    }
    if choice == TtsPhonemizer::Own && lexicon.is_none() {
        return Err(invalid("own needs a lexicon.txt in the folder of the model".to_owned()));
    }
    let espeak = Espeak::open(language);
    // The dictionary is American.
    let is_american = matches!(language, "en" | "en-us");
    let prefers_own = match choice {
        TtsPhonemizer::Own => true,
        TtsPhonemizer::Espeak => false,
        TtsPhonemizer::Auto => is_american || is_english && espeak.is_err(),
    };
    match lexicon.filter(|_| prefers_own) {
        Some(path) => Ok(Box::new(English::new(Lexicon::open(&path)?, espeak.ok()))),
        None => Ok(Box::new(espeak.map_err(|reason| programs.error(reason))?)),
    }
}
