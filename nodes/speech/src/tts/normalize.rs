//! Text normalization: written text to clauses of spoken words.

use std::mem;

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

/// Abbreviations with a period.
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
/// Units after a number.
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
    ("m/s", "meters per second"),
    ("ml", "milliliters"),
    ("am", "a m"),
    ("pm", "p m"),
    ("min", "minutes"),
    ("h", "hours"),
    ("s", "seconds"),
    ("m", "meters"),
    ("hz", "hertz"),
    ("khz", "kilohertz"),
    ("mhz", "megahertz"),
    ("ghz", "gigahertz"),
];
/// Signs that are spoken as words.
const SIGNS: &[(&str, &str)] = &[
    ("&", "and"),
    ("+", "plus"),
    ("=", "equals"),
    ("%", "percent"),
    ("@", "at"),
    ("°", "degrees"),
];
/// Characters that may surround a word.
const QUOTES: [char; 5] = ['"', '\'', '“', '”', '*'];
/// Length, in words, at which a clause is cut after a written word, so that audio starts soon.
/// Longer written words are cut within.
const MAX_CLAUSE_WORDS: usize = 24;

/// Splits `text` into clauses. `is_known` is true for words of the dictionary; other words in
/// capitals are spelled letter by letter.
pub(crate) fn clauses(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<Clause> {
    let (mut found, mut words, mut written) = (Vec::new(), Vec::new(), Vec::new());
    let mut parts = parts_of(text).into_iter().peekable();
    while let Some((mut part, mut number)) = parts.next() {
        if let Some((scale, last)) = parts.next_if(|(next, _)| money::has_scale(&part, next)) {
            part = format!("{part} {scale}");
            number = last;
        }
        let lower = part.to_lowercase();
        let end = clause_end(abbreviation(&lower).map_or(&lower, |(_, rest)| rest));
        push_piece(&part, &mut words, &is_known);
        written.resize(words.len(), number);
        while words.len() >= 2 * MAX_CLAUSE_WORDS {
            let rest = (words.split_off(MAX_CLAUSE_WORDS), written.split_off(MAX_CLAUSE_WORDS));
            found.push(Clause { words, written, end: ClauseEnd::Comma });
            (words, written) = rest;
        }
        if let Some(end) = end.or((words.len() >= MAX_CLAUSE_WORDS).then_some(ClauseEnd::Comma))
            && !words.is_empty()
        {
            let (words, written) = (mem::take(&mut words), mem::take(&mut written));
            found.push(Clause { words, written, end });
        }
    }
    if !words.is_empty() {
        found.push(Clause { words, written, end: ClauseEnd::Statement });
    }
    found
}

/// Parts of a text without whitespace, with typographic characters replaced, and the position of
/// the written word that each belongs to.
fn parts_of(text: &str) -> Vec<(String, u32)> {
    let mut parts = Vec::new();
    for (piece, number) in text.split_whitespace().zip(1..) {
        let piece = piece.replace(['’', '‘'], "'").replace('−', "-");
        let piece = piece.replace(['—', '–', ';', '…', '(', ')', '[', ']'], ", ");
        parts.extend(piece.split_whitespace().map(|part| (with_leading_zero(part), number)));
    }
    parts
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
fn push_piece(piece: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    let lower = piece.to_lowercase();
    let spoken = abbreviation(&lower).map(|(spoken, _)| spoken).or_else(|| lookup(SIGNS, &lower));
    if let Some(spoken) = spoken {
        words.extend(spoken.split(' ').map(str::to_owned));
        return;
    }
    let core = piece.trim_matches(|c: char| !(is_word_char(c) || matches!(c, '-' | '+')));
    if push_numeric(core, words, is_known) || push_unit(core, words) {
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
}

/// True if the character belongs to a word or a number in any position.
pub(super) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '%' | '°' | '$' | '€' | '£')
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
    let (first, rest) = unit.split_once(' ').unwrap_or((unit, ""));
    words.push(if is_one { first.trim_end_matches('s') } else { first }.to_owned());
    words.extend(rest.split_whitespace().map(str::to_owned));
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
    let letters: String = part.to_lowercase().chars().filter_map(plain_letter).collect();
    let letters = letters.trim_matches('\'');
    let capitals = part.len() > 1 && part.chars().all(char::is_uppercase);
    let is_unpronounceable = adjoins_number && !letters.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    if (capitals || is_unpronounceable) && !is_known(letters) {
        words.extend(letters.chars().filter(|c| *c != '\'').map(String::from));
    } else if !letters.is_empty() {
        words.push(letters.to_owned());
    }
}

/// The letter without its accent; `None` for other characters.
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

/// Appends a number with a currency, a unit, or a suffix. Returns false if `text` is not one.
fn push_numeric(text: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) -> bool {
    if numbers::push_time(text, words)
        || numbers::push_number(text, words)
        || push_money(text, words)
    {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let known = ["turn", "ok", "i"];
        let found = clauses(text, |word| known.contains(&word));
        let written = found.iter().map(|clause| {
            let mark = match clause.end {
                ClauseEnd::Statement => '.',
                ClauseEnd::Comma => ',',
                ClauseEnd::Question => '?',
                ClauseEnd::Exclamation => '!',
            };
            format!("{}{mark}", clause.words.join(" "))
        });
        assert_eq!(written.collect::<Vec<_>>().join(" "), expected, "{text}");
    }

    #[test]
    fn text_is_split_at_punctuation() {
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
        check("R2D2 has 10-20", "r two d two has ten twenty.");
        check("−4°C, .5 miles", "minus four degrees celsius, zero point five miles.");
    }

    #[test]
    fn units_are_singular_or_plural() {
        let cases = [
            ("100 km/h, 5 m/s", "one hundred kilometers per hour, five meters per second."),
            ("100km/h and 1 km/h", "one hundred kilometers per hour and one kilometer per hour."),
            ("1 km, 1°C and 1 min.", "one kilometer, one degree celsius and one minute."),
            ("21 km or 2.1 km", "twenty one kilometers or two point one kilometers."),
            ("1% at 1 pm", "one percent at one p m."),
            ("20 €, 1 €", "twenty euros, one euro."),
            ("I am a km/h", "i am a km h."),
        ];
        for (text, expected) in cases {
            check(text, expected);
        }
    }

    #[test]
    fn numbers_may_adjoin_letters() {
        let cases = [
            ("16GB or 16gb", "sixteen g b or sixteen g b."),
            ("a 4K camera", "a four k camera."),
            ("gate B12", "gate b twelve."),
            ("60Hz, 2.4 GHz", "sixty hertz, two point four gigahertz."),
            ("5xnz", "five x n z."),
            ("9bars", "nine bars."),
            ("-16dB", "minus sixteen d b."),
            ("MP3 and v2.0", "m p three and v two point zero."),
            ("-1.5GB", "minus one point five g b."),
            ("192.168.0.1", "one hundred ninety two one hundred sixty eight zero one."),
            ("3.5.1", "three five one."),
            ("7:05:30", "seven five thirty."),
            ("10:30-11:00", "ten thirty eleven o'clock."),
            ("50%-60%", "fifty percent sixty percent."),
            ("A1 B2,C3", "a one b two c three."),
            ("the 1,000th", "the one thousandth."),
            ("2026's", "two thousand twenty six s."),
        ];
        for (text, expected) in cases {
            check(text, expected);
        }
    }

    #[test]
    fn money_has_sign_scale_and_cents() {
        let cases = [
            ("$5m", "five million dollars."),
            ("$5k or £1.2bn", "five thousand dollars or one point two billion pounds."),
            ("$1M", "one million dollars."),
            ("-$5", "minus five dollars."),
            ("€-5", "minus five euros."),
            ("-$1", "minus one dollar."),
            ("$1,200", "one thousand two hundred dollars."),
            ("$3.5", "three dollars fifty."),
            ("$3.05", "three dollars five."),
            ("$3.00", "three dollars."),
            ("$1.999", "one point nine nine nine dollars."),
            ("$5-$10", "five dollars ten dollars."),
            ("$1.2 billion, or", "one point two billion dollars, or."),
            ("(-$5 Million) now", "minus five million dollars, now."),
            ("$5 or million", "five dollars or million."),
            ("$5m million", "five million dollars million."),
            ("$5 m", "five dollars m."),
            ("5€ and 1.20$", "five euros and one dollar twenty."),
            ("US$5 and US$1", "five u s dollars and one u s dollar."),
            ("$.50", "zero dollars fifty."),
            ("$5x", "five x."),
            ("$x", "x."),
            ("$", ""),
        ];
        for (text, expected) in cases {
            check(text, expected);
        }
    }

    #[test]
    fn decades_are_not_seconds() {
        let cases = [
            ("the 1990s", "the nineteen nineties."),
            ("the 1990's", "the nineteen nineties."),
            ("the '80s", "the eighties."),
            ("in 80s", "in eighty seconds."),
            ("the 5s", "the five seconds."),
            ("3000s", "three thousand seconds."),
        ];
        for (text, expected) in cases {
            check(text, expected);
        }
    }

    #[test]
    fn abbreviations_do_not_end_a_clause() {
        check("Mr. Smith met Dr. Jones.", "mister smith met doctor jones.");
        check("at 5 p.m. on Monday", "at five p m on monday.");
        check("fruit, e.g., apples, etc., too", "fruit, for example, apples, et cetera, too.");
        check("\"Mr. Smith\" (i.e. “Dr.” Jones)", "mister smith, that is doctor jones,");
        check("at 5 p.m.? No: a.m.!", "at five p m? no, a m!");
        check("dr.jones", "dr jones.");
    }

    #[test]
    fn unknown_capitals_are_spelled() {
        check("the BBC is OK", "the b b c is ok.");
        check("café", "cafe.");
    }

    #[test]
    fn spoken_words_refer_to_written_words() {
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
        let found = clauses(&format!("It is 3.{}.", "1".repeat(100)), |_| true);
        let about = found.iter().map(|clause| (clause.words.len(), clause.written.len()));
        assert_eq!(about.collect::<Vec<_>>(), [(24, 24), (24, 24), (24, 24), (32, 32)]);
        assert_eq!((found[0].end, found[3].end), (ClauseEnd::Comma, ClauseEnd::Statement));
    }
}
