//! Money in words.

use super::{
    normalise::{behind_digits, is_inside, lookup},
    numbers,
};

/// Before or behind an amount: longer signs stand before those that they end with.
const CURRENCIES: &[(&str, &str)] =
    &[("us$", "u s dollars"), ("$", "dollars"), ("€", "euros"), ("£", "pounds")];
/// Behind an amount of money.
const SCALES: &[(&str, &str)] = &[
    ("k", "thousand"),
    ("m", "million"),
    ("mn", "million"),
    ("b", "billion"),
    ("bn", "billion"),
    ("t", "trillion"),
    ("tn", "trillion"),
    ("thousand", "thousand"),
    ("million", "million"),
    ("billion", "billion"),
    ("trillion", "trillion"),
];

/// What a sign of a currency by itself is called.
pub(super) fn currency(sign: &str) -> Option<&'static str> {
    lookup(CURRENCIES, sign)
}

/// Whether `next` is the scale of the amount of money before it, as in `$1.2 billion`.
pub(super) fn goes_on(amount: &str, next: &str) -> bool {
    let amount = amount.trim_start_matches(|c| !is_inside(c)).to_lowercase();
    let next = next.trim_end_matches(|c| !is_inside(c)).to_lowercase();
    let is_whole_word = next.len() > 2 && lookup(SCALES, &next).is_some();
    is_whole_word && split(&amount).is_some_and(|(value, _)| behind_digits(&value).1.is_empty())
}

/// The amount without the sign of its currency, and the name of that.
fn split(lower: &str) -> Option<(String, &'static str)> {
    let unsigned = lower.trim_start_matches('-');
    let is_there = |sign: &str| unsigned.starts_with(sign) || unsigned.ends_with(sign);
    let (sign, name) = CURRENCIES.iter().find(|(sign, _)| is_there(sign))?;
    Some((lower.replacen(sign, "", 1), name))
}

/// Adds money: `$3.50` is three dollars fifty, `-£1.2bn` minus one point two billion pounds; false
/// when it is none.
pub(super) fn money(text: &str, words: &mut Vec<String>) -> bool {
    let Some((amount, name)) = split(&text.to_lowercase()) else { return false };
    let (value, scale) = behind_digits(&amount);
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let scaled = lookup(SCALES, scale.trim_start());
    if scaled.is_none() && !scale.is_empty() {
        return false;
    }
    let cents = match part.len() {
        0 => Some(0),
        1 => part.parse().ok().map(|tenth: u64| 10 * tenth),
        2 => part.parse().ok(),
        _ => None,
    };
    let cents = cents.filter(|_| scaled.is_none());
    if !numbers::written(if cents.is_some() { whole } else { value }, words) {
        return false;
    }
    words.extend(scaled.map(str::to_owned));
    let is_one = cents.is_some() && matches!(whole, "1" | "-1");
    let name = if is_one { name.trim_end_matches('s') } else { name };
    words.extend(name.split(' ').map(str::to_owned));
    if let Some(cents) = cents.filter(|cents| *cents > 0) {
        numbers::cardinal(cents, words);
    }
    true
}
