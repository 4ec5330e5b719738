//! Streaming models with CTC: label probabilities, window by window.

mod acoustic_model;
mod beam_search;
mod decoder;
mod greedy;
mod language_model;
mod lexicon;
mod limits;
mod vocabulary;
mod word_sequences;

use std::time::Duration;

use afferent_graph::{Cx, NodeError, OpenCx, Timestamp};
use afferent_messages::SampleRate;
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
use super::{AsrParams, recognizer::Recognizer, transcripts::Transcripts};
use crate::{programs::reject_set, recurrent::RecurrentModel};

/// Recognizer with a streaming CTC model.
///
/// The model hears silence ahead of each utterance, so that speech may begin at the first sample, and
/// silence after it, to flush its delay.
pub(super) struct Ctc {
    acoustic_model: AcousticModel,
    decoder: Decoder,
    limits: Limits,
    /// Log probabilities of one window.
    log_probs: Vec<f32>,
}

/// Longest part of a block that is added at a time.
const PART: Duration = Duration::from_millis(10);

/// Longest delay that a package may define.
const MAX_DELAY_MS: f32 = 10_000.0;

impl Ctc {
    /// Loads the package or program of `params`.
    pub(super) fn open(params: &AsrParams, cx: &OpenCx) -> Result<Self, NodeError> {
        check_parameters(params)?;
        let (model, package) =
            RecurrentModel::open(&params.model, "speech_recognition", "streaming_ctc", cx)?;
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
        let search = open_search(params, &package, &model, space)?;
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
        let AsrParams { silence, max_utterance, partials, .. } = *params;
        let acoustic_model =
            AcousticModel::new(model, rate, (context, window), (labels.len(), space))?;
        let mut ctc = Self {
            acoustic_model,
            decoder: Decoder::new(search, labels, space, clock),
            limits: Limits { silence, max_utterance, partials },
            log_probs: Vec::new(),
        };
        ctc.restart(Timestamp::ZERO);
        Ok(ctc)
    }

    /// Decodes the whole windows of the audio, which ends at `end`. Cuts the utterance if it is too
    /// long.
    fn decode(
        &mut self,
        cx: &mut Cx<'_>,
        end: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        let mut log_probs = std::mem::take(&mut self.log_probs);
        while self.acoustic_model.next_window(cx, &mut log_probs)? {
            let window_end = end - self.undecoded();
            let steps = log_probs.chunks_exact(self.decoder.label_count());
            for (step, left) in steps.clone().zip((0..steps.len()).rev()) {
                self.decoder.update(step);
                if self.limits.is_cut(&self.decoder) {
                    let left = u32::try_from(left).unwrap_or(0);
                    self.cut_utterance(cx, window_end - self.decoder.step() * left, transcripts);
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
    fn cut_utterance(&mut self, cx: &mut Cx<'_>, next: Timestamp, transcripts: &mut Transcripts) {
        let now = self.decoder.now();
        transcripts.send_final(cx, now, |transcript| self.decoder.finish(&mut transcript.words));
        self.decoder.continue_at(next);
    }

    /// Ends the utterance after a pause, otherwise sends a partial transcript. The audio continues;
    /// its undecoded rest begins at `rest_at`.
    fn end_utterance_if_due(
        &mut self,
        cx: &mut Cx<'_>,
        rest_at: Timestamp,
        transcripts: &mut Transcripts,
    ) {
        if self.decoder.silent_for() >= self.limits.silence {
            self.cut_utterance(cx, rest_at, transcripts);
        } else if self.limits.partials {
            let now = self.decoder.now();
            transcripts
                .send_partial(cx, now, |transcript| self.decoder.partial(&mut transcript.words));
        }
    }
}

impl Recognizer for Ctc {
    fn rate(&self) -> SampleRate {
        self.acoustic_model.rate()
    }

    fn gap(&self) -> Duration {
        self.rate().duration(self.acoustic_model.window() / 8)
    }

    fn restart(&mut self, at: Timestamp) {
        self.acoustic_model.restart();
        self.decoder.restart(at);
    }

    fn push(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        at: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        let (rate, window) = (self.acoustic_model.rate(), self.acoustic_model.window());
        let mut part_at = at;
        // In short parts, so that the block length does not change the results, and speech resumes at
        // its first sounds.
        for part in samples.chunks(rate.samples(PART).clamp(1, window)) {
            part_at = part_at + rate.duration(part.len());
            if self.acoustic_model.push(part) {
                self.decoder.restart(part_at - self.undecoded());
            }
            if self.acoustic_model.undecoded() >= window {
                self.decode(cx, part_at, transcripts)?;
                self.end_utterance_if_due(cx, part_at - self.undecoded(), transcripts);
            }
        }
        Ok(())
    }

    fn end_utterance(
        &mut self,
        cx: &mut Cx<'_>,
        at: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        if self.acoustic_model.is_waiting() {
            return Ok(());
        }
        self.acoustic_model.push_tail_silence();
        let end = self.decoder.now() + self.undecoded();
        self.decode(cx, end, transcripts)?;
        transcripts.send_final(cx, at, |transcript| self.decoder.finish(&mut transcript.words));
        self.acoustic_model.end_utterance();
        self.decoder.restart(at);
        Ok(())
    }
}

/// Checks that no parameter is set that only other models use.
fn check_parameters(params: &AsrParams) -> Result<(), NodeError> {
    reject_set(&params.whisper_parameters(), "requires a Whisper model; this one has CTC")
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
    reject_set(&params.lexicon_parameters(), "requires lexicon: true")
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
            let Err(error) = Ctc::open(&params, &cx) else { panic!("{name} was accepted") };
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
        let opened = Ctc::open(&AsrParams::from_values(&values).unwrap(), &cx);
        fs::remove_dir_all(&folder).unwrap();
        let Err(error) = opened else { panic!("the package was accepted") };
        assert!(error.to_string().contains("decoder.start_delay_ms"), "{error}");
    }
}
