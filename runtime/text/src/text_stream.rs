//! Tokens to text, as they come.

use crate::{TextError, Tokenizer, tokenizer::Leading};

/// Turns tokens into text one by one. A character whose bytes come in several tokens is given
/// with the last of them.
///
/// Bytes that are no UTF-8 become U+FFFD, one for each sequence that no character starts with, as
/// in [`String::from_utf8_lossy`].
#[derive(Debug, Clone)]
pub struct TextStream {
    /// Bytes of a character that is not whole.
    pending: Vec<u8>,
    /// What is left out until there is text.
    leading: Leading,
}

impl TextStream {
    /// For tokens that are a text from its start on, where some vocabularies have a space that
    /// nobody wrote.
    pub fn at_start(tokenizer: &Tokenizer) -> Self {
        Self { pending: Vec::new(), leading: tokenizer.pieces().leading() }
    }

    /// For tokens that go on after others, as those of an answer: a space before the first word is
    /// part of the text.
    pub fn going_on() -> Self {
        Self { pending: Vec::new(), leading: Leading::Kept }
    }

    /// Takes the next token, and gives the text that is certain now.
    ///
    /// # Errors
    /// [`TextError::NoToken`].
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<String, TextError> {
        let vocabulary = tokenizer.vocabulary();
        let bytes = tokenizer.pieces().bytes(token);
        let (mut bytes, space_first) = bytes.ok_or(TextError::NoToken { token, vocabulary })?;
        if space_first && self.leading != Leading::Kept {
            bytes = &bytes[1..];
            if self.leading == Leading::One {
                self.leading = Leading::Kept;
            }
        }
        if bytes.is_empty() {
            return Ok(String::new());
        }
        self.leading = Leading::Kept;
        self.pending.extend_from_slice(bytes);
        let whole = self.pending.len() - unfinished(&self.pending);
        let text = String::from_utf8_lossy(&self.pending[..whole]).into_owned();
        self.pending.drain(..whole);
        Ok(text)
    }

    /// What is left when no token follows: U+FFFD for a character that is not whole.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// Length of the start of a character at the end of `bytes`.
fn unfinished(bytes: &[u8]) -> usize {
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
    fn starts_of_characters_wait() {
        let check = |bytes: &[u8], expected: usize| assert_eq!(unfinished(bytes), expected);
        check(b"", 0);
        check(b"abc", 0);
        check("aé".as_bytes(), 0);
        check(b"a\xc3", 1);
        check(b"a\xe3\x81", 2);
        check(b"a\xf0\x9f\x91", 3);
        check(b"a\xf0\x9f\x91\x8b", 0);
        check(b"\x81\x81\x81", 0); // no character goes on so
        check(b"\xff", 0);
        check(b"\xe3\xe3", 1);
        check(b"\xed\xa0", 0); // half of a surrogate pair
    }
}
