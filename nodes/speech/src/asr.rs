//! Turns speech into words.

mod beam;
mod decoder;
mod greedy;
mod language;
mod lexicon;
mod vocabulary;
mod words;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{
    AudioBlock, HeardWord, SampleRate, SpeechEvent, SpeechEventKind, Transcript,
};
use afferent_package::ModelPackage;

use self::{
    beam::{Beam, Weights},
    decoder::{Clock, Decoder, Search},
    greedy::Greedy,
    language::Language,
    vocabulary::Vocabulary,
};
use crate::{recurrent::RecurrentModel, vad::expect_mono};

params! {
    /// Settings of [`Asr`]. What is left out comes from the model package.
    pub struct AsrParams {
        /// Model package with labels, and with a language model for `lexicon`.
        pub model: PathBuf;
        /// Whether only words of the package's language model, and hot ones, are heard; otherwise
        /// letters as they sound.
        pub lexicon: bool = "true";
        /// Phrases that are expected, with commas between them; unknown words become known.
        /// Refused without `lexicon`, as `language_weight` and `word_bonus` are.
        pub hot_words: Option<String>;
        /// What each word of an expected phrase adds to its likelihood, as a natural logarithm.
        pub hot_bonus: f32 = "2", range 0.0..=20.0;
        /// Hypotheses that are kept: more are more exact and slower.
        pub beam: usize = "300", range 1.0..=1000.0;
        /// Weight of the language model against the sound.
        pub language_weight: Option<f32>, range 0.0..=10.0;
        /// What every word adds to the likelihood of a hypothesis, as a natural logarithm.
        pub word_bonus: Option<f32>, range -20.0..=20.0;
        /// A pause of this length ends an utterance that no event ends.
        pub silence: Duration = "600ms", range 0.06..=60.0;
        /// An utterance of this length is ended.
        pub max_utterance: Duration = "30s", range 1.0..=600.0;
        /// Whether transcripts are sent before an utterance has ended.
        pub partials: bool = "true";
    }
}

/// Turns speech into words, with partial results and the times of words.
///
/// An utterance ends with an event, a gap in the sound, a pause of `silence`, or the end of the
/// stream. What the model has not said by then it says to silence that is added. Utterances without
/// words are not reported.
///
/// Contract of the model: `forward(sound f32[1, context + window], state f32[..]) -> (chances
/// f32[1, steps, labels], state)`, metadata `sample_rate`, `window_size`, `context_size`; the
/// chances are natural logarithms of letters for CTC, label 0 is the blank, and one label is a
/// space. With `lexicon`, a prefix beam search finds the likeliest words by the language model of
/// the package, an ARPA file; otherwise the likeliest letters make the words.
///
/// Latency: a window for partial results; the end of speech for final ones.
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
    model: RecurrentModel,
    rate: SampleRate,
    window: usize,
    context: usize,
    decoder: Decoder,
    limits: Limits,
    /// Context and the start of the next window.
    pending: Vec<f32>,
    /// Time of the sample that should come next; `None` before the first.
    next_at: Option<Timestamp>,
    /// Chances of one window.
    chances: Vec<f32>,
    utterance: u64,
    /// What was sent of this utterance.
    sent: Vec<HeardWord>,
}

/// When transcripts are sent.
#[derive(Debug, Clone, Copy)]
struct Limits {
    silence: Duration,
    max_utterance: Duration,
    partials: bool,
}

/// Silence that is added to an utterance that ends, because letters appear after their sound.
const TAIL: Duration = Duration::from_millis(300);

