//! Speakers of the words of transcripts.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{HeardWord, SpeakerTurn, SpeakerTurns, Transcript};

params! {
    /// Settings of [`SpeakerLabels`].
    pub struct SpeakerLabelsParams {
        /// Longest time that a transcript waits for the turns of its words.
        pub max_wait: Duration = "15s", range 0.0..=600.0;
        /// Greatest distance of a word to a turn that does not overlap it.
        pub tolerance: Duration = "300ms", range 0.0..=10.0;
        /// Time for which turns are kept; at least the length of the longest utterance and the delay of its
        /// transcript.
        pub keep: Duration = "2m", range 1.0..=3600.0;
    }
}

/// Adds the speakers to the words of transcripts.
///
/// The speaker of a word is the one whose turns overlap it longest, or else the one with the nearest turn
/// within `tolerance`. Final transcripts only: each waits for the turns up to the end of its last word.
///
/// Latency: that of the node of the turns, at most `max_wait`.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::{HeardWord, SpeakerTurn, SpeakerTurns, Transcript};
/// use afferent_nodes_speech::{SpeakerLabels, SpeakerLabelsParams};
///
/// let params = SpeakerLabelsParams::from_values(&Default::default()).unwrap();
/// let mut labels = NodeBench::new(SpeakerLabels::open(params, &OpenCx::default())?);
/// let word = HeardWord { text: "hello".to_owned(), start: Timestamp(10), end: Timestamp(90), speaker: None };
/// let transcript = Transcript { is_final: true, words: vec![word], ..Transcript::default() };
/// assert!(labels.call(SpeakerLabels::TRANSCRIPT, Timestamp(100), transcript)?.is_empty());
///
/// let turn = SpeakerTurn { speaker: 2, start: Timestamp(0), end: Timestamp(95), has_ended: true };
/// let sent = labels.call(SpeakerLabels::TURNS, Timestamp(100), SpeakerTurns { turns: vec![turn] })?;
/// assert_eq!(sent[0].1.get::<Transcript>().unwrap().words[0].speaker, Some(2));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct SpeakerLabels {
    params: SpeakerLabelsParams,
    turns: VecDeque<SpeakerTurn>,
    /// End of the audio whose turns are known.
    known_until: Timestamp,
    /// Transcripts that wait, with their timestamp and the time at which they are sent at the latest.
    waiting: VecDeque<(Timestamp, Timestamp, Transcript)>,
}

ports! {
    impl SpeakerLabels {
        /// Transcripts with times of words; partial ones are ignored.
        in TRANSCRIPT: Transcript;
        /// Turns of the speakers in the same audio.
        in TURNS: SpeakerTurns;
        /// The final transcripts with speakers. A word without a turn nearby has none.
        out LABELED: Transcript;
    }
}

impl SpeakerLabels {
    fn add_turns(&mut self, turns: &[SpeakerTurn], at: Timestamp) {
        for turn in turns {
            // A turn that goes on is in several packets.
            let same = self.turns.iter_mut().rev().find(|known| {
                (known.speaker, known.start) == (turn.speaker, turn.start) && !known.has_ended
            });
            match same {
                Some(known) => *known = *turn,
                None => self.turns.push_back(*turn),
            }
        }
        self.known_until = self.known_until.max(at);
        let keep = self.params.keep;
        self.turns.retain(|turn| at.since(turn.end) <= keep);
    }

    /// Sends the transcripts whose turns are known, and those that have waited long enough.
    fn send_due(&mut self, cx: &mut Cx<'_>, is_last: bool) {
        let (now, known) = (cx.now(), self.known_until);
        let is_due = |(_, latest, transcript): &mut (Timestamp, Timestamp, Transcript)| {
            let end = transcript.words.iter().map(|word| word.end).max();
            is_last || *latest <= now || end.is_none_or(|end| end <= known)
        };
        while let Some((at, _, mut transcript)) = self.waiting.pop_front_if(is_due) {
            for word in &mut transcript.words {
                word.speaker = speaker_of(word, &self.turns, self.params.tolerance);
            }
            cx.send_at(Self::LABELED, at, transcript);
        }
        if let Some((_, latest, _)) = self.waiting.front() {
            cx.wake_at(*latest);
        }
    }
}

/// Speaker whose turns overlap `word` longest; without one, that of the nearest turn within `tolerance`.
fn speaker_of(word: &HeardWord, turns: &VecDeque<SpeakerTurn>, tolerance: Duration) -> Option<u32> {
    let mut overlaps: Vec<(u32, Duration)> = Vec::new();
    for turn in turns {
        let overlap = turn.end.min(word.end).since(turn.start.max(word.start));
        match overlaps.iter_mut().find(|(speaker, _)| *speaker == turn.speaker) {
            Some((_, sum)) => *sum += overlap,
            None => overlaps.push((turn.speaker, overlap)),
        }
    }
    let longest = overlaps.into_iter().filter(|(_, sum)| !sum.is_zero());
    // If the overlaps are equal, the speaker with the lower number.
    let longest = longest.min_by_key(|&(speaker, sum)| (std::cmp::Reverse(sum), speaker));
    let distance = |turn: &SpeakerTurn| turn.start.since(word.end).max(word.start.since(turn.end));
    let near = turns.iter().filter(|turn| distance(turn) <= tolerance);
    let nearest = near.min_by_key(|turn| (distance(turn), turn.speaker));
    longest.map(|(speaker, _)| speaker).or(nearest.map(|turn| turn.speaker))
}

