//! The interface of synthesizers.

use std::time::Duration;

use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;

use super::own::SpokenWord;

/// Longest block of a [`Part`].
const MAX_BLOCK: Duration = Duration::from_millis(500);

/// Synthesizer of speech, with the models of one kind.
pub(super) trait Synthesizer: Send {
    /// Sample rate of the audio, which has one channel.
    fn rate(&self) -> SampleRate;

    /// Begins a text, and drops what is left of the one before. Returns the written words that cannot
    /// be spoken.
    fn begin(&mut self, text: &str) -> Vec<String>;

    /// The next audio of the text; `None` at its end, or if the call was canceled.
    ///
    /// # Errors
    /// [`NodeError`].
    fn next_chunk(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk<'_>>, NodeError>;

    /// True if all audio of the text was returned.
    fn is_done(&self) -> bool;

    /// Drops what is left of the text.
    fn stop(&mut self);
}

/// Audio of a synthesizer.
#[derive(Debug, Default)]
pub(super) struct Chunk<'s> {
    /// Words that are known from this chunk on, with times relative to its start.
    pub(super) words: Vec<SpokenWord>,
    pub(super) samples: &'s [f32],
}

/// Audio of a part of a text, which leaves in blocks.
#[derive(Debug, Default)]
pub(super) struct Part {
    words: Vec<SpokenWord>,
    samples: Vec<f32>,
    /// Number of samples that were returned.
    returned: usize,
}

impl Part {
    /// Speech with its words, and a pause after it.
    pub(super) fn new(
        mut samples: Vec<f32>,
        words: Vec<SpokenWord>,
        pause: Duration,
        rate: SampleRate,
    ) -> Self {
        samples.iter_mut().for_each(|sample| {
            *sample = if sample.is_nan() { 0.0 } else { sample.clamp(-1.0, 1.0) };
        });
        samples.resize(samples.len() + rate.samples(pause), 0.0);
        Self { words, samples, returned: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.returned == self.samples.len()
    }

    /// The next block; empty at the end.
    pub(super) fn next_chunk(&mut self, rate: SampleRate) -> Chunk<'_> {
        let start = self.returned;
        self.returned = (start + rate.samples(MAX_BLOCK)).min(self.samples.len());
        Chunk {
            words: std::mem::take(&mut self.words),
            samples: &self.samples[start..self.returned],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_leave_in_blocks_of_half_a_second() {
        let rate = SampleRate(100);
        let mut samples = vec![0.5; 90];
        (samples[0], samples[1]) = (f32::NAN, 7.0);
        let word = SpokenWord { text: "a".into(), ..SpokenWord::default() };
        let mut part = Part::new(samples, vec![word], Duration::from_millis(200), rate);
        let mut found = Vec::new();
        while !part.is_done() {
            let chunk = part.next_chunk(rate);
            found.push((chunk.words.len(), chunk.samples.len(), chunk.samples[1]));
        }
        assert_eq!(found, [(1, 50, 1.0), (0, 50, 0.5), (0, 10, 0.0)]);
        assert!(part.next_chunk(rate).samples.is_empty() && Part::default().is_done());
    }
}
