//! Says text.

mod expansion;
mod lexicon;
mod money;
mod normalise;
mod numbers;
mod program;
mod source;
mod tokens;
mod utterance;
mod voice;

use std::{collections::VecDeque, path::PathBuf};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, Text, Word};

pub use normalise::{Clause, Mark};
pub use utterance::{SpokenWord, Utterance};
pub use voice::Voice;

params! {
    /// Settings of [`Tts`].
    pub struct TtsParams {
        /// Model package of a voice.
        pub model: PathBuf;
        /// How many times as fast as the voice by itself.
        pub pace: f32 = "1", range 0.5..=2.0;
    }
}

/// Says text, chunk by chunk.
///
/// Sound begins at the time of its text, or where the sound of the text before it ends. Each clause
/// is followed by a pause.
///
/// The text becomes clauses of words: numbers, times of day, money, units and some abbreviations
/// are read in English. Words become phones by the dictionary `lexicon.txt` of the package, unknown
/// ones by its program. Contract of the program, all `f32` but for `ids`, every size fixed:
///
/// - `forward(ids i64[1, N], features[1, N, 14], mask[1, 1, N]) -> (hidden[1, H, N], seconds[1,
///   N])`: what each phone is and how long it lasts;
/// - `spectrum(expanded[1, 2 (H + 4), S], mask[1, 1, S]) -> bands[1, B, 2 S]`: two hops a step; the
///   last two of the bands are the pitch, as four times its logarithm over 100 Hz, and the voicing;
/// - `sound(bands[1, B, T], pulses[1, 3 hop + 2, T], noise[1, 3 hop + 2, T]) -> sound[1, T, hop]`:
///   filters the spectra of a pulse train and of noise, in windows of three hops;
/// - `spell(ids i64[1, L], mask[1, 1, L]) -> scores[1, 2 L, columns]`: phones of a word's letters.
///
/// Metadata: `sample_rate`, 192,000 at most, and `hop_size`, 1 ms to 1 s. 16 places at each side of
/// a window are context, so that N, S and T are greater than 32. A phone lasts 5 s at most.
///
/// Latency: one chunk of the model for the first block. An interrupt ends what is said.
pub struct Tts {
    voice: Voice,
    pace: f32,
    /// Where the sound of the last text ends.
    free_at: Timestamp,
    /// What is being said; the text's clauses that follow.
    saying: Option<(Utterance, Mark)>,
    ahead: VecDeque<Clause>,
    turn: u64,
    /// Written words of the turn before the text, and with it.
    position: u32,
    next_position: u32,
}

ports! {
    impl Tts {
        /// Text to speak, one or more sentences.
        in TEXT: Text;
        /// Speech, one channel, at the sample rate of the voice, full scale ±1, blocks of about 0.5
        /// s.
        out AUDIO: AudioBlock;
        /// Words, each timestamped with its start in the audio.
        out WORDS: Word, optional;
    }
}

impl Tts {
    /// Takes in a text, whose sound begins when that before it has ended.
    fn begin(&mut self, at: Timestamp, text: &Text) {
        if text.turn != self.turn {
            (self.turn, self.next_position) = (text.turn, 0);
        }
        let written = text.text.split_whitespace().count();
        let written = u32::try_from(written).unwrap_or(u32::MAX / 2);
        self.position = self.next_position;
        // A turn that is answered anew begins with its first word.
        self.next_position = if text.is_last { 0 } else { self.position.saturating_add(written) };
        self.free_at = self.free_at.max(at);
        self.ahead = self.voice.clauses(&text.text).into();
    }

    /// The next clause, and the times of its words.
    fn begin_clause(&mut self, cx: &mut Cx<'_>, clause: &Clause) -> Result<(), NodeError> {
        let (voice, pace) = (&mut self.voice, self.pace);
        let utterance = cx.time_model(|| voice.begin(clause, pace))?;
        for spoken in utterance.words() {
            let word = Word {
                turn: self.turn,
                text: spoken.text.clone(),
                duration: spoken.end - spoken.start,
                position: self.position + spoken.written,
            };
            cx.send_at(Self::WORDS, self.free_at + spoken.start, word);
        }
        self.saying = Some((utterance, clause.mark));
        Ok(())
    }

    /// Sends the next block of sound, if there is more.
    fn go_on(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if self.saying.is_none()
            && let Some(clause) = self.ahead.pop_front()
        {
            self.begin_clause(cx, &clause)?;
        }
        let Some((utterance, mark)) = &mut self.saying else { return Ok(()) };
        let (voice, mark) = (&mut self.voice, *mark);
        let rate = voice.rate();
        let mut block = cx.loan(Self::AUDIO);
        match cx.time_model(|| voice.next_chunk(utterance))? {
            Some(chunk) => block.reshape(rate, 1, chunk.len())?.copy_from_slice(chunk),
            None => {
                block.reshape(rate, 1, rate.samples(Voice::pause(mark)))?.fill(0.0);
                self.saying = None;
            }
        }
        let length = block.duration();
        cx.send_at(Self::AUDIO, self.free_at, block);
        self.free_at = self.free_at + length;
        if self.saying.is_some() || !self.ahead.is_empty() {
            cx.resume();
        }
        Ok(())
    }
}

