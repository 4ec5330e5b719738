//! Spoken form of fractions.

use super::super::numbers;

/// Numerator and denominator of fraction characters.
const CHARACTERS: &[(char, (u64, u64))] = &[
    ('½', (1, 2)),
    ('⅓', (1, 3)),
    ('⅔', (2, 3)),
    ('¼', (1, 4)),
    ('¾', (3, 4)),
    ('⅕', (1, 5)),
    ('⅖', (2, 5)),
    ('⅗', (3, 5)),
    ('⅘', (4, 5)),
    ('⅙', (1, 6)),
    ('⅚', (5, 6)),
    ('⅛', (1, 8)),
    ('⅜', (3, 8)),
    ('⅝', (5, 8)),
    ('⅞', (7, 8)),
];
/// Denominators of numbers such as `3/4` that are fractions.
const DENOMINATORS: [u64; 11] = [2, 3, 4, 5, 6, 8, 10, 12, 16, 32, 100];

/// Numerator and denominator of a fraction character.
pub(super) fn value(character: char) -> Option<(u64, u64)> {
    CHARACTERS.iter().find(|(known, _)| *known == character).map(|(_, value)| *value)
}

/// Appends a fraction such as `½`, `3½`, and `3/4`; `3 1/2` has two parts. Returns false if `text`
/// is not one.
pub(super) fn push_fraction(text: &str, words: &mut Vec<String>) -> bool {
    let (text, is_negative) =
        text.strip_prefix('-').map_or((text, false), |positive| (positive, true));
    let parsed = match text.char_indices().next_back() {
        Some((at, last)) if let Some(fraction) = value(last) => {
            let whole = text[..at].trim_end_matches('\u{2044}');
            if whole.is_empty() {
                Some((None, fraction))
            } else {
                whole.parse().ok().map(|whole| (Some(whole), fraction))
            }
        }
        _ => text.split_once(['/', '\u{2044}']).and_then(|(above, below)| {
            let fraction = (above.parse().ok()?, below.parse().ok()?);
            let (above, below) = fraction;
            let is_fraction = above > 0 && above < below && DENOMINATORS.contains(&below);
            is_fraction.then_some((None, fraction))
        }),
    };
    let Some((whole, fraction)) = parsed else { return false };
    if is_negative {
        words.push("minus".to_owned());
    }
    let is_mixed = match whole {
        Some(whole) => {
            numbers::push_cardinal(whole, words);
            true
        }
        None => !is_negative && words.last().is_some_and(|word| numbers::is_cardinal_word(word)),
    };
    push_parts(fraction, is_mixed, words);
    true
}

fn push_parts((above, below): (u64, u64), is_mixed: bool, words: &mut Vec<String>) {
    if is_mixed {
        words.push("and".to_owned());
    }
    if is_mixed && above == 1 {
        words.push(if below == 8 { "an" } else { "a" }.to_owned());
    } else {
        numbers::push_cardinal(above, words);
    }
    let plural = above > 1;
    match below {
        2 => words.push(if plural { "halves" } else { "half" }.to_owned()),
        4 => words.push(if plural { "quarters" } else { "quarter" }.to_owned()),
        _ => {
            numbers::push_ordinal(&below.to_string(), words);
            if let Some(last) = words.last_mut().filter(|_| plural) {
                last.push('s');
            }
        }
    }
}
