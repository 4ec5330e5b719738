//! Scripted stand-in for `asr`.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::{AudioBlock, HeardWord, SpeechEvent, SpeechEventKind, Transcript};

use crate::script::{Script, check_texts};

choices! {
    /// Source of speech detection.
    pub enum Listen {
        /// Speech events.
        Events = "events",
        /// The level of the audio.
        Sound = "sound",
    }
}

params! {
    /// Settings of [`FakeAsr`].
    pub struct FakeAsrParams {
        /// Texts of the utterances in order, separated by "|"; the first follows the last.
        pub texts: String;
        /// Time from the end of speech to the final transcript.
        pub delay: Duration = "100ms", range 0.0..=60.0;
        /// Interval of partial transcripts during speech, each with one more word; `0ms` sends
        /// none.
        pub word: Duration = "0ms", range 0.0..=60.0;
        /// Source of speech detection.
        pub listen: Listen = "events";
        /// Peak level of a block above which it is speech; used with `listen: sound`.
        pub level_dbfs: f32 = "-40", range -120.0..=0.0;
        /// Silence that ends speech; used with `listen: sound`.
        pub silence: Duration = "300ms", range 0.0..=60.0;
    }
}

/// Sends scripted transcripts, in place of `asr` in graph tests.
///
/// All times are those of the session clock, so every run on the virtual clock is the same. The
/// content of the audio is ignored.
///
/// Latency: `delay` after the end of speech.
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
    /// The current utterance.
    speech: Option<Speech>,
    /// Final transcripts and the times at which they are sent.
    finals: VecDeque<(Timestamp, Transcript)>,
    /// Time at which the audio was last above the level.
    last_loud: Timestamp,
}

/// An utterance in progress.
struct Speech {
    start: Timestamp,
    words: Vec<String>,
    /// Number of words that were sent.
    sent: usize,
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
    fn start_speech(&mut self, now: Timestamp) {
        if self.speech.is_none() {
            let words = self.script.next().split_whitespace().map(str::to_owned).collect();
            self.speech = Some(Speech { start: now, words, sent: 0 });
        }
    }

    fn end_speech(&mut self, now: Timestamp) {
        let Some(speech) = self.speech.take() else { return };
        let words = spread_evenly(&speech.words, speech.start, now);
        let (utterance, is_final) = (self.utterance, true);
        let transcript = Transcript { utterance, is_final, words, ..Transcript::default() };
        self.utterance += 1;
        self.finals.push_back((now + self.params.delay, transcript));
    }

    /// Time at which the next word is sent; `None` if there is none.
    fn next_word(&self) -> Option<Timestamp> {
        let speech = self.speech.as_ref()?;
        let more = speech.sent < speech.words.len() && !self.params.word.is_zero();
        let nth = u32::try_from(speech.sent + 1).unwrap_or(u32::MAX);
        more.then(|| speech.start + self.params.word * nth)
    }

    /// Sends the transcripts that are due, and wakes for the next.
    fn send_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        while let Some((_, transcript)) = self.finals.pop_front_if(|(due, _)| *due <= now) {
            cx.send_at(Self::TRANSCRIPT, now, transcript);
        }
        while self.next_word().is_some_and(|due| due <= now) {
            let Some(speech) = &mut self.speech else { break };
            speech.sent += 1;
            let words = spread_evenly(&speech.words[..speech.sent], speech.start, now);
            let (utterance, is_final) = (self.utterance, false);
            let transcript = Transcript { utterance, is_final, words, ..Transcript::default() };
            cx.send_at(Self::TRANSCRIPT, now, transcript);
        }
        let due = self.finals.front().map(|(due, _)| *due).into_iter().chain(self.next_word());
        if let Some(due) = due.min() {
            cx.wake_at(due);
        }
    }

    fn on_audio(&mut self, block: &AudioBlock, now: Timestamp) -> Result<(), NodeError> {
        let level = 10.0_f32.powf(self.params.level_dbfs / 20.0);
        if block.samples.data::<f32>()?.iter().any(|sample| sample.abs() > level) {
            self.start_speech(now);
            self.last_loud = now;
        } else if now.since(self.last_loud) >= self.params.silence {
            self.end_speech(now);
        }
        Ok(())
    }
}

/// The words with times that divide the range evenly.
fn spread_evenly(words: &[String], from: Timestamp, to: Timestamp) -> Vec<HeardWord> {
    let length = to.since(from) / u32::try_from(words.len().max(1)).unwrap_or(u32::MAX);
    let word = |(index, text): (usize, &String)| {
        let start = from + length * u32::try_from(index).unwrap_or(u32::MAX);
        HeardWord { text: text.clone(), start, end: start + length, ..HeardWord::default() }
    };
    words.iter().enumerate().map(word).collect()
}

impl Node for FakeAsr {
    type Params = FakeAsrParams;

    const NAME: &'static str = "fake_asr";
    const SUMMARY: &'static str = "Sends scripted transcripts, for tests.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "delay after the end of speech";

    fn check(params: &FakeAsrParams, _: &OpenCx) -> Result<(), NodeError> {
        check_texts("texts", &params.texts)
    }

    fn open(params: FakeAsrParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Self::check(&params, cx)?;
        let script = Script::new(&params.texts);
        let (finals, last_loud) = (VecDeque::new(), Timestamp::ZERO);
        Ok(Self { params, script, utterance: 0, speech: None, finals, last_loud })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.now();
        match self.params.listen {
            Listen::Events => match cx.get(Self::EVENTS).map(|event| event.kind) {
                Some(SpeechEventKind::Start) => self.start_speech(now),
                Some(SpeechEventKind::End) => self.end_speech(now),
                None => {}
            },
            Listen::Sound => {
                if let Some(block) = cx.get(Self::AUDIO) {
                    self.on_audio(block, now)?;
                }
            }
        }
        self.send_due(cx);
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.now();
        self.end_speech(now);
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
    fn words_are_sent_during_speech_and_all_of_them_after_its_end() {
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
    fn loud_audio_is_speech() {
        let mut asr = open(&[("texts", "hello"), ("listen", "sound"), ("delay", "0ms")]);
        let mut call = |at, level: f32| {
            let mut block = AudioBlock::default();
            block.reshape(SampleRate(16_000), 1, 320).unwrap().fill(level);
            asr.call(FakeAsr::AUDIO, ms(at), block).unwrap().len()
        };
        let sent: Vec<_> =
            (0..50).map(|n| call(n * 20, if n < 10 { 0.1 } else { 0.001 })).collect();
        assert_eq!(sent.iter().position(|sent| *sent > 0), Some(9 + 15), "300 ms of silence");
        assert_eq!(sent.iter().sum::<usize>(), 1);
    }

    #[test]
    fn an_interrupt_discards_pending_transcripts() {
        let mut asr = open(&[("texts", "hello")]);
        asr.call(FakeAsr::EVENTS, ms(0), event(SpeechEventKind::Start)).unwrap();
        asr.call(FakeAsr::EVENTS, ms(10), event(SpeechEventKind::End)).unwrap();
        asr.cancel(ms(20)).unwrap();
        assert!(asr.advance(ms(1000)).unwrap().is_empty());
    }
}
