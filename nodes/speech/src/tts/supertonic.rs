//! Supertonic: speech from letters by flow matching.

mod noise;
mod style;
mod text;

use std::{collections::VecDeque, path::Path, time::Duration};

use afferent_core::{ScalarType, Tensor, TensorView, read_floats, tensor_of};
use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;
use afferent_runtime::{Input, ModelFile, Signature};

pub(crate) use self::style::is_voice;
use self::{
    style::{DURATION_SIZES, Style, TEXT_SIZES},
    text::{Indexer, LANGUAGES},
};
use super::{
    TtsParams, sentences,
    synthesizer::{Chunk, Part, Synthesizer},
    text_part::TextPart,
    voices::find_voice,
};
use crate::programs::{Programs, Step, is_float};

/// Methods, or roles of the programs.
const METHODS: [&str; 4] = ["duration_predictor", "text_encoder", "vector_estimator", "vocoder"];
/// Their forms, for messages.
const FORM: &str = "duration_predictor(letters i64[1, T], style[1, 8, 16], mask[1, 1, T]) -> \
    seconds[1], text_encoder(letters, style[1, 50, 256], mask) -> rows[1, 256, T], \
    vector_estimator(columns[1, C, L], rows, style, masks, step[1], steps[1]) -> columns and \
    vocoder(columns) -> sound[1, n]";
/// Most letters of a part.
const MAX_LETTERS: usize = 240;
/// Most letters of a part in languages whose letters are syllables.
const MAX_SYLLABLES: usize = 120;
/// Values of models whose files do not tell them.
const RATE_HZ: u32 = 44_100;
const COLUMN_SAMPLES: usize = 3072;
const FLOW_STEPS_OF_ONE: usize = 5;
const FLOW_STEPS_OF_FOUR: usize = 8;
/// Pauses after a sentence, and after a part of one.
const SENTENCE_PAUSE: Duration = Duration::from_millis(250);
const PART_PAUSE: Duration = Duration::from_millis(100);

/// A Supertonic model with a voice.
pub(super) struct Supertonic {
    programs: Programs,
    duration: Step,
    encoder: Step,
    estimator: Step,
    vocoder: Step,
    /// True for one program with four methods, as ExecuTorch exports it: the mask of the columns comes
    /// before that of the text, and unknown letters have no number. Otherwise four programs, as of
    /// react-native-executorch: the masks have the other order, and unknown letters the number 0.
    is_single: bool,
    indexer: Indexer,
    style: Style,
    language: String,
    flow_steps: usize,
    seed: u64,
    pace: f32,
    rate: SampleRate,
    /// Values of a column, and its samples of audio.
    channels: usize,
    column_samples: usize,
    /// Most letters of a part, and columns of a run.
    max_letters: usize,
    max_columns: usize,
    parts: VecDeque<TextPart>,
    audio: Part,
}

/// Name of the contract of `programs`, each with its role, if they are a Supertonic model.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    let fits = |name: &&str| {
        let of_method = programs.iter().find_map(|(_, file)| file.signature(name).ok());
        let of_role = || {
            let (_, file) = programs.iter().find(|(role, _)| role == name)?;
            file.signature("forward").ok()
        };
        of_method.or_else(of_role).is_some_and(|signature| has_form(name, &signature))
    };
    let is_single = programs.len() == 1;
    let name = if is_single { "supertonic" } else { "supertonic-rne@0.10" };
    METHODS.iter().all(fits).then_some(name)
}

/// True if the method `name` has the inputs of the contract.
fn has_form(name: &str, signature: &Signature) -> bool {
    let Some(specs) = signature.tensor_inputs() else { return false };
    let inputs: Vec<(ScalarType, &[usize])> =
        specs.into_iter().map(|spec| (spec.dtype, &*spec.sizes)).collect();
    let all_float = |from: usize| inputs[from..].iter().all(|(dtype, _)| is_float(*dtype));
    let sizes: Vec<&[usize]> = inputs.iter().map(|(_, sizes)| *sizes).collect();
    let has_letters = inputs.first().is_some_and(|(dtype, _)| *dtype == ScalarType::Long);
    match (name, &*sizes) {
        ("duration_predictor", [[1, _], style, [1, 1, _]]) => {
            has_letters && all_float(1) && *style == DURATION_SIZES
        }
        ("text_encoder", [[1, _], style, [1, 1, _]]) => {
            has_letters && all_float(1) && *style == TEXT_SIZES
        }
        ("vector_estimator", [[1, _, _], [1, _, _], style, [1, 1, _], [1, 1, _], [1], [1]]) => {
            all_float(0) && *style == TEXT_SIZES
        }
        ("vocoder", [[1, _, _]]) => all_float(0),
        _ => false,
    }
}

