//! Speech synthesis.

pub(crate) mod kokoro;
mod money;
mod normalize;
mod numbers;
mod own;
mod sentences;
pub(crate) mod supertonic;
mod synthesizer;
mod text_part;
mod voices;
pub(crate) mod voxtral;

use std::path::PathBuf;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, Text, Word};

use self::{
    kokoro::Kokoro,
    own::OwnSynthesizer,
    supertonic::Supertonic,
    synthesizer::{Chunk, Synthesizer},
    voxtral::VoxtralTts,
};
pub use self::{
    kokoro::TtsPhonemizer,
    normalize::{Clause, ClauseEnd},
    own::{SpokenWord, Utterance, Voice},
    voices::VOICE_FOLDERS,
};
use crate::programs::{Programs, reject_set};

params! {
    /// Settings of [`Tts`]. Absent values come from the model.
    pub struct TtsParams {
        /// Path of the model package of a voice, or of a folder with the programs of a public model.
        pub model: PathBuf;
        /// Speaking rate relative to that of the voice.
        pub pace: f32 = "1", range 0.5..=2.0;
        /// Supertonic, Kokoro and Voxtral: name of a voice in the package. Default: the first one.
        pub voice: Option<String>;
        /// Supertonic and Kokoro: language of the text, such as `en`. Default: English; with a Kokoro
        /// voice such as `ff_siwis`, that of its first letter.
        pub language: Option<String>;
        /// Supertonic and Voxtral: steps of the flow; more are better and slower. Default: those of the
        /// model, 5 to 8.
        pub steps: Option<usize>, range 1.0..=100.0;
        /// Supertonic and Voxtral: seed of the noise that the flow begins with. A sentence with the same seed sounds
        /// the same.
        pub seed: usize = "0", range 0.0..=1e9;
        /// Kokoro: source of the phonemes: `espeak`, the program espeak-ng; `own`, the `lexicon.txt` of a
        /// voice of this project, for English; `auto`, `own` where it is possible. Default: `auto`.
        pub phonemizer: Option<TtsPhonemizer>;
    }
}

/// Synthesizes speech, chunk by chunk.
///
/// The audio begins at the timestamp of its text, or at the end of the previous audio. A pause
/// follows each clause. The model tells how it is run:
///
/// | model | contract |
/// |---|---|
/// | voice of this project | one program with `forward`, `spectrum`, `sound` and `spell`, see below; a `lexicon.txt` |
/// | Supertonic of ExecuTorch 1.5.1 | one program with `duration_predictor(letters i64[1, T], style[1, 8, 16], mask[1, 1, T])`, `text_encoder(letters, style[1, 50, 256], mask)`, `vector_estimator(columns[1, C, L], rows[1, 256, T], style, column_mask, text_mask, step[1], steps[1])`, `vocoder(columns)`; `unicode_indexer.json`, voices in JSON |
/// | Supertonic of react-native-executorch 0.10 | four programs with these roles and the method `forward`; the masks in the order `text_mask, column_mask` |
/// | Kokoro of react-native-executorch 0.10 | `forward` of two programs `duration_predictor(tokens i64[1, T], mask bool[1, T], voice[1, 128], speed[1]) -> (frames i64[T], features[1, T, F])` and `synthesizer(tokens, mask, indices i64[N], features, voice[1, 256])`; voices `.bin` with rows of 256 `f32` |
/// | Kokoro of react-native-executorch 0.7 to 0.9 | the same with methods `forward_8` to `forward_128` by their most tokens |
/// | Voxtral of ExecuTorch 1.5.1 | a program with `token_embedding(i64[1, n])`, `text_decoder(rows[1, n, D], positions i64[n]) -> hidden[1, n, D]`, `semantic_head(hidden[1, D]) -> logits`, `predict_velocity(x[1, C], step i64[1], hidden[1, D])`, `audio_token_embedding(codes i64[1, C + 1, 1])`, and a program `codec_decoder` with `forward(codes i64[1, C + 1, n])`; a `tekken.json`, voices `.pt` or `.bin` with rows of D `bf16` |
///
/// Floating-point tensors of Supertonic and Voxtral are `f32`, `f16` or `bf16`. Voices are the files of `voices` in
/// `model.yaml`, or those in the folder of the model, in `voices`, in `voice_styles` and in
/// `voice_embedding`.
///
/// These models speak sentence by sentence; long sentences are divided. Supertonic reads
/// letters, at most 240 at once. Its words, and those of Voxtral, have times within their sentence in
/// proportion to their letters. Letters that the model does not know are left out, or read as number 0 by the four programs;
/// their words are sent to `unspoken`. Kokoro reads phonemes of the program espeak-ng, or of a
/// `lexicon.txt` as that of the voice of this project, which must be in its folder. Its words have the
/// times of the predicted durations. A part that is too long for the model is said up to a quarter
/// faster, otherwise divided.
///
/// The voice of this project normalizes text to clauses of words: numbers, fractions, dates, times of
/// day, money, units, telephone numbers, e-mail and web addresses, and some abbreviations are spoken in
/// English. Latin letters lose their diacritics. Words of another script are not spoken: they are logged
/// and sent to `unspoken`. The dictionary `lexicon.txt` of the package maps words to
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
/// Latency: one chunk of the model for the first block; of the public models the first sentence.
pub struct Tts {
    synthesizer: Box<dyn Synthesizer>,
    /// End of the audio that was sent.
    audio_end: Timestamp,
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
    fn report_unspoken(cx: &mut Cx<'_>, text: &Text, unspoken: &[String]) {
        if unspoken.is_empty() {
            return;
        }
        let unspoken = unspoken.join(" ");
        tracing::warn!("tts: the voice does not know the script of: {unspoken}");
        let report = Text { turn: text.turn, text: unspoken, is_last: text.is_last };
        cx.send(Self::UNSPOKEN, report);
    }

