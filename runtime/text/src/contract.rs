//! Inputs, outputs and metadata methods of a language model program.

use afferent_core::{Dynamism, ScalarType};
use afferent_runtime::{
    ModelFile,
    program::{MethodPlan, TensorMeta, Value},
};

use crate::TextError;

/// Method that computes logits.
pub(crate) const METHOD: &str = "forward";

/// Interface of a language model program: ExecuTorch Llama exports, and Hugging Face exports, which
/// take one position for each token.
///
/// `forward` takes token ids `i64 [1, S]` and, with a KV cache, positions. It returns logits
/// `[1, V]` of the last token or `[1, S, V]` of all tokens, in f32, f16 or bf16.
///
/// Metadata methods without inputs return the other fields. `get_max_context_len` or
/// `get_max_seq_len` is required. Optional are `use_kv_cache`, `get_max_prefill_chunk`,
/// `get_vocab_size`, `get_bos_id`, `get_eos_ids` (or `get_eos_id`) and `enable_dynamic_shape`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// Maximum number of tokens in the context, including generated tokens.
    pub max_context_len: usize,
    /// Maximum number of tokens in one run.
    pub max_prefill_chunk: usize,
    /// Position input of the program.
    pub positions: Positions,
    /// Number of tokens in the vocabulary of the model.
    pub vocab_size: usize,
    /// BOS token.
    pub bos: Option<u32>,
    /// EOS tokens.
    pub eos: Vec<u32>,
}

/// Position input of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions {
    /// No position input and no KV cache; each run gets all tokens of the context.
    None,
    /// Position of the first token, `i64 [1]`, as in ExecuTorch exports.
    First,
    /// Position of each token, `i64 [S]`, as in Hugging Face exports.
    PerToken,
}

impl Contract {
    /// Reads the contract of a program.
    ///
    /// # Errors
    /// [`TextError::Contract`].
    pub fn from_file(file: &ModelFile) -> Result<Self, TextError> {
        let error = |reason| TextError::Contract { path: file.path().to_owned(), reason };
        let read = || {
            let plan = file.method(METHOD).map_err(|error| error.to_string())?;
            Self::read(file, &plan)
        };
        read().map_err(error)
    }

    fn read(file: &ModelFile, plan: &MethodPlan<'_>) -> Result<Self, String> {
        let (tokens, positions) = (input(plan, 0)?, input(plan, 1)?);
        let tokens = tokens.ok_or("forward has no token input")?;
        if let Some(Value::Tensor(_)) = plan.inputs().get(2).map(|id| plan.value(id as usize)) {
            return Err("forward has more inputs than tokens and positions".to_owned());
        }
        let sizes: Vec<usize> = tokens.layout.sizes.iter().collect();
        let &[1, width] = sizes.as_slice() else {
            return Err(format!("input 0 has the sizes {sizes:?}, expected [1, sequence length]"));
        };
        let first = |name: &str| metadata(file, name).and_then(|list| list.first().copied());
        let count = |name: &str| first(name).and_then(|value| usize::try_from(value).ok());
        let is_static = tokens.dynamism == Dynamism::Static;
        let has_cache = first("use_kv_cache").map_or(positions.is_some(), |value| value != 0);
        let positions = match (has_cache, positions) {
            (false, None) => Positions::None,
            (true, Some(tensor)) if tensor.layout.nbytes == size_of::<i64>() => Positions::First,
            (true, Some(_)) => Positions::PerToken,
            (true, None) => {
                return Err("use_kv_cache is true, but forward has no position input".into());
            }
            (false, Some(_)) => {
                return Err("use_kv_cache is false, but forward has a position input".into());
            }
        };
        if width == 0 || is_static && (width > 1 || !has_cache) {
            return Err(format!(
                "input 0 has the sequence length {width}; expected a dynamic length, or 1 with a \
                 KV cache"
            ));
        }
        let max_chunk = count("get_max_prefill_chunk").filter(|&max| max > 0).unwrap_or(width);
        let chunk = match first("enable_dynamic_shape") {
            Some(0) => 1,
            _ => width.min(max_chunk),
        };
        let context = count("get_max_context_len").or(count("get_max_seq_len"));
        let context =
            context.ok_or("the program has neither get_max_context_len nor get_max_seq_len")?;
        let logits = logits_width(plan)?;
        let vocab_size =
            count("get_vocab_size").filter(|&size| size > 0).unwrap_or(logits).min(logits);
        let token = |value: i64| u32::try_from(value).ok().filter(|&id| (id as usize) < vocab_size);
        let eos =
            metadata(file, "get_eos_ids").or(metadata(file, "get_eos_id")).unwrap_or_default();
        Ok(Self {
            max_context_len: if has_cache { context } else { context.min(width) },
            max_prefill_chunk: if has_cache { chunk } else { width },
            positions,
            vocab_size,
            bos: first("get_bos_id").and_then(token),
            eos: eos.into_iter().filter_map(token).collect(),
        })
    }
}

/// Input `index` of the method, an i64 tensor; `None` if the method has fewer inputs.
fn input<'a>(plan: &MethodPlan<'a>, index: usize) -> Result<Option<TensorMeta<'a>>, String> {
    let Some(id) = plan.inputs().get(index) else { return Ok(None) };
    match plan.value(id as usize) {
        Value::Tensor(tensor) if tensor.layout.dtype == ScalarType::Long => Ok(Some(tensor)),
        Value::Tensor(tensor) => {
            Err(format!("input {index} is {}, expected i64", tensor.layout.dtype.name()))
        }
        _ => Err(format!("input {index} is not a tensor")),
    }
}

/// Size of the last dimension of output 0.
fn logits_width(plan: &MethodPlan<'_>) -> Result<usize, String> {
    let id = plan.outputs().get(0).ok_or("forward has no output")?;
    let Value::Tensor(logits) = plan.value(id as usize) else {
        return Err("output 0 is not a tensor".to_owned());
    };
    let dtype = logits.layout.dtype;
    if !matches!(dtype, ScalarType::Float | ScalarType::Half | ScalarType::BFloat16) {
        return Err(format!("output 0 is {}, expected logits in f32, f16 or bf16", dtype.name()));
    }
    let width = logits.layout.sizes.iter().next_back().filter(|&width| width > 0);
    width.ok_or_else(|| "output 0 has no logits".to_owned())
}

/// Constant result of the metadata method `name`: integers or booleans.
fn metadata(file: &ModelFile, name: &str) -> Option<Vec<i64>> {
    let plan = file.program().method(name)?;
    if plan.num_instructions() > 0 {
        return None;
    }
    let scalar = |id: u32| match plan.value(id as usize) {
        Value::Int(value) => Some(value),
        Value::Bool(value) => Some(i64::from(value)),
        _ => None,
    };
    let mut list = Vec::new();
    for id in plan.outputs().iter() {
        match plan.value(id as usize) {
            Value::IntList(ids) => list.extend(ids.iter().filter_map(scalar)),
            _ => list.push(scalar(id)?),
        }
    }
    Some(list)
}
