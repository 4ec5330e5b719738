//! `tekken.json` of Mistral: tokens in base64 with their ranks, the pattern of words, and the special
//! tokens, whose ids come first.

use std::collections::HashMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{MAX_TOKENS, Tokenizer, tiktoken};

/// Special tokens of files that do not list them: those up to version 7.
const SPECIAL_TOKENS: &[&str] = &[
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

/// Maximum number of special tokens. Published files have 1000.
const MAX_SPECIAL_TOKENS: usize = 1 << 14;

/// True if the parsed JSON is a `tekken.json`, and not a `tokenizer.json`.
pub(super) fn is_tekken(file: &Value) -> bool {
    file["vocab"].is_array() && file["config"]["pattern"].is_string() && file.get("model").is_none()
}

pub(super) fn read(file: &Value) -> Result<Tokenizer, String> {
    let config = &file["config"];
    let count = |name: &str| {
        let value = config[name].as_u64().and_then(|value| usize::try_from(value).ok());
        let value = value.filter(|&value| value < MAX_TOKENS);
        value.ok_or_else(|| format!("config.{name} must be a number below {MAX_TOKENS}"))
    };
    let (vocab_size, num_special) =
        (count("default_vocab_size")?, count("default_num_special_tokens")?);
    let num_ranks = vocab_size.checked_sub(num_special).filter(|_| num_special > 0);
    let num_ranks = num_ranks.filter(|_| num_special <= MAX_SPECIAL_TOKENS).ok_or_else(|| {
        format!(
            "config.default_num_special_tokens must be from 1 to {MAX_SPECIAL_TOKENS} and at most \
             default_vocab_size"
        )
    })?;
    let special = special_tokens(file, num_special)?;
    let ranks = ranks(file, num_ranks)?;
    let pattern = config["pattern"].as_str().unwrap_or_default();
    let first = u32::try_from(num_special).map_err(|error| error.to_string())?;
    let (inner, table) = tiktoken::build(&ranks, first, pattern, &special, 0)?;
    let (bos, eos) = (inner.token_to_id("<s>"), inner.token_to_id("</s>"));
    Ok(Tokenizer { inner, table, normalizer: None, bos, eos: eos.into_iter().collect() })
}

/// Names of the special tokens by id; unnamed ones are `<SPECIAL_7>`.
fn special_tokens(file: &Value, count: usize) -> Result<Vec<String>, String> {
    let filler = |id: usize| format!("<SPECIAL_{id}>");
    let mut names: Vec<String> = (0..count).map(filler).collect();
    let known = SPECIAL_TOKENS.iter().map(|&name| Ok((None, name)));
    let listed = file["special_tokens"].as_array().map(|list| {
        list.iter().map(|token| {
            let name = token["token_str"].as_str().filter(|name| !name.is_empty());
            let name = name.ok_or("special_tokens has an entry without token_str")?;
            Ok((token["rank"].as_u64().and_then(|rank| usize::try_from(rank).ok()), name))
        })
    });
    let listed: Vec<Result<(Option<usize>, &str), String>> = match listed {
        Some(listed) => listed.collect(),
        None => known.collect(),
    };
    for (at, entry) in listed.into_iter().enumerate() {
        let (rank, name) = entry?;
        let id = rank.unwrap_or(at);
        let too_many = || {
            format!("special token {name:?} has the id {id}, but there are {count} special tokens")
        };
        *names.get_mut(id).ok_or_else(too_many)? = name.to_owned();
    }
    let mut sorted = names.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("special token {:?} is a duplicate", pair[0])),
        None => Ok(names),
    }
}

/// The first `count` tokens of the vocabulary with their ranks.
fn ranks(file: &Value, count: usize) -> Result<HashMap<Vec<u8>, u32>, String> {
    let mut ranks = HashMap::new();
    for (at, entry) in file["vocab"].as_array().into_iter().flatten().take(count).enumerate() {
        let bytes =
            entry["token_bytes"].as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
        let rank = entry["rank"].as_u64().and_then(|rank| u32::try_from(rank).ok());
        let (Some(bytes), Some(rank)) = (bytes, rank) else {
            return Err(format!("vocab: entry {at} has no rank, or no token_bytes in base64"));
        };
        if bytes.is_empty() || ranks.insert(bytes, rank).is_some() {
            return Err(format!("vocab: entry {at} is empty or a duplicate"));
        }
    }
    if ranks.len() < count {
        return Err(format!("vocab has {} tokens, but config says {count}", ranks.len()));
    }
    tiktoken::check_ranks(&ranks)?;
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(num_special: usize, special: Value) -> Value {
        let vocab: Vec<Value> = (0..=255_u8)
            .map(|byte| json!({"rank": byte, "token_bytes": BASE64_STANDARD.encode([byte])}))
            .collect();
        let config = json!({"pattern": ".", "default_vocab_size": 256 + num_special,
            "default_num_special_tokens": num_special});
        let mut file = json!({"config": config, "vocab": vocab});
        if !special.is_null() {
            file["special_tokens"] = special;
        }
        file
    }

    #[test]
    fn special_tokens_come_first() {
        let tokenizer = read(&file(24, Value::Null)).expect("a tokenizer");
        assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), [2].as_slice()));
        assert_eq!(tokenizer.token_id("[INST]"), Some(3));
        assert_eq!(tokenizer.token_id("<SPECIAL_23>"), Some(23));
        assert_eq!(tokenizer.encode("a"), Ok(vec![24 + 97]));
        let named = json!([{"rank": 2, "token_str": "<end>", "is_control": true}]);
        let tokenizer = read(&file(3, named)).expect("a tokenizer");
        assert_eq!(tokenizer.token_id("<end>"), Some(2));
    }

    #[test]
    fn invalid_files_are_rejected() {
        let check = |file: Value, expected: &str| {
            let reason = read(&file).err().expect("an error");
            assert!(reason.contains(expected), "{reason}");
        };
        let twice = json!([{"rank": 0, "token_str": "x"}, {"rank": 1, "token_str": "x"}]);
        check(file(2, twice), "\"x\" is a duplicate");
        check(file(2, json!([{"rank": 7, "token_str": "x"}])), "the id 7");
        check(file(0, Value::Null), "default_num_special_tokens");
        check(file(3, Value::Null), "there are 3 special tokens");
        let mut short = file(24, Value::Null);
        short["config"]["default_vocab_size"] = json!(9999);
        check(short, "vocab has 256 tokens");
        let mut damaged = file(24, Value::Null);
        damaged["vocab"][3]["token_bytes"] = json!("?");
        check(damaged, "entry 3");
    }
}
