//! SentencePiece models, unigram and BPE. The crate `tokenizers` runs the segmentation.
//!
//! Sources: `sentencepiece_model.proto` for the fields, `normalizer.cc` for the normalization.

use std::collections::HashMap;

use tokenizers::{
    AddedToken,
    models::{bpe::BPE, unigram::Unigram},
};

use super::{
    LeadingSpace, MAX_TOKEN_BYTES, TokenTable, Tokenizer,
    charsmap::Charsmap,
    json::parse_byte_token,
    protobuf::{Fields, Value},
};

/// Represents a space in the vocabulary.
const SPACE: &str = "▁";

/// Maximum total length of the merges, in bytes for each byte of the pieces. Trained vocabularies
/// need about 4.
const MAX_MERGE_BYTES_PER_BYTE: usize = 64;

/// Prefix of the names of pieces that are not text. Normalization replaces this character, so these
/// names never match.
const RESERVED: char = '\u{10ffff}';

/// Piece of the vocabulary, `ModelProto.SentencePiece`.
struct Piece<'a> {
    text: &'a str,
    score: f32,
    kind: PieceType,
}

/// `ModelProto.SentencePiece.Type`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PieceType {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// `ModelProto`. Absent fields have the defaults of the format.
struct Model<'a> {
    pieces: Vec<Piece<'a>>,
    /// 1 is unigram, 2 is BPE.
    model_type: u64,
    bos: Option<u32>,
    eos: Option<u32>,
    normalizer: Normalizer,
}

