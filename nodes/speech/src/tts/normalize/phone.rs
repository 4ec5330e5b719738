//! Telephone numbers and other numbers that are read digit by digit.

/// Words before a number that is read digit by digit.
const BEFORE_DIGITS: [&str; 9] =
    ["pin", "code", "passcode", "password", "extension", "ext", "zip", "phone", "telephone"];

/// Number of the parts at the start of `parts` that make a telephone number; zero if they do not.
pub(super) fn phone_parts(parts: &[&str]) -> usize {
    let Some(first) = parts.first() else { return 0 };
    let first = first.trim_start_matches(['"', '\'']);
    if is_grouped(trim_end(first)) {
        return 1;
    }
    let has_prefix = first.starts_with('+') || (first.starts_with('(') && first.len() >= 4);
    let is_area = |part: &str| {
        let inner = part.strip_prefix('(').and_then(|part| part.strip_suffix(')'));
        inner.is_some_and(|inner| !inner.is_empty() && is_digits(inner))
    };
    if !has_prefix || !(first.starts_with('+') || is_area(trim_end(first))) {
        return 0;
    }
    let is_group = |part: &str| {
        let part = part.strip_prefix('+').unwrap_or(part);
        !part.is_empty()
            && (is_area(part)
                || part.split(['-', '.', '/']).all(|group| is_digits(group) && !group.is_empty()))
    };
    let mut count = 0;
    for part in parts {
        let is_last = trim_end(part) != *part;
        if !is_group(trim_end(if count == 0 { first } else { part })) {
            break;
        }
        count += 1;
        if is_last {
            break;
        }
    }
    let digits: usize =
        parts[..count].iter().map(|part| part.bytes().filter(u8::is_ascii_digit).count()).sum();
    if (7..=15).contains(&digits) { count } else { 0 }
}

/// True for `555-1234`, `555-123-4567`, and `1-800-555-0199`, also with points.
fn is_grouped(text: &str) -> bool {
    ['-', '.'].into_iter().any(|separator| {
        let groups: Vec<&str> = text.split(separator).collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        groups.iter().all(|group| is_digits(group))
            && matches!(lengths[..], [3, 4] | [3, 3, 4] | [1, 3, 3, 4])
            && !(separator == '.' && lengths.len() == 2)
    })
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn trim_end(text: &str) -> &str {
    text.trim_end_matches(['.', ',', '?', '!', ';', ':', '"', '\''])
}

/// True if a number after `word` is read digit by digit.
pub(super) fn precedes_digits(word: &str) -> bool {
    BEFORE_DIGITS.contains(&word)
}
