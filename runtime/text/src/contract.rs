//! Inputs, outputs and metadata methods of a language model program.

use afferent_core::{Dynamism, ScalarType};
use afferent_runtime::{
    ModelFile,
    program::{MethodPlan, TensorMeta, Value},
};

use crate::{
    Cache, TextError, TokenEmbedding,
    embedding::{DECODER, EMBEDDING},
};

/// Interface of a language model program: ExecuTorch Llama exports, and Hugging Face exports, which
/// take one position for each token.
///
/// A method takes token ids `i64 [1, S]` and, with a KV cache, positions. It returns logits
/// `[1, V]` of the last token or `[1, S, V]` of all tokens, in f32, f16 or bf16. It is one of:
///
/// * the method that the caller names;
/// * `forward`;
/// * the pair `prefill`, for two tokens or more, and `decode`, for one, with a common cache;
/// * the pair `token_embedding` and `text_decoder`, which takes embeddings instead of tokens
///   ([`TokenEmbedding`]): language models that see or hear;
/// * the only method of this form.
///
/// Metadata methods without inputs return the other fields. `get_max_context_len` or
/// `get_max_seq_len` is required. Optional are `use_kv_cache`, `get_max_prefill_chunk`,
/// `get_vocab_size`, `get_bos_id`, `get_eos_ids`, `get_eos_id`, `enable_dynamic_shape` and
/// `sliding_window`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// Method that computes logits.
    pub method: String,
    /// Method for single tokens, of a program with `prefill` and `decode`.
    pub decode: Option<DecodeMethod>,
    /// Embedding of the tokens, of a program with `token_embedding` and `text_decoder`.
    pub embedding: Option<TokenEmbedding>,
    /// Kind of the state.
    pub cache: Cache,
    /// True if the program keeps a state. Otherwise each run gets all tokens of the context.
    pub has_cache: bool,
    /// Maximum number of tokens in the context, including generated tokens.
    pub max_context_len: usize,
    /// Maximum number of tokens in one run.
    pub max_prefill_chunk: usize,
    /// Position input of the method.
    pub positions: Positions,
    /// True if a run returns the logits of all its tokens.
    pub has_all_logits: bool,
    /// Number of tokens in the vocabulary of the model.
    pub vocab_size: usize,
    /// BOS token.
    pub bos: Option<u32>,
    /// EOS tokens of `get_eos_ids` and `get_eos_id`.
    pub eos: Vec<u32>,
}

/// Method for single tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeMethod {
    /// Name of the method.
    pub method: String,
    /// Position input.
    pub positions: Positions,
}

/// Position input of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions {
    /// No position input.
    None,
    /// Position of the first token, `i64 [1]`, as in ExecuTorch exports.
    First,
    /// Position of each token, `i64 [S]`, as in Hugging Face exports.
    PerToken,
}

/// Choices that a program does not make itself, such as those of `model.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContractOptions {
    /// Method that computes logits; `None` chooses as [`Contract`] says.
    pub method: Option<String>,
    /// Kind of the state; `None` takes what the program says, or else [`Cache::Positional`].
    pub cache: Option<Cache>,
}

impl Contract {
    /// Reads the contract of a program.
    ///
    /// # Errors
    /// [`TextError::Contract`].
    pub fn from_file(file: &ModelFile) -> Result<Self, TextError> {
        Self::with_options(file, &ContractOptions::default())
    }

    /// As [`Contract::from_file`], with the choices of `options`.
    ///
    /// # Errors
    /// As [`Contract::from_file`].
    pub fn with_options(file: &ModelFile, options: &ContractOptions) -> Result<Self, TextError> {
        let error = |reason| TextError::Contract { path: file.path().to_owned(), reason };
        let known = options.cache;
        let program = file.program();
        let read = |name: &str| Self::read_method(file, name, known, None);
        if let Some(name) = &options.method {
            let plan = program.method(name);
            plan.ok_or_else(|| error(no_method(file, &format!("no method {name:?}"))))?;
            return read(name).map_err(error);
        }
        if program.method("forward").is_some() {
            return read("forward").map_err(error);
        }
        if program.method("prefill").is_some() && program.method("decode").is_some() {
            return Self::read_pair(file, known).map_err(error);
        }
        if program.method(EMBEDDING).is_some() && program.method(DECODER).is_some() {
            let embedding = TokenEmbedding::read(file).map_err(error)?;
            return Self::read_method(file, DECODER, known, Some(embedding)).map_err(error);
        }
        let mut candidates: Vec<Self> =
            program.method_names().filter_map(|name| read(name).ok()).collect();
        match (candidates.pop(), candidates.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => {
                let reason = "no method `forward`, and no other takes tokens and returns logits";
                Err(error(no_method(file, reason)))
            }
            (Some(last), false) => {
                let names: Vec<&str> =
                    candidates.iter().chain([&last]).map(|one| one.method.as_str()).collect();
                Err(error(format!(
                    "no method `forward`; choose one with `method`: {}",
                    names.join(", ")
                )))
            }
        }
    }

