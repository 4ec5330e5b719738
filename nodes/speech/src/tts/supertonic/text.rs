//! Text as Supertonic reads it: cleaned, with marks of the language, and as numbers of its letters.

use std::{collections::HashMap, fs, path::Path};

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;

/// Languages of the model by their codes, those of both exporters. `na` stands for an unknown language.
pub(super) const LANGUAGES: &[&str] = &[
    "ar", "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "hi", "hr", "hu", "id", "it",
    "ja", "ko", "lt", "lv", "ms", "na", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "sw",
    "ta", "th", "tl", "tr", "uk", "vi",
];

/// Phrases that are written out.
const PHRASES: [(&str, &str); 3] =
    [("@", " at "), ("e.g.,", "for example, "), ("i.e.,", "that is, ")];
/// Marks that have no space before them.
const TIGHT: [char; 7] = [',', '.', '!', '?', ';', ':', '\''];

/// Cleans `text`: compatibility decomposition (NFKD), plain dashes and quotes, no emoji, single spaces,
/// and a mark at the end.
pub(super) fn clean(text: &str) -> String {
    let mut cleaned = without_end(text);
    if !cleaned.is_empty() && !cleaned.ends_with(is_end_mark) {
        cleaned.push('.');
    }
    cleaned
}

/// Number of letters of `text` when it is cleaned, without a mark at the end.
pub(super) fn cleaned_len(text: &str) -> usize {
    without_end(text).chars().count()
}

/// Cleaned text without a mark at the end.
fn without_end(text: &str) -> String {
    let mut plain: String = text.nfkd().filter(|letter| !is_symbol(*letter)).map(replace).collect();
    for (phrase, spoken) in PHRASES {
        plain = plain.replace(phrase, spoken);
    }
    let mut cleaned = String::new();
    for letter in plain.chars() {
        let last = cleaned.chars().next_back();
        if letter.is_whitespace() {
            if last.is_some_and(|last| last != ' ') {
                cleaned.push(' ');
            }
            continue;
        }
        if last == Some(' ') && TIGHT.contains(&letter) {
            cleaned.pop();
        }
        let is_double = matches!(letter, '"' | '\'') && cleaned.ends_with(letter);
        if !is_double {
            cleaned.push(letter);
        }
    }
    cleaned.truncate(cleaned.trim_end().len());
    cleaned
}

/// True for emoji and other symbols that are left out.
fn is_symbol(letter: char) -> bool {
    matches!(letter,
        '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f300}'..='\u{1f5ff}' | '\u{1f600}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f7ff}' | '\u{1f800}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}'
        | '©' | '\\')
}

/// Plain form of a letter.
fn replace(letter: char) -> char {
    match letter {
        '–' | '‑' | '—' => '-',
        '“' | '”' => '"',
        '‘' | '’' | '´' | '`' => '\'',
        '_' | '[' | ']' | '|' | '/' | '#' | '→' | '←' | '¯' => ' ',
        _ => letter,
    }
}

/// True for a mark that may end a text.
fn is_end_mark(letter: char) -> bool {
    ".!?！？，;:,'\")]}…。」』】〉》›»".contains(letter)
}

/// Numbers of letters, from `unicode_indexer.json`.
#[derive(Debug)]
pub(super) struct Indexer {
    ids: HashMap<u32, i64>,
}

/// Form of the file: a list by code points, or a map.
#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    List(Vec<i64>),
    Map(HashMap<String, i64>),
}

impl Indexer {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn open(path: &Path, letters: Option<usize>) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        Self::parse(&text, letters)
    }

    /// Parses a list or a map of numbers; those below 0 stand for letters that the model does not know.
    /// Numbers must be below `letters`, if it is known.
    fn parse(text: &str, letters: Option<usize>) -> Result<Self, String> {
        let file: File = serde_json::from_str(text).map_err(|_| {
            "expected a list of numbers by code point, or a map from code points to numbers"
                .to_owned()
        })?;
        let entries: Vec<(u32, i64)> = match file {
            File::List(ids) => (0..).zip(ids).collect(),
            File::Map(ids) => {
                let code = |code: String| {
                    code.parse::<u32>().map_err(|_| format!("{code:?} is not a code point"))
                };
                let entries = ids.into_iter().map(|(key, id)| Ok((code(key)?, id)));
                entries.collect::<Result<_, String>>()?
            }
        };
        let limit = letters.and_then(|letters| i64::try_from(letters).ok()).unwrap_or(i64::MAX);
        if let Some((code, id)) = entries.iter().find(|(_, id)| *id >= limit) {
            return Err(format!(
                "code point {code} has the number {id}, but the model has {limit}"
            ));
        }
        Ok(Self { ids: entries.into_iter().filter(|(_, id)| *id >= 0).collect() })
    }

    /// Number of a letter, if the model knows it.
    pub(super) fn id(&self, letter: char) -> Option<i64> {
        self.ids.get(&u32::from(letter)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cleaned() {
        let check = |text: &str, expected: &str| assert_eq!(clean(text), expected, "{text:?}");
        check("Hello  world", "Hello world.");
        check(" café — “yes”", "cafe\u{301} - \"yes\"");
        check("a@b, e.g., x/y # [z] 🙂 !", "a at b, for example, x y z!");
        check("it ' s ‘’fine’’ ?", "it' s'fine'?");
        check("½ ﬁne", "1⁄2 fine.");
        check("한", "\u{1112}\u{1161}\u{11ab}.");
        check("\n🙂 ", "");
    }

    #[test]
    fn numbers_of_letters_are_a_list_or_a_map() {
        for text in ["[-1, 7, 3]", r#"{"1": 7, "2": 3, "0": -1}"#] {
            let indexer = Indexer::parse(text, Some(8)).unwrap();
            let ids = ['\0', '\u{1}', '\u{2}', 'x'].map(|letter| indexer.id(letter));
            assert_eq!(ids, [None, Some(7), Some(3), None], "{text}");
        }
        let check = |text: &str, expected: &str| {
            let reason = Indexer::parse(text, Some(7)).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        };
        check("[0, 7]", "code point 1 has the number 7, but the model has 7");
        check(r#"{"a": 1}"#, "\"a\" is not a code point");
        check("3", "expected a list");
    }
}
