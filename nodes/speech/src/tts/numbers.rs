//! Spoken form of numbers, ordinals, decades, and times of day.

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] =
    ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: [(u64, &str); 4] =
    [(1_000_000_000, "billion"), (1_000_000, "million"), (1000, "thousand"), (100, "hundred")];

/// True if a spoken number may end with `word`.
pub(crate) fn is_number_word(word: &str) -> bool {
    let is_scale = SCALES.iter().any(|(_, name)| *name == word);
    is_scale || word == "o'clock" || ONES.contains(&word) || TENS.contains(&word)
}

/// True if `word` is the last one of a whole number.
pub(crate) fn is_cardinal_word(word: &str) -> bool {
    is_number_word(word) && word != "o'clock"
}

/// True if `word` is the last one of an ordinal number.
pub(crate) fn is_ordinal_word(word: &str) -> bool {
    let is_irregular =
        matches!(word, "first" | "second" | "third" | "fifth" | "eighth" | "ninth" | "twelfth");
    let stem = word.strip_suffix("th").unwrap_or_default();
    is_irregular
        || is_cardinal_word(stem)
        || stem.strip_suffix("ie").is_some_and(|stem| is_cardinal_word(&format!("{stem}y")))
}

/// Appends a whole number below 10^12.
pub(crate) fn push_cardinal(number: u64, words: &mut Vec<String>) {
    if let Some(&word) = usize::try_from(number).ok().and_then(|number| ONES.get(number)) {
        words.push(word.to_owned());
        return;
    }
    let mut rest = number;
    for (scale, name) in SCALES {
        if rest >= scale {
            push_cardinal(rest / scale, words);
            words.push(name.to_owned());
            rest %= scale;
        }
    }
    if rest >= 20 {
        words.push(TENS[(rest / 10 - 2) as usize].to_owned());
        rest %= 10;
    }
    if rest > 0 {
        words.push(ONES[rest as usize].to_owned());
    }
}

/// Appends an ordinal, such as `21st`, written without its suffix. Returns false if `text` is not a
/// number.
pub(crate) fn push_ordinal(text: &str, words: &mut Vec<String>) -> bool {
    if !push_number(text, words) {
        return false;
    }
    let Some(last) = words.last_mut() else { return false };
    *last = match last.as_str() {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        word => match word.strip_suffix('y') {
            Some(stem) => format!("{stem}ieth"),
            None => format!("{word}th"),
        },
    };
    true
}

/// Appends the decade from `year` on: `1990s` as nineteen nineties.
pub(crate) fn push_decade(year: u64, words: &mut Vec<String>) {
    match (year / 100, year % 100) {
        (0, _) | (20, 0) => push_cardinal(year, words),
        (century, 0) => {
            push_cardinal(century, words);
            words.push("hundred".to_owned());
        }
        (century, rest) => {
            push_cardinal(century, words);
            push_cardinal(rest, words);
        }
    }
    let Some(last) = words.last_mut() else { return };
    *last = match last.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{last}s"),
    };
}

/// Appends each digit.
pub(crate) fn push_digits(text: &str, words: &mut Vec<String>) {
    let values = text.bytes().filter(u8::is_ascii_digit).map(|digit| usize::from(digit - b'0'));
    words.extend(values.map(|value| ONES[value].to_owned()));
}

