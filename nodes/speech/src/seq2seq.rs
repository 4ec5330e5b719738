//! Decoders of encoder-decoder models: Whisper, T5.

use afferent_core::{ScalarType, Tensor, TensorView, read_floats};
use afferent_graph::NodeError;
use afferent_runtime::Input;

use crate::programs::{Programs, Step, is_float};

/// Inputs of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecoderForm {
    /// (token i64[1, 1], rows, position i64[1]): ExecuTorch and optimum.
    Token,
    /// (tokens i64[1, n], positions i64[n], rows): react-native-executorch from 0.8.
    Positions,
    /// (tokens i64[1, n], rows), without a cache: react-native-executorch 0.6 and 0.7.
    Whole,
    /// (rows, tokens i64[1, N]) of a fixed length, without a cache.
    Padded(usize),
}

/// A decoder with the rows of the encoder that it reads.
pub(crate) struct Decoder {
    step: Step,
    pub(crate) form: DecoderForm,
    /// Result of the encoder.
    rows: Tensor,
    /// Tokens that the decoder has read.
    tokens: Vec<u32>,
}

impl Decoder {
    /// The decoder `step`, if its inputs have one of the forms.
    pub(crate) fn of(step: Step) -> Option<Self> {
        let form = decoder_form(&step)?;
        Some(Self { step, form, rows: Tensor::zeros(ScalarType::Float, &[0]), tokens: Vec::new() })
    }

    /// The method of the decoder.
    pub(crate) fn step(&self) -> &Step {
        &self.step
    }

    /// Number of tokens of the vocabulary.
    pub(crate) fn vocabulary_size(&self) -> usize {
        self.step.output_sizes(0).last().copied().unwrap_or(0)
    }

    /// Most tokens of a sequence, if the inputs limit it.
    pub(crate) fn limit(&self) -> Option<usize> {
        match self.form {
            DecoderForm::Padded(len) => Some(len),
            DecoderForm::Whole => self.step.input_sizes(0).last().copied(),
            DecoderForm::Token | DecoderForm::Positions => None,
        }
    }

    /// Begins a sequence. `rows` is copied: the encoder may be a method of the same program.
    pub(crate) fn begin(&mut self, rows: &TensorView<'_>) -> Result<(), NodeError> {
        self.rows = Tensor::from_bytes(rows.dtype(), rows.sizes(), rows.dim_order(), rows.bytes())?;
        self.tokens.clear();
        Ok(())
    }

    /// Writes the logits of the token that follows `tokens` to `out`. Tokens that were read before are
    /// not read again if the decoder has a cache.
    pub(crate) fn logits(
        &mut self,
        programs: &mut Programs,
        tokens: &[u32],
        out: &mut Vec<f32>,
    ) -> Result<(), NodeError> {
        let common = tokens.iter().zip(&self.tokens).take_while(|(a, b)| a == b).count();
        // The cache has no logits: the last token is always read.
        let start = common.min(tokens.len().saturating_sub(1));
        self.tokens.clear();
        self.tokens.extend_from_slice(tokens);
        match self.form {
            DecoderForm::Token => {
                for position in start..tokens.len() {
                    self.run(programs, &tokens[position..=position], position, 0, out)?;
                }
                Ok(())
            }
            DecoderForm::Positions => {
                let most = self.step.input_sizes(0).last().copied().unwrap_or(1).max(1);
                let mut position = start;
                for part in tokens[start..].chunks(most) {
                    self.run(programs, part, position, part.len() - 1, out)?;
                    position += part.len();
                }
                Ok(())
            }
            DecoderForm::Whole | DecoderForm::Padded(_) => {
                self.run(programs, tokens, 0, tokens.len() - 1, out)
            }
        }
    }

    /// Runs the decoder on tokens from `position` on. Writes the logits of row `row`.
    fn run(
        &self,
        programs: &mut Programs,
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
        let ids = match self.step.input_dtype(index) {
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
            DecoderForm::Token => programs.run(&self.step, &[ids, rows, positions])?,
            DecoderForm::Positions => programs.run(&self.step, &[ids, positions, rows])?,
            DecoderForm::Whole => programs.run(&self.step, &[ids, rows])?,
            DecoderForm::Padded(_) => programs.run(&self.step, &[rows, ids])?,
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
