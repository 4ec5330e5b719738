//! Transcripts of consecutive utterances.

use afferent_graph::{Cx, Timestamp};
use afferent_messages::{HeardWord, Transcript};

use super::Asr;

/// Sends transcripts, and numbers the utterances.
#[derive(Debug, Default)]
pub(crate) struct Transcripts {
    utterance: u64,
    /// Words of the last partial transcript of the utterance.
    sent: Vec<HeardWord>,
}

impl Transcripts {
    /// Begins a new utterance; nothing was sent of it.
    pub(super) fn restart(&mut self) {
        self.sent.clear();
    }

    /// Sends the words that `fill` writes, if they have changed.
    pub(super) fn send_partial(
        &mut self,
        cx: &mut Cx<'_>,
        at: Timestamp,
        fill: impl FnOnce(&mut Transcript),
    ) {
        let mut transcript = cx.loan(Asr::TRANSCRIPT);
        begin(&mut transcript);
        fill(&mut transcript);
        let same = transcript.words.len() == self.sent.len()
            && transcript.words.iter().zip(&self.sent).all(|(new, old)| new.text == old.text);
        if same || transcript.words.is_empty() {
            return;
        }
        self.sent.clone_from(&transcript.words);
        (transcript.utterance, transcript.is_final) = (self.utterance, false);
        cx.send_at(Asr::TRANSCRIPT, at, transcript);
    }

    /// Sends the words of the utterance that `fill` writes, and begins the next utterance. Sends
    /// nothing if the utterance never had words.
    pub(super) fn send_final(
        &mut self,
        cx: &mut Cx<'_>,
        at: Timestamp,
        fill: impl FnOnce(&mut Transcript),
    ) {
        let mut transcript = cx.loan(Asr::TRANSCRIPT);
        begin(&mut transcript);
        fill(&mut transcript);
        let had_words = !self.sent.is_empty();
        self.sent.clear();
        if transcript.words.is_empty() && !had_words {
            return;
        }
        (transcript.utterance, transcript.is_final) = (self.utterance, true);
        self.utterance += 1;
        cx.send_at(Asr::TRANSCRIPT, at, transcript);
    }
}

/// Clears a loaned transcript, which may hold words of an earlier one.
fn begin(transcript: &mut Transcript) {
    transcript.words.clear();
    transcript.language.clear();
}
