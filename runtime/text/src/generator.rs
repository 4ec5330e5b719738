//! Language model with the tokens of its context.

use std::sync::atomic::{AtomicBool, Ordering};

use afferent_core::{Error, ScalarType, TensorView, bf16, f16};
use afferent_runtime::{Input, Model, ModelError, RunError, RunOptions};

use crate::{
    Contract, ContractOptions, Generation, GenerationOptions, Positions, TextError, Tokenizer,
};

/// Language model with the tokens of its context. The KV cache contains a prefix of them.
///
/// [`push`](Self::push) only appends tokens; [`logits`](Self::logits) runs the model over all tokens
/// that are not in the KV cache. [`rewind`](Self::rewind) removes tokens and keeps the cache entries
/// of the others, if the [`Cache`](crate::Cache) of the program has them; otherwise the next
/// [`logits`](Self::logits) resets the model and reads the context again. What the program does not
/// say about its cache has to be in [`ContractOptions`].
pub struct Generator {
    model: Model,
    contract: Contract,
    tokens: Vec<u32>,
    /// Number of tokens in the KV cache.
    cached_len: usize,
    /// Maximum of `cached_len` since the last reset of the model, including canceled runs.
    written_len: usize,
    /// Logits of the last run.
    logits: Vec<f32>,
    /// True if `logits` are those of the last token.
    logits_valid: bool,
    /// Input buffers of a run.
    run_tokens: Vec<i64>,
    run_positions: Vec<i64>,
}

impl Generator {
    /// Creates a generator with an empty context.
    ///
    /// # Errors
    /// [`TextError::Contract`] and [`TextError::Model`].
    pub fn new(model: Model) -> Result<Self, TextError> {
        Self::with_options(model, &ContractOptions::default())
    }

    /// As [`Generator::new`], with the choices of `options`.
    ///
    /// # Errors
    /// As [`Generator::new`].
    pub fn with_options(mut model: Model, options: &ContractOptions) -> Result<Self, TextError> {
        let contract = Contract::with_options(model.file(), options)?;
        model.load_method(&contract.method)?;
        if let Some(decode) = &contract.decode {
            model.load_method(&decode.method)?;
        }
        Ok(Self {
            model,
            contract,
            tokens: Vec::new(),
            cached_len: 0,
            written_len: 0,
            logits: Vec::new(),
            logits_valid: false,
            run_tokens: Vec::new(),
            run_positions: Vec::new(),
        })
    }

