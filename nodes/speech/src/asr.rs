//! Speech recognition.

mod acoustic_model;
mod beam_search;
mod decoder;
mod greedy;
mod language_model;
mod lexicon;
mod limits;
mod pause;
mod vocabulary;
mod word_sequences;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{
    AudioBlock, HeardWord, SampleRate, SpeechEvent, SpeechEventKind, Transcript,
};
use afferent_package::ModelPackage;

use self::{
    acoustic_model::AcousticModel,
    beam_search::{BeamSearch, SearchParams},
    decoder::{Decoder, Search, StepClock},
    greedy::GreedyDecoder,
    language_model::LanguageModel,
    limits::Limits,
    vocabulary::Vocabulary,
};
use crate::{recurrent::RecurrentModel, vad::expect_format};

params! {
    /// Settings of [`Asr`]. Absent values come from the model package.
    pub struct AsrParams {
        /// Path of the model package, with labels and, for `lexicon`, a language model.
        pub model: PathBuf;
        /// Recognize only words of the package's language model and hot words, by beam search;
        /// otherwise, letters by greedy decoding.
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
        /// Silence that ends an utterance without a speech event.
        pub silence: Duration = "600ms", range 0.06..=60.0;
        /// Longest utterance. A longer one is cut at the end of a word in its last fifth.
        pub max_utterance: Duration = "30s", range 1.0..=600.0;
        /// Send partial transcripts before the end of an utterance.
        pub partials: bool = "true";
    }
}

/// Recognizes speech, with partial transcripts and word times.
///
/// A speech-end event, a gap in the audio, a pause of `silence`, or the end of the stream ends an
/// utterance. The model hears silence ahead of each utterance, so that speech may begin at the first
/// sample, and silence after it, to flush its delay. Utterances without words are not reported.
///
/// Contract of the model: `forward(sound f32[1, context + window], state f32[..]) -> (log_probs
/// f32[1, steps, labels], state)`, metadata `sample_rate`, `window_size`, and `context_size`. The
/// result contains natural log probabilities of letters for CTC. Label 0 is the blank, and one
/// label is a space. With `lexicon`, a prefix beam search finds the most probable words by the
/// n-gram language model of the package, an ARPA file; otherwise, greedy decoding yields letters.
///
/// Latency: one window for partial transcripts, the end of speech for final ones.
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
    acoustic_model: AcousticModel,
    decoder: Decoder,
    limits: Limits,
    /// Expected timestamp of the next sample; `None` before the first block.
    next_at: Option<Timestamp>,
    /// Log probabilities of one window.
    log_probs: Vec<f32>,
    utterance: u64,
    /// Words of the last partial transcript of the utterance.
    sent: Vec<HeardWord>,
}

/// Longest part of a block that is added at a time.
const PART: Duration = Duration::from_millis(10);

