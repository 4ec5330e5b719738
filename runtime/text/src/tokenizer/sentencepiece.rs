//! Models of SentencePiece: its unigram and its BPE, with the library's search.
//!
//! The fields are those of `sentencepiece_model.proto`, the normalisation that of `normalizer.cc`.

use std::collections::HashMap;

use tokenizers::{
    AddedToken,
    models::{bpe::BPE, unigram::Unigram},
};

use super::{
    Leading, MAX_WORD, Pieces, Tokenizer,
    charsmap::Charsmap,
    json::fallback,
    protobuf::{Fields, Value},
};

/// Stands for a space in the vocabulary.
const SPACE: &str = "▁";

/// Most bytes of pairs that are merged, for each byte of the pieces; vocabularies have some four.
const MERGED: usize = 64;

/// No text has it: where it is written, it is replaced. Names of pieces that are no text start
/// with it, so that none is found in a text.
const NO_TEXT: char = '\u{10ffff}';

/// A piece of the vocabulary.
struct Entry<'a> {
    text: &'a str,
    score: f32,
    kind: Kind,
}

/// `ModelProto.SentencePiece.Type`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// What the file says, with the defaults of the format.
struct Model<'a> {
    entries: Vec<Entry<'a>>,
    /// 1 is unigram, 2 is BPE.
    algorithm: u64,
    begin: Option<u32>,
    end: Option<u32>,
    normalizer: Normalizer,
}