impl Supertonic {
    /// True if `programs` have a method or role that only this model has.
    pub(super) fn is_in(programs: &Programs) -> bool {
        METHODS[1..].iter().any(|name| programs.find(&[name]).is_some())
    }

    /// Checks the programs and companions.
    pub(super) fn open(mut programs: Programs, params: &TtsParams) -> Result<Self, NodeError> {
        let find = |name: &str| match programs.find(&[name]) {
            None => Err(programs.error(format!(
                "Supertonic needs {FORM}; {name} is missing among {}",
                programs.methods()
            ))),
            Some(step) if !has_form(name, &step.signature) => Err(programs.error(format!(
                "Supertonic needs {FORM}; {name} has another form: {}",
                programs.methods()
            ))),
            Some(step) => Ok(step),
        };
        let [duration, encoder, estimator, vocoder] = METHODS.map(find);
        let (duration, encoder, estimator, vocoder) = (duration?, encoder?, estimator?, vocoder?);
        let is_single = contract(&programs.files()) == Some("supertonic");
        let language = language(params)?;
        let letters = programs.size("get_text_vocabulary_size");
        let indexer =
            companion(&programs, "unicode_indexer.json", |path| Indexer::open(path, letters))?;
        let name = params.voice.as_deref();
        let kind = "a JSON with style_dp and style_ttl, such as M1.json,";
        let (_, path) = find_voice(&programs, name, kind, is_voice)?;
        let style = Style::open(&path)
            .map_err(|reason| programs.error(format!("{}: {reason}", path.display())))?;
        for step in [&duration, &encoder, &estimator, &vocoder] {
            programs.load(step)?;
        }
        let flow_steps =
            params.steps.or(programs.size("get_flow_steps")).unwrap_or(match is_single {
                true => FLOW_STEPS_OF_ONE,
                false => FLOW_STEPS_OF_FOUR,
            });
        let least = |sizes: &[&Step]| sizes.iter().map(|step| step.input_sizes(0)[1]).min();
        let max_letters = match language.as_str() {
            "ja" | "ko" => MAX_SYLLABLES,
            _ => MAX_LETTERS,
        };
        // The marks of the language, and a period.
        let around = 2 * language.len() + "<></>.".len();
        let letters = least(&[&duration, &encoder]).unwrap_or(0).min(estimator.input_sizes(1)[2]);
        let max_letters = max_letters.min(letters.saturating_sub(around));
        if max_letters == 0 {
            return Err(programs.error(format!("the model takes only {letters} letters")));
        }
        let rate = programs.size("get_sample_rate").and_then(|rate| u32::try_from(rate).ok());
        Ok(Self {
            is_single,
            indexer,
            style,
            language,
            flow_steps,
            seed: params.seed as u64,
            pace: params.pace,
            rate: SampleRate(rate.unwrap_or(RATE_HZ)),
            channels: estimator.input_sizes(0)[1],
            column_samples: column_samples(&programs, &vocoder),
            max_letters,
            max_columns: estimator.input_sizes(0)[2].min(vocoder.input_sizes(0)[2]).max(1),
            parts: VecDeque::new(),
            audio: Part::default(),
            duration,
            encoder,
            estimator,
            vocoder,
            programs,
        })
    }

    /// Numbers of the letters of `text`, cleaned and with the marks of the language; empty if nothing is
    /// left of the text.
    fn letters(&self, text: &str) -> Vec<i64> {
        let cleaned = text::clean(text);
        let known = |letter: char| match self.indexer.id(letter) {
            None if !self.is_single => Some(0),
            id => id,
        };
        let ids: Vec<i64> = cleaned.chars().filter_map(known).collect();
        let is_spoken =
            |c: char| c.is_alphanumeric() && (self.indexer.id(c).is_some() || !self.is_single);
        if !cleaned.contains(is_spoken) {
            return Vec::new();
        }
        if self.language == "na" && !self.is_single {
            return ids;
        }
        let marks = |open: &str| -> Vec<i64> {
            format!("{open}{}>", self.language).chars().filter_map(known).collect()
        };
        [marks("<"), ids, marks("</")].concat()
    }

