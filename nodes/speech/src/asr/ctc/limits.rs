//! Limits of an utterance.

use std::time::Duration;

use super::decoder::Decoder;

/// Share of the longest utterance after which it is cut at the end of a word.
const CUT_SHARE: f64 = 0.8;

/// Limits of an utterance, and the partial transcripts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) silence: Duration,
    pub(super) max_utterance: Duration,
    pub(super) partials: bool,
}

impl Limits {
    /// True if the utterance must be cut after the last step: at the end of a word as soon as
    /// `max_utterance` is close, anywhere when it is reached.
    pub(super) fn is_cut(&self, decoder: &Decoder) -> bool {
        let decoded = decoder.decoded();
        let is_close = decoded >= self.max_utterance.mul_f64(CUT_SHARE);
        decoded >= self.max_utterance || (is_close && decoder.is_after_word())
    }
}
