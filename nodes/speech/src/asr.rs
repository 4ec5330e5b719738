//! Speech recognition.

mod ctc;
pub(crate) mod hearing;
pub(crate) mod moonshine;
mod pause;
pub(crate) mod recognizer;
pub(crate) mod segments;
pub(crate) mod transcripts;
pub(crate) mod transducer;
pub(crate) mod voxtral;
pub(crate) mod whisper;
mod word_builder;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, choices, params, ports,
};
use afferent_messages::{AudioBlock, SpeechEvent, SpeechEventKind, Transcript};

use self::{
    ctc::Ctc,
    hearing::Hearing,
    moonshine::Moonshine,
    recognizer::Recognizer,
    segments::{Limits, Segments},
    transcripts::Transcripts,
    transducer::Transducer,
    voxtral::Voxtral,
    whisper::Whisper,
};
use crate::{
    programs::{Programs, reject_set},
    vad::expect_format,
};

choices! {
    /// Language of the transcript.
    pub enum AsrTask {
        /// The words that were said.
        Transcribe = "transcribe",
        /// The words in English.
        Translate = "translate",
    }
}

params! {
    /// Settings of [`Asr`]. Absent values come from the model package.
    pub struct AsrParams {
        /// Path of the model package, of a folder with programs, or of a program.
        pub model: PathBuf;
        /// Models with CTC: recognize only words of the package's language model and hot words, by
        /// beam search; otherwise, letters by greedy decoding.
        pub lexicon: bool = "true";
        /// Expected phrases, separated by commas; unknown words are added to the vocabulary.
        /// Requires `lexicon`, as do `language_weight` and `word_bonus`.
        pub hot_words: Option<String>;
        /// Bonus per word of an expected phrase, a natural logarithm of probability.
        pub hot_bonus: f32 = "2", range 0.0..=20.0;
        /// Beam width; a greater one is more accurate and slower.
        pub beam: usize = "300", range 1.0..=1000.0;
        /// Weight of the language model relative to the acoustic model.
        pub language_weight: Option<f32>, range 0.0..=10.0;
        /// Bonus per word, a natural logarithm of probability.
        pub word_bonus: Option<f32>, range -20.0..=20.0;
        /// Whisper, Voxtral: language of the speech, an ISO 639-1 code such as `en`. Default: the model
        /// tells it for each utterance.
        pub language: Option<String>;
        /// Whisper: `transcribe`, or `translate` to English. Default: `transcribe`.
        pub task: Option<AsrTask>;
        /// Silence that ends an utterance without a speech event.
        pub silence: Duration = "600ms", range 0.06..=60.0;
        /// Longest utterance, at most that of the model. A longer one is cut: with CTC at the end of a
        /// word in its last fifth, otherwise in the longest pause of its second half.
        pub max_utterance: Duration = "30s", range 1.0..=600.0;
        /// Send partial transcripts before the end of an utterance.
        pub partials: bool = "true";
        /// Models of whole utterances: least audio between two partial transcripts.
        pub update: Duration = "1s", range 0.1..=30.0;
    }
}

