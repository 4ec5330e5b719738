//! tiktoken files: each line has a token in base64 and its rank.

use std::collections::HashMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use tokenizers::{
    AddedToken, SplitDelimiterBehavior,
    models::bpe::BPE,
    pre_tokenizers::{byte_level::ByteLevel, sequence::Sequence, split},
};

use super::{TokenTable, Tokenizer, json::byte_to_char};

/// Pre-tokenizer pattern of Llama 3. The file does not contain it.
const PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Special tokens of Llama 3. Their ids follow those of the file; reserved tokens fill up to
/// [`NUM_SPECIAL_TOKENS`].
const SPECIAL_TOKENS: &[&str] = &[
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
];

/// Number of special tokens.
const NUM_SPECIAL_TOKENS: usize = 256;

/// Maximum length of a token that gets a merge, in bytes. A longer token only matches a whole word.
const MAX_MERGED_TOKEN_BYTES: usize = 256;

pub(super) fn read(bytes: &[u8]) -> Result<Tokenizer, String> {
    let list = ranks(bytes)?;
    let reserved = (2..).map(|number| format!("<|reserved_special_token_{number}|>"));
    let names = SPECIAL_TOKENS.iter().map(|&name| name.to_owned()).chain(reserved);
    let names: Vec<String> = names.take(NUM_SPECIAL_TOKENS).collect();
    let first_special = u32::try_from(list.len()).map_err(|error| error.to_string())?;
    let (inner, table) = build(&list, 0, PATTERN, &names, first_special)?;
    let bos = inner.token_to_id(SPECIAL_TOKENS[0]);
    let eos = ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"];
    let eos = eos.iter().filter_map(|name| inner.token_to_id(name)).collect();
    Ok(Tokenizer { inner, table, normalizer: None, bos, eos })
}

/// Builds a tokenizer from tokens with their ranks. The id of a token is its rank plus `first`;
/// special tokens begin at `first_special`.
pub(super) fn build(
    list: &HashMap<Vec<u8>, u32>,
    first: u32,
    pattern: &str,
    special: &[String],
    first_special: u32,
) -> Result<(tokenizers::Tokenizer, TokenTable), String> {
    let ranks: Ranks<'_> = list.iter().map(|(token, rank)| (token.as_slice(), *rank)).collect();
    let mut table = TokenTable::default();
    let mut vocabulary = tokenizers::models::bpe::Vocab::default();
    for (token, &rank) in &ranks {
        table.insert((rank + first) as usize, token, false)?;
        vocabulary.insert(byte_level(token), rank + first);
    }
    for (name, id) in special.iter().zip(first_special..) {
        table.insert(id as usize, name.as_bytes(), true)?;
        // An ordinary token with this name loses it, and its merges with it.
        vocabulary.insert(name.clone(), id);
    }
    let is_special = |text: &String| special.contains(text);
    let mut tokens: Vec<(&[u8], u32)> = ranks.iter().map(|(&token, &rank)| (token, rank)).collect();
    tokens.sort_unstable_by_key(|&(_, rank)| rank);
    let merges = tokens.iter().filter_map(|&(token, rank)| merge_of(&ranks, token, rank));
    let merges = merges.map(|(left, right)| (byte_level(left), byte_level(right)));
    let merges = merges.filter(|(left, right)| !is_special(&format!("{left}{right}"))).collect();
    let model = BPE::builder().vocab_and_merges(vocabulary, merges).ignore_merges(true).build();
    let failed = |error: tokenizers::Error| error.to_string();
    let mut inner = tokenizers::Tokenizer::new(model.map_err(failed)?);
    let words = split::SplitPattern::Regex(pattern.to_owned());
    let words = split::Split::new(words, SplitDelimiterBehavior::Isolated, false);
    let bytes = ByteLevel::new(false, false, false);
    let steps = vec![words.map_err(failed)?.into(), bytes.into()];
    inner.with_pre_tokenizer(Some(Sequence::new(steps)));
    let added = special.iter().map(|name| AddedToken::from(name.clone(), true));
    inner.add_special_tokens(added).map_err(failed)?;
    Ok((inner, table))
}

