//! Template of one message, as tokens around a text.

use crate::{TextError, Tokenizer};

/// Template of one message, split at `{text}`, such as `<|user|> {text}<|end|>`.
///
/// The template is encoded with its special tokens. The text is encoded by a tokenizer that reads
/// special tokens as text ([`Tokenizer::with_special_as_text`]), so a user cannot write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTemplate {
    before: Vec<u32>,
    /// Whitespace at the end of the text before the message, which is encoded with the message.
    lead: String,
    after: Vec<u32>,
}

impl MessageTemplate {
    /// Encodes `template` with `special`, which reads special tokens as such.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn new(special: &Tokenizer, template: &str) -> Result<Self, TextError> {
        let (before, after) = template.split_once("{text}").unwrap_or((template, ""));
        let bare = before.trim_end();
        let lead = before[bare.len()..].to_owned();
        Ok(Self { before: special.encode(bare)?, lead, after: special.encode(after)? })
    }

    /// Tokens of the template without a text.
    pub fn tokens(&self) -> impl Iterator<Item = u32> {
        self.before.iter().chain(&self.after).copied()
    }

    /// Tokens of a message with the text `text`, which `plain` encodes.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode(&self, plain: &Tokenizer, text: &str) -> Result<Vec<u32>, TextError> {
        let mut tokens = self.before.clone();
        tokens.extend(plain.encode(&format!("{}{text}", self.lead))?);
        tokens.extend_from_slice(&self.after);
        Ok(tokens)
    }
}
