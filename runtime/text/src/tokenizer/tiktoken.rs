//! Files of tiktoken: a token in base64 and its rank on each line.

use std::collections::HashMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use tokenizers::{
    AddedToken, SplitDelimiterBehavior,
    models::bpe::BPE,
    pre_tokenizers::{byte_level::ByteLevel, sequence::Sequence, split},
};

use super::{Pieces, Tokenizer, json::character};

/// How Llama 3 cuts text into words; the file does not say it.
const PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The special tokens of Llama 3, behind those of the file; reserved ones fill up to [`SPECIAL`].
const NAMES: &[&str] = &[
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
const SPECIAL: usize = 256;

/// Longest token that is taken apart into the pair that makes it; a longer one is only found where
/// it is a whole word.
const MAX_BYTES: usize = 256;

pub(super) fn read(bytes: &[u8]) -> Result<Tokenizer, String> {
    let list = ranks(bytes)?;
    let ranks: Ranks<'_> = list.iter().map(|(token, rank)| (token.as_slice(), *rank)).collect();
    let mut pieces = Pieces::default();
    let mut vocabulary = HashMap::new();
    for (token, &rank) in &ranks {
        pieces.insert(rank as usize, token, false)?;
        vocabulary.insert(shown(token), rank);
    }
    let mut tokens: Vec<(&[u8], u32)> = ranks.iter().map(|(&token, &rank)| (token, rank)).collect();
    tokens.sort_unstable_by_key(|&(_, rank)| rank);
    let merges = tokens.iter().filter_map(|&(token, rank)| pair(&ranks, token, rank));
    let merges = merges.map(|(left, right)| (shown(left), shown(right))).collect();
    let model = BPE::builder()
        .vocab_and_merges(
            vocabulary.into_iter().collect::<tokenizers::models::bpe::Vocab>(),
            merges,
        )
        .ignore_merges(true)
        .build();
    let failed = |error: tokenizers::Error| error.to_string();
    let mut inner = tokenizers::Tokenizer::new(model.map_err(failed)?);
    let words = split::SplitPattern::Regex(PATTERN.to_owned());
    let words = split::Split::new(words, SplitDelimiterBehavior::Isolated, false);
    let bytes = ByteLevel::new(false, false, false);
    let steps = vec![words.map_err(failed)?.into(), bytes.into()];
    inner.with_pre_tokenizer(Some(Sequence::new(steps)));
    let reserved = (2..).map(|number| format!("<|reserved_special_token_{number}|>"));
    let names = NAMES.iter().map(|&name| name.to_owned()).chain(reserved);
    let names: Vec<String> = names.take(SPECIAL).collect();
    for (at, name) in names.iter().enumerate() {
        pieces.insert(ranks.len() + at, name.as_bytes(), true)?;
    }
    let added = names.into_iter().map(|name| AddedToken::from(name, true));
    inner.add_special_tokens(added).map_err(failed)?;
    let begin = inner.token_to_id(NAMES[0]);
    let end = ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"];
    let end = end.iter().filter_map(|name| inner.token_to_id(name)).collect();
    Ok(Tokenizer { inner, pieces, normalizer: None, begin, end })
}

type Ranks<'a> = HashMap<&'a [u8], u32>;

/// The tokens of the file, with their ranks.
fn ranks(bytes: &[u8]) -> Result<HashMap<Vec<u8>, u32>, String> {
    let text = str::from_utf8(bytes);
    let text = text.map_err(|_| format!("the file is of no known kind: {}", super::KINDS))?;
    let mut ranks = HashMap::new();
    for (line, content) in text.lines().enumerate() {
        if content.is_empty() {
            continue;
        }
        let wrong = || match line {
            0 => format!("line 1 is no token in base64 with its rank: {}", super::KINDS),
            _ => format!("line {} is no token in base64 with its rank", line + 1),
        };
        let (token, rank) = content.split_once(' ').ok_or_else(wrong)?;
        let token = BASE64_STANDARD.decode(token).map_err(|_| wrong())?;
        let rank = rank.trim().parse().map_err(|_| wrong())?;
        if token.is_empty() || ranks.insert(token, rank).is_some() {
            return Err(format!("line {}: the token is empty, or there already", line + 1));
        }
    }
    let mut seen = vec![false; ranks.len()];
    for &rank in ranks.values() {
        match seen.get_mut(rank as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(format!("rank {rank} comes twice, or leaves a hole before it")),
        }
    }
    match (0..=255).find(|byte| !ranks.contains_key([*byte].as_slice())) {
        Some(byte) => Err(format!("there is no token for byte {byte}")),
        None => Ok(ranks),
    }
}

/// `token` as the library writes it: a character for each byte.
fn shown(token: &[u8]) -> String {
    token.iter().map(|&byte| character(byte)).collect()
}

/// The two tokens that are merged into `token`: what is left when all pairs of lower rank are
/// merged, the lowest first.
fn pair<'t>(ranks: &Ranks<'_>, token: &'t [u8], rank: u32) -> Option<(&'t [u8], &'t [u8])> {
    if !(2..=MAX_BYTES).contains(&token.len()) {
        return None;
    }
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    while ends.len() > 3 {
        let merged = |at: usize| ranks.get(&token[ends[at]..ends[at + 2]]).copied();
        let pairs = (0..ends.len() - 2).filter_map(|at| Some((merged(at)?, at)));
        let (_, at) = pairs.filter(|&(merged, _)| merged < rank).min()?;
        ends.remove(at + 1);
    }
    Some(token.split_at(ends[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_files_are_refused() {
        let check = |text: &str, expected: &str| {
            let reason = read(text.as_bytes()).err().expect("an error");
            assert!(reason.contains(expected), "{text:?}: {reason}");
        };
        check("?? 0\n", "line 1");
        check("YQ== 0\nYg==\n", "line 2");
        check("YQ== 0\nYg== x\n", "line 2");
        check("YQ== 0\nYQ== 1\n", "there already");
        check("YQ== 0\nYg== 0\n", "rank 0 comes twice");
        check("YQ== 0\nYg== 9\n", "rank 9");
        check("YQ== 0\n", "no token for byte 0");
        assert!(read(&[0xff, 0xfe]).is_err_and(|reason| reason.contains("no known kind")));
    }

    #[test]
    fn a_token_comes_of_the_last_pair() {
        let tokens: [&[u8]; 5] = [b"a", b"b", b"c", b"bc", b"abc"];
        let ranks: Ranks<'_> = tokens.into_iter().zip(0..).collect();
        assert_eq!(pair(&ranks, b"abc", 4), Some((b"a".as_slice(), b"bc".as_slice())));
        assert_eq!(pair(&ranks, b"a", 0), None);
        assert_eq!(pair(&ranks, b"acab", 9), None);
    }
}
