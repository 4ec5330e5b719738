//! Text as it is written to clauses of words as they are said.

use std::mem;

use super::numbers;

/// How a clause ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A statement, or where the text ends.
    Stop,
    /// A comma, a colon, a dash, a bracket.
    Comma,
    /// A question.
    Question,
    /// An exclamation.
    Exclamation,
}

/// Words as they are said, in small letters, and how they end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// Letters and apostrophes only.
    pub words: Vec<String>,
    /// Of each word: how many words of the text, as they are written with space between them, are
    /// said with it.
    pub written: Vec<u32>,
    /// Its end.
    pub mark: Mark,
}

const ABBREVIATIONS: &[(&str, &str)] = &[
    ("mr.", "mister"),
    ("mrs.", "missus"),
    ("ms.", "miss"),
    ("dr.", "doctor"),
    ("st.", "saint"),
    ("vs.", "versus"),
    ("etc.", "et cetera"),
    ("e.g.", "for example"),
    ("i.e.", "that is"),
    ("a.m.", "a m"),
    ("p.m.", "p m"),
];
/// Behind a number.
const UNITS: &[(&str, &str)] = &[
    ("%", "percent"),
    ("°c", "degrees celsius"),
    ("°f", "degrees fahrenheit"),
    ("°", "degrees"),
    ("km", "kilometers"),
    ("kg", "kilograms"),
    ("cm", "centimeters"),
    ("mm", "millimeters"),
    ("mph", "miles per hour"),
    ("km/h", "kilometers per hour"),
    ("ml", "milliliters"),
    ("am", "a m"),
    ("pm", "p m"),
    ("min", "minutes"),
    ("h", "hours"),
    ("s", "seconds"),
    ("m", "meters"),
];
const SIGNS: &[(&str, &str)] = &[
    ("&", "and"),
    ("+", "plus"),
    ("=", "equals"),
    ("%", "percent"),
    ("@", "at"),
    ("°", "degrees"),
];
/// A clause longer than this is cut, so that sound starts soon.
const LONGEST_CLAUSE: usize = 24;

