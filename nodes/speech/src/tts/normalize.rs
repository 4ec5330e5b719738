//! Text normalization: written text to clauses of spoken words.

mod addresses;
mod dates;
mod fractions;
mod letters;
mod phone;
mod spanish;
mod spanish_numbers;
mod tables;
#[cfg(test)]
mod tests;

use std::mem;

use self::tables::{ABBREVIATIONS, SIGNS, UNITS};
use super::{
    money::{self, push_money},
    numbers,
};

/// End of a clause, which determines its intonation and pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClauseEnd {
    /// A statement, or the end of the text.
    Statement,
    /// A comma, a colon, a dash, or a bracket.
    Comma,
    /// A question.
    Question,
    /// An exclamation.
    Exclamation,
}

/// Spoken words of a clause, in lower case, and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// Spoken words, of letters and apostrophes only.
    pub words: Vec<String>,
    /// For each spoken word, the position of its written word in the text, counted from one;
    /// written words are separated by whitespace.
    pub written: Vec<u32>,
    /// End of the clause.
    pub end: ClauseEnd,
}

/// Characters that may surround a word.
const QUOTES: [char; 5] = ['"', '\'', '“', '”', '*'];
/// Length, in words, at which a clause is cut after a written word, so that audio starts soon.
/// Longer written words are cut within.
const MAX_CLAUSE_WORDS: usize = 24;

/// Language of a voice, which determines how numbers and signs are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Spanish,
}

impl Language {
    /// The language with an ISO 639-1 code.
    pub(crate) fn of(code: &str) -> Option<Self> {
        match code {
            "en" => Some(Self::English),
            "es" => Some(Self::Spanish),
            _ => None,
        }
    }
}

/// Splits `text` into clauses. `is_known` is true for words of the dictionary; other words in
/// capitals are spelled letter by letter.
pub(crate) fn clauses(
    text: &str,
    language: Language,
    is_known: impl Fn(&str) -> bool,
) -> Vec<Clause> {
    match language {
        Language::English => english(text, is_known),
        Language::Spanish => spanish::clauses(text, is_known),
    }
}

/// Splits an English text into clauses.
fn english(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<Clause> {
    let mut building = ClauseBuilder::default();
    let mut parts = parts_of(text).into_iter().peekable();
    // True after a month and a day, when a year may follow.
    let mut is_after_day = false;
    while let Some(Part { mut text, mut number, is_digits }) = parts.next() {
        if let Some(next) = parts.next_if(|next| money::belongs(&text, &next.text)) {
            let space = if money::is_code(&text) { "" } else { " " };
            text = format!("{text}{space}{}", next.text);
            number = next.number;
        }
        let lower = text.to_lowercase();
        let next = parts.peek().and_then(|next| next.text.chars().next());
        let is_number =
            |word: &String| numbers::is_cardinal_word(word) || numbers::is_ordinal_word(word);
        let is_by_number = next.is_some_and(|next| next.is_ascii_digit())
            || building.words.last().is_some_and(is_number);
        let month = dates::month(&lower).filter(|_| is_by_number);
        let mut end = clause_end(abbreviation(&lower).map_or(&lower, |(_, rest)| rest));
        if is_digits {
            push_phone_digits(&text, &mut building.words);
        } else if let Some(month) = month {
            building.words.push(month.to_owned());
            end = end.filter(|_| !lower.ends_with('.'));
        } else {
            push_piece(&text, is_after_day, &mut building.words, &is_known);
        }
        is_after_day = dates::ends_with_day(&building.words);
        building.end_piece(number, end);
    }
    building.finish()
}

/// Clauses, and the words of the one that is not complete.
#[derive(Debug, Default)]
struct ClauseBuilder {
    found: Vec<Clause>,
    words: Vec<String>,
    /// Positions of the written words of all `words` but those of the current piece.
    written: Vec<u32>,
}

impl ClauseBuilder {
    /// Ends a piece of the written word `number`, and the clause if `end` is known or it is long.
    fn end_piece(&mut self, number: u32, end: Option<ClauseEnd>) {
        let Self { found, words, written } = self;
        written.resize(words.len(), number);
        while words.len() >= 2 * MAX_CLAUSE_WORDS {
            let rest = (words.split_off(MAX_CLAUSE_WORDS), written.split_off(MAX_CLAUSE_WORDS));
            let (words, written) = (mem::replace(words, rest.0), mem::replace(written, rest.1));
            found.push(Clause { words, written, end: ClauseEnd::Comma });
        }
        if let Some(end) = end.or((words.len() >= MAX_CLAUSE_WORDS).then_some(ClauseEnd::Comma))
            && !words.is_empty()
        {
            let (words, written) = (mem::take(words), mem::take(written));
            found.push(Clause { words, written, end });
        }
    }

    fn finish(mut self) -> Vec<Clause> {
        if !self.words.is_empty() {
            let Self { words, written, .. } = self;
            self.found.push(Clause { words, written, end: ClauseEnd::Statement });
        }
        self.found
    }
}

/// Written words that cannot be spoken, since their script is unknown.
pub(crate) fn unspeakable(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| letters::has_unknown_script(word))
}

