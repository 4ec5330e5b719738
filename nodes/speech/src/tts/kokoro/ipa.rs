//! IPA of espeak-ng to the symbols of Kokoro.

/// Tie of two letters of one phoneme in the output of espeak-ng.
const TIE: char = '\u{200d}';

/// Phonemes of all languages; `^` is the tie. Longer ones come first.
const ALL: &[(&str, &str)] = &[
    ("a^ɪ", "I"),
    ("a^ʊ", "W"),
    ("d^z", "ʣ"),
    ("d^ʒ", "ʤ"),
    ("e^ɪ", "A"),
    ("ɔ^ɪ", "Y"),
    ("t^s", "ʦ"),
    ("t^ʃ", "ʧ"),
    ("s^s", "S"),
];

/// Phonemes of English.
const ENGLISH: &[(&str, &str)] = &[
    ("ʔˌn\u{329}", "tᵊn"),
    ("ʔn\u{329}", "tᵊn"),
    ("ʔn", "tᵊn"),
    ("ə^l", "ᵊl"),
    ("n\u{329}", "ᵊn"),
    ("l\u{329}", "ᵊl"),
    ("m\u{329}", "ᵊm"),
    ("ʔ", "t"),
    ("r", "ɹ"),
    ("x", "k"),
    ("ç", "k"),
    ("ɐ", "ə"),
    ("ɬ", "l"),
    ("ʲ", ""),
    ("\u{303}", ""),
];

/// Phonemes of American English.
const AMERICAN: &[(&str, &str)] = &[
    ("o^ʊ", "O"),
    ("ɚ", "əɹ"),
    ("ɜːɹ", "ɜɹ"),
    ("ɜː", "ɜɹ"),
    ("ɪə", "iə"),
    ("ɾ", "T"),
    ("o", "ɔ"),
    ("ː", ""),
];

/// Phonemes of British English.
const BRITISH: &[(&str, &str)] =
    &[("e^ə", "ɛː"), ("i^ə", "ɪə"), ("iə", "ɪə"), ("ə^ʊ", "Q"), ("ɚ", "ə"), ("o", "ɔ")];

/// Phonemes of other languages.
const OTHER: &[(&str, &str)] = &[("o^ʊ", "O"), ("ə^ʊ", "Q")];

/// Symbols of a word in IPA, spoken by a voice of espeak-ng such as `en-us`.
pub(super) fn symbols(ipa: &str, voice: &str) -> String {
    let mut text: String =
        ipa.chars().map(|letter| if letter == TIE { '^' } else { letter }).collect();
    // Marks of a change of the language, such as `(en)`.
    while let Some((start, end)) = text.find('(').zip(text.find(')')).filter(|(a, b)| a < b) {
        text.replace_range(start..=end, "");
    }
    let tables: &[&[(&str, &str)]] = match voice {
        _ if !voice.starts_with("en") => &[ALL, OTHER],
        "en-us" => &[ALL, ENGLISH, AMERICAN],
        _ => &[ALL, ENGLISH, BRITISH],
    };
    for (phoneme, symbols) in tables.concat() {
        text = text.replace(phoneme, symbols);
    }
    let text = text.replace(['^', '-', '_'], "").replace('g', "ɡ");
    text.chars().filter(|symbol| super::symbols::id(*symbol).is_some()).collect()
}

/// Symbol of a punctuation mark that is spoken as a pause or an intonation.
pub(super) fn mark(letter: char) -> Option<char> {
    match letter {
        '.' | ',' | '!' | '?' | ';' | ':' | '…' | '—' => Some(letter),
        '–' => Some('—'),
        '。' | '।' | '॥' => Some('.'),
        '！' => Some('!'),
        '？' => Some('?'),
        '、' | '，' => Some(','),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phonemes_have_symbols() {
        let check = |voice: &str, ipa: &str, expected: &str| {
            assert_eq!(symbols(&ipa.replace('^', "\u{200d}"), voice), expected, "{ipa}");
        };
        check("en-us", "həlˈo^ʊ", "həlˈO");
        check("en-us", "d^ʒˈʌd^ʒ", "ʤˈʌʤ");
        check("en-us", "bˈʌʔn\u{329}", "bˈʌtᵊn");
        check("en-us", "wˈɔːɾɚ", "wˈɔTəɹ");
        check("en-us", "bˈɜːd", "bˈɜɹd");
        check("en-us", "ɡˌo^ʊɪŋ", "ɡˌOɪŋ");
        check("en-gb", "nˈə^ʊ", "nˈQ");
        check("en-gb", "bˈɜːd", "bˈɜːd");
        check("fr-fr", "bɔ̃ʒˈuʁ", "bɔ\u{303}ʒˈuʁ");
        check("de", "(en)dˈe^ɪ(de)", "dˈA");
        check("es", "ˈoxo", "ˈoxo");
    }
}
