//! Programs of Whisper, in the forms of their exporters.

use afferent_core::{ScalarType, Tensor, TensorView};
use afferent_graph::NodeError;
use afferent_runtime::{Input, ModelFile};

use crate::{
    asr::mel::WhisperMel,
    programs::{Programs, Step, is_float, read_floats, tensor_of},
};

/// Columns of the log-mel features: 30 s.
const COLUMNS: usize = 3000;
/// Samples of these columns.
const LEN: usize = COLUMNS * 160;
/// Least audio that encoders of sound get, in samples.
const MIN_SAMPLES: usize = 16_000;
/// Most tokens of a transcript with its prompt.
const MAX_POSITIONS: usize = 448;
/// Greatest difference between the features of a preprocessor program and ours.
const MEL_TOLERANCE: f32 = 1e-3;

/// Encoder and decoder.
pub(super) struct WhisperModel {
    pub(super) programs: Programs,
    input: EncoderInput,
    encoder: Step,
    decoder: Step,
    form: DecoderForm,
    /// Result of the encoder.
    rows: Tensor,
    /// Tokens that the decoder has read.
    tokens: Vec<u32>,
    mel: Vec<f32>,
    pub(super) max_tokens: usize,
    pub(super) vocabulary_size: usize,
}

/// Input of the encoder.
enum EncoderInput {
    /// Log-mel features `[1, bands, 3000]`.
    Mel(Box<WhisperMel>),
    /// Log-mel features by a program of the package that computes others.
    Program(Step),
    /// Samples at 16 kHz `[n]`.
    Sound,
}

/// Inputs of the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecoderForm {
    /// (token i64[1, 1], rows, position i64[1]): ExecuTorch and optimum.
    Token,
    /// (tokens i64[1, n], positions i64[n], rows): react-native-executorch from 0.8.
    Positions,
    /// (tokens i64[1, n], rows), without a cache: react-native-executorch 0.6 and 0.7.
    Whole,
    /// (rows, tokens i64[1, N]) of a fixed length, without a cache.
    Padded(usize),
}

/// Methods of a Whisper, and their form.
struct Methods {
    encoder: Step,
    decoder: Step,
    form: DecoderForm,
    /// Mel bands of the input of the encoder; `None` if it takes sound.
    bands: Option<usize>,
}

impl Methods {
    /// Finds the methods, and tells their form by their inputs.
    fn find(programs: &[(&str, &ModelFile)]) -> Option<Self> {
        let encoder = Step::find(programs, &["encoder", "encode"])?;
        let decoder = Step::find(programs, &["text_decoder", "decoder", "decode"])?;
        let form = decoder_form(&decoder)?;
        let bands = match *encoder.inputs()?.as_slice() {
            [(dtype, [_, bands, COLUMNS], _)] if is_float(dtype) => Some(*bands),
            [(ScalarType::Float, [_], _)] => None,
            _ => return None,
        };
        Some(Self { encoder, decoder, form, bands })
    }

    /// Name of the contract in `model.yaml`.
    fn contract(&self) -> &'static str {
        match self.form {
            DecoderForm::Token => "whisper",
            DecoderForm::Positions => "whisper-rne@0.8",
            DecoderForm::Whole => "whisper-rne@0.6",
            DecoderForm::Padded(_) => "whisper-padded",
        }
    }
}

/// Contract of the programs, if they are a Whisper.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    Methods::find(programs).map(|methods| methods.contract())
}

impl WhisperModel {
    /// Finds the methods of `programs` and their form.
    pub(super) fn open(mut programs: Programs) -> Result<Self, NodeError> {
        let Some(methods) = Methods::find(&programs.files()) else {
            return Err(programs.error(format!(
                "an encoder and a decoder were expected: encoder(mel[1, 80 or 128, 3000]) or \
                 encode(f32[n]), and text_decoder(i64[1, 1], rows, i64[1]), decode(i64[1, n], i64[n], \
                 rows) or decoder(i64[1, n], rows); the package has {}",
                programs.methods()
            )));
        };
        programs.expect_contract(methods.contract())?;
        let Methods { encoder, decoder, form, bands } = methods;
        let vocabulary_size = decoder.output_sizes(0).last().copied().unwrap_or(0);
        let context = programs.size("get_max_seq_len").unwrap_or(MAX_POSITIONS);
        let max_tokens = match form {
            DecoderForm::Padded(len) => len,
            DecoderForm::Whole => decoder.input_sizes(0).last().copied().unwrap_or(0),
            DecoderForm::Token | DecoderForm::Positions => context,
        };
        for step in [&encoder, &decoder] {
            programs.load(step)?;
        }
        let input = match bands {
            None => EncoderInput::Sound,
            Some(bands) => mel_input(&mut programs, bands)?,
        };
        Ok(Self {
            input,
            encoder,
            decoder,
            form,
            rows: Tensor::zeros(ScalarType::Float, &[0]),
            tokens: Vec::new(),
            mel: Vec::new(),
            max_tokens: max_tokens.min(MAX_POSITIONS),
            vocabulary_size,
            programs,
        })
    }