/// Splits `text` into clauses. `is_known` says which words the dictionary has: capitals that it does
/// not have are said letter by letter.
pub(crate) fn clauses(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<Clause> {
    let (mut found, mut words, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for (piece, number) in text.split_whitespace().zip(1..) {
        let piece = piece.replace(['’', '‘'], "'");
        let piece = piece.replace(['—', '–', ';', '…', '(', ')', '[', ']'], ", ");
        for part in piece.split_whitespace() {
            let lower = part.to_lowercase();
            let mark = if abbreviation(&lower).is_some() { None } else { mark(&lower) };
            say(part, &mut words, &is_known);
            written.resize(words.len(), number);
            if let Some(mark) = mark.or((words.len() >= LONGEST_CLAUSE).then_some(Mark::Comma))
                && !words.is_empty()
            {
                let (words, written) = (mem::take(&mut words), mem::take(&mut written));
                found.push(Clause { words, written, mark });
            }
        }
    }
    if !words.is_empty() {
        found.push(Clause { words, written, mark: Mark::Stop });
    }
    found
}

/// The mark at the end of a piece of text, behind which there may be quotes.
fn mark(piece: &str) -> Option<Mark> {
    match piece.trim_end_matches(['"', '\'', '”', '*']).chars().next_back()? {
        '.' => Some(Mark::Stop),
        ',' | ':' => Some(Mark::Comma),
        '?' => Some(Mark::Question),
        '!' => Some(Mark::Exclamation),
        _ => None,
    }
}

fn abbreviation(lower: &str) -> Option<&'static str> {
    lookup(ABBREVIATIONS, lower)
}

fn lookup(table: &[(&str, &'static str)], key: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| *name == key).map(|(_, said)| *said)
}

/// Adds the words of a piece without spaces.
fn say(piece: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    let lower = piece.to_lowercase();
    let said = abbreviation(&lower).or_else(|| lookup(SIGNS, &lower));
    if let Some(said) = said {
        words.extend(said.split(' ').map(str::to_owned));
        return;
    }
    let inner =
        |c: char| c.is_alphanumeric() || matches!(c, '%' | '°' | '$' | '€' | '£' | '-' | '+');
    let core = piece.trim_matches(|c: char| !inner(c));
    if !number(&core.to_lowercase(), words) {
        for part in core.split(|c: char| !(c.is_alphanumeric() || c == '\'')) {
            let lower = part.to_lowercase();
            if !number(&lower, words) {
                plain(part, &lower, words, is_known);
            }
        }
    }
}

/// Adds a word, or the letters of one that is written in capitals and unknown.
fn plain(part: &str, lower: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    let letters: String = lower.chars().filter_map(plain_letter).collect();
    let letters = letters.trim_matches('\'');
    // Units are words of their own elsewhere: "am" is a verb.
    let behind_number = words.last().is_some_and(|word| numbers::is_number_word(word));
    if let Some(unit) = lookup(UNITS, lower).filter(|_| behind_number || lower == "pm") {
        words.extend(unit.split(' ').map(str::to_owned));
        return;
    }
    let capitals = part.len() > 1 && part.chars().all(char::is_uppercase);
    if capitals && !is_known(letters) {
        words.extend(letters.chars().map(String::from));
    } else if !letters.is_empty() {
        words.push(letters.to_owned());
    }
}

/// The letter of the alphabet that a letter with or without an accent is read as.
fn plain_letter(letter: char) -> Option<char> {
    Some(match letter {
        'a'..='z' | '\'' => letter,
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'ç' => 'c',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ñ' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        _ => return None,
    })
}

/// Adds what begins with a number: with a currency before it, a unit or an ending behind it.
fn number(lower: &str, words: &mut Vec<String>) -> bool {
    if numbers::time(lower, words) || numbers::written(lower, words) {
        return true;
    }
    for (sign, name) in [('$', "dollars"), ('€', "euros"), ('£', "pounds")] {
        if let Some(amount) = lower.strip_prefix(sign) {
            return amount_of(amount, name, words);
        }
    }
    let end = lower.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
    let (value, unit) = lower.split_at(end);
    if value.is_empty() || unit.is_empty() {
        return false;
    }
    if let ("st" | "nd" | "rd" | "th", Ok(value)) = (unit, value.parse()) {
        numbers::ordinal(value, words);
        return true;
    }
    let Some(unit) = lookup(UNITS, unit) else { return false };
    let read = numbers::time(value, words) || numbers::written(value, words);
    if read {
        words.extend(unit.split(' ').map(str::to_owned));
    }
    read
}

/// Adds money: `3.50` dollars are three dollars fifty.
fn amount_of(amount: &str, name: &str, words: &mut Vec<String>) -> bool {
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    if !numbers::written(whole, words) {
        return false;
    }
    let name = if whole == "1" { name.trim_end_matches('s') } else { name };
    words.push(name.to_owned());
    match part.parse() {
        Ok(part) if part > 0 => numbers::cardinal(part, words),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let known = ["turn", "ok", "i"];
        let found = clauses(text, |word| known.contains(&word));
        let written = found.iter().map(|clause| {
            let mark = match clause.mark {
                Mark::Stop => '.',
                Mark::Comma => ',',
                Mark::Question => '?',
                Mark::Exclamation => '!',
            };
            format!("{}{mark}", clause.words.join(" "))
        });
        assert_eq!(written.collect::<Vec<_>>().join(" "), expected, "{text}");
    }

    #[test]
    fn text_is_split_at_its_marks() {
        check("Hello, Anna! How are you?", "hello, anna! how are you?");
        check("It's done", "it's done.");
        check("He said \"stop.\" Then - nothing", "he said stop. then nothing.");
        check("the kitchen (or the hall)", "the kitchen, or the hall,");
        check("   ", "");
        check("...", "");
    }

    #[test]
    fn numbers_and_signs_become_words() {
        check("It is 7:30 pm.", "it is seven thirty p m.");
        check("at 7:05pm", "at seven oh five p m.");
        check("I am here at 7 AM.", "i am here at seven a m.");
        check(
            "21°C and 5% of $3.50",
            "twenty one degrees celsius and five percent of three dollars fifty.",
        );
        check("The 3rd of May, 1,200 km", "the third of may, one thousand two hundred kilometers.");
        check("-4 degrees & more", "minus four degrees and more.");
        check("R2D2 has 10-20", "r2d2 has ten twenty.".replace("r2d2", "rd").as_str());
    }

    #[test]
    fn abbreviations_end_no_clause() {
        check("Mr. Smith met Dr. Jones.", "mister smith met doctor jones.");
        check("at 5 p.m. on Monday", "at five p m on monday.");
    }

    #[test]
    fn unknown_capitals_are_spelled() {
        check("the BBC is OK", "the b b c is ok.");
        check("café", "cafe.");
    }

    #[test]
    fn words_know_what_is_written() {
        let found = clauses("At 7:30 (or later) Dr. Jones — well, she — came.", |_| true);
        let words = found.iter().flat_map(|clause| clause.words.iter().zip(&clause.written));
        let words: Vec<_> = words.map(|(word, number)| format!("{word} {number}")).collect();
        let expected = [
            "at 1", "seven 2", "thirty 2", "or 3", "later 4", "doctor 5", "jones 6", "well 8",
            "she 9", "came 11",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn long_clauses_are_cut() {
        let found = clauses(&"word ".repeat(30), |_| true);
        assert_eq!(found.iter().map(|clause| clause.words.len()).collect::<Vec<_>>(), [24, 6]);
    }
}
