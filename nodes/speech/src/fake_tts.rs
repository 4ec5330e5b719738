//! Stand-in for `tts` that plays a tone.

use std::{collections::VecDeque, f32::consts::TAU, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{AudioBlock, SampleRate, Text, Word};

params! {
    /// Settings of [`FakeTts`].
    pub struct FakeTtsParams {
        /// Sample rate of the tone.
        pub rate: u32 = "24000", range 8000.0..=192000.0, unit "Hz";
        /// Length of the tone per character of the text.
        pub letter: Duration = "60ms", range 0.001..=1.0;
        /// Length of a block of audio.
        pub chunk: Duration = "200ms", range 0.01..=5.0;
        /// Time from a text to its first block.
        pub first_chunk: Duration = "80ms", range 0.0..=60.0;
        /// Time from one block to the next; less than `chunk` is faster than real time.
        pub next_chunk: Duration = "20ms", range 0.0..=60.0;
        /// Frequency of the tone.
        pub tone_hz: f32 = "300", range 20.0..=4000.0, unit "Hz";
        /// Peak level of the tone.
        pub level_dbfs: f32 = "-14", range -90.0..=0.0;
    }
}

/// Sends a tone as long as the text, in place of `tts` in graph tests.
///
/// The audio begins at the timestamp of its text, or at the end of the previous audio. Between two
/// words the tone pauses for one character. Text that arrives during another text waits for its
/// end; an interrupt ends the text. All times are those of the session clock, so every run on the
/// virtual clock is the same.
///
/// Latency: `first_chunk`, then `next_chunk` for each block.
///
/// ```
/// use std::time::Duration;
///
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::Text;
/// use afferent_nodes_speech::{FakeTts, FakeTtsParams};
///
/// let params = FakeTtsParams::from_values(&[].into()).unwrap();
/// let mut tts = NodeBench::new(FakeTts::open(params, &OpenCx::default())?);
/// tts.call(FakeTts::TEXT, Timestamp(0), Text::from("good morning"))?;
/// let sent = tts.advance(Timestamp::ZERO + Duration::from_secs(1))?;
/// let ms: Vec<_> = sent.iter().map(|(now, ..)| now.0 / 1_000_000).collect();
/// assert_eq!(ms, [80, 80, 80, 100, 120, 140], "two words, 720 ms of audio");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct FakeTts {
    params: FakeTtsParams,
    /// Rest of the text: tones (true) and pauses (false), with their lengths in samples.
    segments: VecDeque<(bool, usize)>,
    /// Words of the text, which are sent before its audio.
    words: Vec<(Timestamp, Word)>,
    turn: u64,
    /// Number of words of the turn so far.
    position: u32,
    /// Time at which the next block is sent.
    due: Timestamp,
    /// End of the audio that was sent.
    audio_end: Timestamp,
    /// Samples since the start of the tone.
    phase: usize,
}

ports! {
    impl FakeTts {
        /// Text to speak.
        in TEXT: Text;
        /// The tone, one channel, at `rate`, full scale ±1, one block every `chunk`.
        out AUDIO: AudioBlock;
        /// Words, each timestamped with its start in the audio.
        out WORDS: Word, optional;
    }
}

impl FakeTts {
    fn on_text(&mut self, text: &Text, at: Timestamp, now: Timestamp) {
        if text.turn != self.turn {
            (self.turn, self.position) = (text.turn, 0);
        }
        self.audio_end = self.audio_end.max(at);
        self.due = now + self.params.first_chunk;
        let rate = SampleRate(self.params.rate);
        let letter = rate.samples(self.params.letter);
        let mut begin = 0;
        for word in text.text.split_whitespace() {
            let length = word.chars().count() * letter;
            let spoken = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            let duration = rate.duration(length);
            let at = self.audio_end + rate.duration(begin);
            self.position += 1;
            let (turn, position) = (self.turn, self.position);
            self.words.push((at, Word { turn, text: spoken, duration, position }));
            self.segments.extend([(true, length), (false, letter)]);
            begin += length + letter;
        }
        // No pause follows the last word.
        self.segments.pop_back();
    }

