//! Barge-in: user speech that interrupts the agent.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{
    Gain, Interruption, Played, SpeechEvent, SpeechEventKind, Transcript, TurnEvent, TurnEventKind,
};

params! {
    /// Settings of [`BargeIn`].
    pub struct BargeInParams {
        /// Least length of speech that interrupts.
        pub min_speech: Duration = "250ms", range 0.0..=10.0;
        /// Least number of words that interrupt; words of `backchannels` do not count. With 0,
        /// speech interrupts without a transcript.
        pub min_words: usize = "0", range 0.0..=20.0;
        /// Back-channel phrases, which show attention and never interrupt, separated by commas.
        pub backchannels: String = "mhm,uh huh,yeah,yes,ok,okay,right,i see,sure,really";
        /// Playback gain of the agent while the user speaks and has not interrupted yet.
        pub duck: f32 = "-12", range -60.0..=0.0, unit "dB";
    }
}

/// Decides when user speech interrupts the agent.
///
/// When speech starts while the agent plays, the agent is ducked by `duck`. Speech of `min_speech`
/// with at least `min_words` words interrupts: the graph drops everything that the agent has
/// queued, heard or not. A short word is transcribed only after the speech; its final transcript
/// then interrupts. Speech that ends without an interrupt is a false alarm: the gain returns to 0
/// dB.
///
/// If `turns` and `played` are connected, only the agent's turn can be interrupted: from the end of
/// the user's turn until the answer was played, across gaps in its audio. A turn event that stops the
/// agent always interrupts, unless the same speech has interrupted already.
///
/// Latency: `min_speech`, or until `min_words` words are transcribed.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
/// use afferent_messages::{Interruption, SpeechEvent, SpeechEventKind};
/// use afferent_nodes_dialogue::{BargeIn, BargeInParams};
///
/// let params: BargeInParams = afferent_graph::Params::from_values(&[].into())?;
/// let mut bench = NodeBench::new(BargeIn::open(params, &OpenCx::default())?);
/// let (start, ms) = (SpeechEventKind::Start, |ms: i64| Timestamp(ms * 1_000_000));
/// bench.call(BargeIn::EVENTS, ms(100), SpeechEvent { kind: start, probability: 0.9 })?;
/// let sent = bench.advance(ms(1000))?;
/// assert_eq!(sent[0].0, ms(350));
/// assert!(sent[0].2.get::<Interruption>().is_some());
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct BargeIn {
    params: BargeInParams,
    backchannels: Vec<String>,
    /// Start of the current speech.
    speech_start: Option<Timestamp>,
    /// Time until which a transcript of the last speech is accepted.
    transcript_until: Timestamp,
    /// True if the current speech has interrupted.
    has_interrupted: bool,
    /// Words of the current speech, without back-channels.
    words: usize,
    /// True while the agent's audio is played.
    is_playing: bool,
    is_ducked: bool,
    /// True during the agent's turn; `None` if `turns` or `played` is not connected.
    is_agent_turn: Option<bool>,
    /// True after the end of the user's turn, until its answer is interrupted.
    is_user_turn_over: bool,
}

/// Longest time from the end of speech to its final transcript.
const TRANSCRIPT_DELAY: Duration = Duration::from_millis(800);

ports! {
    impl BargeIn {
        /// Start and end of user speech.
        in EVENTS: SpeechEvent;
        /// Partial and final transcripts of the user; required if `min_words` is greater than zero.
        in TRANSCRIPT: Transcript, optional;
        /// Playback position of the agent's audio.
        in PLAYED: Played, optional;
        /// Start, end, and stop of the user's turns.
        in TURNS: TurnEvent, optional;
        /// Interrupts; connect it to `interrupt` of the graph.
        out INTERRUPT: Interruption, optional;
        /// Playback gain of the agent, 0 dB or `duck`.
        out GAIN: Gain, optional;
    }
}

impl BargeIn {
    fn on_speech(&mut self, cx: &mut Cx<'_>, event: SpeechEvent) {
        match event.kind {
            SpeechEventKind::Start => {
                self.speech_start = Some(cx.at());
                (self.has_interrupted, self.words) = (false, 0);
                if self.is_playing && self.params.duck < 0.0 {
                    self.is_ducked = true;
                    let now = cx.now();
                    cx.send_at(Self::GAIN, now, Gain { decibels: self.params.duck });
                }
                self.decide(cx);
            }
            SpeechEventKind::End => {
                self.speech_start = None;
                self.transcript_until = cx.now() + TRANSCRIPT_DELAY;
                self.restore_gain(cx);
            }
        }
    }