    /// Runs the encoder on `samples` at 16 kHz.
    pub(super) fn encode(&mut self, samples: &[f32]) -> Result<(), NodeError> {
        let features;
        let input = match &mut self.input {
            EncoderInput::Sound => {
                let mut samples = samples.to_vec();
                samples.resize(samples.len().max(MIN_SAMPLES), 0.0);
                features = Tensor::from_slice(&samples);
                &features
            }
            EncoderInput::Mel(mel) => {
                mel.compute(samples, LEN, &mut self.mel);
                let bands = self.mel.len() / COLUMNS;
                let dtype = self.encoder.input_dtype(0);
                features = tensor_of(&self.mel, &[1, bands, COLUMNS], dtype)?;
                &features
            }
            EncoderInput::Program(step) => {
                run_mel(&mut self.programs, step, samples, &mut self.mel)?;
                let bands = self.mel.len() / COLUMNS;
                let dtype = self.encoder.input_dtype(0);
                features = tensor_of(&self.mel, &[1, bands, COLUMNS], dtype)?;
                &features
            }
        };
        let outputs = self.programs.run(&self.encoder, &[Input::Tensor(input.view())])?;
        // Copied: the decoder may be a method of the same program.
        let rows = outputs.tensor(0)?;
        self.rows = Tensor::from_bytes(rows.dtype(), rows.sizes(), rows.dim_order(), rows.bytes())?;
        self.tokens.clear();
        Ok(())
    }

    /// Writes the logits of the token that follows `tokens` to `out`. Tokens that were read before are
    /// not read again if the decoder has a cache.
    pub(super) fn logits(&mut self, tokens: &[u32], out: &mut Vec<f32>) -> Result<(), NodeError> {
        let common = tokens.iter().zip(&self.tokens).take_while(|(a, b)| a == b).count();
        // The cache has no logits: the last token is always read.
        let start = common.min(tokens.len().saturating_sub(1));
        self.tokens.clear();
        self.tokens.extend_from_slice(tokens);
        match self.form {
            DecoderForm::Token => {
                for position in start..tokens.len() {
                    self.run(&tokens[position..=position], position, 0, out)?;
                }
                Ok(())
            }
            DecoderForm::Positions => {
                let most = self.decoder.input_sizes(0).last().copied().unwrap_or(1).max(1);
                let mut position = start;
                for part in tokens[start..].chunks(most) {
                    self.run(part, position, part.len() - 1, out)?;
                    position += part.len();
                }
                Ok(())
            }
            DecoderForm::Whole | DecoderForm::Padded(_) => {
                self.run(tokens, 0, tokens.len() - 1, out)
            }
        }
    }

    /// Runs the decoder on tokens from `position` on. Writes the logits of row `row`.
    fn run(
        &mut self,
        tokens: &[u32],
        position: usize,
        row: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), NodeError> {
        let mut ids: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
        if let DecoderForm::Padded(len) = self.form {
            ids.resize(len, 0);
        }
        let index = match self.form {
            DecoderForm::Padded(_) => 1,
            _ => 0,
        };
        let narrow: Vec<i32> = ids.iter().map(|&id| i32::try_from(id).unwrap_or(0)).collect();
        let sizes = [1, ids.len()];
        let ids = match self.decoder.input_dtype(index) {
            ScalarType::Int => TensorView::new(&sizes, &narrow)?,
            _ => TensorView::new(&sizes, &ids)?,
        };
        // Positions are below 448.
        let positions: Vec<i64> =
            (position..position + tokens.len()).map(|position| position as i64).collect();
        let position_sizes = [positions.len()];
        let positions = Input::Tensor(TensorView::new(&position_sizes, &positions)?);
        let (ids, rows) = (Input::Tensor(ids), Input::Tensor(self.rows.view()));
        let outputs = match self.form {
            DecoderForm::Token => self.programs.run(&self.decoder, &[ids, rows, positions])?,
            DecoderForm::Positions => self.programs.run(&self.decoder, &[ids, positions, rows])?,
            DecoderForm::Whole => self.programs.run(&self.decoder, &[ids, rows])?,
            DecoderForm::Padded(_) => self.programs.run(&self.decoder, &[rows, ids])?,
        };
        let logits = outputs.tensor(0)?;
        read_floats(&logits, out)?;
        // A decoder may return only its last row.
        let width = logits.sizes().last().copied().unwrap_or(0).max(1);
        let row = row.min((out.len() / width).saturating_sub(1));
        out.drain(..(row * width).min(out.len()));
        out.truncate(width);
        Ok(())
    }
}