/// Part of a text without whitespace.
#[derive(Debug)]
struct Part {
    text: String,
    /// Position of the written word that it belongs to.
    number: u32,
    /// True if it belongs to a telephone number.
    is_digits: bool,
}

/// Parts of a text, with typographic characters replaced and without diacritics.
fn parts_of(text: &str) -> Vec<Part> {
    let pieces: Vec<&str> = text.split_whitespace().collect();
    let (mut parts, mut phone_parts) = (Vec::new(), 0);
    for (at, number) in (0..pieces.len()).zip(1..) {
        if phone_parts == 0 {
            phone_parts = phone::phone_parts(&pieces[at..]);
        }
        if phone_parts > 0 {
            phone_parts -= 1;
            parts.push(Part { text: pieces[at].to_owned(), number, is_digits: true });
            continue;
        }
        let piece = letters::plain_letters(pieces[at]).replace('−', "-");
        let piece = with_ranges(&piece).replace(['—', '–', ';', '…', '(', ')', '[', ']'], ", ");
        let texts = piece.split_whitespace().map(with_leading_zero);
        parts.extend(texts.map(|text| Part { text, number, is_digits: false }));
    }
    parts
}

/// Replaces a dash between numbers by a hyphen.
fn with_ranges(piece: &str) -> String {
    let is_number = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || is_sign(c));
    match piece.split_once('–') {
        Some((from, to)) if is_number(from.chars().next_back()) && is_number(to.chars().next()) => {
            format!("{from}-{to}")
        }
        _ => piece.to_owned(),
    }
}

/// Appends the digits of a part of a telephone number.
fn push_phone_digits(text: &str, words: &mut Vec<String>) {
    if text.starts_with('+') {
        words.push("plus".to_owned());
    }
    numbers::push_digits(text, words);
}

/// Adds the zero that is omitted before a decimal point, as in `-.5` and `$.50`.
fn with_leading_zero(part: &str) -> String {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    match part.split_once('.') {
        Some((before, after))
            if is_digit(after.chars().next()) && !before.ends_with(char::is_alphanumeric) =>
        {
            format!("{before}0.{after}")
        }
        _ => part.to_owned(),
    }
}

/// Clause end at the end of a piece of text, before closing quotes.
fn clause_end(piece: &str) -> Option<ClauseEnd> {
    match piece.trim_end_matches(QUOTES).chars().next_back()? {
        '.' => Some(ClauseEnd::Statement),
        ',' | ':' => Some(ClauseEnd::Comma),
        '?' => Some(ClauseEnd::Question),
        '!' => Some(ClauseEnd::Exclamation),
        _ => None,
    }
}

/// Spoken form of an abbreviation, regardless of surrounding quotes, and the punctuation after it.
fn abbreviation(lower: &str) -> Option<(&'static str, &str)> {
    let inner = lower.trim_start_matches(QUOTES);
    let (name, rest) = inner.split_at(inner.rfind('.')? + 1);
    let spoken = lookup(ABBREVIATIONS, name).filter(|_| !rest.contains(char::is_alphanumeric))?;
    Some((spoken, rest))
}

