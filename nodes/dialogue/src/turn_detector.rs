//! Decides when it is the agent's turn.

mod pause;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{
    AudioBlock, Played, SpeechEvent, SpeechEventKind, Text, Transcript, TurnEvent, TurnEventKind,
};

use self::pause::Pause;

params! {
    /// Settings of [`TurnDetector`].
    pub struct TurnDetectorParams {
        /// Silence after speech that ends a turn.
        pub min_delay: Duration = "300ms", range 0.0..=60.0;
        /// The same after words of `hesitation`, and where the model hears that the turn goes on.
        pub max_delay: Duration = "2.5s", range 0.0..=60.0;
        /// Model package that hears in a pause whether the turn goes on; needs the input `audio`.
        pub model: Option<PathBuf>;
        /// Last words of a turn that will go on, with commas between them.
        pub hesitation: String = "and,but,or,because,so,um,uh,the,a,an,of,to,with";
        /// Whether the text is sent as soon as speech pauses. The answer then has to wait for the
        /// end of the turn, as node `sentences` lets it with `hold`.
        pub eager: bool = "false";
    }
}

/// Decides when a user has said all, and puts together what was said.
///
/// A turn ends when there was silence for `min_delay`, counted from the end of speech, and what was
/// said is known; after a word of `hesitation`, or when `model` hears that it goes on, it takes
/// `max_delay`. A user who goes on before
/// anything of the answer was heard goes on with the same turn: its whole text is sent again under
/// the same number, and takes the place of the first. Without `played`, every turn that has ended
/// counts as answered. Speech without words is no turn.
///
/// Contract of the model: `forward(sound f32[1, window_size]) -> probability f32[1, 1]`, metadata
/// `sample_rate`, `window_size`; the sound ends in the pause, as soon as `events` tell of it.
///
/// Latency: `min_delay` after the end of speech, `max_delay` at most; with `eager`, none for the
/// text.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp, };
/// use afferent_messages::{HeardWord, SpeechEvent, SpeechEventKind, Text, Transcript};
/// use afferent_nodes_dialogue::{TurnDetector, TurnDetectorParams};
///
/// let params: TurnDetectorParams = afferent_graph::Params::from_values(&[].into())?;
/// let mut bench = NodeBench::new(TurnDetector::open(params, &OpenCx::default())?);
/// let (end, ms) = (SpeechEventKind::End, |ms: i64| Timestamp(ms * 1_000_000));
/// bench.call(TurnDetector::EVENTS, ms(1000), SpeechEvent { kind: end, probability: 0.0 })?;
/// let word = HeardWord { text: "stop".to_owned(), ..HeardWord::default() };
/// let transcript = Transcript { utterance: 0, is_final: true, words: vec![word] };
/// bench.call(TurnDetector::TRANSCRIPT, ms(1200), transcript)?;
/// let sent = bench.advance(ms(2000))?;
/// assert_eq!(sent[0].0, ms(1300));
/// assert_eq!(sent[0].2.get::<Text>().unwrap().text, "stop");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct TurnDetector {
    params: TurnDetectorParams,
    hesitation: Vec<String>,
    pause: Option<Pause>,
    /// Whether the model hears that the turn goes on.
    goes_on: bool,
    turn: u64,
    /// What was said in the turn so far.
    text: String,
    is_speaking: bool,
    /// Whether somebody tells when speech ends.
    sees_speech: bool,
    /// When speech ended, or words came that nobody saw spoken.
    silent_since: Timestamp,
    state: State,
    /// Whether something of the answer was heard, and whether anybody tells.
    is_heard: bool,
    hears: bool,
    /// The text of the turn that was sent last.
    sent: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was said yet.
    Idle,
    Open,
    /// The turn is over, and may still be answered.
    Over,
}

ports! {
    impl TurnDetector {
        /// Start and end of user speech.
        in EVENTS: SpeechEvent, optional;
        /// Transcripts of the user; partial ones are ignored.
        in TRANSCRIPT: Transcript;
        /// Playback position of the agent's audio.
        in PLAYED: Played, optional;
        /// Audio of the user, one channel, at the sample rate of `model`, full scale ±1; required
        /// if `model` is set.
        in AUDIO: AudioBlock, optional;
        /// Whole text of a turn.
        out TEXT: Text;
        /// Start, end, and resumption of turns.
        out TURNS: TurnEvent, optional;
    }
}

impl TurnDetector {
    fn tell(&self, cx: &mut Cx<'_>, kind: TurnEventKind) {
        let now = cx.now();
        cx.send_at(Self::TURNS, now, TurnEvent { turn: self.turn, kind });
    }

