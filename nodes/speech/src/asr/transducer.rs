//! Transducers: Parakeet TDT, and RNN-T in the same form.

use std::time::Duration;

use afferent_core::{ScalarType, Tensor, TensorView, tensor_of};
use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;
use afferent_runtime::{Input, ModelFile, ModelOutputs};
use afferent_text::Tokenizer;

use super::{
    segments::{Recognized, SegmentModel, SegmentWord},
    word_builder::{TimedWord, WordBuilder},
};
use crate::programs::{Programs, Step};

/// Rows that each duration index of TDT stands for. They are not in the file.
const DURATIONS: [usize; 5] = [0, 1, 2, 3, 4];
/// Most tokens of one row.
const MAX_TOKENS_PER_ROW: usize = 10;
/// Least samples that the preprocessor takes.
const MIN_SAMPLES: usize = 1600;

/// A transducer: an encoder, a prediction network that carries a state from token to token, and a joint
/// network that tells the next token of a row, with TDT also after how many rows to go on.
pub(super) struct Transducer {
    programs: Programs,
    preprocessor: Step,
    encoder: Step,
    predict: Step,
    joint: Step,
    tokenizer: Tokenizer,
    rate: SampleRate,
    blank: u32,
    /// Time from row to row of the encoder.
    row: Duration,
    /// Longest audio, in samples.
    max_samples: usize,
}

/// Methods of a transducer.
struct Methods {
    preprocessor: Step,
    encoder: Step,
    predict: Step,
    joint: Step,
}

impl Methods {
    /// Finds the methods, and checks the types of their inputs.
    fn find(programs: &[(&str, &ModelFile)]) -> Option<Self> {
        let find = |name: &str, forms: &[&str]| {
            Step::find(programs, &[name]).filter(|step| step.has_inputs(forms))
        };
        Some(Self {
            preprocessor: find("preprocessor", &["f1", "i1"])?,
            encoder: find("encoder", &["f3", "i1"])?,
            predict: find("decoder_step", &["i2", "f3", "f3"])?,
            joint: find("joint", &["f3", "f3"])?,
        })
    }
}

/// Contract of the programs, if they are a transducer.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    let methods = Methods::find(programs)?;
    let has_durations = methods.joint.signature.outputs.len() > 1;
    Some(if has_durations { "parakeet_tdt" } else { "parakeet_rnnt" })
}

/// Token with the row at which it was said, and the rows until the next.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Said {
    token: u32,
    row: usize,
    rows: usize,
}

impl Transducer {
    /// Checks the methods of `programs`.
    pub(super) fn open(mut programs: Programs) -> Result<Self, NodeError> {
        let Some(Methods { preprocessor, encoder, predict, joint }) =
            Methods::find(&programs.files())
        else {
            return Err(programs.error(format!(
                "a transducer needs preprocessor(f32[n], i64[1]), encoder(mel[1, bands, n], i64[1]), \
                 decoder_step(i64[1, 1], h[layers, 1, n], c[layers, 1, n]) and joint(f[1, 1, n], g[1, \
                 1, n]); the package has {}",
                programs.methods()
            )));
        };
        let has_durations = joint.signature.outputs.len() > 1;
        programs.expect_contract(if has_durations { "parakeet_tdt" } else { "parakeet_rnnt" })?;
        for step in [&preprocessor, &encoder, &predict, &joint] {
            programs.load(step)?;
        }
        let blank = programs.int("blank_id").or(programs.int("vocab_size"));
        let blank = blank.and_then(|id| u32::try_from(id).ok());
        let blank = blank.ok_or_else(|| {
            programs.error("the program has neither blank_id nor vocab_size, ids from 0")
        })?;
        let rate = programs.size("sample_rate").unwrap_or(16_000);
        let stride = programs.float("window_stride").unwrap_or(0.01);
        let rows = programs.size("encoder_subsampling_factor").unwrap_or(8);
        let row = Duration::try_from_secs_f64(stride * rows as f64);
        let row = row.map_err(|_| programs.error(format!("window_stride is {stride}")))?;
        let tokenizer = programs.tokenizer()?;
        let max_samples = preprocessor.input_sizes(0).first().copied().unwrap_or(0);
        Ok(Self {
            preprocessor,
            encoder,
            predict,
            joint,
            tokenizer,
            rate: SampleRate(u32::try_from(rate).unwrap_or(u32::MAX)),
            blank,
            row,
            max_samples,
            programs,
        })
    }

    /// Runs preprocessor and encoder: values of all rows, and the number of rows.
    fn encode(&mut self, samples: &[f32]) -> Result<(Tensor, usize), NodeError> {
        let mut samples = samples.to_vec();
        if samples.len() < MIN_SAMPLES {
            samples.resize(MIN_SAMPLES, 0.0);
        }
        let len = [i64::try_from(samples.len()).unwrap_or(i64::MAX)];
        let sizes = [samples.len()];
        let audio = tensor_of(&samples, &sizes, self.preprocessor.input_dtype(0))?;
        let inputs = [Input::Tensor(audio.view()), Input::Tensor(TensorView::new(&[1], &len)?)];
        let outputs = self.programs.run(&self.preprocessor, &inputs)?;
        let (mel, mel_len) = (copy(&outputs.tensor(0)?)?, copy(&outputs.tensor(1)?)?);
        let inputs = [Input::Tensor(mel.view()), Input::Tensor(mel_len.view())];
        let outputs = self.programs.run(&self.encoder, &inputs)?;
        let (rows, len) = (copy(&outputs.tensor(0)?)?, integer(&outputs, 1)?);
        let count = rows.sizes().get(1).copied().unwrap_or(0);
        Ok((rows, usize::try_from(len).unwrap_or(0).min(count)))
    }

