//! One clause that is being said.

use std::time::Duration;

use super::{expansion::Placed, source::Pulses};

/// A word of an utterance, with its time from the begin of the utterance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenWord {
    /// The word as it is said, in small letters.
    pub text: String,
    /// How many words of the text, as they are written, are said with it.
    pub written: u32,
    /// When it begins.
    pub start: Duration,
    /// When it ends.
    pub end: Duration,
}

/// One clause that is being said, from [`Voice::begin`](super::Voice::begin).
#[derive(Debug, Default)]
pub struct Utterance {
    /// What the encoder says of each token, token after token.
    pub(crate) hidden: Vec<f32>,
    /// What is said in each hop.
    pub(crate) placed: Vec<Placed>,
    /// What the vocoder hears of each hop, hop after hop, as far as it is decoded.
    pub(crate) condition: Vec<f32>,
    /// Pitch of each decoded hop in hertz, 0 for none.
    pub(crate) pitch: Vec<f32>,
    pub(crate) pulses: Pulses,
    /// Hops whose sound was given.
    pub(crate) given: usize,
    pub(crate) words: Vec<SpokenWord>,
}

impl Utterance {
    /// Its words and when they are said.
    pub fn words(&self) -> &[SpokenWord] {
        &self.words
    }

    /// Hops of its sound.
    pub(crate) fn hops(&self) -> usize {
        self.placed.len()
    }
}
