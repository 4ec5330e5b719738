//! The dictionary of a voice: words, their phones, and the names of phones.

use std::{collections::HashMap, fs, path::Path};

use afferent_graph::NodeError;

/// How strongly a phone is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stress {
    None,
    Secondary,
    Primary,
}

/// One phone of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Phone {
    /// Its number for the acoustic model.
    pub(crate) id: i64,
    pub(crate) stress: Stress,
    pub(crate) is_vowel: bool,
}

/// How a word is said, and how before a vowel where that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    phones: Vec<Phone>,
    before_vowel: Option<Vec<Phone>>,
}

/// Words and phones of a voice, from the `lexicon.txt` of its package.
///
/// The first line begins with `phones` and names those of the acoustic model from number 2 on, the
/// second with `columns` and names those of the speller from 1 on, with their stress; then each
/// line has a word, its phones, and its phones before a vowel if they differ. Tabs part the columns
/// of a line, spaces the phones. A phone begins with `'` or `,` where it has the primary or
/// secondary stress of its word.
#[derive(Debug)]
pub(crate) struct Lexicon {
    words: HashMap<String, Entry>,
    columns: Vec<Phone>,
}

/// The number of the silence around a clause; 0 is nothing.
pub(crate) const SILENCE: i64 = 1;

/// First letters of the names of vowels.
const VOWELS: &str = "aeiouAEIOUV3@0";

impl Lexicon {
    /// Reads the dictionary at `path`.
    ///
    /// # Errors
    /// [`NodeError::Model`] when it cannot be read or is not a dictionary.
    pub(crate) fn open(path: &Path) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Self::parse(&text).map_err(failed)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let mut header = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix('\t'));
            line.ok_or_else(|| format!("it has no line of {name}"))
        };
        let names = header("phones")?.split(' ').zip(SILENCE + 1..).collect::<HashMap<_, _>>();
        let columns = phones(&names, header("columns")?)?;
        let mut words = HashMap::new();
        for line in lines {
            let mut columns = line.split('\t');
            let (word, spelled) = columns.next().zip(columns.next()).unwrap_or((line, ""));
            let before_vowel = columns.next().map(|spelled| phones(&names, spelled)).transpose()?;
            words.insert(word.to_owned(), Entry { phones: phones(&names, spelled)?, before_vowel });
        }
        Ok(Self { words, columns })
    }

    /// The phones of a column of the speller's scores; none for column 0.
    pub(crate) fn column(&self, column: usize) -> Option<Phone> {
        self.columns.get(column.checked_sub(1)?).copied()
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.contains_key(word)
    }

    /// The phones of `word`, which stands before the phone `next`.
    pub(crate) fn get(&self, word: &str, next: Option<&Phone>) -> Option<&[Phone]> {
        let entry = self.words.get(word)?;
        let before_vowel = entry.before_vowel.as_ref();
        let before_vowel = before_vowel.filter(|_| next.is_some_and(|next| next.is_vowel));
        Some(before_vowel.unwrap_or(&entry.phones))
    }
}

/// The phones that `text` names.
fn phones(names: &HashMap<&str, i64>, text: &str) -> Result<Vec<Phone>, String> {
    let phone = |written: &str| {
        let (name, stress) = match written.split_at_checked(1) {
            Some(("'", name)) => (name, Stress::Primary),
            Some((",", name)) => (name, Stress::Secondary),
            _ => (written, Stress::None),
        };
        let id = *names.get(name).ok_or_else(|| format!("there is no phone {name:?}"))?;
        Ok(Phone { id, stress, is_vowel: name.starts_with(|first| VOWELS.contains(first)) })
    };
    text.split(' ').filter(|written| !written.is_empty()).map(phone).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn small() -> Lexicon {
        let text = "phones\t@ D I2 a p l\ncolumns\t'a p\nthe\tD @\tD I2\napple\t'a p @ l\n";
        Lexicon::parse(text).unwrap()
    }

    fn ids(phones: &[Phone]) -> Vec<i64> {
        phones.iter().map(|phone| phone.id).collect()
    }

    #[test]
    fn a_word_may_sound_otherwise_before_a_vowel() {
        let lexicon = small();
        let apple = lexicon.get("apple", None).unwrap();
        assert_eq!(ids(apple), [5, 6, 2, 7]);
        assert_eq!(apple[0].stress, Stress::Primary);
        assert_eq!(ids(lexicon.get("the", None).unwrap()), [3, 2]);
        assert_eq!(ids(lexicon.get("the", apple.first()).unwrap()), [3, 4]);
        assert_eq!(ids(lexicon.get("the", apple.get(1)).unwrap()), [3, 2]);
        assert!(!lexicon.has("pear"));
        assert_eq!(lexicon.column(0), None);
        assert_eq!(lexicon.column(1).map(|phone| phone.id), Some(5));
    }

    #[test]
    fn broken_dictionaries_say_what_is_wrong() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Lexicon::parse(text).unwrap_err(), expected, "{text:?}");
        };
        check("", "it has no line of phones");
        check("phones\ta\nword\ta", "it has no line of columns");
        check("phones\ta\ncolumns\ta\nword\tb", "there is no phone \"b\"");
    }
}
