//! One clause that is being synthesized.

use std::time::Duration;

use super::{excitation::Pulses, length_regulator::HopPosition};

/// A word of an utterance, with times relative to the start of the utterance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpokenWord {
    /// Spoken form of the word, in lower case; of public models its written form.
    pub text: String,
    /// Position of the written word in the text, counted from one. Several spoken words may belong
    /// to one written word.
    pub written: u32,
    /// Start of the word.
    pub start: Duration,
    /// End of the word.
    pub end: Duration,
}

/// One clause that is being synthesized; created by [`Voice::begin`](super::Voice::begin).
#[derive(Debug, Default)]
pub struct Utterance {
    /// Encoder output, token after token.
    pub(crate) hidden: Vec<f32>,
    /// Token and position of each hop.
    pub(crate) hops: Vec<HopPosition>,
    /// Vocoder input of the decoded hops, hop after hop.
    pub(crate) bands: Vec<f32>,
    /// Pitch of each decoded hop in hertz; 0 if unvoiced.
    pub(crate) pitch: Vec<f32>,
    pub(crate) pulses: Pulses,
    /// Number of hops whose audio was returned.
    pub(crate) returned_hops: usize,
    pub(crate) words: Vec<SpokenWord>,
}

impl Utterance {
    /// Words with their times.
    pub fn words(&self) -> &[SpokenWord] {
        &self.words
    }

    /// Length of the audio in hops.
    pub(crate) fn hop_count(&self) -> usize {
        self.hops.len()
    }
}
