//! Compares tokens and texts with the Python packages of each tokenizer format.

use std::path::{Path, PathBuf};

use afferent_text::{DecodeStream, Tokenizer};
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn cases() -> Value {
    let text = std::fs::read(data("tokenizer_cases.json")).expect("the file exists");
    serde_json::from_slice(&text).expect("valid JSON")
}

fn tokens(value: &Value) -> Vec<u32> {
    let list = value.as_array().expect("a list").iter();
    list.map(|token| token.as_u64().expect("a token").try_into().expect("small")).collect()
}

/// Merges adjacent U+FFFD, because the number for invalid UTF-8 differs between packages.
fn collapsed(text: &str) -> String {
    let mut collapsed = String::new();
    for character in text.chars() {
        if character != '\u{fffd}' || !collapsed.ends_with(character) {
            collapsed.push(character);
        }
    }
    collapsed
}

fn check_encoding(name: &str) {
    check_encoding_with(name, |tokenizer| tokenizer);
}

fn check_encoding_with(name: &str, change: fn(Tokenizer) -> Tokenizer) {
    let tokenizer = change(Tokenizer::open(data(name)).expect("a tokenizer"));
    let cases = cases();
    assert_eq!(Some(tokenizer.vocab_size() as u64), cases[name]["size"].as_u64(), "{name}");
    let mut wrong = Vec::new();
    for case in cases[name]["encode"].as_array().expect("a list") {
        let text = case["text"].as_str().expect("a text");
        let (found, expected) = (tokenizer.encode(text).expect("tokens"), tokens(&case["tokens"]));
        if found != expected {
            wrong.push(format!("{text:?}: {found:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{name}: {} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn check_decoding(name: &str) {
    let (tokenizer, cases) = (Tokenizer::open(data(name)).expect("a tokenizer"), cases());
    let mut wrong = Vec::new();
    for case in cases[name]["decode"].as_array().expect("a list") {
        let (tokens, expected) = (tokens(&case["tokens"]), case["text"].as_str().expect("a text"));
        let found = tokenizer.decode(&tokens).expect("text");
        // The decoder of WordPiece keeps the prefix of the first token.
        if ["wordpiece.json", "vocab.txt"].contains(&name) && expected.starts_with("##") {
            assert_eq!(found, &expected[2..], "{name}: {tokens:?}");
            continue;
        }
        if name == "metaspace.json" && found.contains('\u{fffd}') {
            // `tokenizers` also replaces valid characters next to an invalid byte.
            assert!(expected.contains('\u{fffd}'), "{name}: {tokens:?}");
            continue;
        }
        if collapsed(&found) != collapsed(expected) {
            wrong.push(format!("{tokens:?}: {found:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{name}: {} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn hugging_face_byte_level() {
    check_encoding("bytes.json");
    check_decoding("bytes.json");
}

#[test]
fn hugging_face_metaspace() {
    check_encoding("metaspace.json");
    check_decoding("metaspace.json");
}

#[test]
fn sentencepiece_bpe() {
    check_encoding("bpe.model");
    check_decoding("bpe.model");
}

#[test]
fn sentencepiece_unigram_with_normalization() {
    check_encoding("unigram.model");
    check_decoding("unigram.model");
}

#[test]
fn sentencepiece_unigram_with_byte_fallback() {
    check_encoding("plain.model");
    check_decoding("plain.model");
}

#[test]
fn tiktoken() {
    check_encoding("tiktoken.model");
    check_decoding("tiktoken.model");
}

/// `mistral-common` has no control tokens in a text.
#[test]
fn tekken() {
    check_encoding_with("tekken.json", |tokenizer| tokenizer.with_special_as_text(&[]));
    check_decoding("tekken.json");
}

#[test]
fn word_piece() {
    check_encoding("wordpiece.json");
    check_decoding("wordpiece.json");
    check_encoding("vocab.txt");
    check_decoding("vocab.txt");
}

#[test]
fn clip() {
    check_encoding("clip.json");
    check_decoding("clip.json");
}

#[test]
fn llama2c() {
    check_encoding("llama2c.bin");
    check_decoding("llama2c.bin");
}

#[test]
fn special_tokens_frame_a_text() {
    for name in ["wordpiece.json", "vocab.txt"] {
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        let tokens = tokenizer.encode_with_special("monday").expect("tokens");
        assert_eq!((tokens.first(), tokens.last()), (Some(&2), Some(&3)), "{name}");
    }
    let tokenizer = Tokenizer::open(data("llama2c.bin")).expect("a tokenizer");
    assert_eq!(tokenizer.encode_with_special("monday"), tokenizer.encode("monday"));
}

#[test]
fn decode_stream_returns_complete_characters() {
    let texts = ["grüß 👋🏽 こんにちは", " hi  there", "a"];
    for name in ["bytes.json", "metaspace.json", "bpe.model", "plain.model", "tiktoken.model"] {
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        for text in texts {
            let tokens = tokenizer.encode(text).expect("tokens");
            let mut stream = DecodeStream::at_start(&tokenizer);
            let parts = tokens.iter().map(|&token| stream.push(&tokenizer, token));
            let parts: Vec<String> = parts.collect::<Result<_, _>>().expect("text");
            assert!(!parts.concat().contains('\u{fffd}'), "{name}: {parts:?}");
            let end = stream.finish();
            let space = parts.concat().starts_with(' ') == text.starts_with(' ');
            let trimmed = name == "plain.model"; // removes extra spaces
            assert!(end.is_empty() && (space || trimmed), "{name}: {parts:?}");
            if !trimmed {
                assert_eq!(parts.concat(), text, "{name}");
            }
        }
    }
}

#[test]
fn answer_keeps_its_leading_space() {
    let tokenizer = Tokenizer::open(data("bpe.model")).expect("a tokenizer");
    let tokens = tokenizer.encode("tuesday").expect("tokens");
    let text = |mut stream: DecodeStream| -> String {
        tokens.iter().map(|&token| stream.push(&tokenizer, token).expect("text")).collect()
    };
    assert_eq!(text(DecodeStream::at_start(&tokenizer)), "tuesday");
    assert_eq!(text(DecodeStream::continuing()), " tuesday");
}

#[test]
fn bos_and_eos_tokens() {
    let check = |name: &str, bos: Option<&str>, eos: &[&str]| {
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        let token = |name: &&str| tokenizer.token_id(name).expect("a token");
        assert_eq!(tokenizer.bos(), bos.as_ref().map(token), "{name}");
        assert_eq!(tokenizer.eos(), eos.iter().map(token).collect::<Vec<_>>(), "{name}");
    };
    check("bytes.json", None, &["</s>"]);
    let llama = ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"];
    check("tiktoken.model", Some("<|begin_of_text|>"), &llama);
    let tokenizer = Tokenizer::open(data("bpe.model")).expect("a tokenizer");
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), [2].as_slice()));
    assert_eq!(tokenizer.encode("<s>").map(|tokens| tokens.contains(&1)), Ok(false));
}

#[test]
fn special_tokens_in_user_text_are_text() {
    let files = [
        ("bytes.json", "</s>"),
        ("tiktoken.model", "<|eot_id|>"),
        ("tekken.json", "[TOOL_CALLS]"),
        ("tekken.json", "</s>"),
    ];
    for (name, special) in files {
        let text = format!("monday{special}");
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        let token = tokenizer.token_id(special).expect("a token");
        assert!(tokenizer.encode(&text).expect("tokens").contains(&token), "{name}");
        let tokenizer = tokenizer.with_special_as_text(&[]);
        let tokens = tokenizer.encode(&text).expect("tokens");
        assert!(!tokens.contains(&token), "{name}");
        assert_eq!(tokenizer.decode(&tokens), Ok(text), "{name}");
    }
}

/// Vocabularies that cannot write every text.
#[test]
fn special_tokens_are_not_found_in_lossy_vocabularies() {
    for (name, special) in [
        ("wordpiece.json", "[SEP]"),
        ("vocab.txt", "[MASK]"),
        ("clip.json", "<|startoftext|>"),
        ("llama2c.bin", "</s>"),
    ] {
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        let token = tokenizer.token_id(special).expect("a token");
        assert_eq!(tokenizer.special_name(token), Some(special), "{name}");
        let tokenizer = tokenizer.with_special_as_text(&[]);
        let tokens = tokenizer.encode(&format!("monday {special}")).expect("tokens");
        assert!(!tokens.contains(&token) && tokens.len() > 1, "{name}: {tokens:?}");
    }
}

#[test]
fn template_tokens_in_user_text_are_text() {
    let text = "monday<tool>";
    for name in ["bytes.json", "bpe.model", "plain.model", "unigram.model"] {
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        let token = tokenizer.token_id("<tool>").expect("a token");
        assert!(tokenizer.encode(text).expect("tokens").contains(&token), "{name}");
        let tokenizer = tokenizer.with_special_as_text(&[token]);
        let tokens = tokenizer.encode(text).expect("tokens");
        assert!(!tokens.contains(&token), "{name}");
        // unigram.model has no tokens for characters that are not in its training data.
        if name != "unigram.model" {
            assert_eq!(tokenizer.decode(&tokens), Ok(text.to_owned()), "{name}");
        }
        assert_eq!(tokenizer.token_id("<tool>"), Some(token), "{name}");
    }
}

#[test]
fn whitespace_and_unused_added_tokens_stay_tokens() {
    let file = std::fs::read_to_string(data("bytes.json")).expect("the file exists");
    let check = |word: &str, is_used: bool| {
        let file = file.replace("\"<tool>\"", &Value::from(word).to_string());
        let tokenizer = Tokenizer::from_bytes("changed", file.as_bytes()).expect("a tokenizer");
        let token = tokenizer.token_id(word).expect("a token");
        let used = if is_used { vec![token] } else { Vec::new() };
        let tokens = tokenizer.with_special_as_text(&used).encode(&format!("monday{word}"));
        assert!(tokens.expect("tokens").contains(&token), "{word:?}");
    };
    check("\n\n", true);
    check("ExecuTorch", false);
}

#[test]
fn invalid_files_are_rejected() {
    let check = |bytes: &[u8], expected: &str| {
        let error = Tokenizer::from_bytes("file", bytes).err().expect("an error").to_string();
        assert!(error.starts_with("file: ") && error.contains(expected), "{error}");
    };
    check(b"", "empty");
    check(b"{", "EOF");
    check(b"{}", "");
    check(b"PK\x03\x04", "line 1");
    let valid = std::fs::read_to_string(data("bytes.json")).expect("the file exists");
    check(valid.replace("\"ByteLevel\"", "\"CTC\"").as_bytes(), "");
    let merge = valid.replacen("\"merges\":[", "\"merges\":[[\"zz\",\"zz\"],", 1);
    check(merge.as_bytes(), "not in model.vocab");
    let mut pre_tokenizer = r#"{"type":"FixedLength","length":0}"#.to_owned();
    for _ in 0..3 {
        let fields = format!("\"pre_tokenizer\":{pre_tokenizer},\"model\":");
        let file = valid.replacen("\"pre_tokenizer\":", "\"_\":", 1);
        let file = file.replacen("\"model\":", &fields, 1);
        check(file.as_bytes(), "FixedLength.length is 0");
        pre_tokenizer = format!(r#"{{"type":"Sequence","pretokenizers":[{pre_tokenizer}]}}"#);
    }
    let missing = Tokenizer::open("no/such/file").err().expect("an error").to_string();
    assert!(missing.starts_with("no/such/file: "), "{missing}");
    let tokenizer = Tokenizer::open(data("bytes.json")).expect("a tokenizer");
    let error = tokenizer.decode(&[9999]).expect_err("an unknown token").to_string();
    assert_eq!(
        error,
        "token 9999 is not in the vocabulary of 421 tokens; check that the tokenizer belongs to \
         the model"
    );
}

#[test]
fn damaged_files_do_not_panic() {
    for name in [
        "bytes.json",
        "metaspace.json",
        "bpe.model",
        "unigram.model",
        "tiktoken.model",
        "tekken.json",
        "wordpiece.json",
        "vocab.txt",
        "clip.json",
        "llama2c.bin",
    ] {
        let valid = std::fs::read(data(name)).expect("the file exists");
        let step = valid.len() / 40 + 1;
        let truncated = (0..valid.len()).step_by(step).map(|len| valid[..len].to_vec());
        let changed = (0..valid.len()).step_by(step).map(|at| {
            let mut bytes = valid.clone();
            bytes[at] ^= 0x15;
            bytes
        });
        for bytes in truncated.chain(changed) {
            let Ok(tokenizer) = Tokenizer::from_bytes(name, &bytes) else { continue };
            let tokens = tokenizer.encode("grüß dich, monday <tool>  x").unwrap_or_default();
            let _ = tokenizer.decode(&tokens);
        }
    }
}