/// Appends a number with optional sign, thousands separators, and decimal point. Numbers longer
/// than 12 digits, and those with leading zeros, are spoken digit by digit. Returns false, and appends nothing, if `text` is not a
/// number.
pub(crate) fn push_number(text: &str, words: &mut Vec<String>) -> bool {
    let (minus, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let groups: Vec<&str> = whole.split(',').collect();
    let grouped = groups.len() == 1 || groups.iter().skip(1).all(|group| group.len() == 3);
    let digits_only = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !grouped || !groups.iter().all(|g| digits_only(g)) || !digits_only(part)
    {
        return false;
    }
    let whole = groups.concat();
    if minus {
        words.push("minus".to_owned());
    }
    match whole.parse() {
        Ok(number) if whole.len() <= 12 && (whole.len() == 1 || !whole.starts_with('0')) => {
            push_cardinal(number, words)
        }
        _ => push_digits(&whole, words),
    }
    if !part.is_empty() {
        words.push("point".to_owned());
        push_digits(part, words);
    }
    true
}

/// Appends a time of day such as `7:05` and `7:05:30`. Returns false if `text` is not one.
pub(crate) fn push_time(text: &str, words: &mut Vec<String>) -> bool {
    let mut parts = text.split(':');
    let part = |text: &str, is_hour: bool| {
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let is_long_enough = text.len() == 2 || (is_hour && text.len() == 1);
        text.parse::<u64>().ok().filter(|_| is_digits && is_long_enough)
    };
    let (Some(hour), Some(minute)) = (parts.next(), parts.next()) else { return false };
    let (Some(hour), Some(minute)) = (part(hour, true), part(minute, false)) else { return false };
    let second = parts.next().map(|second| part(second, false));
    if hour > 24 || minute > 59 || second.is_some_and(|second| second.is_none_or(|s| s > 59)) {
        return false;
    }
    if parts.next().is_some() {
        return false;
    }
    push_cardinal(hour, words);
    match minute {
        0 if second.is_some() => push_two_digits(0, words),
        0 if hour == 0 || hour > 12 => words.push("hundred".to_owned()),
        0 => words.push("o'clock".to_owned()),
        _ => push_two_digits(minute, words),
    }
    if let Some(second) = second.flatten() {
        push_two_digits(second, words);
    }
    true
}

/// Appends a number below 100 of two digits: `05` as oh five.
fn push_two_digits(number: u64, words: &mut Vec<String>) {
    if number < 10 {
        words.push("oh".to_owned());
    }
    push_cardinal(number, words);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>, push: fn(&str, &mut Vec<String>) -> bool) {
        let mut words = Vec::new();
        let found = push(text, &mut words).then(|| words.join(" "));
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn numbers_are_spoken_as_written() {
        check("0", Some("zero"), push_number);
        check("15", Some("fifteen"), push_number);
        check("80", Some("eighty"), push_number);
        check("742", Some("seven hundred forty two"), push_number);
        check("1,200", Some("one thousand two hundred"), push_number);
        check("2026", Some("two thousand twenty six"), push_number);
        check("-3.05", Some("minus three point zero five"), push_number);
        check("0042", Some("zero zero four two"), push_number);
        check("00", Some("zero zero"), push_number);
        check("3000000017", Some("three billion seventeen"), push_number);
        check(
            "1234567890123",
            Some("one two three four five six seven eight nine zero one two three"),
            push_number,
        );
        check("1,20", None, push_number);
        check("", None, push_number);
        check("4x", None, push_number);
    }

    #[test]
    fn times_of_day_are_spoken() {
        check("7:00", Some("seven o'clock"), push_time);
        check("7:05", Some("seven oh five"), push_time);
        check("19:30", Some("nineteen thirty"), push_time);
        check("14:00", Some("fourteen hundred"), push_time);
        check("7:5", None, push_time);
        check("25:00", None, push_time);
        check("seven", None, push_time);
    }

    #[test]
    fn ordinals_have_their_suffixes() {
        check("1", Some("first"), push_ordinal);
        check("12", Some("twelfth"), push_ordinal);
        check("20", Some("twentieth"), push_ordinal);
        check("21", Some("twenty first"), push_ordinal);
        check("4", Some("fourth"), push_ordinal);
        check("1,000", Some("one thousandth"), push_ordinal);
        check("x", None, push_ordinal);
    }

    #[test]
    fn decades_are_plural() {
        for (year, expected) in [
            (80, "eighties"),
            (1800, "eighteen hundreds"),
            (1990, "nineteen nineties"),
            (2000, "two thousands"),
            (2010, "twenty tens"),
        ] {
            let mut words = Vec::new();
            push_decade(year, &mut words);
            assert_eq!(words.join(" "), expected);
        }
    }
}