pub(super) fn lookup(table: &[(&str, &'static str)], key: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| *name == key).map(|(_, spoken)| *spoken)
}

/// Appends the words of a piece without whitespace.
fn push_piece(
    piece: &str,
    is_after_day: bool,
    words: &mut Vec<String>,
    is_known: &impl Fn(&str) -> bool,
) {
    let lower = piece.to_lowercase();
    let spoken = abbreviation(&lower).map(|(spoken, _)| spoken).or_else(|| lookup(SIGNS, &lower));
    if let Some(spoken) = spoken {
        words.extend(spoken.split(' ').map(str::to_owned));
        return;
    }
    let core = piece.trim_matches(|c: char| !(is_word_char(c) || matches!(c, '-' | '+')));
    if addresses::is_address(core) {
        let push = |run: &str, words: &mut Vec<String>| push_word(run, true, words, is_known);
        addresses::push_address(core, words, push);
        return;
    }
    if push_joined(core, words, is_known) {
        return;
    }
    let sign = piece.chars().next().filter(|c| matches!(c, '±' | '≈' | '@'));
    if let Some(spoken) = sign.and_then(|sign| lookup(SIGNS, sign.encode_utf8(&mut [0; 4]))) {
        words.extend(spoken.split(' ').map(str::to_owned));
    }
    if piece.trim_start_matches(QUOTES).starts_with('#')
        && core.starts_with(|c: char| c.is_ascii_digit())
    {
        words.push("number".to_owned());
    }
    let is_read_by_digits = core.bytes().all(|byte| byte.is_ascii_digit())
        && words.iter().rev().take(2).any(|word| phone::precedes_digits(word));
    if is_read_by_digits {
        numbers::push_digits(core, words);
        return;
    }
    if dates::push_day_or_year(core, words, is_after_day)
        || push_numeric(core, words, is_known)
        || push_range(core, words, is_known)
        || push_unit(core, words)
    {
        return;
    }
    for part in separate_parts(core).split(' ') {
        let has_digits = part.contains(|c: char| c.is_ascii_digit());
        if !push_numeric(part, words, is_known) {
            if has_digits {
                push_mixed(part, words, is_known);
            } else {
                push_plain(part, words, is_known);
            }
        }
    }
    let is_name = core.starts_with(char::is_alphanumeric);
    let plus = core.chars().rev().take_while(|c| is_name && *c == '+');
    words.extend(plus.map(|_| "plus".to_owned()));
}

/// Appends words that ampersands join, such as `R&D`. Returns false if `core` has fewer than two.
fn push_joined(core: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) -> bool {
    let parts = || core.split('&').filter(|part| part.contains(is_word_char));
    let is_joined = parts().nth(1).is_some();
    for (at, part) in parts().enumerate().filter(|_| is_joined) {
        if at > 0 {
            words.push("and".to_owned());
        }
        push_piece(part, false, words, is_known);
    }
    is_joined
}

/// Appends a range of numbers, such as `10-20`. Returns false if `core` is not one.
fn push_range(core: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) -> bool {
    let at = core.char_indices().skip(1).find(|(_, c)| *c == '-').map(|(at, _)| at);
    let Some((from, to)) = at.map(|at| (&core[..at], &core[at + 1..])) else { return false };
    let is_bound = |text: &str| {
        let text = text.strip_prefix('-').unwrap_or(text);
        text.contains(|c: char| c.is_ascii_digit())
            && text
                .chars()
                .all(|c| c.is_ascii_digit() || is_sign(c) || matches!(c, '.' | ',' | ':'))
    };
    if !is_bound(from) || !is_bound(to) {
        return false;
    }
    let len = words.len();
    if push_numeric(from, words, is_known) {
        words.push("to".to_owned());
        if push_numeric(to, words, is_known) {
            return true;
        }
    }
    words.truncate(len);
    false
}

/// True for signs that belong to a number.
fn is_sign(c: char) -> bool {
    matches!(c, '%' | '°' | '‰') || money::is_sign(c)
}

/// True if the character belongs to a word or a number in any position.
pub(super) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || is_sign(c)
}

/// Separates words and numbers by spaces. A point, a comma, or a colon between digits belongs to a
/// number.
fn separate_parts(core: &str) -> String {
    let is_digit = |at: usize| core.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_kept = |at: usize, c: char| match c {
        '\'' => true,
        '.' | ',' | ':' => at > 0 && is_digit(at - 1) && is_digit(at + 1),
        c => is_word_char(c),
    };
    core.char_indices().map(|(at, c)| if is_kept(at, c) { c } else { ' ' }).collect()
}

/// Appends a word, or a unit after a number.
fn push_plain(part: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    if !push_unit(part, words) {
        push_word(part, false, words, is_known);
    }
}

/// Appends a unit after a number. Returns false if `part` is not one.
fn push_unit(part: &str, words: &mut Vec<String>) -> bool {
    let lower = part.to_lowercase();
    // Elsewhere, units are ordinary words: "am" is a verb.
    let is_after_number = words.last().is_some_and(|word| numbers::is_number_word(word));
    let known = lookup(UNITS, &lower).or_else(|| money::currency_name(&lower));
    let known = known.filter(|_| is_after_number || lower == "pm");
    known.inspect(|unit| push_unit_name(unit, words)).is_some()
}

/// Appends the name of a unit, in the singular after "one".
fn push_unit_name(unit: &str, words: &mut Vec<String>) {
    let is_one = match words.as_slice() {
        [.., before, last] => {
            last == "one" && !numbers::is_number_word(before) && before != "point"
        }
        [last] => last == "one",
        [] => false,
    };
    // "square meters", "kilometers per hour": the first plural.
    let plural = unit.split(' ').position(|word| word.ends_with('s')).filter(|_| is_one);
    for (at, word) in unit.split(' ').enumerate() {
        let singular = if plural == Some(at) { word.trim_end_matches('s') } else { word };
        words.push(singular.to_owned());
    }
}

/// Appends the words and numbers of a part that contains both.
fn push_mixed(part: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    let is_numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | ':');
    let mut rest = part;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_numeric(c) != is_numeric(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if !is_numeric(first) {
            push_word(run, true, words, is_known);
        } else if !(numbers::push_time(run, words) || numbers::push_number(run, words)) {
            for digits in run.split(|c: char| !c.is_ascii_digit()) {
                numbers::push_number(digits, words);
            }
        }
    }
}

