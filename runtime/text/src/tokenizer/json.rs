//! `tokenizer.json` of Hugging Face `tokenizers`.
//!
//! The crate `tokenizers` panics on some invalid files. The `check_` functions reject them first.

use std::{collections::HashSet, slice};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{LeadingSpace, MAX_TOKEN_BYTES, TokenTable, Tokenizer, charsmap::Charsmap};

/// Names of EOS tokens.
const EOS_NAMES: &[&str] = &[
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
    if super::tekken::is_tekken(&file) {
        return super::tekken::read(&file);
    }
    read_value(file)
}

/// Reads the parsed contents of a file.
pub(super) fn read_value(file: Value) -> Result<Tokenizer, String> {
    if !file["model"].is_object() {
        return Err(format!("the JSON has no \"model\"; {}", super::SUPPORTED_FILES));
    }
    check_merges(&file["model"])?;
    check_token_lengths(&file["model"])?;
    check_charsmaps(&file["normalizer"])?;
    let mut decoder = TokenDecoder::new(&file["decoder"])?;
    // The end of a word, as of CLIP, belongs to the model and not to the decoder.
    let suffix = file["model"]["end_of_word_suffix"].as_str().filter(|text| !text.is_empty());
    decoder.word_end = decoder.word_end.or(suffix.map(str::to_owned));
    // Build from the checked value. Parsing the bytes again could resolve duplicate keys differently.
    let inner = serde_json::from_value::<tokenizers::Tokenizer>(file);
    let mut inner = inner.map_err(|error| error.to_string())?;
    check_post_processor(&inner)?;
    check_pre_tokenizer(&inner)?;
    check_added_tokens(&inner)?;
    let failed = |error: tokenizers::Error| error.to_string();
    // Padding and truncation are for training batches. They would silently change a prompt.
    inner.with_padding(None).with_truncation(None).map_err(failed)?;
    let added = inner.get_added_tokens_decoder();
    let leading =
        if decoder.strip_first_space { LeadingSpace::StripFirst } else { LeadingSpace::Keep };
    let trims_end = decoder.word_end.is_some();
    let mut table = TokenTable { leading, trims_end, ..TokenTable::default() };
    for (text, id) in inner.get_vocab(true) {
        let special = added.get(&id).is_some_and(|token| token.special);
        let bytes = if special { text.into_bytes() } else { decoder.bytes(&text) };
        table.insert(id as usize, &bytes, special)?;
    }
    let eos: Vec<u32> = EOS_NAMES.iter().filter_map(|name| inner.token_to_id(name)).collect();
    // The post-processor adds the BOS token to an empty text.
    let template = inner.encode_fast("", true).map_err(failed)?;
    let bos = template.get_ids().first().copied().filter(|token| !eos.contains(token));
    Ok(Tokenizer { inner, table, normalizer: None, bos, eos })
}

/// Checks that both parts and the result of each merge are in the vocabulary.
fn check_merges(model: &Value) -> Result<(), String> {
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
            return Err(format!("model.merges: {merge} is not a pair of tokens"));
        };
        let merged = right.strip_prefix(prefix).map(|right| format!("{left}{right}"));
        let is_token = merged.is_some_and(|merged| tokens.contains(merged.as_str()));
        if !is_token || !tokens.contains(left) || !tokens.contains(right) {
            return Err(format!("model.merges: {merge} has a part or a result not in model.vocab"));
        }
    }
    Ok(())
}

/// Checks the token lengths of a unigram model, whose trie is as deep as its longest token.
fn check_token_lengths(model: &Value) -> Result<(), String> {
    let is_too_long =
        |entry: &Value| entry[0].as_str().is_some_and(|text| text.len() > MAX_TOKEN_BYTES);
    match model["vocab"].as_array().into_iter().flatten().position(is_too_long) {
        Some(id) => Err(format!("model.vocab: token {id} is longer than {MAX_TOKEN_BYTES} bytes")),
        None => Ok(()),
    }
}