    /// Seconds that `letters` last at the normal pace.
    fn seconds(&mut self, letters: &[i64]) -> Result<f64, NodeError> {
        let sizes = [1, letters.len()];
        let style = tensor_of(&self.style.duration, &DURATION_SIZES, self.duration.input_dtype(1))?;
        let mask = ones(&[1, 1, letters.len()], self.duration.input_dtype(2))?;
        let inputs = [
            Input::Tensor(TensorView::new(&sizes, letters)?),
            Input::Tensor(style.view()),
            Input::Tensor(mask.view()),
        ];
        let mut values = Vec::new();
        let outputs = self.programs.run(&self.duration, &inputs)?;
        read_floats(&outputs.tensor(0)?, &mut values)?;
        let seconds = values.first().copied().unwrap_or(f32::NAN);
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(self.programs.error(format!("duration_predictor returned {seconds} s")));
        }
        Ok(f64::from(seconds))
    }

    /// Rows of the letters.
    fn encode(&mut self, letters: &[i64]) -> Result<Tensor, NodeError> {
        let sizes = [1, letters.len()];
        let style = tensor_of(&self.style.text, &TEXT_SIZES, self.encoder.input_dtype(1))?;
        let mask = ones(&[1, 1, letters.len()], self.encoder.input_dtype(2))?;
        let inputs = [
            Input::Tensor(TensorView::new(&sizes, letters)?),
            Input::Tensor(style.view()),
            Input::Tensor(mask.view()),
        ];
        let outputs = self.programs.run(&self.encoder, &inputs)?;
        let rows = outputs.tensor(0)?;
        let (sizes, mut values) = (rows.sizes().to_vec(), Vec::new());
        read_floats(&rows, &mut values)?;
        Ok(tensor_of(&values, &sizes, self.estimator.input_dtype(1))?)
    }

    /// Columns of the sound: noise that the flow moves to speech. `None` if the call is canceled.
    fn flow(
        &mut self,
        cx: &mut Cx<'_>,
        rows: &Tensor,
        columns: usize,
    ) -> Result<Option<Vec<f32>>, NodeError> {
        let (programs, estimator) = (&mut self.programs, &self.estimator);
        let dtype = |index: usize| estimator.input_dtype(index);
        let letters = rows.sizes().get(2).copied().unwrap_or(0);
        let style = tensor_of(&self.style.text, &TEXT_SIZES, dtype(2))?;
        let lens = if self.is_single { [columns, letters] } else { [letters, columns] };
        let masks = [ones(&[1, 1, lens[0]], dtype(3))?, ones(&[1, 1, lens[1]], dtype(4))?];
        let steps = tensor_of(&[self.flow_steps as f32], &[1], dtype(6))?;
        let mut values = noise::normal(self.seed, self.channels * columns);
        for step in 0..self.flow_steps {
            if cx.canceled() {
                return Ok(None);
            }
            let latent = tensor_of(&values, &[1, self.channels, columns], dtype(0))?;
            let step = tensor_of(&[step as f32], &[1], dtype(5))?;
            let inputs =
                [&latent, rows, &style, &masks[0], &masks[1], &step, &steps].map(Tensor::view);
            cx.time_model(|| -> Result<(), NodeError> {
                let outputs = programs.run(estimator, &inputs.map(Input::Tensor))?;
                Ok(read_floats(&outputs.tensor(0)?, &mut values)?)
            })?;
        }
        Ok(Some(values))
    }

    /// Sound of a part; `None` if the call is canceled, or if the part was divided.
    fn speak(&mut self, cx: &mut Cx<'_>, part: &TextPart) -> Result<Option<Vec<f32>>, NodeError> {
        let letters = self.letters(&part.text());
        if letters.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let seconds = cx.time_model(|| self.seconds(&letters))? / f64::from(self.pace);
        let columns = (seconds * f64::from(self.rate.0) / self.column_samples as f64).ceil();
        let columns = (columns as usize).max(1);
        if columns > self.max_columns && part.words.len() > 1 {
            let (first, second) = part.halves();
            self.parts.push_front(second);
            self.parts.push_front(first);
            return Ok(None);
        }
        let columns = columns.min(self.max_columns);
        let rows = cx.time_model(|| self.encode(&letters))?;
        let Some(values) = self.flow(cx, &rows, columns)? else { return Ok(None) };
        let sizes = [1, self.channels, columns];
        let latent = tensor_of(&values, &sizes, self.vocoder.input_dtype(0))?;
        let mut samples = Vec::new();
        let (programs, vocoder) = (&mut self.programs, &self.vocoder);
        cx.time_model(|| -> Result<(), NodeError> {
            let outputs = programs.run(vocoder, &[Input::Tensor(latent.view())])?;
            Ok(read_floats(&outputs.tensor(0)?, &mut samples)?)
        })?;
        Ok(Some(samples))
    }
}