    /// Interface of the model.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Tokens of the context.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Encodes `text`. Prepends the BOS token if the context is empty.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode(&self, tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, TextError> {
        let mut tokens = tokenizer.encode(text)?;
        let bos = self.contract.bos.or(tokenizer.bos()).filter(|_| self.tokens.is_empty());
        if let Some(bos) = bos.filter(|bos| tokens.first() != Some(bos)) {
            tokens.insert(0, bos);
        }
        Ok(tokens)
    }

    /// Appends `tokens` to the context.
    ///
    /// # Errors
    /// [`TextError::ContextFull`] and [`TextError::UnknownToken`]. The context is then unchanged.
    pub fn push(&mut self, tokens: &[u32]) -> Result<(), TextError> {
        let vocab_size = self.contract.vocab_size;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab_size) {
            return Err(TextError::UnknownToken { token, vocab_size });
        }
        let (needed, limit) = (self.tokens.len() + tokens.len(), self.contract.max_context_len);
        if needed > limit {
            return Err(TextError::ContextFull { needed, limit });
        }
        self.tokens.extend_from_slice(tokens);
        self.logits_valid &= tokens.is_empty();
        Ok(())
    }

    /// Removes all tokens from `position` on.
    ///
    /// # Errors
    /// [`TextError::PositionOutOfRange`].
    pub fn rewind(&mut self, position: usize) -> Result<(), TextError> {
        let len = self.tokens.len();
        if position > len {
            return Err(TextError::PositionOutOfRange { position, len });
        }
        self.tokens.truncate(position);
        self.cached_len = self.cached_len.min(position);
        self.logits_valid &= position == len;
        Ok(())
    }

    /// Removes all tokens and resets the state of the model.
    pub fn reset(&mut self) {
        self.tokens.clear();
        self.logits_valid = false;
        self.reset_state();
    }

    /// Resets the state of the model and keeps the tokens.
    fn reset_state(&mut self) {
        (self.cached_len, self.written_len) = (0, 0);
        self.model.reset();
    }

    /// Logits of the token that follows the context.
    ///
    /// Setting `canceled` stops the computation; the next call resumes it.
    ///
    /// # Errors
    /// [`TextError::EmptyContext`] and [`TextError::Model`]. The error of a canceled run satisfies
    /// [`TextError::is_canceled`].
    pub fn logits(&mut self, canceled: Option<&AtomicBool>) -> Result<&[f32], TextError> {
        if self.tokens.is_empty() {
            return Err(TextError::EmptyContext);
        }
        if !self.logits_valid {
            // The KV cache stores no logits, so the last token needs another run.
            self.cached_len = self.cached_len.min(self.tokens.len() - 1);
            if !self.contract.cache.can_resume(self.cached_len, self.written_len) {
                self.reset_state();
            }
            while self.cached_len < self.tokens.len() {
                self.run_chunk(canceled)?;
            }
            self.logits_valid = true;
        }
        Ok(&self.logits)
    }

    /// Logits returned by the last call of [`Generator::logits`].
    pub(crate) fn last_logits(&self) -> &[f32] {
        &self.logits
    }

    /// Appends `prompt` to the context, runs the prefill, and returns an iterator over the generated
    /// tokens.
    ///
    /// # Errors
    /// Those of [`Generator::push`] and [`Generator::logits`], and [`TextError::InvalidSetting`].
    pub fn generate<'a>(
        &'a mut self,
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        options: &GenerationOptions,
    ) -> Result<Generation<'a>, TextError> {
        Generation::start(self, tokenizer, prompt, options)
    }

    /// Runs the model over the next chunk of tokens that are not in the KV cache.
    fn run_chunk(&mut self, canceled: Option<&AtomicBool>) -> Result<(), TextError> {
        let Contract { max_prefill_chunk, vocab_size, has_cache, .. } = self.contract;
        let start = if has_cache { self.cached_len } else { 0 };
        let end = self.tokens.len().min(start + max_prefill_chunk);
        let (method, positions) = match &self.contract.decode {
            Some(decode) if end - start == 1 => (&decode.method, decode.positions),
            _ => (&self.contract.method, self.contract.positions),
        };
        self.run_tokens.clear();
        self.run_tokens.extend(self.tokens[start..end].iter().map(|&token| i64::from(token)));
        let num_positions = match positions {
            Positions::None => 0,
            Positions::First => 1,
            Positions::PerToken => end - start,
        };
        self.run_positions.clear();
        // Positions are indices into a vector, which has at most `isize::MAX` elements.
        self.run_positions.extend((start..start + num_positions).map(|position| position as i64));
        let failed = |error| run_error(method, error);
        let token_sizes = [1, self.run_tokens.len()];
        let position_sizes = [num_positions];
        let tokens = TensorView::new(&token_sizes, &self.run_tokens).map_err(failed)?;
        let position_view =
            TensorView::new(&position_sizes, &self.run_positions).map_err(failed)?;
        let inputs = [Input::Tensor(tokens), Input::Tensor(position_view)];
        let inputs = if positions == Positions::None { &inputs[..1] } else { &inputs };
        if canceled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(failed(Error::Canceled));
        }
        let options = self.model.options().clone();
        let options = RunOptions {
            canceled,
            instruction_limit: options.instruction_limit,
            workers: options.workers,
            ..RunOptions::default()
        };
        // A run that fails may have changed the state.
        self.written_len = self.written_len.max(end);
        let outputs = self.model.run_with(method, inputs, &options)?;
        if end == self.tokens.len() {
            let logits = outputs.tensor(0).map_err(failed)?;
            copy_last_logits(&logits, vocab_size, &mut self.logits).map_err(failed)?;
        }
        self.cached_len = end;
        Ok(())
    }
}

/// Copies the first `vocab_size` logits of the last token to `out`, converted to `f32`.
fn copy_last_logits(
    logits: &TensorView<'_>,
    vocab_size: usize,
    out: &mut Vec<f32>,
) -> Result<(), Error> {
    let width = logits.sizes().last().copied().unwrap_or(0);
    let start = logits.numel().checked_sub(width).filter(|_| vocab_size <= width);
    let start = start.ok_or(Error::InvalidTensor { reason: "the logits have the wrong size" })?;
    let range = start..start + vocab_size;
    out.clear();
    match logits.dtype() {
        ScalarType::Half => out.extend(logits.data::<f16>()?[range].iter().map(|x| x.to_f32())),
        ScalarType::BFloat16 => {
            out.extend(logits.data::<bf16>()?[range].iter().map(|x| x.to_f32()));
        }
        _ => out.extend_from_slice(&logits.data::<f32>()?[range]),
    }
    Ok(())
}

fn run_error(method: &str, error: Error) -> TextError {
    let error = RunError::Instruction { instruction: 0, error };
    TextError::Model(ModelError::Run { method: method.to_owned(), operator: None, error })
}