/// Checks the SentencePiece normalization tables.
fn check_charsmaps(normalizer: &Value) -> Result<(), String> {
    let fields = match normalizer {
        Value::Null => return Ok(()),
        Value::Object(fields) => fields,
        other => return Err(format!("normalizer: {other} is not a supported normalizer")),
    };
    for part in fields.get("normalizers").and_then(Value::as_array).into_iter().flatten() {
        check_charsmaps(part)?;
    }
    let table = fields.get("precompiled_charsmap");
    if table.is_none() && normalizer["type"] != "Precompiled" {
        return Ok(());
    }
    let bytes = table.and_then(Value::as_str).and_then(|text| BASE64_STANDARD.decode(text).ok());
    let table = bytes.and_then(|bytes| Charsmap::read(&bytes));
    if table.is_some_and(|table| table.is_valid()) {
        return Ok(());
    }
    Err("normalizer: precompiled_charsmap is not a valid SentencePiece table".to_owned())
}

/// Checks that the post-processor has at most one template and no nested sequences, and that the
/// template uses only sequence A and its own special tokens.
fn check_post_processor(inner: &tokenizers::Tokenizer) -> Result<(), String> {
    // Check the parsed form, because a file has several spellings for it.
    let processor = serde_json::to_value(inner.get_post_processor());
    let processor = processor.map_err(|error| error.to_string())?;
    let parts = processor["processors"].as_array();
    let parts = parts.map_or(slice::from_ref(&processor), Vec::as_slice);
    let mut templates = parts.iter().filter(|part| part["type"] == "TemplateProcessing");
    let template = templates.next().unwrap_or(&Value::Null);
    if templates.next().is_some() || parts.iter().any(|part| part["type"] == "Sequence") {
        return Err("post_processor: more than one template, or a nested sequence".to_owned());
    }
    let is_listed = |name: &str| template["special_tokens"].get(name).is_some();
    for piece in template["single"].as_array().into_iter().flatten() {
        let is_text = piece["Sequence"]["id"] == "A";
        if !is_text && !piece["SpecialToken"]["id"].as_str().is_some_and(is_listed) {
            return Err(format!("post_processor: {piece} is neither A nor in special_tokens"));
        }
    }
    Ok(())
}

/// Checks that no pre-tokenizer splits the text into pieces of length 0.
fn check_pre_tokenizer(inner: &tokenizers::Tokenizer) -> Result<(), String> {
    fn has_zero_length(value: &Value) -> bool {
        let mut parts = value["pretokenizers"].as_array().into_iter().flatten();
        value["type"] == "FixedLength" && value["length"] == 0 || parts.any(has_zero_length)
    }
    // Check the parsed form, because a file has several spellings for it.
    let pre_tokenizer = serde_json::to_value(inner.get_pre_tokenizer());
    if has_zero_length(&pre_tokenizer.map_err(|error| error.to_string())?) {
        return Err("pre_tokenizer: FixedLength.length is 0, but must be at least 1".to_owned());
    }
    Ok(())
}

/// Checks that no whitespace token has `lstrip`. A second such token would strip whitespace that
/// belongs to the token before it.
fn check_added_tokens(inner: &tokenizers::Tokenizer) -> Result<(), String> {
    let added = inner.get_added_tokens_decoder();
    let is_invalid = |token: &&tokenizers::AddedToken| {
        token.lstrip && token.content.chars().all(char::is_whitespace)
    };
    match added.values().find(is_invalid) {
        Some(token) => {
            let text = &token.content;
            Err(format!("added_tokens: {text:?} is whitespace and must not have lstrip"))
        }
        None => Ok(()),
    }
}

/// Converts the text of a token in the vocabulary to bytes, as the decoder of the file does.
#[derive(Debug, Default, PartialEq)]
struct TokenDecoder {
    /// Byte-level vocabulary: each character represents a byte, as in GPT-2.
    byte_level: bool,
    /// Replacement for a space in the vocabulary, such as `▁`.
    space: Option<String>,
    /// Byte fallback: `<0xE3>` represents a byte.
    byte_fallback: bool,
    /// Removes the first space of a text.
    strip_first_space: bool,
    /// WordPiece: the prefix of tokens that continue a word. A space precedes all others.
    continuation: Option<String>,
    /// Removes the space before punctuation and contractions, as WordPiece decoders do.
    cleanup: bool,
    /// End of a word in the vocabulary, such as `</w>`.
    word_end: Option<String>,
}

/// Tokens that lose the space before them.
const CLEANED: &[&str] = &[" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're"];

impl TokenDecoder {
    /// Reads the field `decoder` of a file.
    fn new(decoder: &Value) -> Result<Self, String> {
        let mut token_decoder = Self::default();
        token_decoder.add(decoder)?;
        Ok(token_decoder)
    }

