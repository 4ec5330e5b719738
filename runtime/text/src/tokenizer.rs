//! Tokenizer: encodes text, and stores the bytes of each token for decoding.

mod charsmap;
mod json;
mod llama2c;
mod protobuf;
mod sentencepiece;
mod tekken;
mod tiktoken;
mod wordpiece;

use std::{fs, path::Path};

use sentencepiece::Normalizer;
use tokenizers::{AddedToken, ModelWrapper};

use crate::{DecodeStream, TextError};

/// Maximum number of tokens in a vocabulary.
const MAX_TOKENS: usize = 1 << 24;

/// Maximum length of a token in bytes, for vocabularies whose processing takes quadratic time or
/// recurses once for each byte.
const MAX_TOKEN_BYTES: usize = 1024;

/// Supported files, for error messages.
const SUPPORTED_FILES: &str = "supported are tokenizer.json (Hugging Face), tekken.json (Mistral), \
     SentencePiece models, tiktoken files, vocab.txt (WordPiece) and .bin files of llama2.c";

/// Converts text to tokens and back.
///
/// | file                       | format                                                          |
/// |----------------------------|-----------------------------------------------------------------|
/// | `tokenizer.json`           | Hugging Face: byte-level, `▁`, WordPiece and `</w>` vocabularies |
/// | `tekken.json`              | Mistral: like tiktoken, with pattern and special tokens         |
/// | `*.model`, a protobuf      | SentencePiece, unigram and BPE                                  |
/// | `*.model`, `base64 rank`   | tiktoken, with the pattern and the special tokens of Llama 3    |
/// | `vocab.txt`                | WordPiece of BERT; lower case if no token has an upper-case letter |
/// | `*.bin`                    | SentencePiece BPE, of `llama2.c` or with the header of ExecuTorch |
///
/// Not supported: word-level vocabularies. A text whose first word is a WordPiece continuation, such
/// as `##ing`, is decoded without the `##`.
#[derive(Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    table: TokenTable,
    /// Normalizer of a SentencePiece model; other files configure that of `inner`.
    normalizer: Option<Normalizer>,
    bos: Option<u32>,
    eos: Vec<u32>,
}

/// Bytes of all tokens, for decoding.
#[derive(Debug, Default, Clone)]
pub(crate) struct TokenTable {
    /// Indexed by token id. The vocabulary may have holes.
    entries: Vec<TokenEntry>,
    leading: LeadingSpace,
    /// True if words end with a space, so that a text has one at its end that is removed.
    trims_end: bool,
}

/// Spaces that a tokenizer inserts at the start of a text, and that decoding removes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum LeadingSpace {
    /// Keeps all spaces.
    #[default]
    Keep,
    /// Removes the first space.
    StripFirst,
    /// Removes one space of each token until there is text.
    StripEach,
}

/// Bytes of a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TokenEntry {
    bytes: Box<[u8]>,
    /// True if decoding may remove the first byte, a space, at the start of a text.
    removable_space: bool,
    /// True for special tokens, which are not text.
    special: bool,
    /// False for holes of the vocabulary.
    exists: bool,
}

impl TokenTable {
    /// Inserts token `id`.
    ///
    /// # Errors
    /// An error message if `id` is too large.
    fn insert(&mut self, id: usize, bytes: &[u8], special: bool) -> Result<(), String> {
        if id >= MAX_TOKENS {
            return Err(format!("token id {id} is too large; it must be less than {MAX_TOKENS}"));
        }
        if self.entries.len() <= id {
            self.entries.resize(id + 1, TokenEntry::default());
        }
        let removable_space = bytes.starts_with(b" ");
        self.entries[id] =
            TokenEntry { bytes: bytes.into(), removable_space, special, exists: true };
        Ok(())
    }

