//! Endpointing: detection of the end of the user's turn.

mod end_of_turn;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{
    AudioBlock, Played, SpeechEvent, SpeechEventKind, Text, Transcript, TurnEvent, TurnEventKind,
};

use self::end_of_turn::EndOfTurnModel;

params! {
    /// Settings of [`TurnDetector`].
    pub struct TurnDetectorParams {
        /// Silence after speech that ends a turn.
        pub min_delay: Duration = "300ms", range 0.0..=60.0;
        /// Silence that ends a turn after a word of `hesitation`, or if the model predicts that the
        /// turn continues.
        pub max_delay: Duration = "2.5s", range 0.0..=60.0;
        /// Path of an end-of-turn model package, which judges the audio of each pause; requires the
        /// input `audio`.
        pub model: Option<PathBuf>;
        /// Last words after which a turn usually continues, separated by commas.
        pub hesitation: String = "and,but,or,because,so,um,uh,the,a,an,of,to,with";
        /// Utterances that stop the agent, separated by commas. Punctuation and case do not count.
        pub stop_phrases: String = "stop,cancel,never mind,nevermind,be quiet,shut up";
        /// Send the text at each final transcript, before the turn ends. The answer must then be
        /// held until the end of the turn, as by `hold` of node `sentences`.
        pub eager: bool = "false";
    }
}

/// Decides when the user has finished a turn, and collects its text.
///
/// A turn ends when the silence since the end of speech has lasted `min_delay` and the speech is
/// transcribed. After a word of `hesitation`, or if `model` predicts that the turn continues, the
/// silence must last `max_delay`. If the user continues before any of the answer was heard, the
/// turn resumes: its whole text is sent again under the same number and replaces the first. If
/// `played` is not connected, every ended turn counts as answered. Speech without words is not a
/// turn.
///
/// If the last utterance of a turn is one of `stop_phrases`, the turn ends without a text, and its
/// last event is a stop; `barge_in` interrupts the agent then.
///
/// Contract of the model: `forward(sound f32[1, window_size]) -> probability f32[1, 1]`, metadata
/// `sample_rate` and `window_size`. The window ends in the pause, at the time of the speech-end
/// event.
///
/// Latency: `min_delay` after the end of speech, at most `max_delay`; with `eager`, none for the
/// text.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
/// use afferent_messages::{HeardWord, SpeechEvent, SpeechEventKind, Text, Transcript};
/// use afferent_nodes_dialogue::{TurnDetector, TurnDetectorParams};
///
/// let params: TurnDetectorParams = afferent_graph::Params::from_values(&[].into())?;
/// let mut bench = NodeBench::new(TurnDetector::open(params, &OpenCx::default())?);
/// let (end, ms) = (SpeechEventKind::End, |ms: i64| Timestamp(ms * 1_000_000));
/// bench.call(TurnDetector::EVENTS, ms(1000), SpeechEvent { kind: end, probability: 0.0 })?;
/// let word = HeardWord { text: "hello".to_owned(), ..HeardWord::default() };
/// let words = vec![word];
/// let transcript = Transcript { is_final: true, words, ..Transcript::default() };
/// bench.call(TurnDetector::TRANSCRIPT, ms(1200), transcript)?;
/// let sent = bench.advance(ms(2000))?;
/// assert_eq!(sent[0].0, ms(1300));
/// assert_eq!(sent[0].2.get::<Text>().unwrap().text, "hello");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct TurnDetector {
    params: TurnDetectorParams,
    hesitation: Vec<String>,
    stop_phrases: Vec<String>,
    /// True if the last utterance is a stop phrase.
    is_stop: bool,
    model: Option<EndOfTurnModel>,
    /// True if the model predicts that the turn continues.
    is_incomplete: bool,
    turn: u64,
    /// Text of the turn so far.
    text: String,
    is_speaking: bool,
    /// True once a speech event was received.
    has_speech_events: bool,
    /// End of the last speech; without speech events, end of the last transcribed word.
    silent_since: Timestamp,
    state: State,
    /// True if any of the answer was heard.
    is_answer_heard: bool,
    /// True if `played` is connected.
    has_playback: bool,
    /// Text of the turn that was sent last.
    sent_text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No turn has started.
    Idle,
    /// The user has the turn.
    InTurn,
    /// The turn has ended; it may resume.
    Ended,
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
        /// Start, end, resumption, and stop of turns.
        out TURNS: TurnEvent, optional;
    }
}

