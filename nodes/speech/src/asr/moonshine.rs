//! Moonshine: an encoder of samples, and a decoder that reads the whole transcript for each token.

use std::time::Duration;

use afferent_core::{ScalarType, TensorView, read_floats, tensor_of};
use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;
use afferent_runtime::{Input, ModelFile};
use afferent_text::Tokenizer;

use super::segments::{Recognized, SegmentModel, spread_words};
use crate::programs::{Programs, Step};

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "moonshine-rne@0.3";
/// Method of the decoder.
const DECODER: &str = "forward_cached";
const RATE: SampleRate = SampleRate(16_000);
/// Least samples of the encoder; shorter audio is continued with silence.
const MIN_SAMPLES: usize = 8000;
const START: i64 = 1;
const END: i64 = 2;

/// A Moonshine of react-native-executorch.
pub(super) struct Moonshine {
    programs: Programs,
    encoder: Step,
    decoder: Step,
    tokenizer: Tokenizer,
}

/// Encoder and decoder of the programs.
fn methods(programs: &[(&str, &ModelFile)]) -> Option<[Step; 2]> {
    let find = |name: &str, forms: &[&str]| {
        Step::find(programs, &[name]).filter(|step| step.has_inputs(forms))
    };
    let decoder = find(DECODER, &["i2", "f3"])?;
    let output = decoder.signature.tensor_outputs()?.first()?.dtype;
    let has_ids = matches!(output, ScalarType::Long | ScalarType::Int);
    has_ids.then_some([find("encoder", &["f2"])?, decoder])
}

/// Contract of the programs, if they are a Moonshine.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    methods(programs).map(|_| CONTRACT)
}

impl Moonshine {
    /// True if `programs` have the method that only this model has.
    pub(super) fn is_in(programs: &Programs) -> bool {
        programs.find(&[DECODER]).is_some()
    }

    /// Checks the programs and the tokenizer.
    pub(super) fn open(mut programs: Programs) -> Result<Self, NodeError> {
        let Some([encoder, decoder]) = methods(&programs.files()) else {
            return Err(programs.error(format!(
                "programs encoder with forward(f32[1, samples]) and decoder with {DECODER}(i64[1, n], rows) \
                 -> i64 were expected; the package has {}",
                programs.methods()
            )));
        };
        programs.expect_contract(CONTRACT)?;
        let tokenizer = programs.tokenizer()?;
        for step in [&encoder, &decoder] {
            programs.load(step)?;
        }
        Ok(Self { programs, encoder, decoder, tokenizer })
    }

    fn transcribe(&mut self, samples: &[f32]) -> Result<String, NodeError> {
        let Self { programs, encoder, decoder, tokenizer } = self;
        let most = encoder.input_sizes(0)[1];
        let is_static = encoder.inputs().is_some_and(|inputs| inputs[0].2);
        let least = if is_static { most } else { MIN_SAMPLES.min(most) };
        let mut sound = samples[..samples.len().min(most)].to_vec();
        sound.resize(sound.len().max(least), 0.0);
        let input = tensor_of(&sound, &[1, sound.len()], encoder.input_dtype(0))?;
        let outputs = programs.run(encoder, &[Input::Tensor(input.view())])?;
        let rows = outputs.tensor(0)?;
        let (sizes, mut values) = (rows.sizes().to_vec(), Vec::new());
        read_floats(&rows, &mut values)?;
        let rows = tensor_of(&values, &sizes, decoder.input_dtype(1))?;
        let mut tokens = vec![START];
        while tokens.len() < decoder.input_sizes(0)[1] {
            let sizes = [1, tokens.len()];
            let said = Input::Tensor(TensorView::new(&sizes, &tokens)?);
            let outputs = programs.run(decoder, &[said, Input::Tensor(rows.view())])?;
            let next = last_id(&outputs.tensor(0)?)?;
            if next == END {
                break;
            }
            tokens.push(next);
        }
        let tokens: Vec<u32> =
            tokens[1..].iter().filter_map(|&token| u32::try_from(token).ok()).collect();
        tokenizer.decode(&tokens).map_err(|error| programs.error(error.to_string()))
    }
}

/// The last of the ids.
fn last_id(ids: &TensorView<'_>) -> Result<i64, afferent_core::Error> {
    let last = match ids.dtype() {
        ScalarType::Int => ids.data::<i32>()?.last().copied().map(i64::from),
        _ => ids.data::<i64>()?.last().copied(),
    };
    Ok(last.unwrap_or(END))
}

impl SegmentModel for Moonshine {
    fn rate(&self) -> SampleRate {
        RATE
    }

    fn max_len(&self) -> Duration {
        RATE.duration(self.encoder.input_sizes(0)[1])
    }

    fn recognize(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        _: bool,
    ) -> Result<Recognized, NodeError> {
        let text = cx.time_model(|| self.transcribe(samples))?;
        let words = spread_words(&text, 0.0, RATE.duration(samples.len()).as_secs_f64());
        Ok(Recognized { words, language: "en".to_owned() })
    }
}
