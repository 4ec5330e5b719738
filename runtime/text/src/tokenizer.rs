//! Text to tokens, and the bytes of each token.

mod charsmap;
mod json;
mod protobuf;
mod sentencepiece;
mod tiktoken;

use std::{fs, path::Path};

use sentencepiece::Normalizer;
use tokenizers::{AddedToken, ModelWrapper};

use crate::{TextError, TextStream};

/// Most tokens of a vocabulary: sixty times those of today's largest.
const MAX_TOKENS: usize = 1 << 24;

/// Longest word of a vocabulary, in bytes, where what is made of it takes time with the square of
/// its length, or is as deep as that.
const MAX_WORD: usize = 1024;

/// What is said of files that are nothing of this.
const KINDS: &str = "a tokenizer is tokenizer.json, or a SentencePiece or tiktoken file";

/// Turns text into tokens and back.
///
/// | file                       | kind                                                            |
/// |----------------------------|-----------------------------------------------------------------|
/// | `tokenizer.json`           | Hugging Face; decoders of byte-level and of `▁` vocabularies     |
/// | `*.model`, a protobuf      | SentencePiece, unigram and BPE                                  |
/// | `*.model`, `base64 rank`   | tiktoken, with the pattern and the special tokens of Llama 3    |
///
/// Not read: vocabularies of words and of word pieces, and the `.bin` files of `llama2.c`.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    pieces: Pieces,
    /// How a SentencePiece file wants its text.
    normalizer: Option<Normalizer>,
    begin: Option<u32>,
    end: Vec<u32>,
}

/// What tokens stand for.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// At the index of each token; a hole in the vocabulary stands for nothing.
    list: Vec<Piece>,
    leading: Leading,
}

/// Which spaces at the start of a text nobody wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum Leading {
    /// None.
    #[default]
    Kept,
    /// The first.
    One,
    /// One of each token, as long as there is no text.
    Each,
}

/// What one token stands for.
#[derive(Debug, Clone, Default)]
struct Piece {
    bytes: Box<[u8]>,
    /// Whether nobody wrote its first space where it starts a text.
    space_first: bool,
    /// Whether the token directs the model and is no text.
    special: bool,
    /// Whether there is such a token.
    known: bool,
}

impl Pieces {
    /// Enters token `id`.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    fn insert(&mut self, id: usize, bytes: &[u8], special: bool) -> Result<(), String> {
        if id >= MAX_TOKENS {
            return Err(format!("token {id} is beyond {MAX_TOKENS}, the most that is read"));
        }
        if self.list.len() <= id {
            self.list.resize(id + 1, Piece::default());
        }
        let space_first = bytes.starts_with(b" ");
        self.list[id] = Piece { bytes: bytes.into(), space_first, special, known: true };
        Ok(())
    }

    /// Says that the first space of token `id` is always part of a text.
    fn keep_space(&mut self, id: usize) {
        if let Some(piece) = self.list.get_mut(id) {
            piece.space_first = false;
        }
    }

    /// The bytes of a token, and whether nobody wrote the first of them, a space, where the token
    /// starts a text; no bytes of a token that is no text.
    pub(crate) fn bytes(&self, token: u32) -> Option<(&[u8], bool)> {
        let piece = self.list.get(token as usize).filter(|piece| piece.known)?;
        let bytes: &[u8] = if piece.special { &[] } else { &piece.bytes };
        Some((bytes, piece.space_first && !piece.special))
    }

    /// Which spaces at the start of a text nobody wrote.
    pub(crate) fn leading(&self) -> Leading {
        self.leading
    }
}

impl Tokenizer {
    /// Reads the file at `path`; its content says which kind it is.
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

    /// A file that is in memory already; `path` stands for it in messages.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`].
    pub fn from_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<Self, TextError> {
        let read = match bytes.first() {
            Some(b'{') => json::read(bytes),
            // The first field of a SentencePiece model is a list of pieces.
            Some(b'\n') => sentencepiece::read(bytes),
            Some(_) => tiktoken::read(bytes),
            None => Err("the file is empty".to_owned()),
        };
        read.map_err(|reason| TextError::Tokenizer { path: path.as_ref().to_owned(), reason })
    }