impl TurnDetector {
    fn send_event(&self, cx: &mut Cx<'_>, kind: TurnEventKind) {
        let now = cx.now();
        cx.send_at(Self::TURNS, now, TurnEvent { turn: self.turn, kind });
    }

    fn on_speech(&mut self, cx: &mut Cx<'_>, event: SpeechEvent) -> Result<(), NodeError> {
        self.has_speech_events = true;
        match event.kind {
            SpeechEventKind::Start => self.is_speaking = true,
            SpeechEventKind::End => {
                self.is_speaking = false;
                self.silent_since = cx.at();
                if let Some(model) = &mut self.model {
                    self.is_incomplete = !cx.time_model(|| model.is_end_of_turn())?;
                }
                self.end_turn_if_due(cx);
            }
        }
        Ok(())
    }

    /// Adds a final transcript to the turn, or starts a turn with it.
    fn on_transcript(&mut self, cx: &mut Cx<'_>, transcript: &Transcript) {
        let text = transcript.text();
        if !transcript.is_final || text.is_empty() {
            return;
        }
        match self.state {
            State::Ended if self.has_playback && !self.is_answer_heard => {
                self.state = State::InTurn;
                self.send_event(cx, TurnEventKind::Resume);
            }
            State::Ended => {
                self.turn += 1;
                self.text.clear();
                self.start_turn(cx);
            }
            State::Idle => self.start_turn(cx),
            State::InTurn => {}
        }
        self.is_stop = self.stop_phrases.contains(&spoken_words(&text));
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(&text);
        if !self.has_speech_events {
            self.silent_since = transcript.words.last().map_or(cx.at(), |word| word.end);
        }
        if self.params.eager && !self.is_stop {
            self.send_text(cx);
        }
        self.end_turn_if_due(cx);
    }

    fn start_turn(&mut self, cx: &mut Cx<'_>) {
        (self.state, self.is_answer_heard) = (State::InTurn, false);
        self.sent_text.clear();
        self.send_event(cx, TurnEventKind::Start);
    }

    /// Ends the turn if the silence is long enough, or wakes when it will be.
    fn end_turn_if_due(&mut self, cx: &mut Cx<'_>) {
        if self.state != State::InTurn || self.is_speaking {
            return;
        }
        let due = self.silent_since + self.delay();
        if cx.now() < due {
            cx.wake_at(due);
            return;
        }
        if self.is_stop {
            self.send_event(cx, TurnEventKind::Stop);
            self.text.clear();
            self.turn += 1;
            self.state = State::Idle;
            return;
        }
        self.send_text(cx);
        (self.state, self.is_answer_heard) = (State::Ended, false);
        self.send_event(cx, TurnEventKind::End);
    }

    /// Silence that ends the turn.
    fn delay(&self) -> Duration {
        let last = self.text.rsplit(' ').next().unwrap_or_default();
        let hesitates = self.hesitation.iter().any(|word| word == last);
        if hesitates || self.is_incomplete { self.params.max_delay } else { self.params.min_delay }
    }