/// How a model wants its text, and what becomes of characters that it does not know.
#[derive(Debug)]
pub(super) struct Normalizer {
    charsmap: Charsmap,
    space_first: bool,
    space_last: bool,
    fewest_spaces: bool,
    escape: bool,
    /// Symbols that are kept as they are, by their first character.
    kept: HashMap<char, Vec<String>>,
    unknown: Option<u32>,
    /// The tokens of bytes, if the model has them.
    bytes: Option<Box<[u32; 256]>>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Tokenizer, String> {
    let mut model = Model::read(bytes)?;
    let leading = match (model.normalizer.fewest_spaces, model.normalizer.space_first) {
        (true, _) => Leading::Each,
        (false, true) => Leading::One,
        (false, false) => Leading::Kept,
    };
    let mut pieces = Pieces { leading, ..Pieces::default() };
    for (id, entry) in model.entries.iter().enumerate() {
        if entry.text.len() > MAX_WORD {
            return Err(format!("piece {id} is longer than {MAX_WORD} bytes"));
        }
        let special = matches!(entry.kind, Kind::Control);
        match (entry.kind, fallback(entry.text)) {
            (Kind::Byte, Some(byte)) => pieces.insert(id, &[byte], false)?,
            (Kind::Byte, None) => return Err(format!("piece {id} is said to be a byte")),
            // What SentencePiece shows for a character that it does not know.
            (Kind::Unknown, _) => pieces.insert(id, " ⁇ ".as_bytes(), false)?,
            _ => pieces.insert(id, entry.text.replace(SPACE, " ").as_bytes(), special)?,
        }
        if !entry.text.starts_with(SPACE) {
            pieces.keep_space(id);
        }
    }
    let unknown = model.entries.iter().position(|entry| entry.kind == Kind::Unknown);
    let unknown = unknown.ok_or("there is no piece for the unknown")?;
    model.normalizer.unknown = u32::try_from(unknown).ok();
    model.normalizer.bytes = model.byte_tokens();
    let mut inner = match model.algorithm {
        1 => tokenizers::Tokenizer::new(model.unigram(unknown)?),
        2 => tokenizers::Tokenizer::new(model.bpe(unknown)?),
        other => return Err(format!("model type {other} is neither unigram (1) nor BPE (2)")),
    };
    let kept = model.normalizer.kept.values().flatten();
    let kept = kept.map(|text| AddedToken::from(text.replace(' ', SPACE), false).normalized(false));
    inner.add_tokens(kept).map_err(|error| error.to_string())?;
    let is_token = |id: &u32| (*id as usize) < model.entries.len();
    Ok(Tokenizer {
        inner,
        pieces,
        begin: model.begin.filter(is_token),
        end: model.end.filter(is_token).into_iter().collect(),
        normalizer: Some(model.normalizer),
    })
}

impl<'a> Model<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let broken = || "the file is cut short, or no model of SentencePiece".to_owned();
        let mut model = Self {
            entries: Vec::new(),
            algorithm: 1,
            begin: Some(1),
            end: Some(2),
            normalizer: Normalizer::default(),
        };
        for field in Fields(bytes) {
            match field.ok_or_else(broken)? {
                (1, Value::Bytes(piece)) => {
                    model.entries.push(Entry::read(piece).ok_or_else(broken)?);
                }
                (2, Value::Bytes(spec)) => model.read_trainer(spec).ok_or_else(broken)?,
                (3, Value::Bytes(spec)) => model.normalizer.read(spec).ok_or_else(broken)?,
                _ => {}
            }
        }
        for entry in model.entries.iter().filter(|entry| entry.kind == Kind::UserDefined) {
            let text = entry.text.replace(SPACE, " ");
            let first = text.chars().next().unwrap_or_default();
            model.normalizer.kept.entry(first).or_default().push(text);
        }
        if model.entries.is_empty() { Err("the file has no pieces".to_owned()) } else { Ok(model) }
    }

    /// `TrainerSpec`.
    fn read_trainer(&mut self, spec: &[u8]) -> Option<()> {
        // A negative number says that there is no such token.
        let token = |value: u64| u32::try_from(value).ok();
        for field in Fields(spec) {
            match field? {
                (3, Value::Int(value)) => self.algorithm = value,
                (24, Value::Int(value)) => self.normalizer.space_last = value != 0,
                (41, Value::Int(value)) => self.begin = token(value),
                (42, Value::Int(value)) => self.end = token(value),
                _ => {}
            }
        }
        Some(())
    }

    /// The name of an entry for the library.
    fn name(id: usize, entry: &Entry<'_>) -> String {
        match entry.kind {
            Kind::Normal | Kind::UserDefined => entry.text.to_owned(),
            _ => format!("{NO_TEXT}{id}"),
        }
    }

    fn unigram(&self, unknown: usize) -> Result<Unigram, String> {
        let named = self.entries.iter().enumerate();
        let named = named.map(|(id, entry)| (Self::name(id, entry), f64::from(entry.score)));
        Unigram::from(named.collect(), Some(unknown), false).map_err(|error| error.to_string())
    }

    /// A pair is merged if that gives a piece, the piece with the highest score first.
    fn bpe(&self, unknown: usize) -> Result<BPE, String> {
        let mut ids = HashMap::new();
        for (id, entry) in self.entries.iter().enumerate() {
            let id = u32::try_from(id).map_err(|error| error.to_string())?;
            ids.insert(Self::name(id as usize, entry), id);
        }
        let mut merges = Vec::new();
        let too_many = || "its pieces are parts of each other in too many ways".to_owned();
        let mut room = MERGED * self.entries.iter().map(|entry| entry.text.len()).sum::<usize>();
        for entry in self.entries.iter().filter(|entry| entry.kind == Kind::Normal) {
            for (at, _) in entry.text.char_indices().skip(1) {
                let (left, right) = entry.text.split_at(at);
                if let (Some(&left_id), Some(&right_id)) = (ids.get(left), ids.get(right)) {
                    room = room.checked_sub(entry.text.len()).ok_or_else(too_many)?;
                    let pair = (left.to_owned(), right.to_owned());
                    merges.push((entry.score, left_id, right_id, pair));
                }
            }
        }
        merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let merges = merges.into_iter().map(|(.., pair)| pair).collect();
        let vocabulary: tokenizers::models::bpe::Vocab = ids.into_iter().collect();
        let unknown = Self::name(unknown, &self.entries[unknown]);
        let bpe = BPE::builder().vocab_and_merges(vocabulary, merges).unk_token(unknown);
        bpe.fuse_unk(true).build().map_err(|error| error.to_string())
    }

    fn byte_tokens(&self) -> Option<Box<[u32; 256]>> {
        let mut tokens = Box::new([u32::MAX; 256]);
        for (id, entry) in self.entries.iter().enumerate() {
            if let (Kind::Byte, Some(byte)) = (entry.kind, fallback(entry.text)) {
                tokens[usize::from(byte)] = u32::try_from(id).ok()?;
            }
        }
        tokens.iter().all(|&token| token != u32::MAX).then_some(tokens)
    }
}

impl<'a> Entry<'a> {
    /// `ModelProto.SentencePiece`.
    fn read(piece: &'a [u8]) -> Option<Self> {
        let mut entry = Self { text: "", score: 0.0, kind: Kind::Normal };
        for field in Fields(piece) {
            match field? {
                (1, Value::Bytes(text)) => entry.text = str::from_utf8(text).ok()?,
                (2, Value::Float(score)) if score.is_finite() => entry.score = score,
                (3, Value::Int(kind)) => {
                    entry.kind = match kind {
                        1 => Kind::Normal,
                        2 => Kind::Unknown,
                        3 => Kind::Control,
                        4 => Kind::UserDefined,
                        5 => Kind::Unused,
                        6 => Kind::Byte,
                        _ => return None,
                    }
                }
                (2, _) => return None,
                _ => {}
            }
        }
        (!entry.text.is_empty()).then_some(entry)
    }
}

impl Default for Normalizer {
    fn default() -> Self {
        Self {
            charsmap: Charsmap::default(),
            space_first: true,
            space_last: false,
            fewest_spaces: true,
            escape: true,
            kept: HashMap::new(),
            unknown: None,
            bytes: None,
        }
    }
}