    /// The same for what users and tools say: tokens that direct the model are text where they are
    /// written in it. These are special ones, those that end an answer, and added ones among
    /// `template`, the tokens around what is said: many a file does not call the marks of roles
    /// special. Spaces and ends of lines are none. [`Tokenizer::token`] gives those that a template
    /// needs.
    ///
    /// A vocabulary of pairs that makes such a token of others, or has it for one character, still
    /// finds it.
    #[must_use]
    pub fn without_special(mut self, template: &[u32]) -> Self {
        let directs = |id: u32, token: &AddedToken| {
            let is_used = template.contains(&id) || self.end.contains(&id);
            token.special || (is_used && !self.is_blank(id))
        };
        let added = self.inner.get_added_tokens_decoder().into_iter();
        let directing: Vec<(u32, AddedToken)> =
            added.filter(|(id, token)| directs(*id, token)).collect();
        self.forget_words(directing.iter().map(|(id, _)| *id));
        let special = directing.into_iter().map(|(_, token)| token.special(true));
        self.inner.add_special_tokens(special).expect("they were added before");
        self.inner.set_encode_special_tokens(true);
        self
    }

    /// Whether `token` stands for spaces and ends of lines alone.
    fn is_blank(&self, token: u32) -> bool {
        self.pieces.bytes(token).is_some_and(|(bytes, _)| bytes.trim_ascii().is_empty())
    }

    /// Takes the words of `tokens` out of a unigram model: its search asks for none whether it is
    /// special.
    fn forget_words(&mut self, tokens: impl Iterator<Item = u32>) {
        let model = self.inner.get_model();
        if !matches!(model, ModelWrapper::Unigram(_)) {
            return;
        }
        let mut model = serde_json::to_value(model).expect("every model can be written");
        for token in tokens {
            if let Some(entry) = model["vocab"].get_mut(token as usize) {
                // No text has the empty word.
                entry[0] = "".into();
            }
        }
        let model = serde_json::from_value::<ModelWrapper>(model);
        self.inner.with_model(model.expect("what was written can be read"));
    }

    /// The tokens of `text`. Special tokens in it are recognised in files of Hugging Face and
    /// tiktoken; in those of SentencePiece only symbols that the user defined are.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let failed = |error: tokenizers::Error| TextError::Encode { reason: error.to_string() };
        match &self.normalizer {
            None => Ok(self.inner.encode_fast(text, false).map_err(failed)?.get_ids().to_vec()),
            Some(normalizer) => {
                let text = normalizer.normalized(text);
                let encoding = self.inner.encode(text.as_str(), false).map_err(failed)?;
                let found = encoding.get_ids().iter().zip(encoding.get_offsets());
                Ok(normalizer.bytes_for_unknown(&text, found))
            }
        }
    }

    /// The text of `tokens`; special tokens are left out, and bytes that are no UTF-8 become U+FFFD.
    /// `tokenizers` does that to a whole run of byte tokens if one of them is wrong; here
    /// characters beside it are kept, as SentencePiece keeps them.
    ///
    /// # Errors
    /// [`TextError::NoToken`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TextError> {
        let mut stream = TextStream::at_start(self);
        let mut text = String::new();
        for &token in tokens {
            text.push_str(&stream.push(self, token)?);
        }
        text.push_str(&stream.finish());
        Ok(text)
    }

    /// What tokens stand for.
    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// Number of tokens, holes included.
    pub fn vocabulary(&self) -> usize {
        self.pieces.list.len()
    }

    /// The token that texts start with, if the file says so.
    pub fn begin(&self) -> Option<u32> {
        self.begin
    }

    /// The tokens that end an answer, as far as the file or their names say so.
    pub fn end(&self) -> &[u32] {
        &self.end
    }

    /// The token called `name`, for example `<|eot_id|>`.
    pub fn token(&self, name: &str) -> Option<u32> {
        self.inner.token_to_id(name)
    }
}