    fn send_due(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let rate = SampleRate(self.params.rate);
        while self.due <= cx.now() && !self.segments.is_empty() {
            for (at, word) in self.words.drain(..) {
                cx.send_at(Self::WORDS, at, word);
            }
            let left: usize = self.segments.iter().map(|(_, length)| length).sum();
            let len = rate.samples(self.params.chunk).max(1).min(left);
            let mut block = cx.loan(Self::AUDIO);
            self.render(block.reshape(rate, 1, len)?);
            cx.send_at(Self::AUDIO, self.audio_end, block);
            self.audio_end = self.audio_end + rate.duration(len);
            self.due = self.due + self.params.next_chunk;
        }
        if !self.segments.is_empty() {
            cx.resume_at(self.due);
        }
        Ok(())
    }

    /// Fills `samples` with the next tones and pauses.
    fn render(&mut self, samples: &mut [f32]) {
        let peak = 10.0_f32.powf(self.params.level_dbfs / 20.0);
        let step = self.params.tone_hz / self.params.rate as f32;
        for sample in samples {
            while self.segments.front().is_some_and(|(_, length)| *length == 0) {
                self.segments.pop_front();
            }
            let Some((is_tone, length)) = self.segments.front_mut() else { return };
            *length -= 1;
            self.phase += 1;
            // The phase is reduced modulo one second, so that it stays exact.
            let turns = (self.phase % self.params.rate as usize) as f32 * step;
            *sample = if *is_tone { peak * (turns.fract() * TAU).sin() } else { 0.0 };
        }
        while self.segments.front().is_some_and(|(_, length)| *length == 0) {
            self.segments.pop_front();
        }
    }
}

impl Node for FakeTts {
    type Params = FakeTtsParams;

    const NAME: &'static str = "fake_tts";
    const SUMMARY: &'static str = "Sends a tone as long as the text, for tests.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "first_chunk, then next_chunk for each block";

    fn open(params: FakeTtsParams, _: &OpenCx) -> Result<Self, NodeError> {
        let (segments, words) = (VecDeque::new(), Vec::new());
        let (due, audio_end) = (Timestamp::ZERO, Timestamp::ZERO);
        Ok(Self { params, segments, words, turn: 0, position: 0, due, audio_end, phase: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let (at, now) = (cx.at(), cx.now());
        if let Some(text) = cx.get(Self::TEXT).cloned() {
            self.on_text(&text, at, now);
        }
        self.send_due(cx)
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.segments.clear();
        self.words.clear();
        // The audio that was sent is no longer heard.
        self.audio_end = Timestamp::ZERO;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Params};

    use super::*;

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn open() -> NodeBench<FakeTts> {
        let params = FakeTtsParams::from_values(&[].into()).expect("every parameter has a default");
        NodeBench::new(FakeTts::open(params, &OpenCx::default()).expect("opening cannot fail"))
    }

    fn say(tts: &mut NodeBench<FakeTts>, at: Timestamp, text: &str) {
        tts.call(FakeTts::TEXT, at, Text::from(text)).expect("any text is accepted");
    }

    #[test]
    fn audio_has_no_gaps_and_words_have_times() {
        let mut tts = open();
        say(&mut tts, ms(0), "One, two!");
        let sent = tts.advance(ms(1000)).unwrap();
        let (mut next, mut words, mut loud) = (ms(0), Vec::new(), 0.0_f32);
        for (_, _, packet) in &sent {
            if let Some(word) = packet.get::<Word>() {
                words.push((word.text.clone(), packet.header.at.0 / 1_000_000));
            }
            let Some(block) = packet.get::<AudioBlock>() else { continue };
            assert_eq!(packet.header.at, next);
            next = next + block.duration();
            let samples = block.channel(0).unwrap();
            loud = samples.iter().fold(loud, |loud, sample| loud.max(sample.abs()));
        }
        assert_eq!(words, [("one".to_owned(), 0), ("two".to_owned(), 300)]);
        assert_eq!(next, ms(540), "nine characters");
        assert!((loud - 0.2).abs() < 0.01, "{loud}");
        say(&mut tts, ms(200), "more");
        let sent = tts.advance(ms(2000)).unwrap();
        assert_eq!(sent[0].2.header.at, next, "the text waits for the end of the previous one");
    }

    #[test]
    fn an_interrupt_ends_the_text() {
        let mut tts = open();
        say(&mut tts, ms(0), "a text that is long");
        assert_eq!(tts.advance(ms(100)).unwrap().len(), 5 + 2);
        tts.cancel(ms(100)).unwrap();
        assert!(tts.advance(ms(1000)).unwrap().is_empty());
        say(&mut tts, ms(1000), "new");
        assert_eq!(tts.advance(ms(1100)).unwrap()[0].2.header.at, ms(1000));
    }
}