/// Longest delay that a package may define.
const MAX_DELAY_MS: f32 = 10_000.0;

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
    /// Starts a new stream at `at`.
    fn restart(&mut self, at: Timestamp) {
        self.acoustic_model.restart();
        self.decoder.restart(at);
        self.sent.clear();
    }

    /// Decodes the whole windows of the audio, which ends at `end`. Cuts the utterance if it is too
    /// long.
    fn decode(&mut self, cx: &mut Cx<'_>, end: Timestamp) -> Result<(), NodeError> {
        let mut log_probs = std::mem::take(&mut self.log_probs);
        while self.acoustic_model.next_window(cx, &mut log_probs)? {
            let window_end = end - self.undecoded();
            let steps = log_probs.chunks_exact(self.decoder.label_count());
            for (step, left) in steps.clone().zip((0..steps.len()).rev()) {
                self.decoder.update(step);
                if self.limits.is_cut(&self.decoder) {
                    let left = u32::try_from(left).unwrap_or(0);
                    self.cut_utterance(cx, window_end - self.decoder.step() * left);
                }
            }
        }
        self.log_probs = log_probs;
        Ok(())
    }

    /// Length of the audio that has not been decoded.
    fn undecoded(&self) -> Duration {
        self.acoustic_model.rate().duration(self.acoustic_model.undecoded())
    }

    /// Ends the utterance here; the next one begins at `next` in the same audio.
    fn cut_utterance(&mut self, cx: &mut Cx<'_>, next: Timestamp) {
        let now = self.decoder.now();
        self.send_final(cx, now);
        self.decoder.continue_at(next);
        self.sent.clear();
    }

    /// Sends the words so far, if they have changed.
    fn send_partial(&mut self, cx: &mut Cx<'_>) {
        let mut transcript = cx.loan(Self::TRANSCRIPT);
        self.decoder.partial(&mut transcript.words);
        let same = transcript.words.len() == self.sent.len()
            && transcript.words.iter().zip(&self.sent).all(|(new, old)| new.text == old.text);
        if same || transcript.words.is_empty() {
            return;
        }
        self.sent.clone_from(&transcript.words);
        (transcript.utterance, transcript.is_final) = (self.utterance, false);
        cx.send_at(Self::TRANSCRIPT, self.decoder.now(), transcript);
    }

    /// Sends the final words, if any.
    fn send_final(&mut self, cx: &mut Cx<'_>, at: Timestamp) {
        let mut transcript = cx.loan(Self::TRANSCRIPT);
        self.decoder.finish(&mut transcript.words);
        if transcript.words.is_empty() && self.sent.is_empty() {
            return;
        }
        (transcript.utterance, transcript.is_final) = (self.utterance, true);
        self.utterance += 1;
        cx.send_at(Self::TRANSCRIPT, at, transcript);
    }

    /// Ends the utterance at the end of its audio. If the next audio begins earlier, at `next`,
    /// time has restarted; the transcript then has the timestamp `next`, since timestamps must not
    /// decrease.
    fn end_utterance(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let Some(at) = self.next_at.map(|at| at.min(next)) else { return Ok(()) };
        if self.acoustic_model.is_waiting() {
            return Ok(());
        }
        self.acoustic_model.push_tail_silence();
        let end = self.decoder.now() + self.undecoded();
        self.decode(cx, end)?;
        self.send_final(cx, at);
        self.acoustic_model.end_utterance();
        self.decoder.restart(at);
        self.sent.clear();
        Ok(())
    }

    /// Ends the utterance after a pause, otherwise sends a partial transcript. The audio continues;
    /// its undecoded rest begins at `rest_at`.
    fn end_utterance_if_due(&mut self, cx: &mut Cx<'_>, rest_at: Timestamp) {
        if self.decoder.silent_for() >= self.limits.silence {
            self.cut_utterance(cx, rest_at);
        } else if self.limits.partials {
            self.send_partial(cx);
        }
    }

    fn on_audio(&mut self, cx: &mut Cx<'_>, block: &AudioBlock) -> Result<(), NodeError> {
        let (rate, window) = (self.acoustic_model.rate(), self.acoustic_model.window());
        expect_format(Self::AUDIO, block, rate)?;
        let at = cx.at();
        let tolerance = rate.duration(window / 8);
        let is_gap = |next: Timestamp| at.since(next) > tolerance || next.since(at) > tolerance;
        if self.next_at.is_none_or(is_gap) {
            self.end_utterance(cx, at + rate.duration(window))?;
            self.restart(at);
        }
        self.next_at = Some(at + block.duration());
        let mut part_at = at;
        // In short parts, so that the block length does not change the results, and speech resumes at
        // its first sounds.
        for part in block.channel(0)?.chunks(rate.samples(PART).clamp(1, window)) {
            part_at = part_at + rate.duration(part.len());
            if self.acoustic_model.push(part) {
                self.decoder.restart(part_at - self.undecoded());
            }
            if self.acoustic_model.undecoded() >= window {
                self.decode(cx, part_at)?;
                self.end_utterance_if_due(cx, part_at - self.undecoded());
            }
        }
        Ok(())
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
        let (model, package) = RecurrentModel::open(&params.model, "speech_recognition", cx)?;
        let number = |name: &str| {
            let value = model.metadata_int(name).and_then(|value| usize::try_from(value).ok());
            value
                .filter(|&value| value > 0)
                .ok_or_else(|| model.error(format!("the program has no positive metadata {name}")))
        };
        let (window, context) = (number("window_size")?, number("context_size")?);
        let rate = SampleRate(u32::try_from(number("sample_rate")?).unwrap_or(u32::MAX));
        let (input, result) = (model.input_sizes(), model.result_sizes());
        let labels = package.manifest.labels.clone();
        let steps = match *result {
            [1, steps, count] if steps > 0 && count == labels.len() => steps,
            _ => {
                let reason =
                    format!("result {result:?} of forward is not [1, steps, {}]", labels.len());
                return Err(model.error(reason));
            }
        };
        if input != [1, context + window] {
            let reason = format!("input {input:?} of forward is not [1, {context} + {window}]");
            return Err(model.error(reason));
        }
        let space = labels.iter().position(|label| label == " ");
        let space = space.ok_or_else(|| model.error("`labels` in model.yaml contain no space"))?;
        if let Some(decoder) = &package.manifest.decoder {
            check_decoder(decoder).map_err(|reason| model.error(reason))?;
        }
        let search = open_search(&params, &package, &model, space)?;
        let delay_s = |of: fn(&afferent_package::Decoder) -> f32| {
            package.manifest.decoder.as_ref().map_or(0.0, of) / 1e3
        };
        let clock = StepClock {
            origin: Timestamp::ZERO,
            earliest: Timestamp::ZERO,
            step: rate.duration(window) / u32::try_from(steps).unwrap_or(1),
            start_delay_s: delay_s(|decoder| decoder.start_delay_ms),
            end_delay_s: delay_s(|decoder| decoder.end_delay_ms),
        };
        let AsrParams { silence, max_utterance, partials, .. } = params;
        let acoustic_model =
            AcousticModel::new(model, rate, (context, window), (labels.len(), space))?;
        let mut asr = Self {
            acoustic_model,
            decoder: Decoder::new(search, labels, space, clock),
            limits: Limits { silence, max_utterance, partials },
            next_at: None,
            log_probs: Vec::new(),
            utterance: 0,
            sent: Vec::new(),
        };
        asr.restart(Timestamp::ZERO);
        Ok(asr)
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
        self.restart(Timestamp::ZERO);
        self.next_at = None;
        Ok(())
    }
}

