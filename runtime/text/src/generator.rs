//! A model with the tokens of its context.

use std::sync::atomic::{AtomicBool, Ordering};

use afferent_core::{Error, ScalarType, TensorView, bf16, f16};
use afferent_runtime::{Input, Model, ModelError, RunError, RunOptions};

use crate::{Answer, AnswerOptions, Contract, Positions, TextError, Tokenizer, contract::METHOD};

/// A model with the tokens of its context, of which its cache holds the first ones.
///
/// What is appended goes through the model when logits are asked for. Going back forgets tokens
/// and keeps what the cache has of those before; that suits caches that are written by position,
/// as those of the exports are, and not models that sum up what they have read.
pub struct Generator {
    model: Model,
    contract: Contract,
    tokens: Vec<u32>,
    /// How many of the tokens the cache holds.
    cached: usize,
    /// After the last token, if [`Generator::fresh`].
    logits: Vec<f32>,
    /// Whether the logits are those after all tokens.
    fresh: bool,
    /// Inputs of a run.
    run_tokens: Vec<i64>,
    run_positions: Vec<i64>,
}

impl Generator {
    /// # Errors
    /// [`TextError::Contract`] and [`TextError::Model`].
    pub fn new(mut model: Model) -> Result<Self, TextError> {
        let contract = Contract::of(model.file())?;
        model.load_method(METHOD)?;
        Ok(Self {
            model,
            contract,
            tokens: Vec::new(),
            cached: 0,
            logits: Vec::new(),
            fresh: false,
            run_tokens: Vec::new(),
            run_positions: Vec::new(),
        })
    }

    /// What the model takes and gives.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The tokens of the context.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The tokens of `text`; at the start of a context after the token that texts start with.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode(&self, tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, TextError> {
        let mut tokens = tokenizer.encode(text)?;
        let begin = self.contract.begin.or(tokenizer.begin()).filter(|_| self.tokens.is_empty());
        if let Some(begin) = begin.filter(|begin| tokens.first() != Some(begin)) {
            tokens.insert(0, begin);
        }
        Ok(tokens)
    }

    /// Appends `tokens` to the context.
    ///
    /// # Errors
    /// [`TextError::ContextFull`] and [`TextError::NoToken`]; nothing is appended then.
    pub fn push(&mut self, tokens: &[u32]) -> Result<(), TextError> {
        let vocabulary = self.contract.vocabulary;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(TextError::NoToken { token, vocabulary });
        }
        let (needed, limit) = (self.tokens.len() + tokens.len(), self.contract.context);
        if needed > limit {
            return Err(TextError::ContextFull { needed, limit });
        }
        self.tokens.extend_from_slice(tokens);
        self.fresh &= tokens.is_empty();
        Ok(())
    }

    /// Forgets all tokens from `position` on.
    ///
    /// # Errors
    /// [`TextError::Position`].
    pub fn rewind(&mut self, position: usize) -> Result<(), TextError> {
        let len = self.tokens.len();
        if position > len {
            return Err(TextError::Position { position, len });
        }
        self.tokens.truncate(position);
        self.cached = self.cached.min(position);
        self.fresh &= position == len;
        Ok(())
    }

    /// Forgets all tokens, and returns the state of the model to that after loading.
    pub fn reset(&mut self) {
        self.tokens.clear();
        (self.cached, self.fresh) = (0, false);
        self.model.reset();
    }

    /// Logits for the token after the last one. `cancelled` ends that before it is done; called
    /// again, it goes on.
    ///
    /// # Errors
    /// [`TextError::Empty`], and [`TextError::Model`], also when it was cancelled
    /// ([`TextError::is_cancelled`]).
    pub fn logits(&mut self, cancelled: Option<&AtomicBool>) -> Result<&[f32], TextError> {
        if self.tokens.is_empty() {
            return Err(TextError::Empty);
        }
        if !self.fresh {
            // The cache has no logits: the last token goes through the model again.
            self.cached = self.cached.min(self.tokens.len() - 1);
            while self.cached < self.tokens.len() {
                self.run(cancelled)?;
            }
            self.fresh = true;
        }
        Ok(&self.logits)
    }

    /// The logits that [`Generator::logits`] gave last.
    pub(crate) fn last_logits(&self) -> &[f32] {
        &self.logits
    }

    /// An answer to what was there before and `prompt`, which goes through the model here.
    ///
    /// # Errors
    /// Those of [`Generator::push`] and [`Generator::logits`], and [`TextError::Setting`].
    pub fn answer<'a>(
        &'a mut self,
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        options: &AnswerOptions,
    ) -> Result<Answer<'a>, TextError> {
        Answer::start(self, tokenizer, prompt, options)
    }

    /// Takes the next tokens, as many as go at once, through the model.
    fn run(&mut self, cancelled: Option<&AtomicBool>) -> Result<(), TextError> {
        let Contract { chunk, positions, vocabulary, .. } = self.contract;
        let start = if positions == Positions::None { 0 } else { self.cached };
        let end = self.tokens.len().min(start + chunk);
        self.run_tokens.clear();
        self.run_tokens.extend(self.tokens[start..end].iter().map(|&token| i64::from(token)));
        let listed = match positions {
            Positions::None => 0,
            Positions::First => 1,
            Positions::Each => end - start,
        };
        self.run_positions.clear();
        // No context is longer than what an address counts.
        self.run_positions.extend((start..start + listed).map(|position| position as i64));
        let failed = |error| run_error(None, error);
        let token_sizes = [1, self.run_tokens.len()];
        let position_sizes = [listed];
        let tokens = TensorView::new(&token_sizes, &self.run_tokens).map_err(failed)?;
        let places = TensorView::new(&position_sizes, &self.run_positions).map_err(failed)?;
        let inputs = [Input::Tensor(tokens), Input::Tensor(places)];
        let inputs = if positions == Positions::None { &inputs[..1] } else { &inputs };
        if cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(failed(Error::Cancelled));
        }
        let options = self.model.options().clone();
        let options = RunOptions {
            cancelled,
            instruction_limit: options.instruction_limit,
            workers: options.workers,
            ..RunOptions::default()
        };
        let outputs = self.model.run_with(METHOD, inputs, &options)?;
        if end == self.tokens.len() {
            let logits = outputs.tensor(0).map_err(failed)?;
            last_row(&logits, vocabulary, &mut self.logits).map_err(failed)?;
        }
        self.cached = end;
        Ok(())
    }
}

/// The logits of the last token, as `f32`.
fn last_row(view: &TensorView<'_>, width: usize, row: &mut Vec<f32>) -> Result<(), Error> {
    let all = view.sizes().last().copied().unwrap_or(0);
    let start = view.numel().checked_sub(all).filter(|_| width <= all);
    let start = start.ok_or(Error::InvalidTensor { reason: "the logits are not as planned" })?;
    let range = start..start + width;
    row.clear();
    match view.dtype() {
        ScalarType::Half => row.extend(view.data::<f16>()?[range].iter().map(|x| x.to_f32())),
        ScalarType::BFloat16 => row.extend(view.data::<bf16>()?[range].iter().map(|x| x.to_f32())),
        _ => row.extend_from_slice(&view.data::<f32>()?[range]),
    }
    Ok(())
}

fn run_error(operator: Option<String>, error: Error) -> TextError {
    let error = RunError::Instruction { instruction: 0, error };
    TextError::Model(ModelError::Run { method: METHOD.to_owned(), operator, error })
}