    /// Decodes greedily, as the reference runner.
    fn decode(&mut self, rows: &Tensor, count: usize) -> Result<Vec<Said>, NodeError> {
        let zeros = |step: &Step, index: usize| {
            Tensor::try_zeros(step.input_dtype(index), step.input_sizes(index))
        };
        let state = (zeros(&self.predict, 1)?, zeros(&self.predict, 2)?);
        let (mut predicted, mut state) = self.predict(self.blank, &state)?;
        let has_durations = self.joint.signature.outputs.len() > 1;
        let (mut row, mut tokens_of_row, mut said) = (0, 0, Vec::new());
        while row < count {
            let frame = slice_row(rows, row)?;
            let inputs = [Input::Tensor(frame.view()), Input::Tensor(predicted.view())];
            let outputs = self.programs.run(&self.joint, &inputs)?;
            let token = integer(&outputs, 0)?;
            let duration = if has_durations { integer(&outputs, 1)? } else { 0 };
            let token = u32::try_from(token).unwrap_or(self.blank);
            let duration = usize::try_from(duration).ok().and_then(|at| DURATIONS.get(at));
            let duration = duration.copied().unwrap_or(0);
            if token == self.blank {
                (row, tokens_of_row) = (row + duration.max(1), 0);
                continue;
            }
            said.push(Said { token, row, rows: duration });
            (predicted, state) = self.predict(token, &state)?;
            tokens_of_row = if duration == 0 { tokens_of_row + 1 } else { 0 };
            row += duration;
            if tokens_of_row >= MAX_TOKENS_PER_ROW {
                (row, tokens_of_row) = (row + 1, 0);
            }
        }
        Ok(said)
    }

    /// Runs the prediction network after `token`: its result and its state.
    fn predict(
        &mut self,
        token: u32,
        state: &(Tensor, Tensor),
    ) -> Result<(Tensor, (Tensor, Tensor)), NodeError> {
        let token = [i64::from(token)];
        let inputs = [
            Input::Tensor(TensorView::new(&[1, 1], &token)?),
            Input::Tensor(state.0.view()),
            Input::Tensor(state.1.view()),
        ];
        let outputs = self.programs.run(&self.predict, &inputs)?;
        let tensor = |index| copy(&outputs.tensor(index)?);
        Ok((tensor(0)?, (tensor(1)?, tensor(2)?)))
    }

    /// Words of tokens.
    fn words(&self, said: &[Said]) -> Result<Vec<SegmentWord>, NodeError> {
        let mut words = WordBuilder::new();
        let mut stream = afferent_text::DecodeStream::continuing();
        let at = |row: usize| self.row * u32::try_from(row).unwrap_or(u32::MAX);
        for one in said {
            let text = stream.push(&self.tokenizer, one.token);
            let text = text.map_err(|error| self.programs.error(error.to_string()))?;
            words.push(&text, at(one.row), at(one.row + one.rows.max(1)));
        }
        let word = |word: TimedWord<Duration>| {
            let TimedWord { text, start, end } = word;
            SegmentWord { text, start, end }
        };
        Ok(words.take().into_iter().map(word).collect())
    }
}

impl SegmentModel for Transducer {
    fn rate(&self) -> SampleRate {
        self.rate
    }

    fn max_len(&self) -> Duration {
        self.rate.duration(self.max_samples)
    }

    fn recognize(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        _: bool,
    ) -> Result<Recognized, NodeError> {
        let said = cx.time_model(|| {
            let (rows, count) = self.encode(samples)?;
            self.decode(&rows, count)
        })?;
        Ok(Recognized { words: self.words(&said)?, language: String::new() })
    }
}

/// Copy of a tensor: an output is overwritten by the next run.
fn copy(view: &TensorView<'_>) -> Result<Tensor, afferent_core::Error> {
    Tensor::from_bytes(view.dtype(), view.sizes(), view.dim_order(), view.bytes())
}

/// Row `index` of a tensor `[1, rows, width]`, as `[1, 1, width]`.
fn slice_row(rows: &Tensor, index: usize) -> Result<Tensor, afferent_core::Error> {
    let width = rows.sizes().last().copied().unwrap_or(0);
    let bytes = rows.view().bytes().len() / rows.numel().max(1) * width;
    let data = rows.view();
    Tensor::from_bytes(
        rows.dtype(),
        &[1, 1, width],
        &[0, 1, 2],
        &data.bytes()[index * bytes..(index + 1) * bytes],
    )
}

/// Output `index`, an integer or a tensor with one.
fn integer(outputs: &ModelOutputs<'_>, index: usize) -> Result<i64, afferent_core::Error> {
    if let afferent_runtime::Output::Int(value) = outputs.get(index)? {
        return Ok(value);
    }
    let tensor = outputs.tensor(index)?;
    match tensor.dtype() {
        ScalarType::Int => Ok(tensor.data::<i32>()?.first().map_or(0, |&value| i64::from(value))),
        _ => Ok(tensor.data::<i64>()?.first().copied().unwrap_or(0)),
    }
}