/// Creates the search that the parameters and the package define.
fn open_search(
    params: &AsrParams,
    package: &ModelPackage,
    model: &RecurrentModel,
    space: usize,
) -> Result<Search, NodeError> {
    if !params.lexicon {
        check_without_lexicon(params)?;
        return Ok(Search::Greedy(GreedyDecoder::new(space)));
    }
    let decoder = package.manifest.decoder.as_ref().ok_or_else(|| {
        model.error(
            "model.yaml does not define `decoder` with a `language_model`; set lexicon: false",
        )
    })?;
    let path = package.folder().join(&decoder.language_model);
    let failed = |reason: String| NodeError::File { path: path.clone(), reason };
    let language_model = LanguageModel::read(&path).map_err(failed)?;
    let labels = &package.manifest.labels;
    let mut vocabulary = Vocabulary::new(language_model, labels);
    for phrase in params.hot_words.iter().flat_map(|phrases| phrases.split(',')) {
        let added = vocabulary.add_hot_phrase(phrase, labels, params.hot_bonus);
        added.map_err(|reason| NodeError::InvalidParam { name: "hot_words".into(), reason })?;
    }
    let params = SearchParams {
        beam_width: params.beam,
        language_weight: params.language_weight.unwrap_or(decoder.language_weight),
        word_bonus: params.word_bonus.unwrap_or(decoder.word_bonus),
    };
    Ok(Search::Beam(Box::new(BeamSearch::new(vocabulary, space, params))))
}