impl Normalizer {
    /// `NormalizerSpec`.
    fn read(&mut self, spec: &[u8]) -> Option<()> {
        for field in Fields(spec) {
            match field? {
                (2, Value::Bytes(table)) => self.charsmap = Charsmap::read(table)?,
                (3, Value::Int(value)) => self.space_first = value != 0,
                (4, Value::Int(value)) => self.fewest_spaces = value != 0,
                (5, Value::Int(value)) => self.escape = value != 0,
                _ => {}
            }
        }
        Some(())
    }

    /// `text` as the model was trained on it.
    pub(super) fn normalized(&self, text: &str) -> String {
        let space = if self.escape { SPACE } else { " " };
        let mut rest = text;
        while self.fewest_spaces && !rest.is_empty() {
            let (" ", len) = self.step(rest) else { break };
            rest = &rest[len..];
        }
        let mut normalized = String::with_capacity(text.len() + text.len() / 2);
        if rest.is_empty() {
            return normalized;
        }
        if self.space_first && !self.space_last {
            normalized.push_str(space);
        }
        let mut after_space = self.fewest_spaces;
        while !rest.is_empty() {
            let (mut part, len) = self.step(rest);
            rest = &rest[len..];
            if after_space {
                part = part.trim_start_matches(' ');
            }
            for character in part.chars() {
                match character {
                    ' ' => normalized.push_str(space),
                    NO_TEXT => normalized.push(char::REPLACEMENT_CHARACTER),
                    _ => normalized.push(character),
                }
            }
            if !part.is_empty() {
                after_space = self.fewest_spaces && part.ends_with(' ');
            }
        }
        while self.fewest_spaces && normalized.ends_with(space) {
            normalized.truncate(normalized.len() - space.len());
        }
        if self.space_first && self.space_last {
            normalized.push_str(space);
        }
        normalized
    }

    /// What the start of `text`, which is not empty, becomes, and how much of it that is.
    fn step<'s>(&'s self, text: &'s str) -> (&'s str, usize) {
        let first = text.chars().next().unwrap_or_default();
        let kept = self.kept.get(&first).into_iter().flatten();
        let kept = kept.filter(|kept| text.starts_with(kept.as_str()));
        if let Some(kept) = kept.max_by_key(|kept| kept.len()) {
            return (kept, kept.len());
        }
        self.charsmap.replacement(text).unwrap_or_else(|| {
            let len = first.len_utf8();
            (&text[..len], len)
        })
    }

    /// The tokens that were found in `text`; the bytes of a character stand for one that is not
    /// known, if the model has them.
    pub(super) fn bytes_for_unknown<'f>(
        &self,
        text: &str,
        found: impl Iterator<Item = (&'f u32, &'f (usize, usize))>,
    ) -> Vec<u32> {
        let mut tokens = Vec::new();
        for (&token, &(start, end)) in found {
            match (&self.bytes, text.as_bytes().get(start..end)) {
                (Some(bytes), Some(unknown)) if Some(token) == self.unknown => {
                    tokens.extend(unknown.iter().map(|&byte| bytes[usize::from(byte)]));
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
    fn spaces_are_normalised() {
        let check = |normalizer: &Normalizer, text: &str, expected: &str| {
            assert_eq!(normalizer.normalized(text), expected, "{text:?}");
        };
        let usual = Normalizer::default();
        check(&usual, "", "");
        check(&usual, "   ", "");
        check(&usual, " a  b ", "▁a▁b");
        let plain = Normalizer { fewest_spaces: false, ..Normalizer::default() };
        check(&plain, " a  b ", "▁▁a▁▁b▁");
        let none = Normalizer { space_first: false, escape: false, ..plain };
        check(&none, " a", " a");
        let last = Normalizer { space_last: true, ..Normalizer::default() };
        check(&last, "a b", "a▁b▁");
        check(&usual, "a\u{10ffff}", "▁a\u{fffd}");
    }

    #[test]
    fn bad_files_are_refused() {
        let check = |bytes: &[u8], expected: &str| {
            let reason = read(bytes).err().expect("an error");
            assert!(reason.contains(expected), "{bytes:?}: {reason}");
        };
        check(b"\n", "cut short");
        check(b"\n\x05\n\x03abc", "no piece for the unknown");
        check(b"\n\x05\n\x03abc\x12\x02\x18\x02\n\x05\x0a\x01a\x18\x63", "cut short");
        check(b"\x12\x00", "no pieces");
        check(b"\n\x05\n\x01a\x18\x02\x12\x02\x18\x03", "model type 3");
        check(b"\n\x05\n\x01a\x18\x06", "said to be a byte");
        let long = [b"\n\x84\x08\n\x81\x08".as_slice(), &[b'a'; 1025]].concat();
        check(&long, "piece 0 is longer than 1024 bytes");
    }
}
