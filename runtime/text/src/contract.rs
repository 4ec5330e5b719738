//! What a program of a language model takes and gives.

use afferent_core::{Dynamism, ScalarType};
use afferent_runtime::{
    ModelFile,
    program::{MethodPlan, TensorMeta, Value},
};

use crate::TextError;

/// The method that gives logits.
pub(crate) const METHOD: &str = "forward";

/// What a program of a language model takes and gives: ExecuTorch's Llama exports, and those that
/// take positions as models of Hugging Face do.
///
/// `forward` takes tokens `i64 [1, S]` and, if it has a cache, where they stand; it gives logits
/// `[1, V]` of the last token or `[1, S, V]` of all, in f32, f16 or bf16. Methods without inputs
/// say the rest: `get_max_context_len` or `get_max_seq_len`, and where they are there
/// `use_kv_cache`, `get_max_prefill_chunk`, `get_vocab_size`, `get_bos_id`, `get_eos_ids` (or
/// `get_eos_id`), and `enable_dynamic_shape`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// Most tokens of a conversation, answers included.
    pub context: usize,
    /// Most tokens of one run.
    pub chunk: usize,
    /// How the program learns where tokens stand.
    pub positions: Positions,
    /// Tokens that the model knows.
    pub vocabulary: usize,
    /// The token that a text starts with.
    pub begin: Option<u32>,
    /// Tokens that end an answer.
    pub end: Vec<u32>,
}

/// How a program learns where tokens stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions {
    /// It has no cache, and gets all tokens in every run.
    None,
    /// The position of the first token, `i64 [1]`, as in ExecuTorch's exports.
    First,
    /// That of each token, `i64 [S]`, as in those of Hugging Face.
    Each,
}

impl Contract {
    /// What the program says.
    ///
    /// # Errors
    /// [`TextError::Contract`].
    pub fn of(file: &ModelFile) -> Result<Self, TextError> {
        let wrong = |reason| TextError::Contract { path: file.path().to_owned(), reason };
        let read = || {
            let plan = file.method(METHOD).map_err(|error| error.to_string())?;
            Self::read(file, &plan)
        };
        read().map_err(wrong)
    }

    fn read(file: &ModelFile, plan: &MethodPlan<'_>) -> Result<Self, String> {
        let (tokens, positions) = (input(plan, 0)?, input(plan, 1)?);
        let tokens = tokens.ok_or("forward takes no tokens")?;
        if let Some(Value::Tensor(_)) = plan.inputs().get(2).map(|id| plan.value(id as usize)) {
            return Err("forward takes more than tokens and positions".to_owned());
        }
        let sizes: Vec<usize> = tokens.layout.sizes.iter().collect();
        let &[1, width] = sizes.as_slice() else {
            return Err(format!("input 0 has the sizes {sizes:?}, not [1, tokens]"));
        };
        let first = |name: &str| ints(file, name).and_then(|list| list.first().copied());
        let count = |name: &str| first(name).and_then(|value| usize::try_from(value).ok());
        let fixed = tokens.dynamism == Dynamism::Static;
        let cached = first("use_kv_cache").map_or(positions.is_some(), |value| value != 0);
        let positions = match (cached, positions) {
            (false, None) => Positions::None,
            (true, Some(tensor)) if tensor.layout.nbytes == size_of::<i64>() => Positions::First,
            (true, Some(_)) => Positions::Each,
            (true, None) => {
                return Err("use_kv_cache is set, but forward takes no positions".into());
            }
            (false, Some(_)) => {
                return Err("use_kv_cache is not set, but forward takes positions".into());
            }
        };
        if width == 0 || fixed && (width > 1 || !cached) {
            return Err(format!(
                "forward takes exactly {width} tokens, neither one nor any number"
            ));
        }
        let most = count("get_max_prefill_chunk").filter(|&most| most > 0).unwrap_or(width);
        let chunk = match first("enable_dynamic_shape") {
            Some(0) => 1,
            _ => width.min(most),
        };
        let context = count("get_max_context_len").or(count("get_max_seq_len"));
        let context = context.ok_or("it has neither get_max_context_len nor get_max_seq_len")?;
        let vocabulary = width_of_logits(plan)?;
        let vocabulary =
            count("get_vocab_size").filter(|&size| size > 0).unwrap_or(vocabulary).min(vocabulary);
        let token = |value: i64| u32::try_from(value).ok().filter(|&id| (id as usize) < vocabulary);
        let end = ints(file, "get_eos_ids").or(ints(file, "get_eos_id")).unwrap_or_default();
        Ok(Self {
            context: if cached { context } else { context.min(width) },
            chunk: if cached { chunk } else { width },
            positions,
            vocabulary,
            begin: first("get_bos_id").and_then(token),
            end: end.into_iter().filter_map(token).collect(),
        })
    }
}

/// The tensor of integers that the method takes at `index`.
fn input<'a>(plan: &MethodPlan<'a>, index: usize) -> Result<Option<TensorMeta<'a>>, String> {
    let Some(id) = plan.inputs().get(index) else { return Ok(None) };
    match plan.value(id as usize) {
        Value::Tensor(tensor) if tensor.layout.dtype == ScalarType::Long => Ok(Some(tensor)),
        Value::Tensor(tensor) => {
            Err(format!("input {index} is {}, not i64", tensor.layout.dtype.name()))
        }
        _ => Err(format!("input {index} is no tensor")),
    }
}

/// The last extent of the first result.
fn width_of_logits(plan: &MethodPlan<'_>) -> Result<usize, String> {
    let id = plan.outputs().get(0).ok_or("forward gives nothing")?;
    let Value::Tensor(logits) = plan.value(id as usize) else {
        return Err("the first result is no tensor".to_owned());
    };
    let dtype = logits.layout.dtype;
    if !matches!(dtype, ScalarType::Float | ScalarType::Half | ScalarType::BFloat16) {
        return Err(format!("the first result is {}, not logits in floats", dtype.name()));
    }
    let width = logits.layout.sizes.iter().next_back().filter(|&width| width > 0);
    width.ok_or_else(|| "the logits are of no token".to_owned())
}

/// What the metadata method `name` returns: an integer, a truth value, or several.
fn ints(file: &ModelFile, name: &str) -> Option<Vec<i64>> {
    let plan = file.program().method(name)?;
    if plan.num_instructions() > 0 {
        return None;
    }
    let one = |id: u32| match plan.value(id as usize) {
        Value::Int(value) => Some(value),
        Value::Bool(value) => Some(i64::from(value)),
        _ => None,
    };
    let mut list = Vec::new();
    for id in plan.outputs().iter() {
        match plan.value(id as usize) {
            Value::IntList(ids) => list.extend(ids.iter().filter_map(one)),
            _ => list.push(one(id)?),
        }
    }
    Some(list)
}