    fn restore_gain(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.is_ducked) {
            let now = cx.now();
            cx.send_at(Self::GAIN, now, Gain::default());
        }
    }

    fn on_transcript(&mut self, cx: &mut Cx<'_>, transcript: &Transcript) {
        self.words = self.count_words(&transcript.text());
        let is_late = self.speech_start.is_none() && cx.now() <= self.transcript_until;
        if is_late && transcript.is_final && self.words >= self.params.min_words.max(1) {
            self.interrupt(cx, "a word");
        } else {
            self.decide(cx);
        }
    }

    /// Number of words in `text` that are not back-channels.
    fn count_words(&self, text: &str) -> usize {
        // Two spaces between words, so that each phrase matches whole words only.
        let text = format!(" {} ", text.to_lowercase().replace(' ', "  "));
        let rest = self.backchannels.iter().fold(text, |text, known| text.replace(known, " "));
        rest.split_whitespace().count()
    }

    /// Interrupts if the speech is long enough and has enough words. Wakes at `min_speech` if it is
    /// too short.
    fn decide(&mut self, cx: &mut Cx<'_>) {
        let Some(start) = self.speech_start.filter(|_| !self.has_interrupted) else { return };
        let due = start + self.params.min_speech;
        if cx.now() < due {
            cx.wake_at(due);
        } else if self.words >= self.params.min_words {
            self.interrupt(cx, "speech");
        }
    }

    fn interrupt(&mut self, cx: &mut Cx<'_>, reason: &str) {
        if self.is_agent_turn == Some(false) || std::mem::replace(&mut self.has_interrupted, true) {
            return;
        }
        (self.is_agent_turn, self.is_user_turn_over) = (self.is_agent_turn.map(|_| false), false);
        let now = cx.now();
        cx.send_at(Self::INTERRUPT, now, Interruption { reason: reason.to_owned() });
        self.restore_gain(cx);
    }
}

impl Node for BargeIn {
    type Params = BargeInParams;

    const NAME: &'static str = "barge_in";
    const SUMMARY: &'static str = "Decides when user speech interrupts the agent.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "min_speech, or until min_words words are transcribed";