impl Node for SpeakerLabels {
    type Params = SpeakerLabelsParams;

    const NAME: &'static str = "speaker_labels";
    const SUMMARY: &'static str = "Adds the speakers to the words of transcripts.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "that of the node of the turns, at most max_wait";

    fn open(params: SpeakerLabelsParams, _: &OpenCx) -> Result<Self, NodeError> {
        let (turns, waiting) = (VecDeque::new(), VecDeque::new());
        Ok(Self { params, turns, known_until: Timestamp(i64::MIN), waiting })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let (at, now) = (cx.at(), cx.now());
        if let Some(transcript) = cx.get(Self::TRANSCRIPT).filter(|one| one.is_final) {
            self.waiting.push_back((at, now + self.params.max_wait, transcript.clone()));
        }
        if let Some(turns) = cx.get(Self::TURNS) {
            self.add_turns(&turns.turns, at);
        }
        self.send_due(cx, false);
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.send_due(cx, true);
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.waiting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, Params};

    use super::*;

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn bench() -> NodeBench<SpeakerLabels> {
        let wait = ParamValue::Duration(Duration::from_secs(3));
        let params = SpeakerLabelsParams::from_values(&[("max_wait".to_owned(), wait)].into());
        NodeBench::new(SpeakerLabels::open(params.unwrap(), &OpenCx::default()).unwrap())
    }

    fn transcript(words: &[(i64, i64)]) -> Transcript {
        let word = |&(start, end): &(i64, i64)| HeardWord {
            text: "word".to_owned(),
            start: ms(start),
            end: ms(end),
            speaker: None,
        };
        let words = words.iter().map(word).collect();
        Transcript { is_final: true, words, ..Transcript::default() }
    }

    fn turns(list: &[(u32, i64, i64, bool)]) -> SpeakerTurns {
        let turn = |&(speaker, start, end, has_ended): &(u32, i64, i64, bool)| SpeakerTurn {
            speaker,
            start: ms(start),
            end: ms(end),
            has_ended,
        };
        SpeakerTurns { turns: list.iter().map(turn).collect() }
    }

    #[test]
    fn each_word_has_the_speaker_with_the_longest_overlap() {
        let list = turns(&[
            (1, 0, 1000, true),
            (0, 900, 1200, true),
            (1, 1150, 1190, true),
            (2, 3000, 4000, true),
            (0, 3500, 4500, true),
        ]);
        let list: VecDeque<_> = list.turns.into();
        for (start, end, expected) in [
            (100, 300, Some(1)),
            (950, 1100, Some(0)),
            // Two turns of one speaker count together: 60 + 40 ms of 1, 120 of 0.
            (940, 1190, Some(0)),
            (3400, 3650, Some(2)),
            (3600, 3700, Some(0)),
            (1210, 1400, Some(0)),
            (1600, 1700, None),
            (2800, 2900, Some(2)),
            (5000, 5000, None),
            (500, 500, Some(1)),
        ] {
            let word = &transcript(&[(start, end)]).words[0];
            let found = speaker_of(word, &list, Duration::from_millis(300));
            assert_eq!(found, expected, "{start} to {end}");
        }
    }

    /// Speakers of the transcripts that were sent.
    fn speakers<'p>(
        sent: impl IntoIterator<Item = &'p afferent_graph::Packet>,
    ) -> Vec<Vec<Option<u32>>> {
        let words = |one: &Transcript| one.words.iter().map(|word| word.speaker).collect();
        sent.into_iter().filter_map(|packet| packet.get::<Transcript>()).map(words).collect()
    }

    #[test]
    fn a_transcript_waits_for_its_turns() {
        let mut bench = bench();
        let first = turns(&[(0, 100, 1000, false)]);
        assert!(bench.call(SpeakerLabels::TURNS, ms(1000), first).unwrap().is_empty());
        let words = transcript(&[(200, 900), (1100, 1300)]);
        let sent = bench.call(SpeakerLabels::TRANSCRIPT, ms(1400), words).unwrap();
        assert!(sent.is_empty(), "the turns are known up to 1000 ms");
        let next = turns(&[(0, 100, 1080, true), (3, 1080, 2000, false)]);
        let sent = bench.call(SpeakerLabels::TURNS, ms(2000), next).unwrap();
        assert_eq!(speakers(sent.iter().map(|(_, packet)| packet)), [[Some(0), Some(3)]]);
        assert_eq!(sent[0].1.header.at, ms(1400), "it keeps its timestamp");
    }

    #[test]
    fn a_transcript_without_turns_is_sent_after_max_wait() {
        let mut bench = bench();
        let words = transcript(&[(200, 900)]);
        let sent = bench.call(SpeakerLabels::TRANSCRIPT, ms(1000), words.clone()).unwrap();
        assert!(sent.is_empty());
        assert!(bench.advance(ms(3900)).unwrap().is_empty());
        let sent = bench.advance(ms(4100)).unwrap();
        assert_eq!(speakers(sent.iter().map(|(_, _, packet)| packet)), [[None]]);
        bench.call(SpeakerLabels::TRANSCRIPT, ms(5000), words).unwrap();
        let sent = bench.finish(ms(5000)).unwrap();
        assert_eq!(sent.len(), 1, "at the end of the stream, it does not wait");
    }
}
