//! Numbers, ordinals, decades and times of day in words.

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

/// Whether a number may end with `word`.
pub(crate) fn is_number_word(word: &str) -> bool {
    let is_scale = SCALES.iter().any(|(_, name)| *name == word);
    is_scale || word == "o'clock" || ONES.contains(&word) || TENS.contains(&word)
}

/// Adds a whole number below a thousand billions.
pub(crate) fn cardinal(number: u64, words: &mut Vec<String>) {
    if let Some(&word) = usize::try_from(number).ok().and_then(|number| ONES.get(number)) {
        words.push(word.to_owned());
        return;
    }
    let mut rest = number;
    for (scale, name) in SCALES {
        if rest >= scale {
            cardinal(rest / scale, words);
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

/// Adds a number, written without its ending, as `21st` means it; false when it is none.
pub(crate) fn ordinal(text: &str, words: &mut Vec<String>) -> bool {
    if !written(text, words) {
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

/// Adds the ten years from `year` on, as `1990s` means them: nineteen nineties.
pub(crate) fn decade(year: u64, words: &mut Vec<String>) {
    match (year / 100, year % 100) {
        (0, _) | (20, 0) => cardinal(year, words),
        (century, 0) => {
            cardinal(century, words);
            words.push("hundred".to_owned());
        }
        (century, rest) => {
            cardinal(century, words);
            cardinal(rest, words);
        }
    }
    let Some(last) = words.last_mut() else { return };
    *last = match last.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{last}s"),
    };
}

/// Adds each digit.
pub(crate) fn digits(text: &str, words: &mut Vec<String>) {
    let values = text.bytes().filter(u8::is_ascii_digit).map(|digit| usize::from(digit - b'0'));
    words.extend(values.map(|value| ONES[value].to_owned()));
}

/// Adds a number as it is written: with commas between thousands, with a sign, with a point. Longer
/// ones than 12 digits are said digit by digit. Nothing and false when it is none.
pub(crate) fn written(text: &str, words: &mut Vec<String>) -> bool {
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
        Ok(number) if whole.len() <= 12 => cardinal(number, words),
        _ => digits(&whole, words),
    }
    if !part.is_empty() {
        words.push("point".to_owned());
        digits(part, words);
    }
    true
}

/// Adds a time of day such as `7:05`; false when it is none.
pub(crate) fn time(text: &str, words: &mut Vec<String>) -> bool {
    let Some((hour, minute)) = text.split_once(':') else { return false };
    let (Ok(hour), Ok(minute), 2) = (hour.parse::<u64>(), minute.parse::<u64>(), minute.len())
    else {
        return false;
    };
    if hour > 24 || minute > 59 {
        return false;
    }
    cardinal(hour, words);
    match minute {
        0 if hour == 0 || hour > 12 => words.push("hundred".to_owned()),
        0 => words.push("o'clock".to_owned()),
        1..10 => {
            words.push("oh".to_owned());
            cardinal(minute, words);
        }
        _ => cardinal(minute, words),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>, read: fn(&str, &mut Vec<String>) -> bool) {
        let mut words = Vec::new();
        let found = read(text, &mut words).then(|| words.join(" "));
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn numbers_are_read_as_written() {
        check("0", Some("zero"), written);
        check("15", Some("fifteen"), written);
        check("80", Some("eighty"), written);
        check("742", Some("seven hundred forty two"), written);
        check("1,200", Some("one thousand two hundred"), written);
        check("2026", Some("two thousand twenty six"), written);
        check("-3.05", Some("minus three point zero five"), written);
        check("3000000017", Some("three billion seventeen"), written);
        check(
            "1234567890123",
            Some("one two three four five six seven eight nine zero one two three"),
            written,
        );
        check("1,20", None, written);
        check("", None, written);
        check("4x", None, written);
    }

    #[test]
    fn times_are_read_as_said() {
        check("7:00", Some("seven o'clock"), time);
        check("7:05", Some("seven oh five"), time);
        check("19:30", Some("nineteen thirty"), time);
        check("14:00", Some("fourteen hundred"), time);
        check("7:5", None, time);
        check("25:00", None, time);
        check("seven", None, time);
    }

    #[test]
    fn ordinals_end_as_they_should() {
        check("1", Some("first"), ordinal);
        check("12", Some("twelfth"), ordinal);
        check("20", Some("twentieth"), ordinal);
        check("21", Some("twenty first"), ordinal);
        check("4", Some("fourth"), ordinal);
        check("1,000", Some("one thousandth"), ordinal);
        check("x", None, ordinal);
    }

    #[test]
    fn decades_are_many_years() {
        for (year, expected) in [
            (80, "eighties"),
            (1800, "eighteen hundreds"),
            (1990, "nineteen nineties"),
            (2000, "two thousands"),
            (2010, "twenty tens"),
        ] {
            let mut words = Vec::new();
            decade(year, &mut words);
            assert_eq!(words.join(" "), expected);
        }
    }
}
