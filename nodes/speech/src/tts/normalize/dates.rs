//! Spoken form of dates and years.

use super::super::numbers;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Words after which a number of four digits is a year.
const BEFORE_YEAR: [&str; 10] =
    ["in", "since", "until", "year", "from", "by", "before", "after", "of", "during"];

/// Full name of a month that may be abbreviated to three or four letters, with or without a period.
pub(super) fn month(lower: &str) -> Option<&'static str> {
    let name = lower.trim_end_matches(['.', ',']);
    let is_short = name.len() == 3 || name == "sept";
    let known = |month: &&&str| **month == name || (is_short && month.starts_with(&name[..3]));
    MONTHS.iter().find(known).copied()
}

fn is_month(word: &str) -> bool {
    MONTHS.contains(&word)
}

/// Appends a date of numbers: `2026-11-27`, `27.11.2026`, and, month first, `11/27/2026`. Returns
/// false if `text` is not one.
pub(super) fn push_date(text: &str, words: &mut Vec<String>) -> bool {
    let number = |part: &str| part.parse::<usize>().ok().filter(|_| part.len() <= 4);
    let date = |separator: char| -> Option<[usize; 3]> {
        let parts: Vec<&str> = text.split(separator).collect();
        let [a, b, c] = parts[..] else { return None };
        let lengths = [a.len(), b.len(), c.len()];
        let (is_year_first, is_year_last) = (lengths[0] == 4, lengths[2] == 4);
        let [a, b, c] = [number(a)?, number(b)?, number(c)?];
        match separator {
            '-' if is_year_first => Some([a, b, c]),
            '.' if is_year_last => Some([c, b, a]),
            '/' if is_year_last => Some([c, a, b]),
            _ => None,
        }
    };
    let Some([year, month, day]) = ['-', '.', '/'].into_iter().find_map(date) else { return false };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return false;
    }
    words.push(MONTHS[month - 1].to_owned());
    numbers::push_ordinal(&day.to_string(), words);
    push_year(year as u64, words);
    true
}

/// Appends the day after a month, or a year where a year is likely. Returns false for other numbers.
pub(super) fn push_day_or_year(text: &str, words: &mut Vec<String>, is_after_day: bool) -> bool {
    let Some(last) = words.last() else { return is_after_day && push_if_year(text, words) };
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    if is_month(last) && text.len() <= 2 && text.parse().is_ok_and(|day| (1..=31).contains(&day)) {
        return numbers::push_ordinal(text, words);
    }
    if is_month(last) || is_after_day || BEFORE_YEAR.contains(&last.as_str()) {
        return push_if_year(text, words);
    }
    false
}

/// True if the last words are a month and a day.
pub(super) fn ends_with_day(words: &[String]) -> bool {
    let rest = words.iter().rev().take(3).skip(1);
    words.last().is_some_and(|word| numbers::is_ordinal_word(word))
        && rest.into_iter().any(|word| is_month(word))
}

fn push_if_year(text: &str, words: &mut Vec<String>) -> bool {
    let year = text.parse().ok().filter(|year| text.len() == 4 && (1100..2100).contains(year));
    year.inspect(|year| push_year(*year, words)).is_some()
}

/// Appends a year: `1984` as nineteen eighty four, `2009` as two thousand nine.
pub(super) fn push_year(year: u64, words: &mut Vec<String>) {
    match (year / 100, year % 100) {
        (0..10 | 20, 0..10) | (0..10, _) => numbers::push_cardinal(year, words),
        (century, 0) => {
            numbers::push_cardinal(century, words);
            words.push("hundred".to_owned());
        }
        (century, rest) => {
            numbers::push_cardinal(century, words);
            if rest < 10 {
                words.push("oh".to_owned());
            }
            numbers::push_cardinal(rest, words);
        }
    }
}
