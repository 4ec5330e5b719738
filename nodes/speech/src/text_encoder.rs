//! Programs that read a text at once, such as BERT.

use afferent_core::{ScalarType, TensorView, read_floats};
use afferent_graph::NodeError;
use afferent_runtime::{Input, ModelFile};
use afferent_text::Tokenizer;

use crate::programs::{Programs, Step, is_float};

/// Names of tokens that fill up a text.
const PADS: [&str; 4] = ["[PAD]", "<pad>", "<|pad|>", "<|endoftext|>"];

/// A program `forward(ids i64[1, n], mask i64[1, n])` with one output, and its tokenizer. The mask may be
/// absent.
pub(crate) struct TextEncoder {
    pub(crate) programs: Programs,
    step: Step,
    tokenizer: Tokenizer,
    form: Form,
}

/// Form of the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    /// Most tokens.
    most: usize,
    /// True if the program takes this number of tokens only.
    is_fixed: bool,
    has_mask: bool,
    /// Token that fills up a text.
    pad: u32,
}

/// Values that a program returns for a text.
pub(crate) struct Encoded {
    /// Tokens of the text, without padding.
    pub(crate) tokens: usize,
    /// Sizes of the output.
    pub(crate) sizes: Vec<usize>,
}

/// The method `forward`, if it reads text and returns a tensor of floating-point numbers.
pub(crate) fn method(programs: &[(&str, &ModelFile)]) -> Option<Step> {
    let step = Step::find(programs, &["forward"])?;
    let is_long = |index: usize| step.input_dtype(index) == ScalarType::Long;
    let is_input = (step.has_inputs(&["i2", "i2"]) && is_long(1)) || step.has_inputs(&["i2"]);
    let output = step.signature.tensor_outputs()?;
    let [output] = output.as_slice() else { return None };
    let [1, _] = *step.input_sizes(0) else { return None };
    (is_input && is_long(0) && is_float(output.dtype)).then_some(step)
}

impl TextEncoder {
    /// Loads the method `step`, which [`method`] has found.
    pub(crate) fn new(mut programs: Programs, step: Step) -> Result<Self, NodeError> {
        let tokenizer = programs.tokenizer()?;
        programs.load(&step)?;
        let most = step.input_sizes(0).last().copied().unwrap_or(0);
        if most < 2 {
            return Err(
                programs.error(format!("it takes {most} tokens; it must take two at least"))
            );
        }
        let has_mask = step.signature.inputs.len() > 1;
        let is_fixed = step.signature.tensor_inputs().is_some_and(|all| all[0].is_static);
        let pad = PADS.iter().find_map(|name| tokenizer.token_id(name)).unwrap_or(0);
        let form = Form { most, is_fixed, has_mask, pad };
        Ok(Self { programs, step, tokenizer, form })
    }

    /// Runs the program on `text`, and writes its output to `values`.
    pub(crate) fn run(&mut self, text: &str, values: &mut Vec<f32>) -> Result<Encoded, NodeError> {
        let ids = self.tokenizer.encode_with_special(text);
        let ids = ids.map_err(|error| self.programs.error(error.to_string()))?;
        let Form { most, is_fixed, has_mask, pad } = self.form;
        let mut ids: Vec<i64> = ids.into_iter().map(i64::from).collect();
        if ids.len() > most {
            let found = ids.len();
            tracing::warn!("a text has {found} tokens, the model takes {most}: it is cut");
            // The last token of a text, such as [SEP], stays.
            ids.drain(most - 1..found - 1);
        }
        let tokens = ids.len();
        let mut mask = vec![1_i64; tokens];
        if is_fixed {
            ids.resize(most, i64::from(pad));
            mask.resize(most, 0);
        }
        let sizes = [1, ids.len()];
        let ids = Input::Tensor(TensorView::new(&sizes, &ids)?);
        let inputs = [ids, Input::Tensor(TensorView::new(&sizes, &mask)?)];
        let inputs = if has_mask { &inputs[..] } else { &inputs[..1] };
        let outputs = self.programs.run(&self.step, inputs)?;
        let result = outputs.tensor(0)?;
        read_floats(&result, values)?;
        Ok(Encoded { tokens, sizes: result.sizes().to_vec() })
    }
}