    fn speech(&mut self, cx: &mut Cx<'_>, event: SpeechEvent) -> Result<(), NodeError> {
        self.sees_speech = true;
        match event.kind {
            SpeechEventKind::Start => self.is_speaking = true,
            SpeechEventKind::End => {
                self.is_speaking = false;
                self.silent_since = cx.at();
                if let Some(pause) = &mut self.pause {
                    self.goes_on = !cx.time_model(|| pause.is_end())?;
                }
                self.wait(cx);
            }
        }
        Ok(())
    }

    /// Adds what was said, to the turn or to the one that begins with it.
    fn add(&mut self, cx: &mut Cx<'_>, transcript: &Transcript) {
        let text = transcript.text();
        if !transcript.is_final || text.is_empty() {
            return;
        }
        match self.state {
            State::Over if self.hears && !self.is_heard => {
                self.state = State::Open;
                self.tell(cx, TurnEventKind::Resume);
            }
            State::Over => {
                self.turn += 1;
                self.text.clear();
                self.begin(cx);
            }
            State::Idle => self.begin(cx),
            State::Open => {}
        }
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(&text);
        if !self.sees_speech {
            self.silent_since = transcript.words.last().map_or(cx.at(), |word| word.end);
        }
        if self.params.eager {
            self.send(cx);
        }
        self.wait(cx);
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        (self.state, self.is_heard) = (State::Open, false);
        self.sent.clear();
        self.tell(cx, TurnEventKind::Start);
    }

    /// Ends the turn, or waits until it is time to.
    fn wait(&mut self, cx: &mut Cx<'_>) {
        if self.state != State::Open || self.is_speaking {
            return;
        }
        let due = self.silent_since + self.delay();
        if cx.now() < due {
            cx.wake_at(due);
            return;
        }
        self.send(cx);
        (self.state, self.is_heard) = (State::Over, false);
        self.tell(cx, TurnEventKind::End);
    }

    fn delay(&self) -> Duration {
        let last = self.text.rsplit(' ').next().unwrap_or_default();
        let hesitates = self.hesitation.iter().any(|word| word == last);
        if hesitates || self.goes_on { self.params.max_delay } else { self.params.min_delay }
    }

    /// Sends the text of the turn, if it is another than before.
    fn send(&mut self, cx: &mut Cx<'_>) {
        if self.text != self.sent {
            self.sent.clone_from(&self.text);
            let now = cx.now();
            let text = Text { turn: self.turn, text: self.text.clone(), is_last: true };
            cx.send_at(Self::TEXT, now, text);
        }
    }
}

impl Node for TurnDetector {
    type Params = TurnDetectorParams;

    const NAME: &'static str = "turn_detector";
    const SUMMARY: &'static str =
        "Decides when a user has said all, and puts together what was said.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "min_delay after the end of speech, max_delay at most";

    fn check(params: &TurnDetectorParams, cx: &OpenCx) -> Result<(), NodeError> {
        if params.max_delay >= params.min_delay {
            return params.model.as_deref().map_or(Ok(()), |path| Pause::open(path, cx).map(drop));
        }
        let (min, max) = (params.min_delay, params.max_delay);
        let reason = format!("{max:?} is shorter than min_delay, {min:?}");
        Err(NodeError::InvalidParam { name: "max_delay".into(), reason })
    }