/// Longest delay that a package may give.
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
    /// Forgets all sound; the next comes `at`.
    fn clear(&mut self, at: Timestamp) {
        self.model.reset();
        self.pending.clear();
        self.pending.resize(self.context, 0.0);
        self.decoder.restart(at);
        self.sent.clear();
    }

    /// Runs the model over the whole windows of `pending`.
    fn windows(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let whole = self.context + self.window;
        while self.pending.len() >= whole {
            let (model, pending) = (&mut self.model, &self.pending);
            let chances = cx.time_model(|| model.run(&pending[..whole]))?;
            self.chances.clear();
            self.chances.extend_from_slice(chances);
            let labels = self.decoder.labels();
            self.chances.chunks_exact(labels).for_each(|step| self.decoder.update(step));
            self.pending.drain(..self.window);
        }
        Ok(())
    }

    /// Sends the words so far, if they are others than before.
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

    /// Sends the final words, if there are any.
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

    /// Ends the utterance where its sound ends, or at `next`, where the next one is heard first, if
    /// that is earlier: time began anew, and nothing that is later may come before.
    fn end_utterance(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let Some(at) = self.next_at.map(|at| at.min(next)) else { return Ok(()) };
        let tail = self.pending.len() - self.context + self.rate.samples(TAIL);
        let windows = tail.div_ceil(self.window);
        self.pending.resize(self.context + windows * self.window, 0.0);
        self.windows(cx)?;
        self.send_final(cx, at);
        self.clear(at);
        Ok(())
    }

    /// Begins a new utterance when this one is over; the sound goes on, and what was not decoded
    /// yet of it begins at `rest_at`.
    fn end_at_pause(&mut self, cx: &mut Cx<'_>, rest_at: Timestamp) {
        let silent = self.decoder.silent_for() >= self.limits.silence;
        if silent || self.decoder.heard() >= self.limits.max_utterance {
            let now = self.decoder.now();
            self.send_final(cx, now);
            self.decoder.go_on(rest_at);
            self.sent.clear();
        } else if self.limits.partials {
            self.send_partial(cx);
        }
    }

    fn hear(&mut self, cx: &mut Cx<'_>, block: &AudioBlock) -> Result<(), NodeError> {
        expect_mono(Self::AUDIO, block, self.rate)?;
        let at = cx.at();
        let tolerance = self.rate.duration(self.window / 8);
        let far = |next: Timestamp| at.since(next) > tolerance || next.since(at) > tolerance;
        if self.next_at.is_none_or(far) {
            self.end_utterance(cx, at + self.rate.duration(self.window))?;
            self.clear(at);
        }
        self.next_at = Some(at + block.duration());
        let mut part_at = at;
        // Window by window, so that a long block gives the results that short ones give.
        for part in block.channel(0)?.chunks(self.window) {
            self.pending.extend_from_slice(part);
            part_at = part_at + self.rate.duration(part.len());
            if self.pending.len() >= self.context + self.window {
                self.windows(cx)?;
                let rest = self.pending.len() - self.context;
                self.end_at_pause(cx, part_at - self.rate.duration(rest));
            }
        }
        Ok(())
    }
}

impl Node for Asr {
    type Params = AsrParams;

    const NAME: &'static str = "asr";
    const SUMMARY: &'static str = "Turns speech into words.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a window for partial results, the end of speech for final ones";

    fn check(params: &AsrParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: AsrParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let (model, package) = RecurrentModel::open(&params.model, "speech_recognition", cx)?;
        let number = |name: &str| {
            let value = model.metadata_int(name).and_then(|value| usize::try_from(value).ok());
            value.filter(|&value| value > 0).ok_or_else(|| model.fault(format!("it has no {name}")))
        };
        let (window, context) = (number("window_size")?, number("context_size")?);
        let rate = SampleRate(u32::try_from(number("sample_rate")?).unwrap_or(u32::MAX));
        let (sound, sizes) = (model.input_sizes(), model.result_sizes());
        let labels = package.manifest.labels.clone();
        let steps = match *sizes {
            [1, steps, count] if steps > 0 && count == labels.len() => steps,
            _ => {
                let reason = format!("its result {sizes:?} is not [1, steps, {}]", labels.len());
                return Err(model.fault(reason));
            }
        };
        if sound != [1, context + window] {
            let reason = format!("its input {sound:?} is not [1, {context} + {window}]");
            return Err(model.fault(reason));
        }
        let space = labels.iter().position(|label| label == " ");
        let space = space.ok_or_else(|| model.fault("its labels have no space"))?;
        if let Some(about) = &package.manifest.decoder {
            expect_usable(about).map_err(|reason| model.fault(reason))?;
        }
        let search = search(&params, &package, &model, space)?;
        let delay_s = |of: fn(&afferent_package::Decoder) -> f32| {
            package.manifest.decoder.as_ref().map_or(0.0, of) / 1e3
        };
        let clock = Clock {
            origin: Timestamp::ZERO,
            earliest: Timestamp::ZERO,
            step: rate.duration(window) / u32::try_from(steps).unwrap_or(1),
            start_delay_s: delay_s(|decoder| decoder.start_delay_ms),
            end_delay_s: delay_s(|decoder| decoder.end_delay_ms),
        };
        let AsrParams { silence, max_utterance, partials, .. } = params;
        let mut asr = Self {
            model,
            rate,
            window,
            context,
            decoder: Decoder::new(search, labels, space, clock),
            limits: Limits { silence, max_utterance, partials },
            pending: Vec::new(),
            next_at: None,
            chances: Vec::new(),
            utterance: 0,
            sent: Vec::new(),
        };
        asr.clear(Timestamp::ZERO);
        Ok(asr)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // A second holder, so that transcripts can be sent while the sound is read.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        if let Some(event) = packet.get::<SpeechEvent>() {
            if event.kind == SpeechEventKind::End {
                self.end_utterance(cx, Timestamp(i64::MAX))?;
            }
            return Ok(());
        }
        packet.get::<AudioBlock>().map_or(Ok(()), |block| self.hear(cx, block))
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_utterance(cx, Timestamp(i64::MAX))
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.clear(Timestamp::ZERO);
        self.next_at = None;
        Ok(())
    }
}

