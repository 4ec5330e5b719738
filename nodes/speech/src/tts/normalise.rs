//! Text as it is written to clauses of words as they are said.

use std::mem;

use super::{
    money::{self, money},
    numbers,
};

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
const SIGNS: &[(&str, &str)] = &[
    ("&", "and"),
    ("+", "plus"),
    ("=", "equals"),
    ("%", "percent"),
    ("@", "at"),
    ("°", "degrees"),
];
/// What may stand around a word.
const QUOTES: [char; 5] = ['"', '\'', '“', '”', '*'];
/// A clause that is as long as this is cut behind a piece of text, so that sound starts soon; a piece
/// that is longer by itself is cut too.
const LONGEST_CLAUSE: usize = 24;

/// Splits `text` into clauses. `is_known` says which words the dictionary has: capitals that it does
/// not have are said letter by letter.
pub(crate) fn clauses(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<Clause> {
    let (mut found, mut words, mut written) = (Vec::new(), Vec::new(), Vec::new());
    let mut parts = parts_of(text).into_iter().peekable();
    while let Some((mut part, mut number)) = parts.next() {
        if let Some((scale, last)) = parts.next_if(|(next, _)| money::goes_on(&part, next)) {
            part = format!("{part} {scale}");
            number = last;
        }
        let lower = part.to_lowercase();
        let mark = mark(abbreviation(&lower).map_or(&lower, |(_, behind)| behind));
        say(&part, &mut words, &is_known);
        written.resize(words.len(), number);
        while words.len() >= 2 * LONGEST_CLAUSE {
            let rest = (words.split_off(LONGEST_CLAUSE), written.split_off(LONGEST_CLAUSE));
            found.push(Clause { words, written, mark: Mark::Comma });
            (words, written) = rest;
        }
        if let Some(mark) = mark.or((words.len() >= LONGEST_CLAUSE).then_some(Mark::Comma))
            && !words.is_empty()
        {
            let (words, written) = (mem::take(&mut words), mem::take(&mut written));
            found.push(Clause { words, written, mark });
        }
    }
    if !words.is_empty() {
        found.push(Clause { words, written, mark: Mark::Stop });
    }
    found
}

/// The parts of a text that have no space between them, in a few kinds of signs, and the number of the
/// piece that each is of.
fn parts_of(text: &str) -> Vec<(String, u32)> {
    let mut parts = Vec::new();
    for (piece, number) in text.split_whitespace().zip(1..) {
        let piece = piece.replace(['’', '‘'], "'").replace('−', "-");
        let piece = piece.replace(['—', '–', ';', '…', '(', ')', '[', ']'], ", ");
        parts.extend(piece.split_whitespace().map(|part| (with_zero(part), number)));
    }
    parts
}

/// A part with the zero that is left out before a point, as in `-.5` and `$.50`.
fn with_zero(part: &str) -> String {
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

/// The mark at the end of a piece of text, behind which there may be quotes.
fn mark(piece: &str) -> Option<Mark> {
    match piece.trim_end_matches(QUOTES).chars().next_back()? {
        '.' => Some(Mark::Stop),
        ',' | ':' => Some(Mark::Comma),
        '?' => Some(Mark::Question),
        '!' => Some(Mark::Exclamation),
        _ => None,
    }
}

/// What an abbreviation means, whatever quotes and marks are around it, and those behind it.
fn abbreviation(lower: &str) -> Option<(&'static str, &str)> {
    let inner = lower.trim_start_matches(QUOTES);
    let (name, behind) = inner.split_at(inner.rfind('.')? + 1);
    let said = lookup(ABBREVIATIONS, name).filter(|_| !behind.contains(char::is_alphanumeric))?;
    Some((said, behind))
}

pub(super) fn lookup(table: &[(&str, &'static str)], key: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| *name == key).map(|(_, said)| *said)
}

/// Adds the words of a piece without spaces.
fn say(piece: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    let lower = piece.to_lowercase();
    let said = abbreviation(&lower).map(|(said, _)| said).or_else(|| lookup(SIGNS, &lower));
    if let Some(said) = said {
        words.extend(said.split(' ').map(str::to_owned));
        return;
    }
    let core = piece.trim_matches(|c: char| !(is_inside(c) || matches!(c, '-' | '+')));
    if number(core, words, is_known) || unit(core, words) {
        return;
    }
    for part in parts(core).split(' ') {
        let has_digits = part.contains(|c: char| c.is_ascii_digit());
        if !number(part, words, is_known) {
            if has_digits { mixed(part, words, is_known) } else { plain(part, words, is_known) }
        }
    }
}

/// Whether it belongs to a word or a number wherever it stands.
pub(super) fn is_inside(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '%' | '°' | '$' | '€' | '£')
}

/// Words and numbers with spaces between them; a point, a comma or a colon between digits belongs
/// to a number.
fn parts(core: &str) -> String {
    let is_digit = |at: usize| core.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_kept = |at: usize, c: char| match c {
        '\'' => true,
        '.' | ',' | ':' => at > 0 && is_digit(at - 1) && is_digit(at + 1),
        c => is_inside(c),
    };
    core.char_indices().map(|(at, c)| if is_kept(at, c) { c } else { ' ' }).collect()
}

/// Adds a word, or a unit behind a number.
fn plain(part: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    if !unit(part, words) {
        word(part, false, words, is_known);
    }
}

/// Adds a unit behind a number; false when it is none.
fn unit(part: &str, words: &mut Vec<String>) -> bool {
    let lower = part.to_lowercase();
    // Units are words of their own elsewhere: "am" is a verb.
    let behind_number = words.last().is_some_and(|word| numbers::is_number_word(word));
    let known = lookup(UNITS, &lower).or_else(|| money::currency(&lower));
    let known = known.filter(|_| behind_number || lower == "pm");
    known.inspect(|unit| say_unit(unit, words)).is_some()
}

/// Adds the name of a unit: of one, or of more or less than that.
fn say_unit(unit: &str, words: &mut Vec<String>) {
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

/// Adds the words and the numbers of a part that has both.
fn mixed(part: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    let is_numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | ':');
    let mut rest = part;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_numeric(c) != is_numeric(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if !is_numeric(first) {
            word(run, true, words, is_known);
        } else if !(numbers::time(run, words) || numbers::written(run, words)) {
            for digits in run.split(|c: char| !c.is_ascii_digit()) {
                numbers::written(digits, words);
            }
        }
    }
}

/// Adds a word, or the letters of an unknown one: in capitals, or beside a number and without vowel.
fn word(
    part: &str,
    beside_number: bool,
    words: &mut Vec<String>,
    is_known: &impl Fn(&str) -> bool,
) {
    let letters: String = part.to_lowercase().chars().filter_map(plain_letter).collect();
    let letters = letters.trim_matches('\'');
    let capitals = part.len() > 1 && part.chars().all(char::is_uppercase);
    let unsayable = beside_number && !letters.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    if (capitals || unsayable) && !is_known(letters) {
        words.extend(letters.chars().filter(|c| *c != '\'').map(String::from));
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

/// Adds a number: with a currency before it, a unit or an ending behind it; false when it is none.
fn number(text: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) -> bool {
    if numbers::time(text, words) || numbers::written(text, words) || money(text, words) {
        return true;
    }
    let (value, unit) = behind_digits(text);
    let lower = unit.to_lowercase();
    if matches!(lower.as_str(), "st" | "nd" | "rd" | "th") {
        return numbers::ordinal(value, words);
    }
    if let ("s" | "'s", Some(year)) = (lower.as_str(), decade(value, words)) {
        numbers::decade(year, words);
        return true;
    }
    let known = lookup(UNITS, &lower);
    if known.is_none() && (unit.is_empty() || !unit.chars().all(char::is_alphabetic)) {
        return false;
    }
    if !(numbers::time(value, words) || numbers::written(value, words)) {
        return false;
    }
    match known {
        Some(unit) => say_unit(unit, words),
        None => word(unit, true, words, is_known),
    }
    true
}

/// What ends with the last digit of `text`, and what is behind that.
pub(super) fn behind_digits(text: &str) -> (&str, &str) {
    text.split_at(text.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1))
}

/// The year that a decade begins with, `1990` or behind "the" `90`: others with an `s` are seconds.
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
        check("R2D2 has 10-20", "r two d two has ten twenty.");
        check("−4°C, .5 miles", "minus four degrees celsius, zero point five miles.");
    }

    #[test]
    fn units_are_those_of_one_or_of_many() {
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
    fn numbers_are_said_beside_any_letters() {
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
    fn money_is_said_with_its_sign_scale_and_cents() {
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
    fn decades_are_no_seconds() {
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
    fn abbreviations_end_no_clause() {
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
        let found = clauses(&format!("It is 3.{}.", "1".repeat(100)), |_| true);
        let about = found.iter().map(|clause| (clause.words.len(), clause.written.len()));
        assert_eq!(about.collect::<Vec<_>>(), [(24, 24), (24, 24), (24, 24), (32, 32)]);
        assert_eq!((found[0].mark, found[3].mark), (Mark::Comma, Mark::Stop));
    }
}
