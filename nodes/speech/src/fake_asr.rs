//! Says what it was told to have heard.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::{AudioBlock, HeardWord, SpeechEvent, SpeechEventKind, Transcript};

use crate::script::{Script, no_text};

choices! {
    /// What tells when somebody speaks.
    pub enum Listen {
        /// The events.
        Events = "events",
        /// The sound, where it is louder than a level.
        Sound = "sound",
    }
}

params! {
    /// Settings of [`FakeAsr`].
    pub struct FakeAsrParams {
        /// What is heard, utterance after utterance, with "|" between them; then from the first
        /// again.
        pub texts: String;
        /// Time from the end of speech to the final transcript.
        pub delay: Duration = "100ms", range 0.0..=60.0;
        /// While somebody speaks, a word more is heard each such time; none where it is zero.
        pub word: Duration = "0ms", range 0.0..=60.0;
        /// What tells when somebody speaks.
        pub listen: Listen = "events";
        /// Sound that is louder than this is speech (peak of a block), for `listen: sound`.
        pub level_dbfs: f32 = "-40", range -120.0..=0.0;
        /// A pause of this length ends speech, for `listen: sound`.
        pub silence: Duration = "300ms", range 0.0..=60.0;
    }
}

/// Says what it was told to have heard, in the place of `asr` in tests of the rest of a graph.
///
/// Times are those of the clock of the session, so that on the virtual clock it does the same in
/// every run. It hears nothing of what is said.
///
/// Latency: `delay` behind the end of speech.
///
/// ```
/// use std::time::Duration;
///
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{SpeechEvent, SpeechEventKind, Transcript};
/// use afferent_nodes_speech::{FakeAsr, FakeAsrParams};
///
/// let values = [("texts".to_owned(), ParamValue::Text("stop".to_owned()))].into();
/// let params = FakeAsrParams::from_values(&values).unwrap();
/// let mut asr = NodeBench::new(FakeAsr::open(params, &OpenCx::default())?);
/// let event = |kind| SpeechEvent { kind, probability: 1.0 };
/// asr.call(FakeAsr::EVENTS, Timestamp(0), event(SpeechEventKind::Start))?;
/// let end = Timestamp::ZERO + Duration::from_millis(600);
/// asr.call(FakeAsr::EVENTS, end, event(SpeechEventKind::End))?;
/// let sent = asr.advance(Timestamp::ZERO + Duration::from_secs(1))?;
/// assert_eq!(sent[0].0, end + Duration::from_millis(100));
/// assert_eq!(sent[0].2.get::<Transcript>().unwrap().text(), "stop");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct FakeAsr {
    params: FakeAsrParams,
    script: Script,
    utterance: u64,
    /// The utterance that is being spoken.
    speech: Option<Speech>,
    /// Final transcripts, and when they are due.
    finals: VecDeque<(Timestamp, Transcript)>,
    /// When sound was last loud enough.
    loud: Timestamp,
}

/// Somebody speaks.
struct Speech {
    since: Timestamp,
    words: Vec<String>,
    /// How many of the words were sent.
    heard: usize,
}

ports! {
    impl FakeAsr {
        /// Audio, full scale ±1, any sample rate and channels; only its level is used.
        in AUDIO: AudioBlock, optional;
        /// Start and end of speech.
        in EVENTS: SpeechEvent, optional;
        /// The words so far while speech goes on, all words after its end.
        out TRANSCRIPT: Transcript;
    }
}

impl FakeAsr {
    fn begin(&mut self, now: Timestamp) {
        if self.speech.is_none() {
            let words = self.script.next().split_whitespace().map(str::to_owned).collect();
            self.speech = Some(Speech { since: now, words, heard: 0 });
        }
    }

    fn end(&mut self, now: Timestamp) {
        let Some(speech) = self.speech.take() else { return };
        let words = spread(&speech.words, speech.since, now);
        let transcript = Transcript { utterance: self.utterance, is_final: true, words };
        self.utterance += 1;
        self.finals.push_back((now + self.params.delay, transcript));
    }

    /// When the next word is heard.
    fn next_word(&self) -> Option<Timestamp> {
        let speech = self.speech.as_ref()?;
        let more = speech.heard < speech.words.len() && !self.params.word.is_zero();
        let nth = u32::try_from(speech.heard + 1).unwrap_or(u32::MAX);
        more.then(|| speech.since + self.params.word * nth)
    }

    /// Sends what is due, and asks for the next call.
    fn send_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        while let Some((_, transcript)) = self.finals.pop_front_if(|(due, _)| *due <= now) {
            cx.send_at(Self::TRANSCRIPT, now, transcript);
        }
        while self.next_word().is_some_and(|due| due <= now) {
            let Some(speech) = &mut self.speech else { break };
            speech.heard += 1;
            let words = spread(&speech.words[..speech.heard], speech.since, now);
            let transcript = Transcript { utterance: self.utterance, is_final: false, words };
            cx.send_at(Self::TRANSCRIPT, now, transcript);
        }
        let due = self.finals.front().map(|(due, _)| *due).into_iter().chain(self.next_word());
        if let Some(due) = due.min() {
            cx.wake_at(due);
        }
    }

    fn hear(&mut self, block: &AudioBlock, now: Timestamp) -> Result<(), NodeError> {
        let loud = 10.0_f32.powf(self.params.level_dbfs / 20.0);
        if block.samples.data::<f32>()?.iter().any(|sample| sample.abs() > loud) {
            self.begin(now);
            self.loud = now;
        } else if now.since(self.loud) >= self.params.silence {
            self.end(now);
        }
        Ok(())
    }
}