    /// Makes the first space of token `id` part of the text at any position.
    fn keep_space(&mut self, id: usize) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.removable_space = false;
        }
    }

    /// Bytes of a token, and true if the first byte is a space that may be removed at the start of a
    /// text. A special token has no bytes.
    pub(crate) fn bytes(&self, token: u32) -> Option<(&[u8], bool)> {
        let entry = self.entries.get(token as usize).filter(|entry| entry.exists)?;
        let bytes: &[u8] = if entry.special { &[] } else { &entry.bytes };
        Some((bytes, entry.removable_space && !entry.special))
    }

    /// Spaces to remove at the start of a text.
    pub(crate) fn leading(&self) -> LeadingSpace {
        self.leading
    }
}

impl Tokenizer {
    /// Reads the file at `path` and detects its format from the contents.
    ///
    /// # Errors
    /// [`TextError::Read`] and [`TextError::Tokenizer`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TextError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|error| TextError::Read {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Self::from_bytes(path, &bytes)
    }

    /// Reads a file that is already in memory; `path` is used in error messages.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`].
    pub fn from_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<Self, TextError> {
        let read = match bytes.first() {
            // The first bytes of this format are numbers, so it is recognized by its whole structure.
            Some(_) if llama2c::is_valid(bytes) => llama2c::read(bytes),
            Some(b'{') => json::read(bytes),
            // Tag of field 1 (`pieces`) of a SentencePiece model.
            Some(b'\n') => sentencepiece::read(bytes),
            Some(_) if wordpiece::is_vocabulary(bytes) => wordpiece::read(bytes),
            Some(_) => tiktoken::read(bytes),
            None => Err("the file is empty".to_owned()),
        };
        read.map_err(|reason| TextError::Tokenizer { path: path.as_ref().to_owned(), reason })
    }

    /// Makes the tokenizer safe for untrusted text from users and tools: control tokens in the text
    /// are encoded as ordinary text.
    ///
    /// Control tokens are special tokens, EOS tokens, and added tokens in `template`, which are the
    /// tokens of the chat template. Many files do not mark role tokens as special. Whitespace tokens
    /// are not control tokens. [`Tokenizer::token_id`] still finds all tokens.
    ///
    /// Limitation: a BPE vocabulary still produces a control token that results from merges or that
    /// is a single character.
    #[must_use]
    pub fn with_special_as_text(mut self, template: &[u32]) -> Self {
        let is_control = |id: u32, token: &AddedToken| {
            let is_used = template.contains(&id) || self.eos.contains(&id);
            token.special || (is_used && !self.is_whitespace(id))
        };
        let added = self.inner.get_added_tokens_decoder().into_iter();
        let control: Vec<(u32, AddedToken)> =
            added.filter(|(id, token)| is_control(*id, token)).collect();
        self.remove_from_unigram(control.iter().map(|(id, _)| *id));
        let special = control.into_iter().map(|(_, token)| token.special(true));
        self.inner.add_special_tokens(special).expect("the tokens are already in the vocabulary");
        self.inner.set_encode_special_tokens(true);
        self
    }

    /// True if `token` consists of whitespace only.
    fn is_whitespace(&self, token: u32) -> bool {
        self.table.bytes(token).is_some_and(|(bytes, _)| bytes.trim_ascii().is_empty())
    }

    /// Removes the texts of `tokens` from a unigram model, whose search ignores whether a token is
    /// special.
    fn remove_from_unigram(&mut self, tokens: impl Iterator<Item = u32>) {
        let model = self.inner.get_model();
        if !matches!(model, ModelWrapper::Unigram(_)) {
            return;
        }
        let mut model = serde_json::to_value(model).expect("every model is serializable");
        for token in tokens {
            if let Some(entry) = model["vocab"].get_mut(token as usize) {
                // The empty string never matches.
                entry[0] = "".into();
            }
        }
        let model = serde_json::from_value::<ModelWrapper>(model);
        self.inner.with_model(model.expect("a serialized model is valid"));
    }

    /// Encodes `text`, without BOS or EOS tokens.
    ///
    /// Files of Hugging Face and tiktoken recognize special tokens in the text. SentencePiece models
    /// recognize only user-defined symbols.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.encode_part(text, true)
    }

    /// Encodes a part of a text. SentencePiece models insert a space only at the start.
    pub(crate) fn encode_part(&self, text: &str, is_start: bool) -> Result<Vec<u32>, TextError> {
        let failed = |error: tokenizers::Error| TextError::Encode { reason: error.to_string() };
        match &self.normalizer {
            None => Ok(self.inner.encode_fast(text, false).map_err(failed)?.get_ids().to_vec()),
            Some(normalizer) => {
                let text = normalizer.normalize(text, is_start);
                let encoding = self.inner.encode(text.as_str(), false).map_err(failed)?;
                let found = encoding.get_ids().iter().zip(encoding.get_offsets());
                Ok(normalizer.apply_byte_fallback(&text, found))
            }
        }
    }

    /// True if special tokens in a text are encoded as such.
    pub(crate) fn finds_special(&self) -> bool {
        self.normalizer.is_none()
    }

    /// Names and ids of the control tokens: special tokens, EOS tokens, and added tokens that `text`,
    /// a chat template, contains. Whitespace tokens are not control tokens.
    pub(crate) fn control_tokens(&self, text: &str) -> Vec<(String, u32)> {
        let added = self.inner.get_added_tokens_decoder();
        let mut control = Vec::new();
        for (entry, id) in self.table.entries.iter().zip(0..) {
            let name = match added.get(&id) {
                Some(token) => token.content.clone(),
                None if entry.special => String::from_utf8_lossy(&entry.bytes).into_owned(),
                None => continue,
            };
            let is_used = entry.special || self.eos.contains(&id) || text.contains(&name);
            if is_used && !name.trim().is_empty() {
                control.push((name, id));
            }
        }
        control
    }

    /// Decodes `tokens`. Omits special tokens; invalid UTF-8 becomes U+FFFD.
    ///
    /// As in SentencePiece, an invalid byte does not affect valid characters next to it. The crate
    /// `tokenizers` replaces the whole run of byte tokens.
    ///
    /// # Errors
    /// [`TextError::UnknownToken`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TextError> {
        let mut stream = DecodeStream::at_start(self);
        let mut text = String::new();
        for &token in tokens {
            text.push_str(&stream.push(self, token)?);
        }
        text.push_str(&stream.finish());
        if self.table.trims_end {
            text = text.trim().to_owned();
        }
        Ok(text)
    }

    /// Encodes `text` with the special tokens that the file adds to each text, such as `[CLS]` and
    /// `[SEP]` of BERT. Files without such a rule give the result of [`Tokenizer::encode`].
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode_with_special(&self, text: &str) -> Result<Vec<u32>, TextError> {
        if self.normalizer.is_some() {
            return self.encode(text);
        }
        let failed = |error: tokenizers::Error| TextError::Encode { reason: error.to_string() };
        Ok(self.inner.encode_fast(text, true).map_err(failed)?.get_ids().to_vec())
    }

    /// True if each token of both has the same number and text.
    pub fn has_same_tokens(&self, other: &Self) -> bool {
        self.token_table().entries == other.token_table().entries
    }

    /// Bytes of all tokens.
    pub(crate) fn token_table(&self) -> &TokenTable {
        &self.table
    }

    /// Number of token ids, including holes of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.table.entries.len()
    }

    /// BOS token, if the file defines one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// EOS tokens, defined by the file or recognized by their names.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// Id of the token `name`, such as `<|eot_id|>`.
    pub fn token_id(&self, name: &str) -> Option<u32> {
        let is_named = |entry: &&TokenEntry| entry.special && *entry.bytes == *name.as_bytes();
        let find = || self.table.entries.iter().zip(0..).find(|(entry, _)| is_named(entry));
        self.inner.token_to_id(name).or_else(|| find().map(|(_, id)| id))
    }

    /// Name of `token`, if it is a special token.
    pub fn special_name(&self, token: u32) -> Option<&str> {
        let entry = self.table.entries.get(token as usize).filter(|entry| entry.special)?;
        str::from_utf8(&entry.bytes).ok()
    }
}