impl Synthesizer for Supertonic {
    fn rate(&self) -> SampleRate {
        self.rate
    }

    fn begin(&mut self, text: &str) -> Vec<String> {
        self.stop();
        for sentence in sentences::sentences(text) {
            let parts = sentences::divide(&sentence, self.max_letters, text::cleaned_len);
            let count = parts.len();
            for (words, at) in parts.iter().zip(1..) {
                self.parts.push_back(TextPart::new(words, at == count));
            }
        }
        let is_unknown =
            |letter: char| letter.is_alphanumeric() && self.indexer.id(letter).is_none();
        let words = text.split_whitespace();
        words.filter(|word| text::clean(word).contains(is_unknown)).map(str::to_owned).collect()
    }

    fn next_chunk(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk<'_>>, NodeError> {
        while self.audio.is_done() {
            let Some(part) = self.parts.pop_front() else { return Ok(None) };
            let Some(samples) = self.speak(cx, &part)? else {
                if cx.canceled() {
                    return Ok(None);
                }
                continue;
            };
            if samples.is_empty() {
                continue;
            }
            let words = part.spoken_words(self.rate.duration(samples.len()));
            let pause = if part.is_end { SENTENCE_PAUSE } else { PART_PAUSE };
            self.audio = Part::new(samples, words, pause, self.rate);
        }
        Ok(Some(self.audio.next_chunk(self.rate)))
    }

    fn is_done(&self) -> bool {
        self.audio.is_done() && self.parts.is_empty()
    }

    fn stop(&mut self) {
        self.parts.clear();
        self.audio = Part::default();
    }
}

/// Ones of these sizes.
fn ones(sizes: &[usize], dtype: ScalarType) -> Result<Tensor, afferent_core::Error> {
    tensor_of(&vec![1.0; sizes.iter().product()], sizes, dtype)
}

/// Language of the parameters; English by default.
fn language(params: &TtsParams) -> Result<String, NodeError> {
    let language = params.language.as_deref().unwrap_or("en").to_lowercase();
    if LANGUAGES.contains(&language.as_str()) {
        return Ok(language);
    }
    let reason = format!("the model knows {}, not {language}", LANGUAGES.join(", "));
    Err(NodeError::InvalidParam { name: "language".into(), reason })
}

/// Samples of a column: from the metadata, else from the sizes of the vocoder.
fn column_samples(programs: &Programs, vocoder: &Step) -> usize {
    let chunk = programs.size("get_base_chunk_size");
    let told = chunk.zip(programs.size("get_chunk_compress_factor")).map(|(a, b)| a * b);
    let (columns, samples) = (vocoder.input_sizes(0)[2], vocoder.output_sizes(0).last().copied());
    let by_sizes = samples.filter(|samples| columns > 0 && samples % columns == 0);
    let by_sizes = by_sizes.map(|samples| samples / columns).filter(|&samples| samples > 0);
    told.or(by_sizes).unwrap_or(COLUMN_SAMPLES)
}

/// Reads the file `name` of the package with `read`.
fn companion<T>(
    programs: &Programs,
    name: &str,
    read: impl Fn(&Path) -> Result<T, String>,
) -> Result<T, NodeError> {
    let path = programs.package.companion(name);
    let path = path.or_else(|| programs.package.companion(&format!("onnx/{name}")));
    let Some(path) = path else {
        let reason = format!("Supertonic needs {name}: put it into the folder of the model");
        return Err(programs.error(reason));
    };
    read(&path).map_err(|reason| programs.error(format!("{}: {reason}", path.display())))
}
