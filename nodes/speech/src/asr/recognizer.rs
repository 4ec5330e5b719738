//! The interface of recognizers.

use std::time::Duration;

use afferent_graph::{Cx, NodeError, Timestamp};
use afferent_messages::SampleRate;

use super::transcripts::Transcripts;

/// Recognizer of a continuous stream of audio, with the models of one kind.
pub(crate) trait Recognizer: Send {
    /// Sample rate of the audio.
    fn rate(&self) -> SampleRate;

    /// Longest difference between the timestamp of a block and the end of the block before it that is
    /// no gap.
    fn gap(&self) -> Duration {
        Duration::from_millis(10)
    }

    /// Begins a new stream at `at`. Audio that was not recognized is dropped.
    fn restart(&mut self, at: Timestamp);

    /// Adds audio that begins at `at`, and sends transcripts as words become known.
    fn push(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        at: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError>;

    /// Ends the utterance, if there is one, at the end of its audio. Its last transcript has the
    /// timestamp `at`.
    fn end_utterance(
        &mut self,
        cx: &mut Cx<'_>,
        at: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError>;
}