    fn add(&mut self, decoder: &Value) -> Result<(), String> {
        let unknown = || format!("decoder: {decoder} is not supported");
        match decoder["type"].as_str() {
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.byte_fallback = true,
            Some("Fuse") => {}
            Some("Metaspace") => {
                let space = decoder["replacement"].as_str().ok_or_else(unknown)?;
                self.space = Some(space.to_owned());
                let scheme = decoder["prepend_scheme"].as_str();
                let prefix = decoder["add_prefix_space"].as_bool().unwrap_or(true);
                self.strip_first_space = scheme.map_or(prefix, |scheme| scheme != "never");
            }
            Some("WordPiece") => {
                let prefix = decoder["prefix"].as_str().ok_or_else(unknown)?;
                self.continuation = Some(prefix.to_owned());
                self.cleanup = decoder["cleanup"].as_bool().unwrap_or(true);
                self.strip_first_space = true;
            }
            Some("BPEDecoder") => {
                let suffix = decoder["suffix"].as_str().ok_or_else(unknown)?;
                self.word_end = Some(suffix.to_owned());
            }
            Some("Replace") => match (decoder["pattern"]["String"].as_str(), &decoder["content"]) {
                (Some(space), Value::String(content)) if content == " " => {
                    self.space = Some(space.to_owned());
                }
                _ => return Err(unknown()),
            },
            Some("Strip") => {
                let is_leading_space = decoder["content"] == " " && decoder["stop"] == 0;
                match decoder["start"].as_u64() {
                    Some(0) if is_leading_space => {}
                    Some(1) if is_leading_space => self.strip_first_space = true,
                    _ => return Err(unknown()),
                }
            }
            Some("Sequence") => {
                let parts = decoder["decoders"].as_array().ok_or_else(unknown)?;
                // Ignore nested sequences, which are useless, to bound the recursion.
                for part in parts.iter().filter(|part| part["type"] != "Sequence") {
                    self.add(part)?;
                }
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Bytes of the token `text`.
    fn bytes(&self, text: &str) -> Vec<u8> {
        if let Some(prefix) = &self.continuation {
            let mut text = match text.strip_prefix(prefix.as_str()) {
                Some(rest) => rest.to_owned(),
                None => format!(" {text}"),
            };
            for &cleaned in CLEANED.iter().filter(|_| self.cleanup) {
                text = text.replace(cleaned, &cleaned[1..]);
            }
            return text.into_bytes();
        }
        match self.word_end.as_ref().and_then(|end| text.strip_suffix(end.as_str())) {
            Some(word) => [self.plain_bytes(word).as_slice(), b" "].concat(),
            None => self.plain_bytes(text),
        }
    }

    /// Bytes of a token without the marks of words.
    fn plain_bytes(&self, text: &str) -> Vec<u8> {
        if self.byte_level {
            let bytes: Option<Vec<u8>> = text.chars().map(char_to_byte).collect();
            return bytes.unwrap_or_else(|| text.as_bytes().to_vec());
        }
        if let Some(byte) = self.byte_fallback.then(|| parse_byte_token(text)).flatten() {
            return vec![byte];
        }
        match &self.space {
            Some(space) if !space.is_empty() => text.replace(space, " ").into_bytes(),
            _ => text.as_bytes().to_vec(),
        }
    }
}

/// Byte of a byte fallback token such as `<0xE3>`.
pub(super) fn parse_byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Character that represents a byte in byte-level vocabularies (GPT-2 `bytes_to_unicode`).
pub(super) fn byte_to_char(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    if is_printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&byte| !is_printable(byte)).count();
    char::from_u32(256 + u32::try_from(rank).unwrap_or(0)).unwrap_or_default()
}

/// Byte that a character represents; inverse of [`byte_to_char`].
fn char_to_byte(character: char) -> Option<u8> {
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
    fn byte_level_mapping_is_invertible() {
        for byte in 0..=255 {
            assert_eq!(char_to_byte(byte_to_char(byte)), Some(byte), "{byte}");
        }
        assert_eq!(char_to_byte('€'), None);
        assert_eq!([b' ', b'\n', 0xad].map(byte_to_char), ['Ġ', 'Ċ', 'Ń']);
    }

    #[test]
    fn decoders_are_applied_or_rejected() {
        let check = |decoder: Value, text: &str, expected: &[u8]| {
            let decoder = TokenDecoder::new(&decoder).expect("a supported decoder");
            assert_eq!(decoder.bytes(text), expected);
        };
        let llama = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
        assert!(TokenDecoder::new(&llama).is_ok_and(|decoder| decoder.strip_first_space));
        check(llama.clone(), "▁a▁", b" a ");
        check(llama, "<0xE3>", &[0xe3]);
        check(json!({"type": "ByteLevel"}), "ĠÃ¼", " ü".as_bytes());
        check(json!({"type": "ByteLevel"}), "日", "日".as_bytes());
        let wordpiece = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
        for (token, expected) in [("##ing", "ing"), ("go", " go"), (".", "."), ("'s", "'s")] {
            check(wordpiece.clone(), token, expected.as_bytes());
        }
        check(json!({"type": "BPEDecoder", "suffix": "</w>"}), "go</w>", b"go ");
        for invalid in [json!(null), json!({"type": "CTC"}), json!({"type": "Strip"})] {
            let result = TokenDecoder::new(&invalid);
            assert!(result.is_err_and(|reason| reason.contains("is not supported")));
        }
    }

    /// Opens a file with one token, `normalizer` and `processor`. Returns its BOS token.
    fn open(normalizer: &Value, processor: &Value) -> Result<Option<u32>, String> {
        let model = json!({"type": "BPE", "vocab": {"a": 0}, "merges": []});
        let decoder = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
            "use_regex": true});
        let file = json!({"version": "1.0", "added_tokens": [], "pre_tokenizer": null,
            "normalizer": normalizer, "post_processor": processor, "decoder": decoder,
            "model": model});
        read(file.to_string().as_bytes()).map(|tokenizer| tokenizer.bos)
    }

