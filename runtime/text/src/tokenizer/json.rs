//! `tokenizer.json`, the file of Hugging Face's `tokenizers`.

use std::{collections::HashSet, slice};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{Leading, MAX_WORD, Pieces, Tokenizer, charsmap::Charsmap};

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
    if !file["model"].is_object() {
        return Err(format!("the JSON has no \"model\": {}", super::KINDS));
    }
    merges_are_tokens(&file["model"])?;
    words_are_short(&file["model"])?;
    tables_are_sound(&file["normalizer"])?;
    let form = Form::of(&file["decoder"])?;
    // Not the bytes anew: a name that comes twice there could bring in what was not looked at.
    let inner = serde_json::from_value::<tokenizers::Tokenizer>(file);
    let mut inner = inner.map_err(|error| error.to_string())?;
    templates_are_whole(&inner)?;
    cuts_are_long(&inner)?;
    spaces_are_taken_once(&inner)?;
    let failed = |error: tokenizers::Error| error.to_string();
    // Made for batches in training; here they would change a prompt in silence.
    inner.with_padding(None).with_truncation(None).map_err(failed)?;
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

/// The library keeps the words of a unigram model in a tree that is as deep as they are long.
fn words_are_short(model: &Value) -> Result<(), String> {
    let mut words = model["vocab"].as_array().into_iter().flatten();
    let long = words.position(|entry| entry[0].as_str().is_some_and(|word| word.len() > MAX_WORD));
    match long {
        Some(id) => Err(format!("model.vocab: token {id} is longer than {MAX_WORD} bytes")),
        None => Ok(()),
    }
}

/// The library takes for granted that the tables of SentencePiece in a file can be read, and that
/// they do not lead out of themselves.
fn tables_are_sound(normalizer: &Value) -> Result<(), String> {
    let fields = match normalizer {
        Value::Null => return Ok(()),
        Value::Object(fields) => fields,
        other => return Err(format!("normalizer: {other} is of no known kind")),
    };
    for part in fields.get("normalizers").and_then(Value::as_array).into_iter().flatten() {
        tables_are_sound(part)?;
    }
    let table = fields.get("precompiled_charsmap");
    if table.is_none() && normalizer["type"] != "Precompiled" {
        return Ok(());
    }
    let bytes = table.and_then(Value::as_str).and_then(|text| BASE64_STANDARD.decode(text).ok());
    let table = bytes.and_then(|bytes| Charsmap::read(&bytes));
    if table.is_some_and(|table| table.is_sound()) {
        return Ok(());
    }
    Err("normalizer: its precompiled_charsmap is no table of SentencePiece".to_owned())
}

/// The library takes for granted that a template is made of one text and of tokens that it lists,
/// and that none is given what another made.
fn templates_are_whole(inner: &tokenizers::Tokenizer) -> Result<(), String> {
    // As it was understood: a file can say the same in several ways.
    let processor = serde_json::to_value(inner.get_post_processor());
    let processor = processor.map_err(|error| error.to_string())?;
    let parts = processor["processors"].as_array();
    let parts = parts.map_or(slice::from_ref(&processor), Vec::as_slice);
    let mut templates = parts.iter().filter(|part| part["type"] == "TemplateProcessing");
    let template = templates.next().unwrap_or(&Value::Null);
    if templates.next().is_some() || parts.iter().any(|part| part["type"] == "Sequence") {
        return Err("post_processor: it has a template or a sequence too many".to_owned());
    }
    let is_listed = |name: &str| template["special_tokens"].get(name).is_some();
    for piece in template["single"].as_array().into_iter().flatten() {
        let is_text = piece["Sequence"]["id"] == "A";
        if !is_text && !piece["SpecialToken"]["id"].as_str().is_some_and(is_listed) {
            return Err(format!("post_processor: {piece} is not A, nor among its special_tokens"));
        }
    }
    Ok(())
}