/// Appends a word. An unknown word is spelled if it is in capitals, or if it adjoins a number and
/// has no vowel.
fn push_word(
    part: &str,
    adjoins_number: bool,
    words: &mut Vec<String>,
    is_known: &impl Fn(&str) -> bool,
) {
    let is_letter = |c: &char| c.is_ascii_lowercase() || *c == '\'';
    let letters: String = part.to_lowercase().chars().filter(is_letter).collect();
    let letters = letters.trim_matches('\'');
    let capitals = part.len() > 1 && part.chars().all(char::is_uppercase);
    let is_unpronounceable = adjoins_number && !letters.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    if (capitals || is_unpronounceable) && !is_known(letters) {
        words.extend(letters.chars().filter(|c| *c != '\'').map(String::from));
    } else if !letters.is_empty() {
        words.push(letters.to_owned());
    }
    let powers = part.chars().filter_map(|c| match c {
        '²' => Some("squared"),
        '³' => Some("cubed"),
        _ => None,
    });
    words.extend(powers.map(str::to_owned));
}

/// Appends a number with a currency, a unit, or a suffix. Returns false if `text` is not one.
fn push_numeric(text: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) -> bool {
    if numbers::push_time(text, words)
        || dates::push_date(text, words)
        || fractions::push_fraction(text, words)
        || addresses::push_dotted_numbers(text, words)
        || numbers::push_number(text, words)
        || push_money(text, words)
    {
        return true;
    }
    if text.strip_suffix('%').is_some_and(|value| fractions::push_fraction(value, words)) {
        words.push("percent".to_owned());
        return true;
    }
    let (value, unit) = split_after_digits(text);
    let lower = unit.to_lowercase();
    if matches!(lower.as_str(), "st" | "nd" | "rd" | "th") {
        return numbers::push_ordinal(value, words);
    }
    if let ("s" | "'s", Some(year)) = (lower.as_str(), decade(value, words)) {
        numbers::push_decade(year, words);
        return true;
    }
    let known = lookup(UNITS, &lower);
    if known.is_none() && (unit.is_empty() || !unit.chars().all(char::is_alphabetic)) {
        return false;
    }
    if !(numbers::push_time(value, words) || numbers::push_number(value, words)) {
        return false;
    }
    match known {
        Some(unit) => push_unit_name(unit, words),
        None => push_word(unit, true, words, is_known),
    }
    true
}

/// Splits `text` after its last digit.
pub(super) fn split_after_digits(text: &str) -> (&str, &str) {
    text.split_at(text.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1))
}

/// First year of a decade: `1990`, or `90` after "the". Any other number with an `s` is in seconds.
fn decade(value: &str, words: &[String]) -> Option<u64> {
    let year = value.parse().ok().filter(|year| year % 10 == 0)?;
    let is_short = words.last().is_some_and(|word| word == "the") && (20..100).contains(&year);
    (is_short || (1500..2100).contains(&year)).then_some(year)
}