/// Normalization before, and byte fallback after the segmentation.
#[derive(Debug, Clone)]
pub(super) struct Normalizer {
    charsmap: Charsmap,
    add_dummy_prefix: bool,
    treat_whitespace_as_suffix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
    /// User-defined symbols by first character. They are not normalized.
    user_defined: HashMap<char, Vec<String>>,
    unknown: Option<u32>,
    /// Byte fallback tokens, if the model has all of them.
    byte_tokens: Option<Box<[u32; 256]>>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Tokenizer, String> {
    build(Model::read(bytes)?)
}

/// BPE vocabulary without normalization, as in `.bin` files of llama2.c. Each piece has its text,
/// with `▁` for spaces, and its score.
pub(super) fn from_pieces(
    pieces: &[(String, f32)],
    bos: Option<u32>,
    eos: Option<u32>,
) -> Result<Tokenizer, String> {
    let is_control = |id: usize| [bos, eos].into_iter().flatten().any(|one| one as usize == id);
    let piece = |(id, (text, score)): (usize, &'_ (String, f32))| {
        let kind = match text.as_str() {
            _ if is_control(id) => PieceType::Control,
            "<unk>" => PieceType::Unknown,
            "<pad>" => PieceType::Control,
            text if parse_byte_token(text).is_some() => PieceType::Byte,
            _ => PieceType::Normal,
        };
        (kind, *score)
    };
    let kinds = pieces.iter().enumerate().map(piece);
    let pieces = kinds.zip(pieces).map(|((kind, score), (text, _))| Piece { text, score, kind });
    let normalizer = Normalizer { remove_extra_whitespaces: false, ..Normalizer::default() };
    build(Model { pieces: pieces.collect(), model_type: 2, bos, eos, normalizer })
}

fn build(mut model: Model<'_>) -> Result<Tokenizer, String> {
    let normalizer = &model.normalizer;
    let leading = match (normalizer.remove_extra_whitespaces, normalizer.add_dummy_prefix) {
        (true, _) => LeadingSpace::StripEach,
        (false, true) => LeadingSpace::StripFirst,
        (false, false) => LeadingSpace::Keep,
    };
    let mut table = TokenTable { leading, ..TokenTable::default() };
    for (id, piece) in model.pieces.iter().enumerate() {
        if piece.text.len() > MAX_TOKEN_BYTES {
            return Err(format!("piece {id} is longer than {MAX_TOKEN_BYTES} bytes"));
        }
        let special = matches!(piece.kind, PieceType::Control);
        match (piece.kind, parse_byte_token(piece.text)) {
            (PieceType::Byte, Some(byte)) => table.insert(id, &[byte], false)?,
            (PieceType::Byte, None) => {
                return Err(format!("piece {id} has the type BYTE, but is not like <0xE3>"));
            }
            // `unk_surface` of SentencePiece.
            (PieceType::Unknown, _) => table.insert(id, " ⁇ ".as_bytes(), false)?,
            _ => table.insert(id, piece.text.replace(SPACE, " ").as_bytes(), special)?,
        }
        if !piece.text.starts_with(SPACE) {
            table.keep_space(id);
        }
    }
    let unknown = model.pieces.iter().position(|piece| piece.kind == PieceType::Unknown);
    let unknown = unknown.ok_or("no piece has the type UNKNOWN")?;
    model.normalizer.unknown = u32::try_from(unknown).ok();
    model.normalizer.byte_tokens = model.byte_tokens();
    let mut inner = match model.model_type {
        1 => tokenizers::Tokenizer::new(model.unigram(unknown)?),
        2 => tokenizers::Tokenizer::new(model.bpe(unknown)?),
        other => {
            return Err(format!(
                "model type {other} is not supported; expected unigram (1) or BPE (2)"
            ));
        }
    };
    let symbols = model.normalizer.user_defined.values().flatten();
    let symbols =
        symbols.map(|text| AddedToken::from(text.replace(' ', SPACE), false).normalized(false));
    inner.add_tokens(symbols).map_err(|error| error.to_string())?;
    let is_token = |id: &u32| (*id as usize) < model.pieces.len();
    Ok(Tokenizer {
        inner,
        table,
        bos: model.bos.filter(is_token),
        eos: model.eos.filter(is_token).into_iter().collect(),
        normalizer: Some(model.normalizer),
    })
}

impl<'a> Model<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let invalid = || "the file is truncated, or not a SentencePiece model".to_owned();
        let mut model = Self {
            pieces: Vec::new(),
            model_type: 1,
            bos: Some(1),
            eos: Some(2),
            normalizer: Normalizer::default(),
        };
        for field in Fields(bytes) {
            match field.ok_or_else(invalid)? {
                (1, Value::Bytes(piece)) => {
                    model.pieces.push(Piece::read(piece).ok_or_else(invalid)?);
                }
                (2, Value::Bytes(spec)) => model.read_trainer(spec).ok_or_else(invalid)?,
                (3, Value::Bytes(spec)) => model.normalizer.read(spec).ok_or_else(invalid)?,
                _ => {}
            }
        }
        for piece in model.pieces.iter().filter(|piece| piece.kind == PieceType::UserDefined) {
            let text = piece.text.replace(SPACE, " ");
            let first = text.chars().next().unwrap_or_default();
            model.normalizer.user_defined.entry(first).or_default().push(text);
        }
        if model.pieces.is_empty() { Err("the file has no pieces".to_owned()) } else { Ok(model) }
    }

    /// `TrainerSpec`.
    fn read_trainer(&mut self, spec: &[u8]) -> Option<()> {
        // A negative id disables the token.
        let token = |value: u64| u32::try_from(value).ok();
        for field in Fields(spec) {
            match field? {
                (3, Value::Int(value)) => self.model_type = value,
                (24, Value::Int(value)) => {
                    self.normalizer.treat_whitespace_as_suffix = value != 0;
                }
                (41, Value::Int(value)) => self.bos = token(value),
                (42, Value::Int(value)) => self.eos = token(value),
                _ => {}
            }
        }
        Some(())
    }

    /// Name of a piece in the vocabulary of `tokenizers`.
    fn name(id: usize, piece: &Piece<'_>) -> String {
        match piece.kind {
            PieceType::Normal | PieceType::UserDefined => piece.text.to_owned(),
            _ => format!("{RESERVED}{id}"),
        }
    }

    fn unigram(&self, unknown: usize) -> Result<Unigram, String> {
        let named = self.pieces.iter().enumerate();
        let named = named.map(|(id, piece)| (Self::name(id, piece), f64::from(piece.score)));
        Unigram::from(named.collect(), Some(unknown), false).map_err(|error| error.to_string())
    }

    /// Derives the merges from the pieces: each split of a piece into two pieces is a merge. Merges
    /// are ordered by descending score of the result.
    fn bpe(&self, unknown: usize) -> Result<BPE, String> {
        let mut ids = HashMap::new();
        for (id, piece) in self.pieces.iter().enumerate() {
            let id = u32::try_from(id).map_err(|error| error.to_string())?;
            ids.insert(Self::name(id as usize, piece), id);
        }
        let mut merges = Vec::new();
        let too_many = || "the pieces have too many merges".to_owned();
        let total_bytes = self.pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
        let mut budget = MAX_MERGE_BYTES_PER_BYTE * total_bytes;
        for piece in self.pieces.iter().filter(|piece| piece.kind == PieceType::Normal) {
            for (at, _) in piece.text.char_indices().skip(1) {
                let (left, right) = piece.text.split_at(at);
                if let (Some(&left_id), Some(&right_id)) = (ids.get(left), ids.get(right)) {
                    budget = budget.checked_sub(piece.text.len()).ok_or_else(too_many)?;
                    let pair = (left.to_owned(), right.to_owned());
                    merges.push((piece.score, left_id, right_id, pair));
                }
            }
        }
        merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let merges = merges.into_iter().map(|(.., pair)| pair).collect();
        let vocabulary: tokenizers::models::bpe::Vocab = ids.into_iter().collect();
        let unknown = Self::name(unknown, &self.pieces[unknown]);
        let bpe = BPE::builder().vocab_and_merges(vocabulary, merges).unk_token(unknown);
        bpe.fuse_unk(true).build().map_err(|error| error.to_string())
    }

    /// Token of each byte; `None` if one is absent.
    fn byte_tokens(&self) -> Option<Box<[u32; 256]>> {
        let mut tokens = Box::new([u32::MAX; 256]);
        for (id, piece) in self.pieces.iter().enumerate() {
            if let (PieceType::Byte, Some(byte)) = (piece.kind, parse_byte_token(piece.text)) {
                tokens[usize::from(byte)] = u32::try_from(id).ok()?;
            }
        }
        tokens.iter().all(|&token| token != u32::MAX).then_some(tokens)
    }
}

