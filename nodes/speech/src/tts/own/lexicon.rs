//! Pronunciation dictionary of a voice.

use std::{collections::HashMap, fs, path::Path};

use afferent_graph::NodeError;

/// Lexical stress of a phoneme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stress {
    None,
    Secondary,
    Primary,
}

/// One phoneme of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Phoneme {
    /// Id in the acoustic model.
    pub(crate) id: i64,
    pub(crate) stress: Stress,
    pub(crate) is_vowel: bool,
}

/// Pronunciation of a word, and the one before a vowel if it differs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    phonemes: Vec<Phoneme>,
    before_vowel: Option<Vec<Phoneme>>,
}

/// Words and phonemes of a voice, from the `lexicon.txt` of its package.
///
/// The first line begins with `letters` and has those of the grapheme-to-phoneme model, from id 1 on. The
/// second line begins with `phones` and names the phonemes of the acoustic model from id 2 on. The
/// third line begins with `columns` and names the phonemes of the grapheme-to-phoneme model from
/// column 1 on, with stress. Each further line has a word, its phonemes, and its phonemes
/// before a vowel if they differ. Tabs separate the columns of a line, spaces the phonemes. A
/// phoneme begins with `'` or `,` if it has the primary or secondary stress of its word.
#[derive(Debug)]
pub(crate) struct Lexicon {
    words: HashMap<String, Entry>,
    letters: String,
    columns: Vec<Phoneme>,
    /// Names of the phonemes, from that of id 2 on.
    names: Vec<String>,
}

/// Phoneme id of the silence around a clause; 0 is padding.
pub(crate) const SILENCE: i64 = 1;

/// First characters of vowel names.
const VOWELS: &str = "aeiouAEIOUV3@0";

impl Lexicon {
    /// Reads the dictionary at `path`.
    ///
    /// # Errors
    /// [`NodeError::Model`] if it cannot be read or is not a dictionary.
    pub(crate) fn open(path: &Path) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Self::parse(&text).map_err(failed)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let mut header = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix('\t'));
            line.ok_or_else(|| format!("line {name:?} is missing"))
        };
        let letters = header("letters")?.to_owned();
        let all = header("phones")?;
        let names = all.split(' ').zip(SILENCE + 1..).collect::<HashMap<_, _>>();
        let columns = parse_phonemes(&names, header("columns")?)?;
        let all = all.split(' ').map(str::to_owned).collect();
        let mut words = HashMap::new();
        for line in lines {
            let mut columns = line.split('\t');
            let (word, text) = columns.next().zip(columns.next()).unwrap_or((line, ""));
            let before_vowel =
                columns.next().map(|text| parse_phonemes(&names, text)).transpose()?;
            words.insert(
                word.to_owned(),
                Entry { phonemes: parse_phonemes(&names, text)?, before_vowel },
            );
        }
        Ok(Self { words, letters, columns, names: all })
    }

    /// Id of a letter in the grapheme-to-phoneme model.
    pub(crate) fn letter(&self, letter: char) -> Option<i64> {
        self.letters.chars().zip(1..).find_map(|(known, id)| (known == letter).then_some(id))
    }

    /// Phoneme of an output column of the grapheme-to-phoneme model; `None` for column 0.
    pub(crate) fn column(&self, column: usize) -> Option<Phoneme> {
        self.columns.get(column.checked_sub(1)?).copied()
    }

    /// Name of a phoneme in the dictionary; `None` for the silence.
    pub(crate) fn name(&self, phoneme: &Phoneme) -> Option<&str> {
        let at = usize::try_from(phoneme.id - SILENCE - 1).ok()?;
        self.names.get(at).map(String::as_str)
    }

    pub(crate) fn contains(&self, word: &str) -> bool {
        self.words.contains_key(word)
    }

    /// Phonemes of `word` before the phoneme `next`.
    pub(crate) fn get(&self, word: &str, next: Option<&Phoneme>) -> Option<&[Phoneme]> {
        let entry = self.words.get(word)?;
        let before_vowel = entry.before_vowel.as_ref();
        let before_vowel = before_vowel.filter(|_| next.is_some_and(|next| next.is_vowel));
        Some(before_vowel.unwrap_or(&entry.phonemes))
    }
}

/// Parses phoneme names.
fn parse_phonemes(names: &HashMap<&str, i64>, text: &str) -> Result<Vec<Phoneme>, String> {
    let phoneme = |written: &str| {
        let (name, stress) = match written.split_at_checked(1) {
            Some(("'", name)) => (name, Stress::Primary),
            Some((",", name)) => (name, Stress::Secondary),
            _ => (written, Stress::None),
        };
        let id = *names.get(name).ok_or_else(|| format!("unknown phoneme {name:?}"))?;
        Ok(Phoneme { id, stress, is_vowel: name.starts_with(|first| VOWELS.contains(first)) })
    };
    text.split(' ').filter(|written| !written.is_empty()).map(phoneme).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn small() -> Lexicon {
        let text = "letters\taelpñ\nphones\t@ D I2 a p l\ncolumns\t'a p\nthe\tD @\tD I2\napple\t'a p @ l\n";
        Lexicon::parse(text).unwrap()
    }

    fn ids(phonemes: &[Phoneme]) -> Vec<i64> {
        phonemes.iter().map(|phoneme| phoneme.id).collect()
    }

    #[test]
    fn a_word_may_have_another_pronunciation_before_a_vowel() {
        let lexicon = small();
        let apple = lexicon.get("apple", None).unwrap();
        assert_eq!(ids(apple), [5, 6, 2, 7]);
        assert_eq!(apple[0].stress, Stress::Primary);
        assert_eq!(ids(lexicon.get("the", None).unwrap()), [3, 2]);
        assert_eq!(ids(lexicon.get("the", apple.first()).unwrap()), [3, 4]);
        assert_eq!(ids(lexicon.get("the", apple.get(1)).unwrap()), [3, 2]);
        assert!(!lexicon.contains("pear"));
        assert_eq!(
            ["ñ", "a", "b"].map(|c| lexicon.letter(c.chars().next().unwrap())),
            [Some(5), Some(1), None]
        );
        assert_eq!(lexicon.column(0), None);
        assert_eq!(lexicon.name(&apple[0]), Some("a"));
        assert_eq!(lexicon.column(1).map(|phoneme| phoneme.id), Some(5));
    }

    #[test]
    fn invalid_dictionaries_are_rejected() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Lexicon::parse(text).unwrap_err(), expected, "{text:?}");
        };
        check("", "line \"letters\" is missing");
        check("letters\ta\ncolumns\ta", "line \"phones\" is missing");
        check("letters\ta\nphones\ta\nword\ta", "line \"columns\" is missing");
        check("letters\ta\nphones\ta\ncolumns\ta\nword\tb", "unknown phoneme \"b\"");
    }
}