/// The words, each as long as the others.
fn spread(words: &[String], from: Timestamp, to: Timestamp) -> Vec<HeardWord> {
    let length = to.since(from) / u32::try_from(words.len().max(1)).unwrap_or(u32::MAX);
    let word = |(place, text): (usize, &String)| {
        let start = from + length * u32::try_from(place).unwrap_or(u32::MAX);
        HeardWord { text: text.clone(), start, end: start + length }
    };
    words.iter().enumerate().map(word).collect()
}

impl Node for FakeAsr {
    type Params = FakeAsrParams;

    const NAME: &'static str = "fake_asr";
    const SUMMARY: &'static str = "Says what it was told to have heard, for tests.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "`delay` behind the end of speech";

    fn check(params: &FakeAsrParams, _: &OpenCx) -> Result<(), NodeError> {
        no_text("texts", &params.texts)
    }

    fn open(params: FakeAsrParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Self::check(&params, cx)?;
        let script = Script::new(&params.texts);
        let (finals, loud) = (VecDeque::new(), Timestamp::ZERO);
        Ok(Self { params, script, utterance: 0, speech: None, finals, loud })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.now();
        match self.params.listen {
            Listen::Events => match cx.get(Self::EVENTS).map(|event| event.kind) {
                Some(SpeechEventKind::Start) => self.begin(now),
                Some(SpeechEventKind::End) => self.end(now),
                None => {}
            },
            Listen::Sound => {
                if let Some(block) = cx.get(Self::AUDIO) {
                    self.hear(block, now)?;
                }
            }
        }
        self.send_due(cx);
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.now();
        self.end(now);
        for (_, transcript) in self.finals.drain(..) {
            cx.send_at(Self::TRANSCRIPT, now, transcript);
        }
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.speech = None;
        self.finals.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Params};
    use afferent_messages::SampleRate;

    use super::*;

    fn open(settings: &[(&str, &str)]) -> NodeBench<FakeAsr> {
        let value = |(name, text): &(&str, &str)| {
            let param = FakeAsrParams::PARAMS.iter().find(|param| param.name == *name);
            ((*name).to_owned(), param.expect("a parameter").parse(text).expect("its value"))
        };
        let params = FakeAsrParams::from_values(&settings.iter().map(value).collect());
        let params = params.expect("settings of the test");
        NodeBench::new(FakeAsr::open(params, &OpenCx::default()).expect("settings of the test"))
    }

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn event(kind: SpeechEventKind) -> SpeechEvent {
        SpeechEvent { kind, probability: 1.0 }
    }

    #[test]
    fn words_come_while_somebody_speaks_and_all_of_them_after_the_end() {
        let mut asr = open(&[("texts", "turn it on | stop"), ("word", "200ms")]);
        let (start, end) = (event(SpeechEventKind::Start), event(SpeechEventKind::End));
        asr.call(FakeAsr::EVENTS, ms(0), start).unwrap();
        let mut sent = asr.advance(ms(500)).unwrap();
        asr.call(FakeAsr::EVENTS, ms(500), end).unwrap();
        asr.call(FakeAsr::EVENTS, ms(550), start).unwrap();
        sent.extend(asr.advance(ms(1000)).unwrap());
        let about = sent.iter().map(|(now, _, packet)| {
            let transcript = packet.get::<Transcript>().unwrap();
            (now.0 / 1_000_000, transcript.is_final, transcript.text())
        });
        let expected = [
            (200, false, "turn"),
            (400, false, "turn it"),
            (600, true, "turn it on"),
            (750, false, "stop"),
        ];
        let expected = expected.map(|(at, is_final, text)| (at, is_final, text.to_owned()));
        assert_eq!(about.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn loud_sound_is_speech() {
        let mut asr = open(&[("texts", "hello"), ("listen", "sound"), ("delay", "0ms")]);
        let mut hear = |at, level: f32| {
            let mut block = AudioBlock::default();
            block.reshape(SampleRate(16_000), 1, 320).unwrap().fill(level);
            asr.call(FakeAsr::AUDIO, ms(at), block).unwrap().len()
        };
        let sent: Vec<_> =
            (0..50).map(|n| hear(n * 20, if n < 10 { 0.1 } else { 0.001 })).collect();
        assert_eq!(sent.iter().position(|sent| *sent > 0), Some(9 + 15), "300 ms of silence");
        assert_eq!(sent.iter().sum::<usize>(), 1);
    }

    #[test]
    fn an_interrupt_forgets_what_is_due() {
        let mut asr = open(&[("texts", "hello")]);
        asr.call(FakeAsr::EVENTS, ms(0), event(SpeechEventKind::Start)).unwrap();
        asr.call(FakeAsr::EVENTS, ms(10), event(SpeechEventKind::End)).unwrap();
        asr.cancel(ms(20)).unwrap();
        assert!(asr.advance(ms(1000)).unwrap().is_empty());
    }
}