    fn template(single: &Value, tokens: &Value) -> Value {
        json!({"type": "TemplateProcessing", "single": single, "pair": [],
            "special_tokens": tokens})
    }

    #[test]
    fn templates_use_only_listed_tokens() {
        let token = json!({"SpecialToken": {"id": "a", "type_id": 0}});
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let second = json!({"Sequence": {"id": "B", "type_id": 0}});
        let listed = json!({"a": {"id": "a", "ids": [0], "tokens": ["a"]}});
        let sequence = |parts: &[&Value]| json!({"type": "Sequence", "processors": parts});
        let valid = template(&json!([token, text]), &listed);
        assert_eq!(open(&Value::Null, &valid), Ok(Some(0)));
        assert_eq!(open(&Value::Null, &sequence(&[&valid])), Ok(Some(0)));
        let check = |processor: &Value, expected: &str| {
            for processor in [processor, &sequence(&[processor])] {
                let reason = open(&Value::Null, processor).expect_err("an error");
                assert!(reason.contains(expected), "{processor}: {reason}");
            }
        };
        check(&template(&json!([token, text]), &json!({})), "neither A nor in special_tokens");
        check(&template(&json!([text, second]), &listed), "neither A nor in special_tokens");
        check(&sequence(&[&valid, &valid]), "more than one template");
    }

    #[test]
    fn invalid_charsmaps_are_rejected() {
        let check = |bytes: &[u8]| {
            let table = BASE64_STANDARD.encode(bytes);
            let normalizer = json!({"type": "Precompiled", "precompiled_charsmap": table});
            let sequence = json!({"type": "Sequence", "normalizers": [normalizer]});
            for normalizer in [normalizer, sequence] {
                let reason = open(&normalizer, &Value::Null).expect_err("an error");
                assert!(reason.contains("not a valid SentencePiece"), "{bytes:?}: {reason}");
            }
        };
        check(&[]);
        check(&[0, 0, 0]);
        check(&[4, 0, 0, 0, 0, 0, 0, 0]); // the root has fewer than 256 units after its base
        let no_table = json!({"type": "Precompiled"});
        assert!(open(&no_table, &Value::Null).is_err());
        assert!(open(&json!([["AAAA"]]), &Value::Null).is_err());
        assert_eq!(open(&json!({"type": "NFC"}), &Value::Null), Ok(None));
    }

    #[test]
    fn token_length_of_unigram_models_is_limited() {
        let model = |len: usize| json!({"vocab": [["a", 0.0], ["a".repeat(len), -1.0]]});
        assert_eq!(check_token_lengths(&model(1024)), Ok(()));
        let reason = check_token_lengths(&model(1025)).expect_err("an error");
        assert_eq!(reason, "model.vocab: token 1 is longer than 1024 bytes");
    }
}
