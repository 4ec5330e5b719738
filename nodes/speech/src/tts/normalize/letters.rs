//! Letters of Latin script without their diacritics.

use super::fractions;

/// Writes `text` with the letters a to z: diacritics are removed and ligatures are split. Letters of
/// other scripts stay.
pub(super) fn plain_letters(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '’' | '‘' | 'ʼ' | '`' | '´' => plain.push('\''),
            '\u{300}'..='\u{36f}' => {}
            _ if is_latin(letter) => plain.extend(deunicode::deunicode_char(letter)),
            _ => plain.push(letter),
        }
    }
    plain
}

/// True for letters of Latin script beyond ASCII.
fn is_latin(letter: char) -> bool {
    let is_in_block = matches!(
        letter,
        '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' | '\u{2c60}'..='\u{2c7f}'
            | '\u{a720}'..='\u{a7ff}' | '\u{fb00}'..='\u{fb06}' | '\u{ff21}'..='\u{ff5a}'
    );
    is_in_block && letter.is_alphabetic()
}

/// True if a letter or a digit of `text` cannot be spoken.
pub(super) fn has_unknown_script(text: &str) -> bool {
    let is_known = |letter: char| {
        let is_sign = matches!(letter, 'µ' | 'μ' | 'º' | '²' | '³' | '¹');
        letter.is_ascii() || is_sign || fractions::value(letter).is_some()
    };
    plain_letters(text).chars().any(|letter| letter.is_alphanumeric() && !is_known(letter))
}