/// Form of the decoder by the types and ranks of its inputs.
fn decoder_form(decoder: &Step) -> Option<DecoderForm> {
    let is_id = |dtype: ScalarType| matches!(dtype, ScalarType::Long | ScalarType::Int);
    match *decoder.inputs()?.as_slice() {
        [(ids, [1, 1], _), (rows, [_, _, _], _), (ScalarType::Long, [1], _)]
            if is_id(ids) && is_float(rows) =>
        {
            Some(DecoderForm::Token)
        }
        [(ids, [1, _], _), (ScalarType::Long, [_], _), (rows, [_, _, _], _)]
            if is_id(ids) && is_float(rows) =>
        {
            Some(DecoderForm::Positions)
        }
        [(ids, [1, _], false), (rows, [_, _, _], _)] if is_id(ids) && is_float(rows) => {
            Some(DecoderForm::Whole)
        }
        [(rows, [_, _, _], _), (ids, [1, len], true)] if is_id(ids) && is_float(rows) => {
            Some(DecoderForm::Padded(*len))
        }
        _ => None,
    }
}

/// Features of `bands` bands: ours, or those of a program of the package if it computes others.
fn mel_input(programs: &mut Programs, bands: usize) -> Result<EncoderInput, NodeError> {
    let mut mel = WhisperMel::new(bands);
    let Some(step) = programs.find(&["preprocessor", "mel", "mel_spectrogram"]) else {
        return Ok(EncoderInput::Mel(Box::new(mel)));
    };
    let is_mel =
        |sizes: &[usize]| matches!(*sizes, [_, of, columns] if of == bands && columns >= COLUMNS);
    if step.input_sizes(0).len() != 1 || !is_mel(step.output_sizes(0)) {
        let reason = format!(
            "the preprocessor must be (f32[n]) -> f32[1, {bands}, 3000]; the package has {}",
            programs.methods()
        );
        return Err(programs.error(reason));
    }
    // A second of a sweep that fills all bands.
    let sweep = |n: usize| (n as f32 * n as f32 * 7.5e-5).sin() * 0.3;
    let samples: Vec<f32> = (0..MIN_SAMPLES).map(sweep).collect();
    let (mut own, mut given) = (Vec::new(), Vec::new());
    mel.compute(&samples, LEN, &mut own);
    run_mel(programs, &step, &samples, &mut given)?;
    let is_same = own.len() == given.len()
        && own.iter().zip(&given).all(|(a, b)| (a - b).abs() <= MEL_TOLERANCE);
    Ok(if is_same { EncoderInput::Mel(Box::new(mel)) } else { EncoderInput::Program(step) })
}

/// Runs a preprocessor program on `samples`, at most 30 s. Writes 3000 columns.
fn run_mel(
    programs: &mut Programs,
    step: &Step,
    samples: &[f32],
    out: &mut Vec<f32>,
) -> Result<(), NodeError> {
    let sizes = [samples.len()];
    let input = tensor_of(samples, &sizes, step.input_dtype(0))?;
    let outputs = programs.run(step, &[Input::Tensor(input.view())])?;
    let mel = outputs.tensor(0)?;
    let columns = mel.sizes().last().copied().unwrap_or(0);
    read_floats(&mel, out)?;
    if columns != COLUMNS {
        return Err(programs.error(format!(
            "the preprocessor returned {columns} columns for {} samples; expected {COLUMNS}",
            samples.len()
        )));
    }
    Ok(())
}