impl<'a> Piece<'a> {
    /// `ModelProto.SentencePiece`.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut piece = Self { text: "", score: 0.0, kind: PieceType::Normal };
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(text)) => piece.text = str::from_utf8(text).ok()?,
                (2, Value::Float(score)) if score.is_finite() => piece.score = score,
                (3, Value::Int(kind)) => {
                    piece.kind = match kind {
                        1 => PieceType::Normal,
                        2 => PieceType::Unknown,
                        3 => PieceType::Control,
                        4 => PieceType::UserDefined,
                        5 => PieceType::Unused,
                        6 => PieceType::Byte,
                        _ => return None,
                    }
                }
                (2, _) => return None,
                _ => {}
            }
        }
        (!piece.text.is_empty()).then_some(piece)
    }
}

impl Default for Normalizer {
    fn default() -> Self {
        Self {
            charsmap: Charsmap::default(),
            add_dummy_prefix: true,
            treat_whitespace_as_suffix: false,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
            user_defined: HashMap::new(),
            unknown: None,
            byte_tokens: None,
        }
    }
}

impl Normalizer {
    /// `NormalizerSpec`.
    fn read(&mut self, spec: &[u8]) -> Option<()> {
        for field in Fields(spec) {
            match field? {
                (2, Value::Bytes(table)) => self.charsmap = Charsmap::read(table)?,
                (3, Value::Int(value)) => self.add_dummy_prefix = value != 0,
                (4, Value::Int(value)) => self.remove_extra_whitespaces = value != 0,
                (5, Value::Int(value)) => self.escape_whitespaces = value != 0,
                _ => {}
            }
        }
        Some(())
    }