    /// Begins a text; its audio starts at the end of the previous audio. Returns the words that the
    /// voice cannot speak.
    fn on_text(&mut self, at: Timestamp, text: &Text) -> Vec<String> {
        if text.turn != self.turn {
            (self.turn, self.next_position) = (text.turn, 0);
        }
        let written = text.text.split_whitespace().count();
        let written = u32::try_from(written).unwrap_or(u32::MAX / 2);
        self.position = self.next_position;
        // If the turn is answered again, words are counted from the start.
        self.next_position = if text.is_last { 0 } else { self.position.saturating_add(written) };
        self.audio_end = self.audio_end.max(at);
        self.synthesizer.begin(&text.text)
    }

    /// Sends the next block of audio, if any, after the words that begin with it.
    fn send_next(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let rate = self.synthesizer.rate();
        let Some(Chunk { words, samples }) = self.synthesizer.next_chunk(cx)? else {
            return Ok(());
        };
        for spoken in words {
            let word = Word {
                turn: self.turn,
                text: spoken.text,
                duration: spoken.end - spoken.start,
                position: self.position + spoken.written,
            };
            cx.send_at(Self::WORDS, self.audio_end + spoken.start, word);
        }
        let mut block = cx.loan(Self::AUDIO);
        block.reshape(rate, 1, samples.len())?.copy_from_slice(samples);
        let length = block.duration();
        cx.send_at(Self::AUDIO, self.audio_end, block);
        self.audio_end = self.audio_end + length;
        if !self.synthesizer.is_done() {
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
            synthesizer: open_synthesizer(&params, cx)?,
            audio_end: Timestamp::ZERO,
            turn: 0,
            position: 0,
            next_position: 0,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(text) = cx.get(Self::TEXT).cloned() {
            let unspoken = self.on_text(cx.at(), &text);
            Self::report_unspoken(cx, &text, &unspoken);
        }
        self.send_next(cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // The next text does not wait for audio that is not played.
        (self.audio_end, self.next_position) = (cx.now(), 0);
        self.synthesizer.stop();
        Ok(())
    }
}

impl TtsParams {
    /// Parameters that only some models use, and true for those that are set.
    fn set(&self) -> [(&'static str, bool); 4] {
        [
            ("steps", self.steps.is_some()),
            ("phonemizer", self.phonemizer.is_some()),
            ("voice", self.voice.is_some()),
            ("language", self.language.is_some()),
        ]
    }
}

/// Opens the synthesizer for the model of `params`, by the methods of its programs.
fn open_synthesizer(params: &TtsParams, cx: &OpenCx) -> Result<Box<dyn Synthesizer>, NodeError> {
    let programs = Programs::open(&params.model, Voice::TASK, cx)?;
    let [steps, phonemizer, voice, language] = params.set();
    if Supertonic::is_in(&programs) {
        let reason = "requires a Kokoro model; this one is Supertonic, which reads letters";
        reject_set(&[phonemizer], reason)?;
        return Ok(Box::new(Supertonic::open(programs, params)?));
    }
    if VoxtralTts::is_in(&programs) {
        let reason = "requires a Supertonic or Kokoro model; this one is Voxtral";
        reject_set(&[phonemizer, language], reason)?;
        if params.pace != 1.0 {
            let reason = "must be 1: Voxtral speaks at the pace of its voice".to_owned();
            return Err(NodeError::InvalidParam { name: "pace".into(), reason });
        }
        return Ok(Box::new(VoxtralTts::open(programs, params)?));
    }
    if Kokoro::is_in(&programs) {
        reject_set(
            &[steps],
            "requires a Supertonic or Voxtral model; this one is Kokoro, which has no steps",
        )?;
        return Ok(Box::new(Kokoro::open(programs, params)?));
    }
    if programs.find(&["duration_predictor"]).is_some() {
        return Err(programs.error(format!(
            "the model has a duration_predictor, but neither the synthesizer of Kokoro nor the \
             text_encoder, vector_estimator and vocoder of Supertonic; it has {}",
            programs.methods()
        )));
    }
    let reason = "requires a Supertonic, Kokoro or Voxtral model; this one has one voice";
    reject_set(&[steps, phonemizer, voice, language], reason)?;
    Ok(Box::new(OwnSynthesizer::new(Voice::open(&params.model, cx)?, params.pace)))
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
