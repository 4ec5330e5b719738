//! Spoken form of amounts of money.

use super::{
    normalize::{is_word_char, lookup, split_after_digits},
    numbers,
};

/// Currency signs, which precede or follow an amount. A sign comes before its suffixes.
const CURRENCIES: &[(&str, &str)] = &[
    ("us$", "u s dollars"),
    ("ca$", "canadian dollars"),
    ("c$", "canadian dollars"),
    ("a$", "australian dollars"),
    ("nz$", "new zealand dollars"),
    ("hk$", "hong kong dollars"),
    ("r$", "reais"),
    ("$", "dollars"),
    ("€", "euros"),
    ("£", "pounds"),
    ("¥", "yen"),
    ("₹", "rupees"),
    ("¢", "cents"),
    ("₩", "won"),
    ("₽", "rubles"),
    ("₺", "lira"),
    ("₴", "hryvnias"),
    ("₪", "shekels"),
    ("₫", "dong"),
    ("฿", "baht"),
    ("₱", "pesos"),
    ("₦", "naira"),
    ("₿", "bitcoins"),
];
/// Currency codes, which precede or follow an amount.
const CODES: &[(&str, &str)] = &[
    ("usd", "u s dollars"),
    ("eur", "euros"),
    ("gbp", "pounds"),
    ("jpy", "yen"),
    ("inr", "rupees"),
    ("chf", "swiss francs"),
    ("cny", "yuan"),
    ("cad", "canadian dollars"),
    ("aud", "australian dollars"),
    ("pln", "zloty"),
    ("sek", "swedish kronor"),
];
/// Scales after an amount of money.
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

/// Name of a currency sign.
pub(super) fn currency_name(sign: &str) -> Option<&'static str> {
    lookup(CURRENCIES, sign).or_else(|| lookup(CODES, sign))
}

/// True if `c` is a currency sign.
pub(super) fn is_sign(c: char) -> bool {
    CURRENCIES.iter().any(|(sign, _)| sign.chars().eq([c]))
}

/// True if `text` is a currency code in capitals.
pub(super) fn is_code(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_uppercase()) && lookup(CODES, &text.to_lowercase()).is_some()
}

/// True if `next` belongs to `text`: an amount after its currency code, or the scale of an amount.
pub(super) fn belongs(text: &str, next: &str) -> bool {
    let is_amount = next.starts_with(|c: char| c.is_ascii_digit());
    (is_code(text) && is_amount) || has_scale(text, next)
}

/// True if `next` is the scale of the amount before it, as in `$1.2 billion`.
fn has_scale(amount: &str, next: &str) -> bool {
    let amount = amount.trim_start_matches(|c| !is_word_char(c)).to_lowercase();
    let next = next.trim_end_matches(|c| !is_word_char(c)).to_lowercase();
    let is_whole_word = next.len() > 2 && lookup(SCALES, &next).is_some();
    is_whole_word
        && split_currency(&amount).is_some_and(|(value, _)| split_after_digits(&value).1.is_empty())
}

/// The amount without its currency sign, and the name of the currency.
fn split_currency(lower: &str) -> Option<(String, &'static str)> {
    let unsigned = lower.trim_start_matches('-');
    let has_sign = |sign: &str| unsigned.starts_with(sign) || unsigned.ends_with(sign);
    let (sign, name) = CURRENCIES.iter().chain(CODES).find(|(sign, _)| has_sign(sign))?;
    Some((lower.replacen(sign, "", 1), name))
}

/// Appends an amount of money: `$3.50` as three dollars fifty, `-£1.2bn` as minus one point two
/// billion pounds. Returns false for any other text.
pub(super) fn push_money(text: &str, words: &mut Vec<String>) -> bool {
    let Some((amount, name)) = split_currency(&text.to_lowercase()) else { return false };
    let (value, scale) = split_after_digits(&amount);
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
    if !numbers::push_number(if cents.is_some() { whole } else { value }, words) {
        return false;
    }
    words.extend(scaled.map(str::to_owned));
    let is_one = cents.is_some() && matches!(whole, "1" | "-1");
    let name = if is_one { name.trim_end_matches('s') } else { name };
    words.extend(name.split(' ').map(str::to_owned));
    if let Some(cents) = cents.filter(|cents| *cents > 0) {
        numbers::push_cardinal(cents, words);
    }
    true
}
