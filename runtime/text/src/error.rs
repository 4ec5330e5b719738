//! Errors of tokenizers and generation.

use std::path::PathBuf;

use afferent_core::Error;
use afferent_runtime::{ModelError, RunError, StateFileError};

/// Error of a tokenizer or a generation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A tokenizer file is not readable.
    #[error("{}: {reason}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// A tokenizer file is invalid or not supported.
    #[error("{}: {reason}", path.display())]
    Tokenizer {
        /// Path of the file.
        path: PathBuf,
        /// Error message, with the field.
        reason: String,
    },
    /// The tokenizer failed to encode a text.
    #[error("the tokenizer cannot encode the text: {reason}")]
    Encode {
        /// Error message of the tokenizer.
        reason: String,
    },
    /// A file beside the tokenizer is invalid.
    #[error("{}: {reason}", path.display())]
    Companion {
        /// Path of the file.
        path: PathBuf,
        /// Error message, with the field or the line.
        reason: String,
    },
    /// A chat template has a syntax error or failed.
    #[error("chat template: {reason}")]
    ChatTemplate {
        /// Line of the template and error message.
        reason: String,
    },
    /// A token id is not in the vocabulary of the model or the tokenizer.
    #[error(
        "token {token} is not in the vocabulary of {vocab_size} tokens; check that the tokenizer belongs to the model"
    )]
    UnknownToken {
        /// Token id.
        token: u32,
        /// Number of tokens in the vocabulary.
        vocab_size: usize,
    },
    /// The program does not implement a supported language model interface.
    #[error("{}: not a supported language model: {reason}", path.display())]
    Contract {
        /// Path of the program.
        path: PathBuf,
        /// Difference to the [`Contract`](crate::Contract).
        reason: String,
    },
    /// Rows of an encoder do not fit the model.
    #[error("embeddings: {reason}")]
    Embedding {
        /// Sizes that were found and expected.
        reason: String,
    },
    /// The state of a model cannot be written or read.
    #[error(transparent)]
    State(#[from] StateFileError),
    /// A draft model does not fit the model.
    #[error("draft model: {reason}")]
    Draft {
        /// Fault, and how to fix it.
        reason: String,
    },
    /// The tokens exceed the context of the model.
    #[error("{needed} tokens exceed the model's context of {limit} tokens")]
    ContextFull {
        /// Required number of tokens.
        needed: usize,
        /// Maximum number of tokens.
        limit: usize,
    },
    /// Logits were requested for an empty context.
    #[error("the context is empty, but the model needs at least one token")]
    EmptyContext,
    /// A position is after the last token.
    #[error("cannot rewind to position {position}: the context has {len} tokens")]
    PositionOutOfRange {
        /// Requested position.
        position: usize,
        /// Number of tokens in the context.
        len: usize,
    },
    /// A sampling parameter is out of range.
    #[error("{name} is {value}, but must be {range}")]
    InvalidSetting {
        /// Name of the parameter.
        name: &'static str,
        /// Value of the parameter.
        value: f32,
        /// Accepted range.
        range: &'static str,
    },
    /// The logits do not define a probability distribution.
    #[error("cannot sample a token: the logits of the model are {found}")]
    InvalidLogits {
        /// Property of the logits, such as `NaN`.
        found: &'static str,
    },
    /// The model failed to load or to run.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl TextError {
    /// True if the run of the model was canceled.
    pub fn is_canceled(&self) -> bool {
        let Self::Model(ModelError::Run { error, .. }) = self else { return false };
        matches!(error, RunError::Instruction { error: Error::Canceled, .. })
    }
}
