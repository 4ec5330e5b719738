//! Phonemes of the program espeak-ng.

use std::{
    env,
    io::{ErrorKind, Write},
    process::{Command, Stdio},
};

use super::{
    ipa,
    phonemizer::{PhonemeWord, Phonemizer},
};
use crate::tts::sentences::{self, WrittenWord};

/// Name of the program. An environment variable may override it.
const PROGRAM: &str = "espeak-ng";
const VARIABLE: &str = "AFFERENT_ESPEAK";

/// The program, which runs once for each clause.
#[derive(Debug)]
pub(super) struct Espeak {
    program: String,
    /// Voice, such as `en-us`.
    voice: String,
}

impl Espeak {
    /// Checks that the program runs and knows the language, such as `en` or `pt-br`.
    ///
    /// # Errors
    /// The reason, and how to fix it.
    pub(super) fn open(language: &str) -> Result<Self, String> {
        let program = env::var(VARIABLE).unwrap_or_else(|_| PROGRAM.to_owned());
        let voice = match language {
            "en" => "en-us",
            "fr" => "fr-fr",
            "pt" => "pt-br",
            "zh" => "cmn",
            other => other,
        };
        let espeak = Self { program, voice: voice.to_owned() };
        espeak.ipa("a").map(|_| espeak)
    }