/// How words are found, as the settings and the package say.
fn search(
    params: &AsrParams,
    package: &ModelPackage,
    model: &RecurrentModel,
    space: usize,
) -> Result<Search, NodeError> {
    if !params.lexicon {
        expect_letters_only(params)?;
        return Ok(Search::Greedy(Greedy::new(space)));
    }
    let about = package.manifest.decoder.as_ref().ok_or_else(|| {
        model.fault("model.yaml names no decoder with a language_model; set lexicon: false")
    })?;
    let path = package.folder().join(&about.language_model);
    let failed = |reason: String| NodeError::File { path: path.clone(), reason };
    let language = Language::read(&path).map_err(failed)?;
    let labels = &package.manifest.labels;
    let mut vocabulary = Vocabulary::new(language, labels);
    for phrase in params.hot_words.iter().flat_map(|phrases| phrases.split(',')) {
        let expected = vocabulary.expect(phrase, labels, params.hot_bonus);
        expected.map_err(|reason| NodeError::InvalidParam { name: "hot_words".into(), reason })?;
    }
    let weights = Weights {
        beam: params.beam,
        language: params.language_weight.unwrap_or(about.language_weight),
        word: params.word_bonus.unwrap_or(about.word_bonus),
    };
    Ok(Search::Beam(Box::new(Beam::new(vocabulary, space, weights))))
}

/// Checks that nothing without a default is set that only a search for words reads.
fn expect_letters_only(params: &AsrParams) -> Result<(), NodeError> {
    let given = [
        ("hot_words", params.hot_words.is_some()),
        ("language_weight", params.language_weight.is_some()),
        ("word_bonus", params.word_bonus.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => {
            let reason = "it needs lexicon: true, but that is false".to_owned();
            Err(NodeError::InvalidParam { name: name.into(), reason })
        }
        None => Ok(()),
    }
}

/// Checks what a package says about its decoder.
fn expect_usable(about: &afferent_package::Decoder) -> Result<(), String> {
    let delays = [("start_delay_ms", about.start_delay_ms), ("end_delay_ms", about.end_delay_ms)];
    for (name, delay_ms) in delays {
        if !(-MAX_DELAY_MS..=MAX_DELAY_MS).contains(&delay_ms) {
            return Err(format!(
                "decoder.{name} in model.yaml is {delay_ms}, but must be from -{MAX_DELAY_MS} to \
                 {MAX_DELAY_MS}"
            ));
        }
    }
    let weights = [("language_weight", about.language_weight), ("word_bonus", about.word_bonus)];
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
    fn a_decoder_has_finite_numbers() {
        let good = afferent_package::Decoder {
            language_model: String::new(),
            language_weight: 1.0,
            word_bonus: -2.5,
            start_delay_ms: 10_000.0,
            end_delay_ms: -10_000.0,
        };
        assert_eq!(expect_usable(&good), Ok(()));
        let check = |change: fn(&mut afferent_package::Decoder), expected: &str| {
            let mut about = good.clone();
            change(&mut about);
            assert_eq!(expect_usable(&about).unwrap_err(), expected);
        };
        let delay = |name: &str, value: &str| {
            format!("decoder.{name} in model.yaml is {value}, but must be from -10000 to 10000")
        };
        check(|about| about.start_delay_ms = f32::INFINITY, &delay("start_delay_ms", "inf"));
        check(|about| about.end_delay_ms = f32::NAN, &delay("end_delay_ms", "NaN"));
        check(|about| about.end_delay_ms = -10_001.0, &delay("end_delay_ms", "-10001"));
        check(
            |about| about.word_bonus = f32::NEG_INFINITY,
            "decoder.word_bonus in model.yaml is -inf, but must be finite",
        );
    }

    #[test]
    fn settings_of_words_are_refused_where_letters_are_heard() {
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
            let expected = format!("parameter {name}: it needs lexicon: true, but that is false");
            assert_eq!(error.to_string(), expected);
        };
        check("hot_words", ParamValue::Text("afferent".to_owned()));
        check("language_weight", ParamValue::Float(0.5));
        check("word_bonus", ParamValue::Float(1.0));
    }

    #[test]
    fn a_package_with_an_endless_delay_is_refused() {
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
        let Err(error) = opened else { panic!("it was accepted") };
        assert!(error.to_string().contains("decoder.start_delay_ms"), "{error}");
    }
}