    /// Contract of a program with the methods `prefill` and `decode`.
    fn read_pair(file: &ModelFile, known: Option<Cache>) -> Result<Self, String> {
        let prefill = Self::read_method(file, "prefill", known, None)?;
        let decode = Self::read_method(file, "decode", known, None)?;
        let plans = ["prefill", "decode"].map(|name| file.program().method(name));
        // The first planned buffer belongs to its method. All others are common. A delegate may
        // keep the cache itself.
        let shares = plans.into_iter().flatten().all(|plan| {
            plan.planned_buffer_sizes().len() > 1
                || plan.delegates().any(|delegate| delegate.id != "XnnpackBackend")
        });
        if !shares {
            return Err("prefill and decode do not share their cache; export them with \
                        share_mutable_buffers, or choose `method: decode`"
                .to_owned());
        }
        if prefill.vocab_size != decode.vocab_size || !prefill.has_cache || !decode.has_cache {
            return Err("prefill and decode differ in their logits or have no cache".to_owned());
        }
        let cache = match (prefill.cache, decode.cache) {
            (Cache::Positional, other) => other,
            (cache, _) => cache,
        };
        let positions = decode.positions;
        let decode = Some(DecodeMethod { method: decode.method, positions });
        Ok(Self { cache, decode, ..prefill })
    }

    /// Contract of the method `name`, whose input 0 is tokens, or embeddings by `embedding`.
    fn read_method(
        file: &ModelFile,
        name: &str,
        known: Option<Cache>,
        embedding: Option<TokenEmbedding>,
    ) -> Result<Self, String> {
        let plan = file.method(name).map_err(|error| error.to_string())?;
        let at = embedding.as_ref().map_or(1, TokenEmbedding::position_input);
        let tokens = match embedding {
            Some(_) => tensor(&plan, 0)?,
            None => input(&plan, 0)?,
        };
        let tokens = tokens.ok_or_else(|| format!("{name} has no token input"))?;
        let positions = input(&plan, at)?;
        if plan.inputs().get(at + 1).is_some_and(|id| is_tensor(&plan, id)) {
            return Err(format!("{name} has more inputs than tokens and positions"));
        }
        let sizes: Vec<usize> = tokens.layout.sizes.iter().collect();
        let (&[1, width] | &[1, width, _]) = sizes.as_slice() else {
            return Err(format!("input 0 has the sizes {sizes:?}, expected [1, sequence length]"));
        };
        if embedding.is_none() && sizes.len() != 2 {
            return Err(format!("input 0 has the sizes {sizes:?}, expected [1, sequence length]"));
        }
        let first = |name: &str| file.metadata_ints(name).and_then(|list| list.first().copied());
        let count = |name: &str| first(name).and_then(|value| usize::try_from(value).ok());
        let is_static = tokens.dynamism == Dynamism::Static;
        // A recurrent program needs no positions.
        let without_positions = known == Some(Cache::Recurrent) || first("use_kv_cache") == Some(1);
        let has_cache = first("use_kv_cache")
            .map_or(positions.is_some() || without_positions, |value| value != 0);
        let positions = match (has_cache, positions) {
            (_, None) => Positions::None,
            (true, Some(tensor)) if tensor.layout.nbytes == size_of::<i64>() => Positions::First,
            (true, Some(_)) => Positions::PerToken,
            (false, Some(_)) => {
                return Err(format!("use_kv_cache is false, but {name} has a position input"));
            }
        };
        if width == 0 || is_static && (width > 1 || !has_cache) {
            return Err(format!(
                "input 0 has the sequence length {width}; expected a dynamic length, or 1 with a \
                 KV cache"
            ));
        }
        let max_chunk = count("get_max_prefill_chunk").filter(|&max| max > 0).unwrap_or(width);
        let max_embedded = embedding.as_ref().map_or(usize::MAX, |embedding| embedding.max_tokens);
        let chunk = match first("enable_dynamic_shape") {
            Some(0) => 1,
            _ => width.min(max_chunk).min(max_embedded),
        };
        if !has_cache && max_embedded < width {
            return Err(format!("token_embedding takes fewer tokens than {name}"));
        }
        let context = count("get_max_context_len").or(count("get_max_seq_len"));
        let context = context.or(count("max_seq_len"));
        let context =
            context.ok_or("the program has neither get_max_context_len nor get_max_seq_len")?;
        let (logits, rows) = logits_shape(&plan)?;
        let vocab_size =
            count("get_vocab_size").filter(|&size| size > 0).unwrap_or(logits).min(logits);
        let token = |value: i64| u32::try_from(value).ok().filter(|&id| (id as usize) < vocab_size);
        let eos = ["get_eos_ids", "get_eos_id"].into_iter();
        let mut eos: Vec<u32> =
            eos.filter_map(|name| file.metadata_ints(name)).flatten().filter_map(token).collect();
        eos.sort_unstable();
        eos.dedup();
        let told = match positions {
            Positions::None => Cache::Recurrent,
            _ => Cache::of_method(&plan, plan.inputs().get(at), count("sliding_window"), context),
        };
        Ok(Self {
            method: name.to_owned(),
            decode: None,
            embedding,
            cache: if has_cache { known.unwrap_or(told) } else { Cache::Positional },
            has_cache,
            max_context_len: if has_cache { context } else { context.min(width) },
            max_prefill_chunk: if has_cache { chunk } else { width },
            positions,
            has_all_logits: rows >= width,
            vocab_size,
            bos: first("get_bos_id").and_then(token),
            eos,
        })
    }
}

