//! `.bin` files of llama2.c: scores and texts of a SentencePiece BPE vocabulary.
//!
//! All numbers are little-endian. The file of llama2.c begins with the length of the longest token
//! (`u32`). The file of ExecuTorch begins with the number of tokens, the BOS token, the EOS token,
//! and that length. Each token is its score (`f32`), its length in bytes (`u32`), and its text, with
//! spaces instead of `▁`.

use super::{MAX_TOKEN_BYTES, MAX_TOKENS, Tokenizer, sentencepiece};

/// Contents of a file.
struct File<'a> {
    /// Score and text of each token.
    tokens: Vec<(f32, &'a [u8])>,
    bos: Option<u32>,
    eos: Option<u32>,
}

/// True if the whole file has the structure of the format.
pub(super) fn is_valid(bytes: &[u8]) -> bool {
    parse(bytes).is_some()
}

pub(super) fn read(bytes: &[u8]) -> Result<Tokenizer, String> {
    let file = parse(bytes).ok_or("the file is truncated")?;
    let mut pieces = Vec::with_capacity(file.tokens.len());
    for (id, &(score, text)) in file.tokens.iter().enumerate() {
        let text = str::from_utf8(text).map_err(|_| format!("token {id} is not UTF-8"))?;
        if text.is_empty() || !score.is_finite() {
            return Err(format!("token {id} is empty or has an infinite score"));
        }
        pieces.push((text.replace(' ', "▁"), score));
    }
    // llama2.c writes line breaks around the texts of these two.
    let token = |names: [&str; 2]| {
        let id = names.iter().find_map(|name| pieces.iter().position(|(text, _)| text == name));
        id.and_then(|id| u32::try_from(id).ok())
    };
    let bos = token(["\n<s>\n", "<s>"]).or(file.bos);
    let eos = token(["\n</s>\n", "</s>"]).or(file.eos);
    sentencepiece::from_pieces(&pieces, bos, eos)
}

fn parse(bytes: &[u8]) -> Option<File<'_>> {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let tokens = |start: usize, longest: u32| {
        let mut rest = bytes.get(start..)?;
        let mut tokens = Vec::new();
        while !rest.is_empty() {
            let (score, after) = rest.split_first_chunk()?;
            let (len, after) = after.split_first_chunk()?;
            let len = u32::from_le_bytes(*len);
            let len = usize::try_from(len).ok().filter(|_| len <= longest)?;
            let (text, after) = after.split_at_checked(len)?;
            tokens.push((f32::from_le_bytes(*score), text));
            rest = after;
        }
        let is_vocabulary = !tokens.is_empty() && tokens.len() < MAX_TOKENS;
        (is_vocabulary && longest as usize <= MAX_TOKEN_BYTES).then_some(tokens)
    };
    if let (Some(count), Some(longest)) = (number(0), number(12)) {
        // ExecuTorch counts a padding token in front of the others not as a token.
        let is_count = |found: usize| found == count as usize || found == count as usize + 1;
        if let Some(tokens) = tokens(16, longest).filter(|tokens| is_count(tokens.len())) {
            return Some(File { tokens, bos: number(4), eos: number(8) });
        }
    }
    let tokens = tokens(4, number(0)?)?;
    Some(File { tokens, bos: Some(1), eos: Some(2) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &[u32], tokens: &[(&str, f32)]) -> Vec<u8> {
        let mut bytes: Vec<u8> = header.iter().flat_map(|number| number.to_le_bytes()).collect();
        for (text, score) in tokens {
            bytes.extend(score.to_le_bytes());
            bytes.extend(u32::try_from(text.len()).expect("short").to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn both_headers_are_read() {
        let classic = [
            ("<unk>", 0.0),
            ("\n<s>\n", 0.0),
            ("\n</s>\n", 0.0),
            (" ", -1.0),
            ("a", -2.0),
            (" a", -0.5),
        ];
        let tokenizer = read(&file(&[10], &classic)).expect("a tokenizer");
        assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), [2].as_slice()));
        assert_eq!(tokenizer.encode("a a"), Ok(vec![5, 5]));
        assert_eq!(tokenizer.decode(&[1, 5, 5]).as_deref(), Ok("a a"));
        let padded = [
            ("<pad>", -1.0),
            ("<unk>", 0.0),
            ("<s>", 0.0),
            ("</s>", 0.0),
            (" ", -1.0),
            ("a", -2.0),
        ];
        let tokenizer = read(&file(&[5, 1, 2, 5], &padded)).expect("a tokenizer");
        assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(2), [3].as_slice()));
        assert_eq!(tokenizer.encode("a"), Ok(vec![4, 5]));
    }

    #[test]
    fn other_files_are_not_valid() {
        let valid = file(&[10], &[("<unk>", 0.0), ("a", 0.0)]);
        assert!(is_valid(&valid));
        for len in 0..valid.len() {
            // After the header and after a whole token the file may end, but not before a token.
            assert_eq!(is_valid(&valid[..len]), len == 17, "{len}");
        }
        assert!(
            !is_valid(b"{\"model\": 1}") && !is_valid(b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02")
        );
    }
}
