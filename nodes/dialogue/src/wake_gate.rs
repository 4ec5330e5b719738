//! Audio after a wake word.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Packet, Port, Timestamp, params, ports};
use afferent_messages::{AudioBlock, KeywordEvent, Played};

params! {
    /// Settings of [`WakeGate`].
    pub struct WakeGateParams {
        /// Time after a wake word, or after the answer, for which audio passes.
        pub open: Duration = "6s", range 0.1..=600.0;
        /// Wake word that opens the gate. Default: any wake word.
        pub word: Option<String>;
        /// Least score of the wake word.
        pub score: f32 = "0.0", range 0.0..=1.0;
    }
}

/// Passes audio only after a wake word, so that a voice agent hears nothing else.
///
/// Audio from the end of the wake word on passes for the time `open`, also the part of it that came before the
/// event. With `played`, the gate stays open while an answer is played that begins while it is open, and for
/// `open` after it, so that a conversation goes on without the wake word.
///
/// Latency: none. The last two seconds of audio are kept until the wake word is certain.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::{AudioBlock, KeywordEvent, SampleRate};
/// use afferent_nodes_dialogue::{WakeGate, WakeGateParams};
///
/// let params = WakeGateParams::from_values(&Default::default())?;
/// let mut bench = NodeBench::new(WakeGate::open(params, &OpenCx::default())?);
/// let mut block = AudioBlock::default();
/// block.reshape(SampleRate(16_000), 1, 320)?.fill(0.1);
/// assert!(bench.call(WakeGate::AUDIO, Timestamp(20_000_000), block.clone())?.is_empty());
/// let word = KeywordEvent { label: "hey".to_owned(), score: 0.9 };
/// assert_eq!(bench.call(WakeGate::WAKE, Timestamp(10_000_000), word)?.len(), 1);
/// assert_eq!(bench.call(WakeGate::AUDIO, Timestamp(40_000_000), block)?.len(), 1);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct WakeGate {
    params: WakeGateParams,
    /// Time up to which audio passes.
    open_until: Option<Timestamp>,
    /// True while an answer is played.
    is_answering: bool,
    /// Blocks of the last [`KEPT`] that did not pass.
    recent: VecDeque<Packet>,
    /// Time of the last block.
    last: Option<Timestamp>,
}

/// Audio that is kept for a wake word that is recognized late.
const KEPT: Duration = Duration::from_secs(2);

ports! {
    impl WakeGate {
        /// Audio.
        in AUDIO: AudioBlock;
        /// Wake words, with the times of their ends.
        in WAKE: KeywordEvent;
        /// Playback of answers.
        in PLAYED: Played, optional;
        /// The audio that passes.
        out HEARD = "audio": AudioBlock;
    }
}

impl WakeGate {
    fn is_open(&self, at: Timestamp) -> bool {
        self.is_answering || self.open_until.is_some_and(|until| at <= until)
    }
}

impl Node for WakeGate {
    type Params = WakeGateParams;

    const NAME: &'static str = "wake_gate";
    const SUMMARY: &'static str = "Passes audio only after a wake word.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: WakeGateParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self {
            params,
            open_until: None,
            is_answering: false,
            recent: VecDeque::new(),
            last: None,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.at();
        if let Some(word) = cx.get(Self::WAKE) {
            let is_meant = self.params.word.as_ref().is_none_or(|label| *label == word.label);
            if is_meant && word.score >= self.params.score {
                self.open_until = self.open_until.max(Some(at + self.params.open));
                let kept = std::mem::take(&mut self.recent);
                for packet in kept.into_iter().filter(|packet| packet.header.at >= at) {
                    cx.send_packet(Self::HEARD.id(), packet);
                }
            }
            return Ok(());
        }
        if let Some(played) = cx.get(Self::PLAYED) {
            if self.is_open(at) {
                self.is_answering = played.is_playing;
                self.open_until = self.open_until.max(Some(at + self.params.open));
            }
            return Ok(());
        }
        let Some(mut packet) = cx.packet().cloned() else { return Ok(()) };
        if self.last.replace(at).is_some_and(|last| at < last) {
            // The clock of the source has restarted.
            (self.open_until, self.is_answering) = (None, false);
            self.recent.clear();
        }
        if self.is_open(at) {
            cx.send_packet(Self::HEARD.id(), packet);
            return Ok(());
        }
        // A kept block does not count as in flight.
        packet.credit = None;
        self.recent.push_back(packet);
        while self.recent.front().is_some_and(|first| at.since(first.header.at) > KEPT) {
            self.recent.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Params};
    use afferent_messages::SampleRate;

    use super::*;

    struct Run(NodeBench<WakeGate>);

    impl Run {
        fn new() -> Self {
            let params = WakeGateParams {
                open: Duration::from_secs(3),
                word: Some("hey".to_owned()),
                ..WakeGateParams::from_values(&Default::default()).unwrap()
            };
            Self(NodeBench::new(WakeGate::open(params, &OpenCx::default()).unwrap()))
        }

        /// Times in tenths of a second of the blocks that pass.
        fn audio(&mut self, tenth: i64) -> Vec<i64> {
            let mut block = AudioBlock::default();
            block.reshape(SampleRate(16_000), 1, 1600).unwrap().fill(0.1);
            Self::times(self.0.call(WakeGate::AUDIO, at(tenth), block).unwrap())
        }

        fn wake(&mut self, tenth: i64, label: &str) -> Vec<i64> {
            let word = KeywordEvent { label: label.to_owned(), score: 0.9 };
            Self::times(self.0.call(WakeGate::WAKE, at(tenth), word).unwrap())
        }

        fn played(&mut self, tenth: i64, is_playing: bool) {
            let played = Played { until: at(tenth), is_playing };
            assert!(self.0.call(WakeGate::PLAYED, at(tenth), played).unwrap().is_empty());
        }

        fn times(sent: Vec<(&'static str, Packet)>) -> Vec<i64> {
            sent.iter().map(|(_, packet)| packet.header.at.0 / 100_000_000).collect()
        }
    }

    fn at(tenth: i64) -> Timestamp {
        Timestamp(tenth * 100_000_000)
    }

    #[test]
    fn audio_passes_from_the_end_of_the_word_on() {
        let mut run = Run::new();
        for tenth in 0..20 {
            assert!(run.audio(tenth).is_empty());
        }
        assert!(run.wake(15, "stop").is_empty(), "another word");
        assert_eq!(run.wake(15, "hey"), [15, 16, 17, 18, 19]);
        for tenth in 20..=45 {
            assert_eq!(run.audio(tenth), [tenth]);
        }
        assert!(run.audio(46).is_empty());
    }

    #[test]
    fn a_clock_that_restarts_closes_the_gate() {
        let mut run = Run::new();
        for tenth in [100, 101, 0, 1] {
            assert!(run.audio(tenth).is_empty());
        }
        assert_eq!(run.wake(0, "hey"), [0, 1], "nothing of the earlier clock");
    }

    #[test]
    fn the_gate_stays_open_after_an_answer() {
        let mut run = Run::new();
        run.played(5, true);
        assert!(run.audio(6).is_empty(), "no word was said");
        run.wake(10, "hey");
        run.played(35, true);
        assert_eq!(run.audio(59), [59], "while the answer is played");
        run.played(60, false);
        assert_eq!(run.audio(90), [90]);
        assert!(run.audio(91).is_empty());
        run.played(200, true);
        assert!(run.audio(201).is_empty(), "an alarm long after");
    }
}