type Ranks<'a> = HashMap<&'a [u8], u32>;

/// Reads the tokens of the file and their ranks.
fn ranks(bytes: &[u8]) -> Result<HashMap<Vec<u8>, u32>, String> {
    let text = str::from_utf8(bytes);
    let text = text.map_err(|_| format!("unknown file format; {}", super::SUPPORTED_FILES))?;
    let mut ranks = HashMap::new();
    for (line, content) in text.lines().enumerate() {
        if content.is_empty() {
            continue;
        }
        let invalid = || match line {
            0 => format!("line 1 is not a base64 token and a rank; {}", super::SUPPORTED_FILES),
            _ => format!("line {} is not a base64 token and a rank", line + 1),
        };
        let (token, rank) = content.split_once(' ').ok_or_else(invalid)?;
        let token = BASE64_STANDARD.decode(token).map_err(|_| invalid())?;
        let rank = rank.trim().parse().map_err(|_| invalid())?;
        if token.is_empty() || ranks.insert(token, rank).is_some() {
            return Err(format!("line {}: the token is empty or a duplicate", line + 1));
        }
    }
    check_ranks(&ranks)?;
    Ok(ranks)
}

/// Checks that the ranks are those from 0 on, each once, and that each byte has a token.
pub(super) fn check_ranks(ranks: &HashMap<Vec<u8>, u32>) -> Result<(), String> {
    let mut seen = vec![false; ranks.len()];
    for &rank in ranks.values() {
        match seen.get_mut(rank as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(format!("rank {rank} is a duplicate, or a lower rank is absent")),
        }
    }
    match (0..=255).find(|byte| !ranks.contains_key([*byte].as_slice())) {
        Some(byte) => Err(format!("no token for byte {byte}")),
        None => Ok(()),
    }
}

/// Byte-level text of `token`: one character for each byte.
fn byte_level(token: &[u8]) -> String {
    token.iter().map(|&byte| byte_to_char(byte)).collect()
}

/// The pair of tokens whose merge is `token`.
///
/// Applies all merges with a lower rank to the bytes of `token`, lowest rank first. Two parts remain.
fn merge_of<'t>(ranks: &Ranks<'_>, token: &'t [u8], rank: u32) -> Option<(&'t [u8], &'t [u8])> {
    if !(2..=MAX_MERGED_TOKEN_BYTES).contains(&token.len()) {
        return None;
    }
    let mut bounds: Vec<usize> = (0..=token.len()).collect();
    while bounds.len() > 3 {
        let merged = |at: usize| ranks.get(&token[bounds[at]..bounds[at + 2]]).copied();
        let pairs = (0..bounds.len() - 2).filter_map(|at| Some((merged(at)?, at)));
        let (_, at) = pairs.filter(|&(merged, _)| merged < rank).min()?;
        bounds.remove(at + 1);
    }
    Some(token.split_at(bounds[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_files_are_rejected() {
        let check = |text: &str, expected: &str| {
            let reason = read(text.as_bytes()).err().expect("an error");
            assert!(reason.contains(expected), "{text:?}: {reason}");
        };
        check("?? 0\n", "line 1");
        check("YQ== 0\nYg==\n", "line 2");
        check("YQ== 0\nYg== x\n", "line 2");
        check("YQ== 0\nYQ== 1\n", "a duplicate");
        check("YQ== 0\nYg== 0\n", "rank 0 is a duplicate");
        check("YQ== 0\nYg== 9\n", "rank 9");
        check("YQ== 0\n", "no token for byte 0");
        assert!(read(&[0xff, 0xfe]).is_err_and(|reason| reason.contains("unknown file format")));
    }

    #[test]
    fn merge_is_the_last_pair() {
        let tokens: [&[u8]; 5] = [b"a", b"b", b"c", b"bc", b"abc"];
        let ranks: Ranks<'_> = tokens.into_iter().zip(0..).collect();
        assert_eq!(merge_of(&ranks, b"abc", 4), Some((b"a".as_slice(), b"bc".as_slice())));
        assert_eq!(merge_of(&ranks, b"a", 0), None);
        assert_eq!(merge_of(&ranks, b"acab", 9), None);
    }
}