    fn open(params: BargeInParams, cx: &OpenCx) -> Result<Self, NodeError> {
        if params.min_words > 0 {
            cx.needs("min_words", &[Self::TRANSCRIPT.name()], "asr")?;
        }
        let knows_turns =
            cx.is_connected(Self::TURNS.name()) && cx.is_connected(Self::PLAYED.name());
        let known = params.backchannels.split(',').map(|text| text.trim().to_lowercase());
        let known = known.filter(|text| !text.is_empty());
        let known = known.map(|text| format!(" {} ", text.replace(' ', "  ")));
        Ok(Self {
            backchannels: known.collect(),
            params,
            speech_start: None,
            transcript_until: Timestamp(i64::MIN),
            has_interrupted: false,
            words: 0,
            is_playing: false,
            is_ducked: false,
            is_agent_turn: knows_turns.then_some(false),
            is_user_turn_over: false,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(event) = cx.get(Self::EVENTS).copied() {
            self.on_speech(cx, event);
        } else if let Some(played) = cx.get(Self::PLAYED) {
            self.is_playing = played.is_playing;
            // The answer may continue after a gap.
            self.is_agent_turn =
                self.is_agent_turn.map(|_| self.is_playing && self.is_user_turn_over);
        } else if let Some(event) = cx.get(Self::TURNS).copied() {
            self.is_user_turn_over = event.kind == TurnEventKind::End;
            if event.kind == TurnEventKind::Stop {
                self.is_agent_turn = self.is_agent_turn.map(|_| true);
                self.interrupt(cx, "a stop phrase");
            }
            self.is_agent_turn = self.is_agent_turn.map(|_| self.is_user_turn_over);
            self.decide(cx);
        } else if let Some(packet) = cx.packet().cloned() {
            if let Some(transcript) = packet.get::<Transcript>() {
                self.on_transcript(cx, transcript);
            }
        } else {
            self.decide(cx);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Packet, ParamValue, ParamValues, Params};
    use afferent_messages::HeardWord;

    use super::*;

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn open(min_words: i64) -> NodeBench<BargeIn> {
        open_with(min_words, &OpenCx::default())
    }

    fn open_with(min_words: i64, cx: &OpenCx) -> NodeBench<BargeIn> {
        let values: ParamValues = [("min_words".to_owned(), ParamValue::Int(min_words))].into();
        let params = BargeInParams::from_values(&values).unwrap();
        let mut bench = NodeBench::new(BargeIn::open(params, cx).unwrap());
        bench.call(BargeIn::PLAYED, ms(0), played(true)).unwrap();
        bench
    }

    fn played(is_playing: bool) -> Played {
        Played { until: ms(0), is_playing }
    }

    fn event(kind: SpeechEventKind) -> SpeechEvent {
        SpeechEvent { kind, probability: 0.5 }
    }

    fn said(text: &str, is_final: bool) -> Transcript {
        let word = |text: &str| HeardWord { text: text.to_owned(), ..HeardWord::default() };
        let words = text.split(' ').map(word).collect();
        Transcript { is_final, words, ..Transcript::default() }
    }

    /// `interrupt`, or the gain, of each packet.
    fn describe<'p>(packets: impl IntoIterator<Item = &'p Packet>) -> Vec<String> {
        let text = |packet: &Packet| match packet.get::<Gain>() {
            Some(gain) => format!("{} dB", gain.decibels),
            None => "interrupt".to_owned(),
        };
        packets.into_iter().map(text).collect()
    }

    #[test]
    fn speech_ducks_and_then_interrupts() {
        let mut bench = open(0);
        let sent = bench.call(BargeIn::EVENTS, ms(10), event(SpeechEventKind::Start)).unwrap();
        assert_eq!(describe(sent.iter().map(|(_, packet)| packet)), ["-12 dB"]);
        let sent = bench.advance(ms(500)).unwrap();
        assert_eq!(describe(sent.iter().map(|(.., packet)| packet)), ["interrupt", "0 dB"]);
        assert_eq!(sent[0].0, ms(260));
    }

    #[test]
    fn short_speech_is_a_false_alarm() {
        let mut bench = open(0);
        bench.call(BargeIn::EVENTS, ms(10), event(SpeechEventKind::Start)).unwrap();
        let sent = bench.call(BargeIn::EVENTS, ms(200), event(SpeechEventKind::End)).unwrap();
        assert_eq!(describe(sent.iter().map(|(_, packet)| packet)), ["0 dB"]);
        assert!(bench.advance(ms(900)).unwrap().is_empty());
    }

    #[test]
    fn backchannels_do_not_interrupt_and_words_do() {
        let mut bench = open(1);
        bench.call(BargeIn::EVENTS, ms(10), event(SpeechEventKind::Start)).unwrap();
        assert!(bench.advance(ms(500)).unwrap().is_empty());
        let mut transcribe = |at, text| {
            let sent = bench.call(BargeIn::TRANSCRIPT, ms(at), said(text, false)).unwrap();
            describe(sent.iter().map(|(_, packet)| packet))
        };
        assert!(transcribe(510, "yeah").is_empty());
        assert!(transcribe(520, "yeah yeah i see").is_empty());
        assert_eq!(transcribe(530, "yeah i see but"), ["interrupt", "0 dB"]);
        assert!(transcribe(540, "yeah i see but no").is_empty(), "speech interrupts once");
    }

    #[test]
    fn an_answer_can_be_interrupted_once_and_after_a_gap() {
        let cx = OpenCx {
            connected: ["events", "played", "turns"].map(Into::into).to_vec(),
            ..OpenCx::default()
        };
        let mut bench = open_with(0, &cx);
        let interrupts = |bench: &mut NodeBench<BargeIn>, at| {
            bench.call(BargeIn::EVENTS, ms(at), event(SpeechEventKind::Start)).unwrap();
            let sent = bench.advance(ms(at + 500)).unwrap();
            bench.call(BargeIn::EVENTS, ms(at + 500), event(SpeechEventKind::End)).unwrap();
            sent.iter().any(|(.., packet)| packet.get::<Interruption>().is_some())
        };
        assert!(!interrupts(&mut bench, 100), "it is the user's turn");
        let over = TurnEvent { turn: 1, kind: TurnEventKind::End };
        bench.call(BargeIn::TURNS, ms(1000), over).unwrap();
        bench.call(BargeIn::PLAYED, ms(1100), played(false)).unwrap();
        bench.call(BargeIn::PLAYED, ms(1200), played(true)).unwrap();
        assert!(interrupts(&mut bench, 1300), "the answer continues after a gap");
        bench.call(BargeIn::PLAYED, ms(2000), played(true)).unwrap();
        assert!(!interrupts(&mut bench, 2100), "the answer only fades out");
    }

    #[test]
    fn a_stop_phrase_interrupts_once() {
        let cx = OpenCx {
            connected: ["events", "transcript", "played", "turns"].map(Into::into).to_vec(),
            ..OpenCx::default()
        };
        let mut bench = open_with(1, &cx);
        let mut stop = |at| {
            let event = TurnEvent { turn: 1, kind: TurnEventKind::Stop };
            let sent = bench.call(BargeIn::TURNS, ms(at), event).unwrap();
            describe(sent.iter().map(|(_, packet)| packet))
        };
        assert_eq!(stop(100), ["interrupt"]);
        assert!(stop(200).is_empty(), "the same speech has interrupted");
    }

    #[test]
    fn a_short_word_interrupts_when_it_is_transcribed() {
        let mut bench = open(0);
        bench.call(BargeIn::EVENTS, ms(0), event(SpeechEventKind::Start)).unwrap();
        bench.call(BargeIn::EVENTS, ms(150), event(SpeechEventKind::End)).unwrap();
        let sent = bench.call(BargeIn::TRANSCRIPT, ms(200), said("stop", true)).unwrap();
        assert_eq!(describe(sent.iter().map(|(_, packet)| packet)), ["interrupt"]);
        bench.call(BargeIn::EVENTS, ms(2000), event(SpeechEventKind::Start)).unwrap();
        bench.call(BargeIn::EVENTS, ms(2100), event(SpeechEventKind::End)).unwrap();
        let sent = bench.call(BargeIn::TRANSCRIPT, ms(2150), said("okay", true)).unwrap();
        assert!(sent.is_empty());
    }
}