    /// Sends the text of the turn, if it has changed.
    fn send_text(&mut self, cx: &mut Cx<'_>) {
        if self.text != self.sent_text {
            self.sent_text.clone_from(&self.text);
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
        "Decides when the user has finished a turn, and collects its text.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "min_delay after the end of speech, at most max_delay";

    fn check(params: &TurnDetectorParams, cx: &OpenCx) -> Result<(), NodeError> {
        if params.max_delay >= params.min_delay {
            return params
                .model
                .as_deref()
                .map_or(Ok(()), |path| EndOfTurnModel::open(path, cx).map(drop));
        }
        let (min, max) = (params.min_delay, params.max_delay);
        let reason = format!("{max:?} must not be shorter than min_delay, {min:?}");
        Err(NodeError::InvalidParam { name: "max_delay".into(), reason })
    }

    fn open(params: TurnDetectorParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Self::check(&params, cx)?;
        if params.model.is_some() {
            cx.needs("model", &[Self::AUDIO.name()], "the microphone")?;
        }
        let words = params.hesitation.split(',').map(|word| word.trim().to_lowercase());
        let stop_phrases = params.stop_phrases.split(',').map(spoken_words);
        let has_playback = cx.is_connected(Self::PLAYED.name());
        let model = params.model.as_deref();
        let model = model.map(|path| EndOfTurnModel::open(path, cx)).transpose()?;
        Ok(Self {
            model,
            is_incomplete: false,
            hesitation: words.filter(|word| !word.is_empty()).collect(),
            stop_phrases: stop_phrases.filter(|phrase| !phrase.is_empty()).collect(),
            is_stop: false,
            params,
            turn: 0,
            text: String::new(),
            is_speaking: false,
            has_speech_events: false,
            silent_since: Timestamp::ZERO,
            state: State::Idle,
            is_answer_heard: false,
            has_playback,
            sent_text: String::new(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(event) = cx.get(Self::EVENTS).copied() {
            self.on_speech(cx, event)?;
        } else if let Some(block) = cx.get(Self::AUDIO) {
            if let Some(model) = &mut self.model {
                model.push_audio(Self::AUDIO.name(), block)?;
            }
        } else if cx.get(Self::PLAYED).is_some() {
            self.is_answer_heard = true;
        } else if let Some(packet) = cx.packet().cloned() {
            if let Some(transcript) = packet.get::<Transcript>() {
                self.on_transcript(cx, transcript);
            }
        } else {
            self.end_turn_if_due(cx);
        }
        Ok(())
    }
}

/// Words of `text` in lower case, without punctuation.
fn spoken_words(text: &str) -> String {
    let is_mark = |c: char| !(c.is_alphanumeric() || c == '\'');
    let words = text.split(is_mark).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Packet, ParamValue, ParamValues, Params};
    use afferent_messages::HeardWord;

    use super::*;

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    /// A node with `played` connected.
    fn open(eager: bool) -> NodeBench<TurnDetector> {
        let values: ParamValues = [("eager".to_owned(), ParamValue::Bool(eager))].into();
        let params = TurnDetectorParams::from_values(&values).unwrap();
        let cx = OpenCx {
            connected: ["events", "transcript", "played"].map(Into::into).to_vec(),
            ..OpenCx::default()
        };
        NodeBench::new(TurnDetector::open(params, &cx).unwrap())
    }

    fn describe<'p>(packets: impl IntoIterator<Item = &'p Packet>) -> Vec<String> {
        let text = |packet: &Packet| match (packet.get::<Text>(), packet.get::<TurnEvent>()) {
            (Some(text), _) => format!("{} {}", text.turn, text.text),
            (_, Some(event)) => format!("{} {:?}", event.turn, event.kind),
            _ => "?".to_owned(),
        };
        packets.into_iter().map(text).collect()
    }

    /// Speech of one second that ends at `end`, with its transcript 200 ms later. Returns the
    /// packets sent with the transcript, and those until 2.4 s after the end.
    fn speak(bench: &mut NodeBench<TurnDetector>, end: i64, text: &str) -> [Vec<String>; 2] {
        let event = |kind| SpeechEvent { kind, probability: 0.5 };
        bench.call(TurnDetector::EVENTS, ms(end - 1000), event(SpeechEventKind::Start)).unwrap();
        bench.call(TurnDetector::EVENTS, ms(end), event(SpeechEventKind::End)).unwrap();
        let word = |text: &str| HeardWord { text: text.to_owned(), ..HeardWord::default() };
        let words = text.split(' ').map(word).collect();
        let transcript = Transcript { is_final: true, words, ..Transcript::default() };
        let with_transcript =
            bench.call(TurnDetector::TRANSCRIPT, ms(end + 200), transcript).unwrap();
        let later = bench.advance(ms(end + 2400)).unwrap();
        [
            describe(with_transcript.iter().map(|(_, packet)| packet)),
            describe(later.iter().map(|(.., packet)| packet)),
        ]
    }

    #[test]
    fn silence_ends_a_turn() {
        let mut bench = open(false);
        assert_eq!(speak(&mut bench, 1000, "wait"), [vec!["0 Start"], vec!["0 wait", "0 End"]]);
        let played = Played { until: ms(0), is_playing: true };
        bench.call(TurnDetector::PLAYED, ms(3500), played).unwrap();
        assert_eq!(speak(&mut bench, 5000, "go"), [vec!["1 Start"], vec!["1 go", "1 End"]]);
    }

    #[test]
    fn a_repeated_text_is_another_turn() {
        let mut bench = open(false);
        assert_eq!(speak(&mut bench, 1000, "wait")[1], ["0 wait", "0 End"]);
        let played = Played { until: ms(0), is_playing: true };
        bench.call(TurnDetector::PLAYED, ms(3500), played).unwrap();
        assert_eq!(speak(&mut bench, 5000, "wait"), [vec!["1 Start"], vec!["1 wait", "1 End"]]);
    }

    #[test]
    fn hesitation_extends_the_delay() {
        let mut bench = open(false);
        assert_eq!(speak(&mut bench, 1000, "lights and"), [vec!["0 Start"], vec![]]);
        let rest = speak(&mut bench, 3400, "music");
        assert_eq!(rest, [vec![], vec!["0 lights and music", "0 End"]]);
        let played = Played { until: ms(0), is_playing: true };
        bench.call(TurnDetector::PLAYED, ms(6000), played).unwrap();
        assert_eq!(speak(&mut bench, 9000, "to"), [vec!["1 Start"], vec![]]);
        let sent = bench.advance(ms(11_500)).unwrap();
        assert_eq!(describe(sent.iter().map(|(.., packet)| packet)), ["1 to", "1 End"]);
    }

    #[test]
    fn speech_before_the_answer_is_heard_resumes_the_turn() {
        let mut bench = open(false);
        speak(&mut bench, 1000, "the capital");
        let rest = speak(&mut bench, 4000, "of france");
        assert_eq!(rest, [vec!["0 Resume"], vec!["0 the capital of france", "0 End"]]);
        let played = Played { until: ms(0), is_playing: true };
        bench.call(TurnDetector::PLAYED, ms(7000), played).unwrap();
        assert_eq!(speak(&mut bench, 9000, "thanks")[0], ["1 Start"]);
    }

    #[test]
    fn an_eager_detector_sends_the_text_before_the_turn_ends() {
        let mut bench = open(true);
        let sent = speak(&mut bench, 1000, "go");
        assert_eq!(sent, [vec!["0 Start", "0 go"], vec!["0 End"]]);
    }

    #[test]
    fn a_stop_phrase_ends_the_turn_without_a_text() {
        let mut bench = open(false);
        assert_eq!(speak(&mut bench, 1000, "Stop!"), [vec!["0 Start"], vec!["0 Stop"]]);
        assert_eq!(speak(&mut bench, 4000, "never mind"), [vec!["1 Start"], vec!["1 Stop"]]);
        // Only a whole utterance is a stop phrase.
        let [_, sent] = speak(&mut bench, 7000, "stop the music");
        assert_eq!(sent, ["2 stop the music", "2 End"]);
        // It takes back the turn that is not answered yet.
        let sent = speak(&mut bench, 10_000, "cancel");
        assert_eq!(sent, [vec!["2 Resume"], vec!["2 Stop"]]);
        assert_eq!(speak(&mut bench, 13_000, "go")[1], ["3 go", "3 End"]);
    }

    #[test]
    fn speech_without_words_is_not_a_turn() {
        let mut bench = open(false);
        let event = |kind| SpeechEvent { kind, probability: 0.5 };
        bench.call(TurnDetector::EVENTS, ms(0), event(SpeechEventKind::Start)).unwrap();
        bench.call(TurnDetector::EVENTS, ms(500), event(SpeechEventKind::End)).unwrap();
        assert!(bench.advance(ms(9000)).unwrap().is_empty());
    }
}
