//! Programs of Whisper, in the forms of their exporters.

use afferent_core::{ScalarType, Tensor, read_floats, tensor_of};
use afferent_graph::NodeError;
use afferent_runtime::{Input, ModelFile};

use crate::{
    mel::WhisperMel,
    programs::{Programs, Step, is_float},
    seq2seq::{Decoder, DecoderForm},
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
    decoder: Decoder,
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

/// Methods of a Whisper, and their form.
struct Methods {
    encoder: Step,
    decoder: Decoder,
    /// Mel bands of the input of the encoder; `None` if it takes sound.
    bands: Option<usize>,
}

impl Methods {
    /// Finds the methods, and tells their form by their inputs.
    fn find(programs: &[(&str, &ModelFile)]) -> Option<Self> {
        let encoder = Step::find(programs, &["encoder", "encode"])?;
        let decoder = Step::find(programs, &["text_decoder", "decoder", "decode"])?;
        let decoder = Decoder::of(decoder)?;
        let bands = match *encoder.inputs()?.as_slice() {
            [(dtype, [_, bands, COLUMNS], _)] if is_float(dtype) => Some(*bands),
            [(ScalarType::Float, [_], _)] => None,
            _ => return None,
        };
        Some(Self { encoder, decoder, bands })
    }

    /// Name of the contract in `model.yaml`.
    fn contract(&self) -> &'static str {
        match self.decoder.form {
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
        let Methods { encoder, decoder, bands } = methods;
        let context = programs.size("get_max_seq_len").unwrap_or(MAX_POSITIONS);
        let max_tokens = decoder.limit().unwrap_or(context);
        for step in [&encoder, decoder.step()] {
            programs.load(step)?;
        }
        let input = match bands {
            None => EncoderInput::Sound,
            Some(bands) => mel_input(&mut programs, bands)?,
        };
        Ok(Self {
            input,
            encoder,
            vocabulary_size: decoder.vocabulary_size(),
            decoder,
            mel: Vec::new(),
            max_tokens: max_tokens.min(MAX_POSITIONS),
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
        self.decoder.begin(&outputs.tensor(0)?)
    }

    /// Writes the logits of the token that follows `tokens` to `out`.
    pub(super) fn logits(&mut self, tokens: &[u32], out: &mut Vec<f32>) -> Result<(), NodeError> {
        self.decoder.logits(&mut self.programs, tokens, out)
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