    /// Normalizes `text`, as `Normalizer::Normalize` of SentencePiece. Text after a control token
    /// gets no dummy prefix.
    pub(super) fn normalize(&self, text: &str, is_start: bool) -> String {
        let space = if self.escape_whitespaces { SPACE } else { " " };
        let mut rest = text;
        while self.remove_extra_whitespaces && !rest.is_empty() {
            let (" ", len) = self.step(rest) else { break };
            rest = &rest[len..];
        }
        let mut normalized = String::with_capacity(text.len() + text.len() / 2);
        if rest.is_empty() {
            return normalized;
        }
        if is_start && self.add_dummy_prefix && !self.treat_whitespace_as_suffix {
            normalized.push_str(space);
        }
        let mut after_space = self.remove_extra_whitespaces;
        while !rest.is_empty() {
            let (mut part, len) = self.step(rest);
            rest = &rest[len..];
            if after_space {
                part = part.trim_start_matches(' ');
            }
            for character in part.chars() {
                match character {
                    ' ' => normalized.push_str(space),
                    RESERVED => normalized.push(char::REPLACEMENT_CHARACTER),
                    _ => normalized.push(character),
                }
            }
            if !part.is_empty() {
                after_space = self.remove_extra_whitespaces && part.ends_with(' ');
            }
        }
        while self.remove_extra_whitespaces && normalized.ends_with(space) {
            normalized.truncate(normalized.len() - space.len());
        }
        if self.add_dummy_prefix && self.treat_whitespace_as_suffix {
            normalized.push_str(space);
        }
        normalized
    }

    /// Normalizes the start of `text`: a user-defined symbol, a key of the charsmap, or a character.
    /// Returns the result and the length of the input. `text` must not be empty.
    fn step<'s>(&'s self, text: &'s str) -> (&'s str, usize) {
        let first = text.chars().next().unwrap_or_default();
        let symbols = self.user_defined.get(&first).into_iter().flatten();
        let symbols = symbols.filter(|symbol| text.starts_with(symbol.as_str()));
        if let Some(symbol) = symbols.max_by_key(|symbol| symbol.len()) {
            return (symbol, symbol.len());
        }
        self.charsmap.replacement(text).unwrap_or_else(|| {
            let len = first.len_utf8();
            (&text[..len], len)
        })
    }

    /// Replaces unknown tokens by byte tokens, if the model has them. `found` are tokens with their
    /// byte ranges in `text`.
    pub(super) fn apply_byte_fallback<'f>(
        &self,
        text: &str,
        found: impl Iterator<Item = (&'f u32, &'f (usize, usize))>,
    ) -> Vec<u32> {
        let mut tokens = Vec::new();
        for (&token, &(start, end)) in found {
            match (&self.byte_tokens, text.as_bytes().get(start..end)) {
                (Some(byte_tokens), Some(unknown)) if Some(token) == self.unknown => {
                    tokens.extend(unknown.iter().map(|&byte| byte_tokens[usize::from(byte)]));
                }
                _ => tokens.push(token),
            }
        }
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_normalized() {
        let check = |normalizer: &Normalizer, text: &str, expected: &str| {
            assert_eq!(normalizer.normalize(text, true), expected, "{text:?}");
        };
        let default = Normalizer::default();
        check(&default, "", "");
        check(&default, "   ", "");
        check(&default, " a  b ", "▁a▁b");
        let keep_spaces = Normalizer { remove_extra_whitespaces: false, ..Normalizer::default() };
        check(&keep_spaces, " a  b ", "▁▁a▁▁b▁");
        let unchanged =
            Normalizer { add_dummy_prefix: false, escape_whitespaces: false, ..keep_spaces };
        check(&unchanged, " a", " a");
        let suffix = Normalizer { treat_whitespace_as_suffix: true, ..Normalizer::default() };
        check(&suffix, "a b", "a▁b▁");
        assert_eq!(default.normalize("a b", false), "a▁b");
        check(&default, "a\u{10ffff}", "▁a\u{fffd}");
    }

    #[test]
    fn invalid_files_are_rejected() {
        let check = |bytes: &[u8], expected: &str| {
            let reason = read(bytes).err().expect("an error");
            assert!(reason.contains(expected), "{bytes:?}: {reason}");
        };
        check(b"\n", "truncated");
        check(b"\n\x05\n\x03abc", "no piece has the type UNKNOWN");
        check(b"\n\x05\n\x03abc\x12\x02\x18\x02\n\x05\x0a\x01a\x18\x63", "truncated");
        check(b"\x12\x00", "no pieces");
        check(b"\n\x05\n\x01a\x18\x02\x12\x02\x18\x03", "model type 3");
        check(b"\n\x05\n\x01a\x18\x06", "piece 0 has the type BYTE");
        let long = [b"\n\x84\x08\n\x81\x08".as_slice(), &[b'a'; 1025]].concat();
        check(&long, "piece 0 is longer than 1024 bytes");
    }
}
