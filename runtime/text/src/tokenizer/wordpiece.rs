//! `vocab.txt` of BERT: one WordPiece token a line.

use serde_json::{Map, Value, json};

use super::{Tokenizer, json};

/// Special tokens of BERT. `[UNK]`, `[CLS]` and `[SEP]` are required.
const SPECIAL_TOKENS: &[&str] = &["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// True if the file is text with the line `[UNK]`.
pub(super) fn is_vocabulary(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_ok_and(|text| text.lines().any(|line| line == "[UNK]"))
}

pub(super) fn read(bytes: &[u8]) -> Result<Tokenizer, String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut vocabulary = Map::new();
    for (id, token) in text.lines().enumerate() {
        if vocabulary.insert(token.to_owned(), id.into()).is_some() {
            return Err(format!("line {}: the token {token:?} is a duplicate", id + 1));
        }
    }
    for name in ["[CLS]", "[SEP]"] {
        if !vocabulary.contains_key(name) {
            return Err(format!("a WordPiece vocabulary must have the line {name}"));
        }
    }
    let is_cased = |token: &String| {
        !SPECIAL_TOKENS.contains(&token.as_str())
            && !token.starts_with("[unused")
            && token.chars().any(char::is_uppercase)
    };
    let lowercase = !vocabulary.keys().any(is_cased);
    let added = SPECIAL_TOKENS.iter().filter(|&&name| vocabulary.contains_key(name)).map(|&name| {
        json!({"id": vocabulary[name], "content": name, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true})
    });
    json::read_value(json!({
        "version": "1.0",
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": Value::Null, "lowercase": lowercase},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", vocabulary["[SEP]"]],
            "cls": ["[CLS]", vocabulary["[CLS]"]]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_told_from_the_vocabulary() {
        let check = |words: &str, text: &str, expected: &[u32]| {
            let file = format!("[PAD]\n[unused0]\n[UNK]\n[CLS]\n[SEP]\n{words}\n");
            assert!(is_vocabulary(file.as_bytes()));
            let tokenizer = read(file.as_bytes()).expect("a tokenizer");
            assert_eq!(tokenizer.encode(text).as_deref(), Ok(expected), "{text}");
        };
        check("go\n##ing", "GOING é", &[5, 6, 2]);
        check("go\n##ing\nGo", "Going GOING", &[7, 6, 2]);
    }

    #[test]
    fn invalid_files_are_rejected() {
        let check = |text: &str, expected: &str| {
            let reason = read(text.as_bytes()).err().expect("an error");
            assert!(reason.contains(expected), "{reason}");
        };
        check("[UNK]\n[CLS]\n[SEP]\na\na\n", "line 5: the token \"a\" is a duplicate");
        check("[UNK]\n[SEP]\n", "must have the line [CLS]");
        assert!(!is_vocabulary(b"YQ== 0\n") && !is_vocabulary(&[0xff]));
    }
}