    /// Phonemes of `text` in the alphabet of the IPA, words separated by spaces.
    fn ipa(&self, text: &str) -> Result<String, String> {
        let Self { program, voice } = self;
        let child = Command::new(program)
            .args(["-q", "--ipa=3", "-v", voice, "--stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!(
                "the phonemes of this model need the program {program}, which is not installed: install \
                 the package espeak-ng, or set {VARIABLE} to its path; English also works with the \
                 lexicon.txt of a voice of this project in the folder of the model"
            ),
            _ => format!("{program} cannot be started: {error}"),
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A failed write is reported through the output of the program.
            let _ = stdin.write_all(text.as_bytes());
        }
        let output = child.wait_with_output();
        let output = output.map_err(|error| format!("{program} failed: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{program} failed with voice {voice:?}: {}", said.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Symbols of each word of `text`.
    pub(super) fn symbols(&self, text: &str) -> Result<Vec<String>, String> {
        let ipa = self.ipa(text)?;
        let words = ipa.split_whitespace().map(|word| ipa::symbols(word, &self.voice));
        Ok(words.filter(|word| word.chars().any(char::is_alphabetic)).collect())
    }
}

impl Phonemizer for Espeak {
    fn phonemize(&mut self, sentence: &[WrittenWord<'_>]) -> Result<Vec<PhonemeWord>, String> {
        let mut found = Vec::new();
        for (words, mark) in clauses(sentence) {
            let groups = self.symbols(&sentences::join(&words))?;
            found.extend(align(&words, groups));
            if let Some(last) = found.last_mut() {
                last.mark = last.mark.or(mark);
            }
        }
        Ok(found)
    }

    fn unspeakable(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Words without punctuation around them, up to each mark of a pause.
fn clauses<'t>(sentence: &[WrittenWord<'t>]) -> Vec<(Vec<WrittenWord<'t>>, Option<char>)> {
    let (mut found, mut words) = (Vec::new(), Vec::new());
    for word in sentence {
        let is_letter = |c: char| c.is_alphanumeric() || "$€£%+@&#°".contains(c);
        let core = word.text.trim_start_matches(|c| !is_letter(c));
        let inner = core.trim_end_matches(|c| !is_letter(c));
        let mark = core[inner.len()..].chars().find_map(ipa::mark);
        let is_kept = sentences::is_abbreviation(core);
        if !inner.is_empty() {
            // The period of an abbreviation is a part of it.
            words.push(WrittenWord { text: if is_kept { core } else { inner }, ..*word });
        }
        let mark = mark
            .filter(|_| !is_kept)
            .or(core.is_empty().then_some(',').filter(|_| matches!(word.text, "-" | "–" | "—")));
        if mark.is_some() && !words.is_empty() {
            found.push((std::mem::take(&mut words), mark));
        }
    }
    found.extend((!words.is_empty()).then_some((words, None)));
    found
}

/// Assigns groups of phonemes to the words that they were made of: one by one if there are equally many,
/// otherwise by their lengths.
fn align(words: &[WrittenWord<'_>], groups: Vec<String>) -> Vec<PhonemeWord> {
    // A digit is spoken as a word.
    let weight = |letter: char| if letter.is_ascii_digit() { 3 } else { 1 };
    let lens = |all: Vec<usize>| -> Vec<f64> {
        let total = all.iter().sum::<usize>().max(1) as f64;
        let mut before = 0;
        // Middle of each, from 0 to 1.
        let middle = |len: &usize| {
            before += len;
            (before as f64 - *len as f64 / 2.0) / total
        };
        all.iter().map(middle).collect()
    };
    let of_words = lens(words.iter().map(|word| word.text.chars().map(weight).sum()).collect());
    let of_groups = lens(groups.iter().map(|group| group.chars().count()).collect());
    let nearest = |all: &[f64], middle: f64| {
        let distance = |at: &usize| (all[*at] - middle).abs();
        (0..all.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)))
    };
    let is_even = words.len() == groups.len();
    let mut found: Vec<PhonemeWord> = Vec::new();
    for (at, phonemes) in groups.into_iter().enumerate() {
        let word = if is_even { Some(at) } else { nearest(&of_words, of_groups[at]) };
        let Some(word) = word.and_then(|word| words.get(word)) else { continue };
        let (text, written) = (word.text.to_owned(), word.number);
        found.push(PhonemeWord { text, written, phonemes, mark: None });
    }
    if found.len() < words.len() && !found.is_empty() {
        // Several words share the phonemes of one group.
        found.iter_mut().for_each(|word| word.text.clear());
        for (word, middle) in words.iter().zip(of_words) {
            let Some(owner) = nearest(&of_groups, middle) else { continue };
            let PhonemeWord { text, written, .. } = &mut found[owner];
            let space = if text.is_empty() { "" } else { " " };
            *text = format!("{text}{space}{}", word.text);
            *written = word.number;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<WrittenWord<'_>> {
        sentences::sentences(text).concat()
    }

    #[test]
    fn clauses_end_at_marks() {
        let check = |text: &str, expected: &[(&str, Option<char>)]| {
            let found = clauses(&words(text));
            let found: Vec<(String, Option<char>)> =
                found.iter().map(|(words, mark)| (sentences::join(words), *mark)).collect();
            let expected: Vec<_> =
                expected.iter().map(|(text, mark)| ((*text).to_owned(), *mark)).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("“Hello, (it) is” here", &[("Hello", Some(',')), ("it is here", None)]);
        check("Dr. Smith paid $5.", &[("Dr. Smith paid $5", Some('.'))]);
        check("yes — no?!", &[("yes", Some(',')), ("no", Some('?'))]);
        check("... !", &[]);
    }

    #[test]
    fn groups_belong_to_words() {
        let check = |text: &str, groups: &[&str], expected: &[(&str, u32)]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let found = align(&words(text), groups);
            let found: Vec<(&str, u32)> =
                found.iter().map(|word| (word.text.as_str(), word.written)).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("a house", &["ə", "hWs"], &[("a", 1), ("house", 2)]);
        check("it 730", &["ɪt", "sɛvən", "θɜɹTi"], &[("it", 1), ("730", 2), ("730", 2)]);
        check("of the house", &["ʌvðə", "hWs"], &[("of the", 2), ("house", 3)]);
        check("x", &[], &[]);
    }

    #[test]
    fn a_missing_program_is_named() {
        let espeak = Espeak { program: "afferent-no-such-program".into(), voice: "en-us".into() };
        let reason = espeak.ipa("a").unwrap_err();
        assert!(reason.contains("install the package espeak-ng"), "{reason}");
    }

    #[test]
    fn phonemes_are_those_of_the_program() {
        let Ok(mut espeak) = Espeak::open("en") else {
            println!("skipped: espeak-ng is not installed");
            return;
        };
        let found = espeak.phonemize(&words("Hello, Judge!")).unwrap();
        let found: Vec<_> = found.iter().map(|word| (&*word.phonemes, word.mark)).collect();
        assert_eq!(found, [("həlˈO", Some(',')), ("ʤˈʌʤ", Some('!'))]);
        let reason = Espeak::open("xx-none").unwrap_err();
        assert!(reason.contains("failed with voice \"xx-none\""), "{reason}");
    }
}
