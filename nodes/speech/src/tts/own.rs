//! Synthesis with the voice of this project.

mod excitation;
mod length_regulator;
pub(super) mod lexicon;
mod program;
mod tokens;
mod utterance;
mod voice;

use std::collections::VecDeque;

use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;

pub use self::{
    utterance::{SpokenWord, Utterance},
    voice::Voice,
};
use super::{
    normalize::{self, Clause, ClauseEnd},
    synthesizer::{Chunk, Synthesizer},
};

/// A voice that speaks texts clause by clause.
pub(super) struct OwnSynthesizer {
    voice: Voice,
    pace: f32,
    /// The clause in progress.
    current: Option<(Utterance, ClauseEnd)>,
    /// The following clauses of the text.
    clauses: VecDeque<Clause>,
    /// Silence of a pause.
    silence: Vec<f32>,
}

impl OwnSynthesizer {
    pub(super) fn new(voice: Voice, pace: f32) -> Self {
        Self { voice, pace, current: None, clauses: VecDeque::new(), silence: Vec::new() }
    }
}

impl Synthesizer for OwnSynthesizer {
    fn rate(&self) -> SampleRate {
        self.voice.rate()
    }

    fn begin(&mut self, text: &str) -> Vec<String> {
        self.clauses = self.voice.clauses(text).into();
        normalize::unspeakable(text).map(str::to_owned).collect()
    }

    fn next_chunk(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk<'_>>, NodeError> {
        let Self { voice, pace, current, clauses, silence } = self;
        let mut words = Vec::new();
        if current.is_none()
            && let Some(clause) = clauses.pop_front()
        {
            let utterance = cx.time_model(|| voice.begin(&clause, *pace))?;
            words = utterance.words().to_vec();
            *current = Some((utterance, clause.end));
        }
        let Some((utterance, end)) = current else { return Ok(None) };
        let (end, rate) = (*end, voice.rate());
        if let Some(samples) = cx.time_model(|| voice.next_chunk(utterance))? {
            return Ok(Some(Chunk { words, samples }));
        }
        *current = None;
        silence.resize(rate.samples(Voice::pause(end)), 0.0);
        Ok(Some(Chunk { words, samples: silence }))
    }

    fn is_done(&self) -> bool {
        self.current.is_none() && self.clauses.is_empty()
    }

    fn stop(&mut self) {
        self.current = None;
        self.clauses.clear();
    }
}
