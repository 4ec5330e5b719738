//! `tokenizer.json`, the file of Hugging Face's `tokenizers`.

use std::collections::HashSet;

use serde_json::Value;

use super::{Leading, Pieces, Tokenizer};

/// Names of tokens that end an answer.
const END: &[&str] = &[
    "</s>",
    "<eos>",
    "<end_of_turn>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
];

pub(super) fn read(bytes: &[u8]) -> Result<Tokenizer, String> {
    let file: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    merges_are_tokens(&file["model"])?;
    let failed = |error: tokenizers::Error| error.to_string();
    let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(failed)?;
    // Made for batches in training; here they would change a prompt in silence.
    inner.with_padding(None).with_truncation(None).map_err(failed)?;
    let form = Form::of(&file["decoder"])?;
    let added = inner.get_added_tokens_decoder();
    let leading = if form.strip { Leading::One } else { Leading::Kept };
    let mut pieces = Pieces { leading, ..Pieces::default() };
    for (text, id) in inner.get_vocab(true) {
        let special = added.get(&id).is_some_and(|token| token.special);
        pieces.insert(id as usize, &form.bytes(&text), special)?;
    }
    let end: Vec<u32> = END.iter().filter_map(|name| inner.token_to_id(name)).collect();
    // What the file puts before an empty text.
    let template = inner.encode_fast("", true).map_err(failed)?;
    let begin = template.get_ids().first().copied().filter(|token| !end.contains(token));
    Ok(Tokenizer { inner, pieces, normalizer: None, begin, end })
}

/// The library takes for granted that what it merges, and what comes of it, are tokens.
fn merges_are_tokens(model: &Value) -> Result<(), String> {
    let (Some(merges), Some(vocabulary)) = (model["merges"].as_array(), model["vocab"].as_object())
    else {
        return Ok(());
    };
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or_default();
    let tokens: HashSet<&str> = vocabulary.keys().map(String::as_str).collect();
    for merge in merges {
        let pair = match merge {
            Value::String(text) => text.split_once(' '),
            Value::Array(pair) => match pair.as_slice() {
                [Value::String(left), Value::String(right)] => Some((&**left, &**right)),
                _ => None,
            },
            _ => None,
        };
        let Some((left, right)) = pair else {
            return Err(format!("model.merges: {merge} is no pair of tokens"));
        };
        let merged = right.strip_prefix(prefix).map(|right| format!("{left}{right}"));
        let fine = merged.is_some_and(|merged| tokens.contains(merged.as_str()));
        if !fine || !tokens.contains(left) || !tokens.contains(right) {
            return Err(format!("model.merges: {merge} names what is no token"));
        }
    }
    Ok(())
}

/// How the texts in a vocabulary stand for bytes.
#[derive(Debug, Default, PartialEq)]
struct Form {
    /// Each character stands for a byte, as in GPT-2.
    byte_level: bool,
    /// What stands for a space.
    space: Option<String>,
    /// `<0xE3>` stands for a byte.
    fallback: bool,
    /// The first space of a text is not part of it.
    strip: bool,
}

impl Form {
    /// The form that the decoder of a file describes.
    fn of(decoder: &Value) -> Result<Self, String> {
        let mut form = Self::default();
        form.add(decoder)?;
        Ok(form)
    }

    fn add(&mut self, decoder: &Value) -> Result<(), String> {
        let unknown = || format!("decoder: {decoder} is of no known kind");
        match decoder["type"].as_str() {
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.fallback = true,
            Some("Fuse") => {}
            Some("Metaspace") => {
                let space = decoder["replacement"].as_str().ok_or_else(unknown)?;
                self.space = Some(space.to_owned());
                let scheme = decoder["prepend_scheme"].as_str();
                let prefix = decoder["add_prefix_space"].as_bool().unwrap_or(true);
                self.strip = scheme.map_or(prefix, |scheme| scheme != "never");
            }
            Some("Replace") => match (decoder["pattern"]["String"].as_str(), &decoder["content"]) {
                (Some(space), Value::String(content)) if content == " " => {
                    self.space = Some(space.to_owned());
                }
                _ => return Err(unknown()),
            },
            Some("Strip") => {
                let first = decoder["content"] == " " && decoder["stop"] == 0;
                match decoder["start"].as_u64() {
                    Some(0) if first => {}
                    Some(1) if first => self.strip = true,
                    _ => return Err(unknown()),
                }
            }
            Some("Sequence") => {
                let parts = decoder["decoders"].as_array().ok_or_else(unknown)?;
                // A sequence within a sequence is of no use, and could be endlessly deep.
                for part in parts.iter().filter(|part| part["type"] != "Sequence") {
                    self.add(part)?;
                }
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// What the token `text` stands for.
    fn bytes(&self, text: &str) -> Vec<u8> {
        if self.byte_level {
            let bytes: Option<Vec<u8>> = text.chars().map(byte).collect();
            return bytes.unwrap_or_else(|| text.as_bytes().to_vec());
        }
        if let Some(byte) = self.fallback.then(|| fallback(text)).flatten() {
            return vec![byte];
        }
        match &self.space {
            Some(space) if !space.is_empty() => text.replace(space, " ").into_bytes(),
            _ => text.as_bytes().to_vec(),
        }
    }
}

/// The byte of a token like `<0xE3>`.
pub(super) fn fallback(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// The character that stands for a byte in the vocabularies of GPT-2.
pub(super) fn character(byte: u8) -> char {
    let shown = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    if shown(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&byte| !shown(byte)).count();
    char::from_u32(256 + u32::try_from(before).unwrap_or(0)).unwrap_or_default()
}

/// The byte that a character stands for.
fn byte(character: char) -> Option<u8> {
    match u32::from(character) {
        code @ (33..=126 | 161..=172 | 174..=255) => u8::try_from(code).ok(),
        code @ 256..=288 => u8::try_from(code - 256).ok(),
        code @ 289..=322 => u8::try_from(code - 289 + 127).ok(),
        323 => Some(173),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn characters_stand_for_bytes() {
        for value in 0..=255 {
            assert_eq!(byte(character(value)), Some(value), "{value}");
        }
        assert_eq!(byte('€'), None);
        assert_eq!((character(b' '), character(b'\n'), character(0xad)), ('Ġ', 'Ċ', 'Ń'));
    }

    #[test]
    fn decoders_are_understood_or_refused() {
        let check = |decoder: Value, text: &str, expected: &[u8]| {
            assert_eq!(Form::of(&decoder).expect("a known kind").bytes(text), expected);
        };
        let llama = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
        assert!(Form::of(&llama).is_ok_and(|form| form.strip));
        check(llama.clone(), "▁a▁", b" a ");
        check(llama, "<0xE3>", &[0xe3]);
        check(json!({"type": "ByteLevel"}), "ĠÃ¼", " ü".as_bytes());
        check(json!({"type": "ByteLevel"}), "日", "日".as_bytes());
        for wrong in [json!(null), json!({"type": "WordPiece"}), json!({"type": "Strip"})] {
            assert!(Form::of(&wrong).is_err_and(|reason| reason.contains("no known kind")));
        }
    }
}