/// Message about a missing method, with those that there are.
fn no_method(file: &ModelFile, reason: &str) -> String {
    let is_model =
        |name: &&str| file.program().method(name).is_some_and(|plan| plan.num_instructions() > 0);
    let names: Vec<&str> = file.program().method_names().filter(is_model).collect();
    format!("{reason}; the program has {}", names.join(", "))
}

/// Input `index` of the method, an i64 tensor; `None` if the method has fewer inputs.
fn input<'a>(plan: &MethodPlan<'a>, index: usize) -> Result<Option<TensorMeta<'a>>, String> {
    match tensor(plan, index)? {
        Some(tensor) if tensor.layout.dtype != ScalarType::Long => {
            Err(format!("input {index} is {}, expected i64", tensor.layout.dtype.name()))
        }
        found => Ok(found),
    }
}

/// Input `index` of the method; `None` if the method has fewer inputs.
fn tensor<'a>(plan: &MethodPlan<'a>, index: usize) -> Result<Option<TensorMeta<'a>>, String> {
    let Some(id) = plan.inputs().get(index) else { return Ok(None) };
    match plan.value(id as usize) {
        Value::Tensor(tensor) => Ok(Some(tensor)),
        _ => Err(format!("input {index} is not a tensor")),
    }
}

fn is_tensor(plan: &MethodPlan<'_>, id: u32) -> bool {
    matches!(plan.value(id as usize), Value::Tensor(_))
}

/// Size of the last dimension of output 0, and its most rows.
fn logits_shape(plan: &MethodPlan<'_>) -> Result<(usize, usize), String> {
    let id = plan.outputs().get(0).ok_or("the method has no output")?;
    let Value::Tensor(logits) = plan.value(id as usize) else {
        return Err("output 0 is not a tensor".to_owned());
    };
    let dtype = logits.layout.dtype;
    if !matches!(dtype, ScalarType::Float | ScalarType::Half | ScalarType::BFloat16) {
        return Err(format!("output 0 is {}, expected logits in f32, f16 or bf16", dtype.name()));
    }
    let sizes: Vec<usize> = logits.layout.sizes.iter().collect();
    match sizes.as_slice() {
        [.., rows, width] if *width > 0 && sizes.len() == 3 => Ok((*width, *rows)),
        [.., width] if *width > 0 => Ok((*width, 1)),
        _ => Err("output 0 has no logits".to_owned()),
    }
}
