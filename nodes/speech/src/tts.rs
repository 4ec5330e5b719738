//! Speech synthesis.

mod excitation;
mod length_regulator;
mod lexicon;
mod money;
mod normalize;
mod numbers;
mod program;
mod tokens;
mod utterance;
mod voice;

use std::{collections::VecDeque, path::PathBuf};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, Text, Word};

pub use normalize::{Clause, ClauseEnd};
pub use utterance::{SpokenWord, Utterance};
pub use voice::Voice;

params! {
    /// Settings of [`Tts`].
    pub struct TtsParams {
        /// Path of the model package of a voice.
        pub model: PathBuf;
        /// Speaking rate relative to that of the voice.
        pub pace: f32 = "1", range 0.5..=2.0;
    }
}

/// Synthesizes speech, chunk by chunk.
///
/// The audio begins at the timestamp of its text, or at the end of the previous audio. A pause
/// follows each clause.
///
/// Text is normalized to clauses of words: numbers, fractions, dates, times of day, money, units,
/// telephone numbers, e-mail and web addresses, and some abbreviations are spoken in English. Latin
/// letters lose their diacritics. Words of another script are not spoken: they are logged and sent to
/// `unspoken`. The dictionary `lexicon.txt` of the package maps words to
/// phonemes; unknown words go through the grapheme-to-phoneme method of the program. Contract of
/// the program, all tensors `f32` except `ids`, all sizes fixed:
///
/// - `forward(ids i64[1, N], features[1, N, 14], mask[1, 1, N]) -> (hidden[1, H, N], seconds[1,
///   N])`: encoder, with the duration of each phoneme;
/// - `spectrum(expanded[1, 2 (H + 4), S], mask[1, 1, S]) -> bands[1, B, 2 S]`: decoder, two hops
///   per step; the last two bands are the pitch, as four times its logarithm relative to 100 Hz,
///   and the voicing;
/// - `sound(bands[1, B, T], pulses[1, 3 hop + 2, T], noise[1, 3 hop + 2, T]) -> sound[1, T, hop]`:
///   vocoder, which filters the spectra of a pulse train and of noise in windows of three hops;
/// - `spell(ids i64[1, L], mask[1, 1, L]) -> scores[1, 2 L, columns]`: phonemes of the letters of a
///   word.
///
/// Metadata: `sample_rate`, at most 192,000 Hz, and `hop_size`, 1 ms to 1 s. Windows have a context
/// of 16 positions on each side, so N, S, and T must be greater than 32. A phoneme lasts at most
/// five seconds.
///
/// An interrupt ends the speech.
///
/// Latency: one chunk of the model for the first block.
pub struct Tts {
    voice: Voice,
    pace: f32,
    /// End of the audio that was sent.
    audio_end: Timestamp,
    /// The clause in progress.
    current: Option<(Utterance, ClauseEnd)>,
    /// The following clauses of the text.
    clauses: VecDeque<Clause>,
    turn: u64,
    /// Written words of the turn before the current text.
    position: u32,
    /// Written words of the turn, including the current text.
    next_position: u32,
}

ports! {
    impl Tts {
        /// Text to speak, one or more sentences.
        in TEXT: Text;
        /// Speech, one channel, at the sample rate of the voice, full scale ±1, blocks of about half
        /// a second.
        out AUDIO: AudioBlock;
        /// Words, each timestamped with its start in the audio.
        out WORDS: Word, optional;
        /// Words of a text that are not spoken, since the voice does not know their script.
        out UNSPOKEN: Text, optional;
    }
}

impl Tts {
    /// Reports the words of `text` that the voice cannot speak.
    fn report_unspoken(cx: &mut Cx<'_>, text: &Text) {
        let unspoken: Vec<&str> = normalize::unspeakable(&text.text).collect();
        if unspoken.is_empty() {
            return;
        }
        let unspoken = unspoken.join(" ");
        tracing::warn!("tts: the voice does not know the script of: {unspoken}");
        let report = Text { turn: text.turn, text: unspoken, is_last: text.is_last };
        cx.send(Self::UNSPOKEN, report);
    }

