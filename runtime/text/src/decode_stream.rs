//! Incremental decoding: tokens to text.

use crate::{TextError, Tokenizer, tokenizer::LeadingSpace};

/// Decodes tokens one by one. Several tokens may form one character; the last one completes it.
///
/// Invalid UTF-8 becomes U+FFFD, with the same count as [`String::from_utf8_lossy`].
#[derive(Debug, Clone)]
pub struct DecodeStream {
    /// Bytes of an incomplete character.
    pending: Vec<u8>,
    /// Spaces to remove until there is text.
    leading: LeadingSpace,
}

impl DecodeStream {
    /// Decodes a text from its start. Removes the space that some tokenizers insert there.
    pub fn at_start(tokenizer: &Tokenizer) -> Self {
        Self { pending: Vec::new(), leading: tokenizer.token_table().leading() }
    }

    /// Decodes tokens that continue a text, such as an answer. Keeps a leading space.
    pub fn continuing() -> Self {
        Self { pending: Vec::new(), leading: LeadingSpace::Keep }
    }

    /// Decodes the next token. Returns the text that it completes.
    ///
    /// # Errors
    /// [`TextError::UnknownToken`].
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<String, TextError> {
        let vocab_size = tokenizer.vocab_size();
        let bytes = tokenizer.token_table().bytes(token);
        let (mut bytes, removable_space) =
            bytes.ok_or(TextError::UnknownToken { token, vocab_size })?;
        if removable_space && self.leading != LeadingSpace::Keep {
            bytes = &bytes[1..];
            if self.leading == LeadingSpace::StripFirst {
                self.leading = LeadingSpace::Keep;
            }
        }
        if bytes.is_empty() {
            return Ok(String::new());
        }
        self.leading = LeadingSpace::Keep;
        self.pending.extend_from_slice(bytes);
        let complete = self.pending.len() - incomplete_suffix(&self.pending);
        let text = String::from_utf8_lossy(&self.pending[..complete]).into_owned();
        self.pending.drain(..complete);
        Ok(text)
    }

    /// Returns the rest of the text after the last token: U+FFFD for an incomplete character.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// Length of an incomplete character at the end of `bytes`.
fn incomplete_suffix(bytes: &[u8]) -> usize {
    for len in 1..=bytes.len().min(3) {
        let end = &bytes[bytes.len() - len..];
        let error = str::from_utf8(end).err();
        if error.is_some_and(|error| error.valid_up_to() == 0 && error.error_len().is_none()) {
            return len;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_characters_are_found() {
        let check = |bytes: &[u8], expected: usize| assert_eq!(incomplete_suffix(bytes), expected);
        check(b"", 0);
        check(b"abc", 0);
        check("aé".as_bytes(), 0);
        check(b"a\xc3", 1);
        check(b"a\xe3\x81", 2);
        check(b"a\xf0\x9f\x91", 3);
        check(b"a\xf0\x9f\x91\x8b", 0);
        check(b"\x81\x81\x81", 0); // continuation bytes without a start byte
        check(b"\xff", 0);
        check(b"\xe3\xe3", 1);
        check(b"\xed\xa0", 0); // half of a surrogate pair
    }
}
