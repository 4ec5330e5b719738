//! Special tokens of Whisper.

use std::ops::Range;

use afferent_graph::NodeError;
use afferent_text::Tokenizer;
use serde_json::Value;

use crate::programs::Programs;

/// Seconds from time token to time token.
pub(super) const TIME_STEP: f64 = 0.02;
/// Seconds of the last time token.
const MAX_TIME: u32 = 30;
/// Tokens of the vocabulary of the English-only models.
const ENGLISH_VOCABULARY: usize = 51_864;

/// Codes of the languages of Whisper.
const LANGUAGES: &str = "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro \
    da hu ta no th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq \
    sw gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as \
    tt haw ln ha ba jw su yue";

/// Special tokens, and tokens that a transcript must not have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Vocabulary {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) no_speech: Option<u32>,
    pub(super) no_timestamps: Option<u32>,
    pub(super) transcribe: Option<u32>,
    pub(super) translate: Option<u32>,
    /// Codes and tokens of the languages; empty for a model of one language.
    pub(super) languages: Vec<(&'static str, u32)>,
    /// Time tokens, from zero on; empty if the model has none.
    pub(super) times: Range<u32>,
    /// Tokens that never follow.
    pub(super) suppressed: Vec<u32>,
    /// Tokens that do not begin a transcript.
    pub(super) not_first: Vec<u32>,
}

impl Vocabulary {
    /// Finds the special tokens of a model with `size` tokens, and those to suppress in its
    /// `generation_config.json`.
    pub(super) fn read(
        programs: &Programs,
        tokenizer: &Tokenizer,
        size: usize,
    ) -> Result<Self, NodeError> {
        let token = |name: &str| tokenizer.token_id(name).filter(|&id| (id as usize) < size);
        let needed = |name: &str| {
            token(name).ok_or_else(|| {
                programs.error(format!("the tokenizer has no token {name}, as that of Whisper has"))
            })
        };
        let (start, end) = (needed("<|startoftranscript|>")?, needed("<|endoftext|>")?);
        let config = generation_config(programs)?;
        let ids = |name: &str| -> Vec<u32> {
            let list = config.get(name).and_then(Value::as_array);
            let ids = list.into_iter().flatten().filter_map(Value::as_u64);
            ids.filter_map(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < size).collect()
        };
        let is_multilingual = config.get("is_multilingual").and_then(Value::as_bool);
        let is_multilingual = is_multilingual.unwrap_or(size != ENGLISH_VOCABULARY);
        let known = LANGUAGES.split_whitespace();
        let known = known.filter_map(|code| Some((code, token(&format!("<|{code}|>"))?)));
        let languages: Vec<_> = if is_multilingual { known.collect() } else { Vec::new() };
        let no_timestamps = token("<|notimestamps|>");
        let times = times(token("<|0.00|>").or(no_timestamps.map(|id| id + 1)), size);
        let no_speech = token("<|nospeech|>").or(token("<|nocaptions|>"));
        let (transcribe, translate) = (token("<|transcribe|>"), token("<|translate|>"));
        let mut suppressed = ids("suppress_tokens");
        suppressed.extend(
            [Some(start), no_speech, no_timestamps, transcribe, translate].iter().flatten(),
        );
        suppressed.extend(["<|startoflm|>", "<|startofprev|>"].into_iter().filter_map(token));
        let all_languages = LANGUAGES.split_whitespace();
        suppressed.extend(all_languages.filter_map(|code| token(&format!("<|{code}|>"))));
        suppressed.sort_unstable();
        suppressed.dedup();
        let mut not_first = ids("begin_suppress_tokens");
        not_first.push(end);
        not_first
            .extend(tokenizer.encode(" ").ok().filter(|ids| ids.len() == 1).into_iter().flatten());
        Ok(Self {
            start,
            end,
            no_speech,
            no_timestamps,
            transcribe,
            translate,
            languages,
            times,
            suppressed,
            not_first,
        })
    }

    /// Seconds of a time token.
    pub(super) fn seconds(&self, token: u32) -> Option<f64> {
        self.times.contains(&token).then(|| f64::from(token - self.times.start) * TIME_STEP)
    }
}

/// Time tokens from `first` on.
fn times(first: Option<u32>, size: usize) -> Range<u32> {
    let Some(first) = first else { return 0..0 };
    let count = MAX_TIME * 50 + 1;
    let end = u32::try_from(size).unwrap_or(u32::MAX).min(first + count);
    first..end.max(first)
}

/// The file `generation_config.json` of the package; null if there is none.
fn generation_config(programs: &Programs) -> Result<Value, NodeError> {
    let Some(path) = programs.package.companion("generation_config.json") else {
        return Ok(Value::Null);
    };
    let failed = |reason: String| NodeError::File { path: path.clone(), reason };
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}