    /// Begins a text; its audio starts at the end of the previous audio.
    fn on_text(&mut self, at: Timestamp, text: &Text) {
        if text.turn != self.turn {
            (self.turn, self.next_position) = (text.turn, 0);
        }
        let written = text.text.split_whitespace().count();
        let written = u32::try_from(written).unwrap_or(u32::MAX / 2);
        self.position = self.next_position;
        // If the turn is answered again, words are counted from the start.
        self.next_position = if text.is_last { 0 } else { self.position.saturating_add(written) };
        self.audio_end = self.audio_end.max(at);
        self.clauses = self.voice.clauses(&text.text).into();
    }

    /// Begins a clause, and sends its words.
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
            cx.send_at(Self::WORDS, self.audio_end + spoken.start, word);
        }
        self.current = Some((utterance, clause.end));
        Ok(())
    }

    /// Sends the next block of audio, if any.
    fn send_next(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if self.current.is_none()
            && let Some(clause) = self.clauses.pop_front()
        {
            self.begin_clause(cx, &clause)?;
        }
        let Some((utterance, end)) = &mut self.current else { return Ok(()) };
        let (voice, end) = (&mut self.voice, *end);
        let rate = voice.rate();
        let mut block = cx.loan(Self::AUDIO);
        match cx.time_model(|| voice.next_chunk(utterance))? {
            Some(chunk) => block.reshape(rate, 1, chunk.len())?.copy_from_slice(chunk),
            None => {
                block.reshape(rate, 1, rate.samples(Voice::pause(end)))?.fill(0.0);
                self.current = None;
            }
        }
        let length = block.duration();
        cx.send_at(Self::AUDIO, self.audio_end, block);
        self.audio_end = self.audio_end + length;
        if self.current.is_some() || !self.clauses.is_empty() {
            cx.resume();
        }
        Ok(())
    }
}

impl Node for Tts {
    type Params = TtsParams;

    const NAME: &'static str = "tts";
    const SUMMARY: &'static str = "Synthesizes speech, chunk by chunk, with the time of each word.";
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
            audio_end: Timestamp::ZERO,
            current: None,
            clauses: VecDeque::new(),
            turn: 0,
            position: 0,
            next_position: 0,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(text) = cx.get(Self::TEXT).cloned() {
            Self::report_unspoken(cx, &text);
            self.on_text(cx.at(), &text);
        }
        self.send_next(cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // The next text does not wait for audio that is not played.
        (self.current, self.audio_end, self.next_position) = (None, cx.now(), 0);
        self.clauses.clear();
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
    fn audio_has_no_gaps_and_words_have_times() {
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

        // A later text is spoken after it; the last text of an answer restarts the count.
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
    fn words_of_an_unknown_script_are_reported() {
        let mut voice = voice();
        let sent = voice.call(Tts::TEXT, Timestamp(0), Text::from("Say 北京 or Łódź.")).unwrap();
        let on = |port: &str| {
            let packets = sent.iter().filter(move |(name, _)| *name == port);
            packets.map(|(_, packet)| packet).collect::<Vec<_>>()
        };
        let words = on(Tts::WORDS.name());
        let words = words.iter().map(|packet| packet.get::<Word>().unwrap().text.clone());
        assert_eq!(words.collect::<Vec<_>>(), ["say", "or", "lodz"]);
        let unspoken = on(Tts::UNSPOKEN.name());
        assert_eq!(unspoken.len(), 1);
        assert_eq!(unspoken[0].get::<Text>().unwrap().text, "北京");
    }

    #[test]
    fn an_interrupt_ends_the_speech() {
        let mut voice = voice();
        let later = Timestamp(5_000_000_000);
        assert!(voice.cancel(later).unwrap().is_empty());
        let sent = voice.call(Tts::TEXT, Timestamp(0), Text::from("Yes.")).unwrap();
        assert!(sent.iter().all(|(_, packet)| packet.header.at >= later));
    }

    #[test]
    fn a_package_of_another_task_is_rejected() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad");
        let values: ParamValues = [("model".to_owned(), ParamValue::Path(model.into()))].into();
        let params = TtsParams::from_values(&values).unwrap();
        let Err(error) = Tts::open(params, &OpenCx::default()) else {
            panic!("the package was accepted")
        };
        assert!(error.to_string().contains("text_to_speech"), "{error}");
    }
}