    fn open(params: TurnDetectorParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Self::check(&params, cx)?;
        if params.model.is_some() {
            cx.needs("model", &[Self::AUDIO.name()], "the microphone")?;
        }
        let words = params.hesitation.split(',').map(|word| word.trim().to_lowercase());
        let hears = cx.connected.iter().any(|name| **name == *Self::PLAYED.name());
        let pause = params.model.as_deref().map(|path| Pause::open(path, cx)).transpose()?;
        Ok(Self {
            pause,
            goes_on: false,
            hesitation: words.filter(|word| !word.is_empty()).collect(),
            params,
            turn: 0,
            text: String::new(),
            is_speaking: false,
            sees_speech: false,
            silent_since: Timestamp::ZERO,
            state: State::Idle,
            is_heard: false,
            hears,
            sent: String::new(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(event) = cx.get(Self::EVENTS).copied() {
            self.speech(cx, event)?;
        } else if let Some(block) = cx.get(Self::AUDIO) {
            if let Some(pause) = &mut self.pause {
                pause.hear(Self::AUDIO.name(), block)?;
            }
        } else if cx.get(Self::PLAYED).is_some() {
            self.is_heard = true;
        } else if let Some(packet) = cx.packet().cloned() {
            if let Some(transcript) = packet.get::<Transcript>() {
                self.add(cx, transcript);
            }
        } else {
            self.wait(cx);
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

    /// With `played` connected.
    fn open(eager: bool) -> NodeBench<TurnDetector> {
        let values: ParamValues = [("eager".to_owned(), ParamValue::Bool(eager))].into();
        let params = TurnDetectorParams::from_values(&values).unwrap();
        let cx = OpenCx {
            connected: ["events", "transcript", "played"].map(Into::into).to_vec(),
            ..OpenCx::default()
        };
        NodeBench::new(TurnDetector::open(params, &cx).unwrap())
    }

    fn tell<'p>(packets: impl IntoIterator<Item = &'p Packet>) -> Vec<String> {
        let tell = |packet: &Packet| match (packet.get::<Text>(), packet.get::<TurnEvent>()) {
            (Some(text), _) => format!("{} {}", text.turn, text.text),
            (_, Some(event)) => format!("{} {:?}", event.turn, event.kind),
            _ => "?".to_owned(),
        };
        packets.into_iter().map(tell).collect()
    }

    /// Speech of a second that ends at `end`, and what was heard of it 200 ms later; what is sent
    /// with that, and then until two and a half seconds after the end.
    fn speak(bench: &mut NodeBench<TurnDetector>, end: i64, text: &str) -> [Vec<String>; 2] {
        let event = |kind| SpeechEvent { kind, probability: 0.5 };
        bench.call(TurnDetector::EVENTS, ms(end - 1000), event(SpeechEventKind::Start)).unwrap();
        bench.call(TurnDetector::EVENTS, ms(end), event(SpeechEventKind::End)).unwrap();
        let word = |text: &str| HeardWord { text: text.to_owned(), ..HeardWord::default() };
        let words = text.split(' ').map(word).collect();
        let transcript = Transcript { utterance: 0, is_final: true, words };
        let at_once = bench.call(TurnDetector::TRANSCRIPT, ms(end + 200), transcript).unwrap();
        let later = bench.advance(ms(end + 2400)).unwrap();
        [
            tell(at_once.iter().map(|(_, packet)| packet)),
            tell(later.iter().map(|(.., packet)| packet)),
        ]
    }

    #[test]
    fn a_turn_is_all_that_was_said_until_a_silence() {
        let mut bench = open(false);
        assert_eq!(speak(&mut bench, 1000, "stop"), [vec!["0 Start"], vec!["0 stop", "0 End"]]);
        let played = Played { until: ms(0), is_playing: true };
        bench.call(TurnDetector::PLAYED, ms(3500), played).unwrap();
        assert_eq!(speak(&mut bench, 5000, "go"), [vec!["1 Start"], vec!["1 go", "1 End"]]);
    }

    #[test]
    fn what_is_said_again_is_a_turn_again() {
        let mut bench = open(false);
        assert_eq!(speak(&mut bench, 1000, "stop")[1], ["0 stop", "0 End"]);
        let played = Played { until: ms(0), is_playing: true };
        bench.call(TurnDetector::PLAYED, ms(3500), played).unwrap();
        assert_eq!(speak(&mut bench, 5000, "stop"), [vec!["1 Start"], vec!["1 stop", "1 End"]]);
    }

    #[test]
    fn hesitation_is_waited_for() {
        let mut bench = open(false);
        assert_eq!(speak(&mut bench, 1000, "lights and"), [vec!["0 Start"], vec![]]);
        let rest = speak(&mut bench, 3400, "music");
        assert_eq!(rest, [vec![], vec!["0 lights and music", "0 End"]]);
        let played = Played { until: ms(0), is_playing: true };
        bench.call(TurnDetector::PLAYED, ms(6000), played).unwrap();
        assert_eq!(speak(&mut bench, 9000, "to"), [vec!["1 Start"], vec![]]);
        let sent = bench.advance(ms(11_500)).unwrap();
        assert_eq!(tell(sent.iter().map(|(.., packet)| packet)), ["1 to", "1 End"]);
    }

    #[test]
    fn who_goes_on_before_the_answer_is_heard_goes_on_with_the_turn() {
        let mut bench = open(false);
        speak(&mut bench, 1000, "the capital");
        let rest = speak(&mut bench, 4000, "of france");
        assert_eq!(rest, [vec!["0 Resume"], vec!["0 the capital of france", "0 End"]]);
        let played = Played { until: ms(0), is_playing: true };
        bench.call(TurnDetector::PLAYED, ms(7000), played).unwrap();
        assert_eq!(speak(&mut bench, 9000, "thanks")[0], ["1 Start"]);
    }

    #[test]
    fn an_eager_one_sends_the_text_before_the_turn_is_over() {
        let mut bench = open(true);
        let sent = speak(&mut bench, 1000, "go");
        assert_eq!(sent, [vec!["0 Start", "0 go"], vec!["0 End"]]);
    }

    #[test]
    fn noise_is_no_turn() {
        let mut bench = open(false);
        let event = |kind| SpeechEvent { kind, probability: 0.5 };
        bench.call(TurnDetector::EVENTS, ms(0), event(SpeechEventKind::Start)).unwrap();
        bench.call(TurnDetector::EVENTS, ms(500), event(SpeechEventKind::End)).unwrap();
        assert!(bench.advance(ms(9000)).unwrap().is_empty());
    }
}