impl Node for Tts {
    type Params = TtsParams;

    const NAME: &'static str = "tts";
    const SUMMARY: &'static str = "Says text: sound by chunks, and the time of each word.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const TIMED: bool = true;
    const LATENCY: &'static str = "one chunk of the model for the first block";

    fn check(params: &TtsParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: TtsParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self {
            voice: Voice::open(&params.model, cx)?,
            pace: params.pace,
            free_at: Timestamp::ZERO,
            saying: None,
            ahead: VecDeque::new(),
            turn: 0,
            position: 0,
            next_position: 0,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(text) = cx.get(Self::TEXT) {
            let at = cx.at();
            self.begin(at, text);
        }
        self.go_on(cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // What is said next need not wait for what is not said.
        (self.saying, self.free_at, self.next_position) = (None, cx.now(), 0);
        self.ahead.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params};

    use super::*;

    fn voice() -> NodeBench<Tts> {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/tts");
        let values: ParamValues = [("model".to_owned(), ParamValue::Path(model.into()))].into();
        let cx = OpenCx::with_service(
            afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)
                .with_backend(afferent_backend_xnnpack::Xnnpack),
        );
        NodeBench::new(Tts::open(TtsParams::from_values(&values).unwrap(), &cx).unwrap())
    }

    #[test]
    fn text_becomes_sound_without_gaps_and_words_with_times() {
        let mut voice = voice();
        let text = Text::from("Hello, it is 7:30. Zorgle!");
        let start = Timestamp(1_000_000);
        let sent = voice.call(Tts::TEXT, start, text).unwrap();
        let (mut words, mut next) = (Vec::new(), start);
        let mut loud = 0.0_f32;
        for (port, packet) in &sent {
            let at = packet.header.at;
            if *port == Tts::WORDS.name() {
                words.push((at, packet.get::<Word>().unwrap().clone()));
            } else {
                let block = packet.get::<AudioBlock>().unwrap();
                assert_eq!(at, next);
                next = at + block.duration();
                let samples = block.channel(0).unwrap();
                loud = samples.iter().fold(loud, |loud, sample| loud.max(sample.abs()));
            }
        }
        let texts: Vec<&str> = words.iter().map(|(_, word)| word.text.as_str()).collect();
        assert_eq!(texts, ["hello", "it", "is", "seven", "thirty", "zorgle"]);
        let positions: Vec<u32> = words.iter().map(|(_, word)| word.position).collect();
        assert_eq!(positions, [1, 2, 3, 4, 4, 5]);
        assert!(words.is_sorted_by_key(|(at, _)| *at));
        let spoken: Duration = words.iter().map(|(_, word)| word.duration).sum();
        assert!(spoken > Duration::from_secs(1) && loud > 0.05, "{spoken:?}, {loud}");

        // What comes later is said behind it; a text that is the last of an answer ends its count.
        let mut position = |text: &str, is_last| {
            let text = Text { is_last, ..Text::from(text) };
            let sent = voice.call(Tts::TEXT, start, text).unwrap();
            assert!(sent.iter().all(|(_, packet)| packet.header.at >= next));
            sent.iter().find_map(|(_, packet)| packet.get::<Word>()).map(|word| word.position)
        };
        let positions = [("Yes, I", false), ("do.", true), ("No.", false)]
            .map(|(text, is_last)| position(text, is_last));
        assert_eq!(positions, [Some(1), Some(3), Some(1)]);
    }

    #[test]
    fn an_interrupt_ends_what_is_said() {
        let mut voice = voice();
        let later = Timestamp(5_000_000_000);
        assert!(voice.cancel(later).unwrap().is_empty());
        let sent = voice.call(Tts::TEXT, Timestamp(0), Text::from("Yes.")).unwrap();
        assert!(sent.iter().all(|(_, packet)| packet.header.at >= later));
    }

    #[test]
    fn a_package_of_another_task_is_refused() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad");
        let values: ParamValues = [("model".to_owned(), ParamValue::Path(model.into()))].into();
        let params = TtsParams::from_values(&values).unwrap();
        let Err(error) = Tts::open(params, &OpenCx::default()) else { panic!("it was accepted") };
        assert!(error.to_string().contains("text_to_speech"), "{error}");
    }
}