/// Recognizes speech, with partial transcripts and word times.
///
/// A speech-end event, a gap in the audio, a pause of `silence`, or the end of the stream ends an
/// utterance. Utterances without words are not reported. The model tells how it is run:
///
/// | model | contract |
/// |---|---|
/// | streaming CTC | `forward(sound f32[1, context + window], state f32[..]) -> (log_probs f32[1, steps, labels], state)`, metadata `sample_rate`, `window_size`, `context_size`; natural log probabilities of letters; label 0 is the blank, and one label is a space. With `lexicon`, a prefix beam search finds the most probable words by the n-gram language model of the package, an ARPA file |
/// | Whisper of ExecuTorch and optimum | `encoder(mel [1, 80 or 128, 3000])`, `text_decoder(token i64[1, 1], rows, position i64[1])`; a `tokenizer.json`. A program `preprocessor` is not needed |
/// | Whisper of react-native-executorch | `encode(sound f32[n])`, `decode(tokens i64[1, n], positions i64[n], rows)`; up to version 0.7 `forward` of two programs `encoder` and `decoder(tokens i64[1, n], rows)` |
/// | Voxtral Realtime, exported with `--streaming` | `encode_audio_chunk(mel[1, 128, 8], positions i64[4])`, `token_embedding(i64[1, n])`, `text_decoder(embeddings, positions i64[n])`; a tokenizer. A program `preprocessor` is not needed |
/// | Voxtral, and other language models that hear | `audio_encoder(mel[parts, 128, 3000])`, `token_embedding(i64[1, n])`, `text_decoder(f32[1, n, width], positions)`; a `tekken.json`. The prompt is Voxtral's for a transcript, or the parts of `chat` in `model.yaml`, with `{audio}` in `user`. A program `preprocessor` is not needed |
/// | Moonshine of react-native-executorch 0.3 and 0.4 | `forward(sound f32[1, n])` of a program `encoder`, `forward_cached(tokens i64[1, n], rows) -> ids` of a program `decoder`; a `tokenizer.json` |
/// | Parakeet, TDT and RNN-T | `preprocessor(sound f32[n], length)`, `encoder(mel, length)`, `decoder_step(token, h, c)`, `joint(f, g)`; a `tokenizer.model` |
///
/// Whisper, Parakeet, Moonshine and Voxtral read whole utterances. Their partial transcripts hold the words on which
/// two runs agree, at most one every `update` of audio. The words of Whisper have times within their
/// segment in proportion to their letters, those of Moonshine and Voxtral within
/// the utterance.
///
/// Voxtral Realtime reads 80 ms at a time, and tells a word `delay_tokens` steps later (480 ms).
///
/// Latency: CTC: one window for partial transcripts, the end of speech for final ones. Voxtral Realtime: its delay.
/// Others: the run of the model after the end of speech.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{AudioBlock, SampleRate};
/// use afferent_nodes_speech::{Asr, AsrParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/asr");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = AsrParams::from_values(&values).unwrap();
/// let models = afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS);
/// let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
/// let mut asr = NodeBench::new(Asr::open(params, &cx)?);
///
/// let mut silence = AudioBlock::default();
/// silence.reshape(SampleRate(16_000), 1, 16_000)?.fill(0.0);
/// assert!(asr.call(Asr::AUDIO, Timestamp(0), silence)?.is_empty());
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Asr {
    recognizer: Box<dyn Recognizer>,
    transcripts: Transcripts,
    /// Expected timestamp of the next sample; `None` before the first block.
    next_at: Option<Timestamp>,
}

ports! {
    impl Asr {
        /// Audio or speech segments of `vad`, one channel, at the sample rate of the model, full
        /// scale ±1.
        in AUDIO: AudioBlock;
        /// Speech events; the end of speech ends the utterance.
        in EVENTS: SpeechEvent, optional;
        /// All words of the utterance, whenever they change and at its end.
        out TRANSCRIPT: Transcript;
    }
}

impl Asr {
    pub(crate) fn new(recognizer: Box<dyn Recognizer>) -> Self {
        Self { recognizer, transcripts: Transcripts::default(), next_at: None }
    }

    /// Ends the utterance at the end of its audio. If the next audio begins earlier, at `next`,
    /// time has restarted; the transcript then has the timestamp `next`, since timestamps must not
    /// decrease.
    fn end_utterance(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let Some(at) = self.next_at.map(|at| at.min(next)) else { return Ok(()) };
        self.recognizer.end_utterance(cx, at, &mut self.transcripts)?;
        self.transcripts.restart();
        Ok(())
    }

