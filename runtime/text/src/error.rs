//! Why there is no text.

use std::path::PathBuf;

use afferent_core::Error;
use afferent_runtime::{ModelError, RunError};

/// Why there is no text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A tokenizer file cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A tokenizer file is not as it should be.
    #[error("{}: {reason}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A text cannot be turned into tokens.
    #[error("the text cannot be turned into tokens: {reason}")]
    Encode {
        /// Why.
        reason: String,
    },
    /// A token that the model or the tokenizer does not have.
    #[error(
        "there is no token {token}, the vocabulary has {vocabulary}: does the tokenizer belong to the model?"
    )]
    NoToken {
        /// The token.
        token: u32,
        /// How many there are.
        vocabulary: usize,
    },
    /// A program is no language model of the known form.
    #[error("{}: no language model that can be run here: {reason}", path.display())]
    Contract {
        /// The program.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// More tokens than the model's context holds.
    #[error("{needed} tokens do not fit into the model's context of {limit}")]
    ContextFull {
        /// Tokens that there would be.
        needed: usize,
        /// Tokens that fit.
        limit: usize,
    },
    /// Nothing stands before the token that is asked for.
    #[error("the context is empty: a model needs at least one token to go on from")]
    Empty,
    /// A position behind the last token.
    #[error("cannot go back to position {position}: the context has {len} tokens")]
    Position {
        /// Asked for.
        position: usize,
        /// Tokens that there are.
        len: usize,
    },
    /// A setting of the sampler is out of its range.
    #[error("{name} is {value}, but must be {range}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it is.
        value: f32,
        /// What it may be.
        range: &'static str,
    },
    /// The model gave logits from which no token can be chosen.
    #[error("the model gave logits that are {found}, from which no token can be chosen")]
    Logits {
        /// What they are.
        found: &'static str,
    },
    /// The model cannot be loaded or run.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl TextError {
    /// Whether the model was stopped by the flag that it was given.
    pub fn is_cancelled(&self) -> bool {
        let Self::Model(ModelError::Run { error, .. }) = self else { return false };
        matches!(error, RunError::Instruction { error: Error::Cancelled, .. })
    }
}