/// Checks that no parameter is set that only a search with a lexicon uses.
fn check_without_lexicon(params: &AsrParams) -> Result<(), NodeError> {
    let given = [
        ("hot_words", params.hot_words.is_some()),
        ("language_weight", params.language_weight.is_some()),
        ("word_bonus", params.word_bonus.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => {
            let reason = "requires lexicon: true".to_owned();
            Err(NodeError::InvalidParam { name: name.into(), reason })
        }
        None => Ok(()),
    }
}

/// Checks the `decoder` section of a package.
fn check_decoder(decoder: &afferent_package::Decoder) -> Result<(), String> {
    let delays =
        [("start_delay_ms", decoder.start_delay_ms), ("end_delay_ms", decoder.end_delay_ms)];
    for (name, delay_ms) in delays {
        if !(-MAX_DELAY_MS..=MAX_DELAY_MS).contains(&delay_ms) {
            return Err(format!(
                "decoder.{name} in model.yaml is {delay_ms}, but must be from -{MAX_DELAY_MS} to \
                 {MAX_DELAY_MS}"
            ));
        }
    }
    let weights =
        [("language_weight", decoder.language_weight), ("word_bonus", decoder.word_bonus)];
    match weights.into_iter().find(|(_, weight)| !weight.is_finite()) {
        Some((name, weight)) => {
            Err(format!("decoder.{name} in model.yaml is {weight}, but must be finite"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use afferent_graph::{ParamValue, Params};

    use super::*;

    #[test]
    fn decoder_values_must_be_finite() {
        let good = afferent_package::Decoder {
            language_model: String::new(),
            language_weight: 1.0,
            word_bonus: -2.5,
            start_delay_ms: 10_000.0,
            end_delay_ms: -10_000.0,
        };
        assert_eq!(check_decoder(&good), Ok(()));
        let check = |change: fn(&mut afferent_package::Decoder), expected: &str| {
            let mut decoder = good.clone();
            change(&mut decoder);
            assert_eq!(check_decoder(&decoder).unwrap_err(), expected);
        };
        let delay = |name: &str, value: &str| {
            format!("decoder.{name} in model.yaml is {value}, but must be from -10000 to 10000")
        };
        check(|decoder| decoder.start_delay_ms = f32::INFINITY, &delay("start_delay_ms", "inf"));
        check(|decoder| decoder.end_delay_ms = f32::NAN, &delay("end_delay_ms", "NaN"));
        check(|decoder| decoder.end_delay_ms = -10_001.0, &delay("end_delay_ms", "-10001"));
        check(
            |decoder| decoder.word_bonus = f32::NEG_INFINITY,
            "decoder.word_bonus in model.yaml is -inf, but must be finite",
        );
    }

    #[test]
    fn lexicon_parameters_are_rejected_without_a_lexicon() {
        let check = |name: &str, value: ParamValue| {
            let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/asr");
            let values = [
                ("model".to_owned(), ParamValue::Path(package.into())),
                ("lexicon".to_owned(), ParamValue::Bool(false)),
                (name.to_owned(), value),
            ];
            let cx = OpenCx::with_service(
                afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)
                    .with_backend(afferent_backend_xnnpack::Xnnpack),
            );
            let params = AsrParams::from_values(&values.into()).unwrap();
            let Err(error) = Asr::open(params, &cx) else { panic!("{name} was accepted") };
            let expected = format!("parameter {name}: requires lexicon: true");
            assert_eq!(error.to_string(), expected);
        };
        check("hot_words", ParamValue::Text("afferent".to_owned()));
        check("language_weight", ParamValue::Float(0.5));
        check("word_bonus", ParamValue::Float(1.0));
    }

    #[test]
    fn a_package_with_an_excessive_delay_is_rejected() {
        let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/asr");
        let package = Path::new(package);
        let folder = std::env::temp_dir().join(format!("afferent-asr-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for file in ["asr_xnnpack.pte", "language.arpa.gz"] {
            fs::copy(package.join(file), folder.join(file)).unwrap();
        }
        let manifest = fs::read_to_string(package.join("model.yaml")).unwrap();
        let manifest = manifest.replace("start_delay_ms: 300.0", "start_delay_ms: 1.0e+30");
        fs::write(folder.join("model.yaml"), manifest).unwrap();
        let values = [("model".to_owned(), ParamValue::Path(folder.clone()))].into();
        let cx = OpenCx::with_service(
            afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)
                .with_backend(afferent_backend_xnnpack::Xnnpack),
        );
        let opened = Asr::open(AsrParams::from_values(&values).unwrap(), &cx);
        fs::remove_dir_all(&folder).unwrap();
        let Err(error) = opened else { panic!("the package was accepted") };
        assert!(error.to_string().contains("decoder.start_delay_ms"), "{error}");
    }
}