/// The library panics where it is to cut a text into pieces of no length.
fn cuts_are_long(inner: &tokenizers::Tokenizer) -> Result<(), String> {
    fn is_wrong(cut: &Value) -> bool {
        let mut parts = cut["pretokenizers"].as_array().into_iter().flatten();
        cut["type"] == "FixedLength" && cut["length"] == 0 || parts.any(is_wrong)
    }
    // As it was understood: a file can say the same in several ways.
    let cuts = serde_json::to_value(inner.get_pre_tokenizer());
    if is_wrong(&cuts.map_err(|error| error.to_string())?) {
        return Err("pre_tokenizer: its pieces have the length 0".to_owned());
    }
    Ok(())
}

/// The library panics where a token of spaces takes those on its left, which the one before it
/// took already.
fn spaces_are_taken_once(inner: &tokenizers::Tokenizer) -> Result<(), String> {
    let added = inner.get_added_tokens_decoder();
    let is_wrong = |token: &&tokenizers::AddedToken| {
        token.lstrip && token.content.chars().all(char::is_whitespace)
    };
    match added.values().find(is_wrong) {
        Some(token) => Err(format!("added_tokens: {:?} strips itself", token.content)),
        None => Ok(()),
    }
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

    /// What is said of a file of one token with this normalizer and post_processor, and the token
    /// that its texts start with.
    fn opened(normalizer: &Value, processor: &Value) -> Result<Option<u32>, String> {
        let model = json!({"type": "BPE", "vocab": {"a": 0}, "merges": []});
        let decoder = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
            "use_regex": true});
        let file = json!({"version": "1.0", "added_tokens": [], "pre_tokenizer": null,
            "normalizer": normalizer, "post_processor": processor, "decoder": decoder,
            "model": model});
        read(file.to_string().as_bytes()).map(|tokenizer| tokenizer.begin)
    }

    fn template(single: &Value, tokens: &Value) -> Value {
        json!({"type": "TemplateProcessing", "single": single, "pair": [],
            "special_tokens": tokens})
    }

    #[test]
    fn templates_name_what_they_list() {
        let token = json!({"SpecialToken": {"id": "a", "type_id": 0}});
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let second = json!({"Sequence": {"id": "B", "type_id": 0}});
        let listed = json!({"a": {"id": "a", "ids": [0], "tokens": ["a"]}});
        let within = |parts: &[&Value]| json!({"type": "Sequence", "processors": parts});
        let good = template(&json!([token, text]), &listed);
        assert_eq!(opened(&Value::Null, &good), Ok(Some(0)));
        assert_eq!(opened(&Value::Null, &within(&[&good])), Ok(Some(0)));
        let check = |processor: &Value, expected: &str| {
            for processor in [processor, &within(&[processor])] {
                let reason = opened(&Value::Null, processor).expect_err("an error");
                assert!(reason.contains(expected), "{processor}: {reason}");
            }
        };
        check(&template(&json!([token, text]), &json!({})), "nor among its special_tokens");
        check(&template(&json!([text, second]), &listed), "nor among its special_tokens");
        check(&within(&[&good, &good]), "too many");
    }

    #[test]
    fn tables_of_replacements_are_looked_at() {
        let check = |bytes: &[u8]| {
            let table = BASE64_STANDARD.encode(bytes);
            let normalizer = json!({"type": "Precompiled", "precompiled_charsmap": table});
            let within = json!({"type": "Sequence", "normalizers": [normalizer]});
            for normalizer in [normalizer, within] {
                let reason = opened(&normalizer, &Value::Null).expect_err("an error");
                assert!(reason.contains("no table of SentencePiece"), "{bytes:?}: {reason}");
            }
        };
        check(&[]);
        check(&[0, 0, 0]);
        check(&[4, 0, 0, 0, 0, 0, 0, 0]); // a root whose base has no 256 units behind it
        let bare = json!({"type": "Precompiled"});
        assert!(opened(&bare, &Value::Null).is_err());
        assert!(opened(&json!([["AAAA"]]), &Value::Null).is_err());
        assert_eq!(opened(&json!({"type": "NFC"}), &Value::Null), Ok(None));
    }

    #[test]
    fn words_of_a_unigram_model_are_short() {
        let model = |len: usize| json!({"vocab": [["a", 0.0], ["a".repeat(len), -1.0]]});
        assert_eq!(words_are_short(&model(1024)), Ok(()));
        let reason = words_are_short(&model(1025)).expect_err("an error");
        assert_eq!(reason, "model.vocab: token 1 is longer than 1024 bytes");
    }
}
