//! Widths of text, estimated for the widest common sans-serif fonts, and line breaks.

/// Font size of the name of a node, in pixels.
pub(crate) const NAME_SIZE: f64 = 14.0;
/// Font size of all other text, in pixels.
pub(crate) const SIZE: f64 = 11.0;
/// Distance of two baselines, in pixels.
pub(crate) const LINE: f64 = 13.0;

/// Upper estimate of the width of `text`, in pixels.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(char_width).sum::<f64>() * size
}

/// As [`width`], for bold text.
pub(crate) fn bold_width(text: &str, size: f64) -> f64 {
    width(text, size) * 1.13
}

/// Width of a character in units of the font size, as in DejaVu Sans.
fn char_width(c: char) -> f64 {
    match c {
        'f' | 'i' | 'j' | 'l' | 'r' | 't' | 'I' | '.' | ',' | ':' | ';' | '|' | '!' | '\''
        | '/' | ' ' | '(' | ')' | '[' | ']' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '+' | '<' | '=' | '>' => 1.0,
        'A'..='Z' => 0.76,
        '\0'..='\u{24f}' => 0.64,
        _ => 1.1,
    }
}

/// Breaks `text` after commas, or else at spaces, into lines of at most `limit` characters, where
/// words permit.
pub(crate) fn wrap(text: &str, limit: usize) -> Vec<String> {
    let fits = |part: &str| part.chars().count() <= limit;
    let parts = text.split_inclusive(',').map(str::trim).flat_map(|part| match fits(part) {
        true => vec![part],
        false => part.split_whitespace().collect(),
    });
    let mut lines: Vec<String> = Vec::new();
    for part in parts.filter(|part| !part.is_empty()) {
        match lines.last_mut() {
            Some(line) if fits(&format!("{line} {part}")) => {
                line.push(' ');
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_after_commas_and_at_spaces() {
        assert_eq!(wrap("50.0/s, 3 dropped", 12), ["50.0/s,", "3 dropped"]);
        assert_eq!(wrap("50.0/s, 3 dropped", 17), ["50.0/s, 3 dropped"]);
        assert_eq!(wrap("25 % busy, call 3 us", 8), ["25 %", "busy,", "call 3", "us"]);
        assert_eq!(wrap("transcription", 4), ["transcription"]);
        assert!(wrap(" ", 4).is_empty());
    }

    #[test]
    fn wide_characters_take_more_space() {
        assert!(width("mmmm", SIZE) > 2.0 * width("iiii", SIZE));
        assert!(bold_width("vad", SIZE) > width("vad", SIZE));
    }
}