    fn on_audio(&mut self, cx: &mut Cx<'_>, block: &AudioBlock) -> Result<(), NodeError> {
        let rate = self.recognizer.rate();
        expect_format(Self::AUDIO, block, rate)?;
        let (at, gap) = (cx.at(), self.recognizer.gap());
        let is_gap = |next: Timestamp| at.since(next) > gap || next.since(at) > gap;
        if self.next_at.is_none_or(is_gap) {
            self.end_utterance(cx, at + gap * 8)?;
            self.recognizer.restart(at);
            self.transcripts.restart();
        }
        self.next_at = Some(at + block.duration());
        self.recognizer.push(cx, block.channel(0)?, at, &mut self.transcripts)
    }
}

impl Node for Asr {
    type Params = AsrParams;

    const NAME: &'static str = "asr";
    const SUMMARY: &'static str = "Recognizes speech, with partial transcripts and word times.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str =
        "one window for partial transcripts, the end of speech for final ones";

    fn check(params: &AsrParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: AsrParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self::new(open_recognizer(&params, cx)?))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Cloning the packet allows sending while the block is borrowed.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        if let Some(event) = packet.get::<SpeechEvent>() {
            if event.kind == SpeechEventKind::End {
                self.end_utterance(cx, Timestamp(i64::MAX))?;
            }
            return Ok(());
        }
        packet.get::<AudioBlock>().map_or(Ok(()), |block| self.on_audio(cx, block))
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_utterance(cx, Timestamp(i64::MAX))
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.recognizer.restart(Timestamp::ZERO);
        self.transcripts.restart();
        self.next_at = None;
        Ok(())
    }
}

impl AsrParams {
    /// Parameters that only Whisper uses, and true for those that are set.
    fn whisper_parameters(&self) -> [(&'static str, bool); 2] {
        [("language", self.language.is_some()), ("task", self.task.is_some())]
    }

    /// Parameters that only a search with a lexicon uses, and true for those that are set.
    fn lexicon_parameters(&self) -> [(&'static str, bool); 3] {
        [
            ("hot_words", self.hot_words.is_some()),
            ("language_weight", self.language_weight.is_some()),
            ("word_bonus", self.word_bonus.is_some()),
        ]
    }
}

/// Opens the recognizer for the model of `params`, by the methods of its programs.
fn open_recognizer(params: &AsrParams, cx: &OpenCx) -> Result<Box<dyn Recognizer>, NodeError> {
    let programs = Programs::open(&params.model, "speech_recognition", cx)?;
    let has = |names: &[&str]| programs.find(names).is_some();
    let kind = if has(&["joint"]) {
        "a transducer"
    } else if has(&["encode_audio_chunk"]) {
        "Voxtral Realtime"
    } else if Hearing::is_in(&programs) {
        "Voxtral"
    } else if Moonshine::is_in(&programs) {
        "Moonshine"
    } else if has(&["encoder", "encode"]) {
        "Whisper"
    } else {
        return Ok(Box::new(Ctc::open(params, cx)?));
    };
    let reason = "requires a model with CTC; this one has an encoder and a decoder";
    reject_set(&params.lexicon_parameters(), reason)?;
    let [language, task] = params.whisper_parameters();
    let reason = format!("requires a Whisper model; this one is {kind}");
    match kind {
        "Whisper" => {}
        "Voxtral" => reject_set(&[task], &reason)?,
        _ => reject_set(&[language, task], &reason)?,
    }
    let language = params.language.as_deref();
    let limits = Limits {
        silence: params.silence,
        max_utterance: params.max_utterance,
        update: params.partials.then_some(params.update),
    };
    Ok(match kind {
        "a transducer" => Box::new(Segments::new(Transducer::open(programs)?, limits)),
        "Voxtral Realtime" => Box::new(Voxtral::open(programs, params)?),
        "Voxtral" => Box::new(Segments::new(Hearing::open(programs, language)?, limits)),
        "Moonshine" => Box::new(Segments::new(Moonshine::open(programs)?, limits)),
        _ => Box::new(Segments::new(Whisper::open(programs, language, params.task)?, limits)),
    })
}
