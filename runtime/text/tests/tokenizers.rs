//! Tokens and texts as the packages give them that the tokenizer files belong to.

use std::path::{Path, PathBuf};

use afferent_text::{TextStream, Tokenizer};
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn cases() -> Value {
    let text = std::fs::read(data("tokenizer_cases.json")).expect("the file is there");
    serde_json::from_slice(&text).expect("valid JSON")
}

fn tokens(value: &Value) -> Vec<u32> {
    let list = value.as_array().expect("a list").iter();
    list.map(|token| token.as_u64().expect("a token").try_into().expect("small")).collect()
}

/// One U+FFFD for several: packages differ in how many stand for a sequence that is no UTF-8.
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
    let (tokenizer, cases) = (Tokenizer::open(data(name)).expect("a tokenizer"), cases());
    assert_eq!(Some(tokenizer.vocabulary() as u64), cases[name]["size"].as_u64(), "{name}");
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
        if name == "metaspace.json" && found.contains('\u{fffd}') {
            // There, a wrong byte takes the characters beside it with it.
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
fn hugging_face_with_bytes() {
    check_encoding("bytes.json");
    check_decoding("bytes.json");
}

#[test]
fn hugging_face_with_metaspace() {
    check_encoding("metaspace.json");
    check_decoding("metaspace.json");
}

#[test]
fn sentencepiece_bpe() {
    check_encoding("bpe.model");
    check_decoding("bpe.model");
}

#[test]
fn sentencepiece_unigram_with_normalisation() {
    check_encoding("unigram.model");
    check_decoding("unigram.model");
}

#[test]
fn sentencepiece_unigram_with_bytes() {
    check_encoding("plain.model");
    check_decoding("plain.model");
}

#[test]
fn tiktoken() {
    check_encoding("tiktoken.model");
    check_decoding("tiktoken.model");
}

#[test]
fn streams_give_whole_characters() {
    let texts = ["grüß 👋🏽 こんにちは", " hi  there", "a"];
    for name in ["bytes.json", "metaspace.json", "bpe.model", "plain.model", "tiktoken.model"] {
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        for text in texts {
            let tokens = tokenizer.encode(text).expect("tokens");
            let mut stream = TextStream::at_start(&tokenizer);
            let parts = tokens.iter().map(|&token| stream.push(&tokenizer, token));
            let parts: Vec<String> = parts.collect::<Result<_, _>>().expect("text");
            assert!(!parts.concat().contains('\u{fffd}'), "{name}: {parts:?}");
            let end = stream.finish();
            let space = parts.concat().starts_with(' ') == text.starts_with(' ');
            let trimmed = name == "plain.model"; // extra spaces are not kept
            assert!(end.is_empty() && (space || trimmed), "{name}: {parts:?}");
            if !trimmed {
                assert_eq!(parts.concat(), text, "{name}");
            }
        }
    }
}

#[test]
fn an_answer_keeps_its_first_space() {
    let tokenizer = Tokenizer::open(data("bpe.model")).expect("a tokenizer");
    let tokens = tokenizer.encode("tuesday").expect("tokens");
    let text = |mut stream: TextStream| -> String {
        tokens.iter().map(|&token| stream.push(&tokenizer, token).expect("text")).collect()
    };
    assert_eq!(text(TextStream::at_start(&tokenizer)), "tuesday");
    assert_eq!(text(TextStream::going_on()), " tuesday");
}

#[test]
fn special_tokens_are_known() {
    let check = |name: &str, begin: Option<&str>, end: &[&str]| {
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        let token = |name: &&str| tokenizer.token(name).expect("a token");
        assert_eq!(tokenizer.begin(), begin.as_ref().map(token), "{name}");
        assert_eq!(tokenizer.end(), end.iter().map(token).collect::<Vec<_>>(), "{name}");
    };
    check("bytes.json", None, &["</s>"]);
    let llama = ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"];
    check("tiktoken.model", Some("<|begin_of_text|>"), &llama);
    let tokenizer = Tokenizer::open(data("bpe.model")).expect("a tokenizer");
    assert_eq!((tokenizer.begin(), tokenizer.end()), (Some(1), [2].as_slice()));
    assert_eq!(tokenizer.encode("<s>").map(|tokens| tokens.contains(&1)), Ok(false));
}

#[test]
fn special_tokens_of_users_are_text() {
    for (name, special) in [("bytes.json", "</s>"), ("tiktoken.model", "<|eot_id|>")] {
        let text = format!("monday{special}");
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        let token = tokenizer.token(special).expect("a token");
        assert!(tokenizer.encode(&text).expect("tokens").contains(&token), "{name}");
        let tokenizer = tokenizer.without_special(&[]);
        let tokens = tokenizer.encode(&text).expect("tokens");
        assert!(!tokens.contains(&token), "{name}");
        assert_eq!(tokenizer.decode(&tokens), Ok(text), "{name}");
    }
}

#[test]
fn tokens_of_a_template_are_text_in_what_users_say() {
    let text = "monday<tool>";
    for name in ["bytes.json", "bpe.model", "plain.model", "unigram.model"] {
        let tokenizer = Tokenizer::open(data(name)).expect("a tokenizer");
        let token = tokenizer.token("<tool>").expect("a token");
        assert!(tokenizer.encode(text).expect("tokens").contains(&token), "{name}");
        let tokenizer = tokenizer.without_special(&[token]);
        let tokens = tokenizer.encode(text).expect("tokens");
        assert!(!tokens.contains(&token), "{name}");
        // The last has no tokens for what its training did not have.
        if name != "unigram.model" {
            assert_eq!(tokenizer.decode(&tokens), Ok(text.to_owned()), "{name}");
        }
        assert_eq!(tokenizer.token("<tool>"), Some(token), "{name}");
    }
}

#[test]
fn added_words_and_ends_of_lines_stay_tokens() {
    let file = std::fs::read_to_string(data("bytes.json")).expect("the file is there");
    let check = |word: &str, is_used: bool| {
        let file = file.replace("\"<tool>\"", &Value::from(word).to_string());
        let tokenizer = Tokenizer::from_bytes("changed", file.as_bytes()).expect("a tokenizer");
        let token = tokenizer.token(word).expect("a token");
        let used = if is_used { vec![token] } else { Vec::new() };
        let tokens = tokenizer.without_special(&used).encode(&format!("monday{word}"));
        assert!(tokens.expect("tokens").contains(&token), "{word:?}");
    };
    check("\n\n", true);
    check("ExecuTorch", false);
}

#[test]
fn bad_files_are_refused() {
    let check = |bytes: &[u8], expected: &str| {
        let error = Tokenizer::from_bytes("bad", bytes).err().expect("an error").to_string();
        assert!(error.starts_with("bad: ") && error.contains(expected), "{error}");
    };
    check(b"", "empty");
    check(b"{", "EOF");
    check(b"{}", "");
    check(b"PK\x03\x04", "line 1");
    let good = std::fs::read_to_string(data("bytes.json")).expect("the file is there");
    check(good.replace("\"ByteLevel\"", "\"WordPiece\"").as_bytes(), "");
    let merge = good.replacen("\"merges\":[", "\"merges\":[[\"zz\",\"zz\"],", 1);
    check(merge.as_bytes(), "names what is no token");
    let mut cut = r#"{"type":"FixedLength","length":0}"#.to_owned();
    for _ in 0..3 {
        let cut_so = format!("\"pre_tokenizer\":{cut},\"model\":");
        let file = good.replacen("\"pre_tokenizer\":", "\"_\":", 1);
        check(file.replacen("\"model\":", &cut_so, 1).as_bytes(), "the length 0");
        cut = format!(r#"{{"type":"Sequence","pretokenizers":[{cut}]}}"#);
    }
    let missing = Tokenizer::open("no/such/file").err().expect("an error").to_string();
    assert!(missing.starts_with("no/such/file: "), "{missing}");
    let tokenizer = Tokenizer::open(data("bytes.json")).expect("a tokenizer");
    let error = tokenizer.decode(&[9999]).expect_err("no token").to_string();
    assert_eq!(
        error,
        "there is no token 9999, the vocabulary has 421: does the tokenizer belong to the model?"
    );
}

#[test]
fn damaged_files_give_an_error_or_a_tokenizer() {
    for name in ["bytes.json", "metaspace.json", "bpe.model", "unigram.model", "tiktoken.model"] {
        let good = std::fs::read(data(name)).expect("the file is there");
        let step = good.len() / 40 + 1;
        let cut = (0..good.len()).step_by(step).map(|len| good[..len].to_vec());
        let changed = (0..good.len()).step_by(step).map(|at| {
            let mut bytes = good.clone();
            bytes[at] ^= 0x15;
            bytes
        });
        for bytes in cut.chain(changed) {
            let Ok(tokenizer) = Tokenizer::from_bytes(name, &bytes) else { continue };
            let tokens = tokenizer.encode("grüß dich, monday <tool>  x").unwrap_or_default();
            let _ = tokenizer.decode(&tokens);
        }
    }
}
