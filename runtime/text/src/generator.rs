//! Language model with the tokens of its context.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use afferent_core::{Error, Tensor, TensorView, read_float_range};
use afferent_runtime::{Input, Model, ModelError, ModelFile, RunError, RunOptions};

use crate::{
    Cache, Contract, ContractOptions, EmbeddingRows, Generation, GenerationOptions, Positions,
    Segment, TextError, Tokenizer,
    draft::Draft,
    embedding::{EMBEDDING, Embedder},
};

/// Language model with the tokens of its context. The KV cache contains a prefix of them.
///
/// [`push`](Self::push) only appends tokens; [`logits`](Self::logits) runs the model over all tokens
/// that are not in the KV cache. [`rewind`](Self::rewind) removes tokens and keeps the cache entries
/// of the others, if the [`Cache`](crate::Cache) of the program has them; otherwise the next
/// [`logits`](Self::logits) resets the model and reads the context again. What the program does not
/// say about its cache has to be in [`ContractOptions`].
///
/// If the contract has a [`TokenEmbedding`](crate::TokenEmbedding), rows of an encoder, such as those of
/// an image, are also part of the context. [`run_encoder`](Self::run_encoder) makes them;
/// [`push_rows`](Self::push_rows) appends them, and [`set_context`](Self::set_context) makes a prompt
/// of tokens and rows the context. A row has one position, as a token.
///
/// With a draft model, see [`set_draft`](Self::set_draft), a run reads the tokens that the draft model
/// expects, too. While they are those that the caller pushes, no further run is needed.
pub struct Generator {
    model: Model,
    contract: Contract,
    tokens: Vec<u32>,
    /// Rows at the positions of tokens.
    embedder: Embedder,
    /// Number of tokens in the KV cache.
    cached_len: usize,
    /// Maximum of `cached_len` since the last reset of the model, including canceled runs.
    written_len: usize,
    /// Logits of the last run.
    logits: Vec<f32>,
    /// True if `logits` are those of the last token.
    logits_valid: bool,
    draft: Option<Draft>,
    ahead: Ahead,
    accepted: u64,
    /// Input buffers of a run.
    run_tokens: Vec<i64>,
    run_positions: Vec<i64>,
}

/// Tokens after the context that the last run has read, with the logits after each.
#[derive(Debug, Default)]
struct Ahead {
    tokens: Vec<u32>,
    logits: Vec<f32>,
    /// Number of the first tokens that have become part of the context.
    accepted: usize,
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
        if contract.embedding.is_some() {
            model.load_method(EMBEDDING)?;
        }
        Ok(Self {
            model,
            contract,
            tokens: Vec::new(),
            embedder: Embedder::default(),
            cached_len: 0,
            written_len: 0,
            logits: Vec::new(),
            logits_valid: false,
            draft: None,
            ahead: Ahead::default(),
            accepted: 0,
            run_tokens: Vec::new(),
            run_positions: Vec::new(),
        })
    }

    /// Lets `draft`, a smaller language model with the same tokens, expect up to `count` tokens in
    /// each step of decoding, which one run of this model checks (speculative decoding). Logits are those
    /// of this model as before, up to rounding: a run over several tokens may add in another order.
    ///
    /// # Errors
    /// [`TextError::Draft`] if this model does not return the logits of all tokens of a run or cannot
    /// drop tokens from its cache, or if the vocabularies have different sizes.
    pub fn set_draft(&mut self, draft: Self, count: usize) -> Result<(), TextError> {
        let Contract { cache, has_cache, has_all_logits, max_prefill_chunk, .. } = self.contract;
        let (own, other) = (self.contract.vocab_size, draft.contract.vocab_size);
        let reason = if own != other {
            format!("the draft model has {other} tokens, this one has {own}")
        } else if !has_all_logits || max_prefill_chunk < 2 {
            "this model returns the logits of the last token alone; export it with \
             generate_full_logits"
                .to_owned()
        } else if !has_cache || cache != Cache::Positional || self.contract.decode.is_some() {
            format!(
                "tokens cannot be dropped from the state of this model, which is {}",
                cache.name()
            )
        } else if self.contract.embedding.is_some() || draft.contract.embedding.is_some() {
            "models that take embeddings have no draft".to_owned()
        } else {
            self.draft = Some(Draft::new(draft, count));
            return Ok(());
        };
        Err(TextError::Draft { reason })
    }

    /// Number of tokens so far that the draft model had expected. Each has saved a run.
    pub fn accepted_drafts(&self) -> u64 {
        self.accepted
    }

    /// Interface of the model.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// File of the program.
    pub fn file(&self) -> &Arc<ModelFile> {
        self.model.file()
    }

    /// Tokens of the context; for each row of an encoder, its placeholder.
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
        self.check_tokens(tokens)?;
        self.check_len(self.tokens.len() + tokens.len())?;
        for &token in tokens {
            self.logits_valid = self.accept(token);
            self.tokens.push(token);
        }
        Ok(())
    }

    /// Takes the logits after `token` if the last run has read it after the context. Returns false if not.
    fn accept(&mut self, token: u32) -> bool {
        let Ahead { tokens, logits, accepted } = &mut self.ahead;
        if !self.logits_valid || tokens.get(*accepted) != Some(&token) {
            self.end_ahead();
            return false;
        }
        let width = self.contract.vocab_size;
        self.logits.copy_from_slice(&logits[*accepted * width..][..width]);
        *accepted += 1;
        self.accepted += 1;
        self.cached_len += 1;
        true
    }

    /// Drops the tokens ahead; their cache entries are overwritten.
    fn end_ahead(&mut self) {
        let Ahead { tokens, accepted, .. } = &mut self.ahead;
        if let Some(draft) = self.draft.as_mut().filter(|_| !tokens.is_empty()) {
            draft.adapt(*accepted, tokens.len());
        }
        tokens.clear();
        *accepted = 0;
    }

    /// Appends rows of an encoder to the context, in the positions of the tokens `placeholder`, which need
    /// not be in the vocabulary.
    ///
    /// # Errors
    /// [`TextError::ContextFull`], and [`TextError::Embedding`] if the model takes no rows of this
    /// width. The context is then unchanged.
    pub fn push_rows(&mut self, placeholder: u32, rows: &EmbeddingRows) -> Result<(), TextError> {
        self.check_rows(rows)?;
        let (start, end) = (self.tokens.len(), self.tokens.len() + rows.len());
        self.check_len(end)?;
        self.tokens.resize(end, placeholder);
        self.embedder.push(start, rows.clone());
        self.logits_valid = false;
        Ok(())
    }

    /// Replaces the context by `segments`. Keeps the cache entries of the common beginning, where
    /// tokens are equal and rows are clones of the same [`EmbeddingRows`].
    ///
    /// # Errors
    /// Those of [`push`](Self::push) and [`push_rows`](Self::push_rows). The context is then unchanged.
    pub fn set_context(&mut self, segments: &[Segment]) -> Result<(), TextError> {
        for segment in segments {
            match segment {
                Segment::Tokens(tokens) => self.check_tokens(tokens)?,
                Segment::Rows { rows, .. } => self.check_rows(rows)?,
            }
        }
        self.check_len(segments.iter().map(Segment::len).sum())?;
        let (mut same, mut rest) = (0, segments.iter());
        let mut next = rest.next();
        while let Some(segment) = next {
            let count = self.embedder.count_same(&self.tokens, same, segment);
            same += count;
            if count < segment.len() {
                self.rewind(same)?;
                match segment {
                    Segment::Tokens(tokens) => self.push(&tokens[count..])?,
                    Segment::Rows { placeholder, rows } => self.push_rows(*placeholder, rows)?,
                }
                break;
            }
            next = rest.next();
        }
        if next.is_none() {
            return self.rewind(same);
        }
        for segment in rest {
            match segment {
                Segment::Tokens(tokens) => self.push(tokens)?,
                Segment::Rows { placeholder, rows } => self.push_rows(*placeholder, rows)?,
            }
        }
        Ok(())
    }

    /// Runs the method `method` of the program, such as `vision_encoder`, and copies its rows.
    ///
    /// # Errors
    /// [`TextError::Model`], and those of [`EmbeddingRows::of_output`]. The error of a canceled run
    /// satisfies [`TextError::is_canceled`].
    pub fn run_encoder(
        &mut self,
        method: &str,
        inputs: &[TensorView<'_>],
        canceled: Option<&AtomicBool>,
    ) -> Result<EmbeddingRows, TextError> {
        let options = self.model.options().clone();
        let options = RunOptions {
            canceled,
            instruction_limit: options.instruction_limit,
            workers: options.workers,
            ..RunOptions::default()
        };
        let inputs: Vec<Input<'_>> = inputs.iter().copied().map(Input::Tensor).collect();
        EmbeddingRows::of_output(&self.model.run_with(method, &inputs, &options)?)
    }

    fn check_tokens(&self, tokens: &[u32]) -> Result<(), TextError> {
        let vocab_size = self.contract.vocab_size;
        match tokens.iter().find(|&&token| token as usize >= vocab_size) {
            Some(&token) => Err(TextError::UnknownToken { token, vocab_size }),
            None => Ok(()),
        }
    }

    fn check_rows(&self, rows: &EmbeddingRows) -> Result<(), TextError> {
        let reason = match &self.contract.embedding {
            Some(embedding) if embedding.width == rows.width() => return Ok(()),
            Some(embedding) => format!(
                "the encoder gives rows of {} values, but the model takes {}",
                rows.width(),
                embedding.width
            ),
            None => "the model takes tokens alone; one that sees has the methods token_embedding \
                     and text_decoder"
                .to_owned(),
        };
        Err(TextError::Embedding { reason })
    }

    fn check_len(&self, needed: usize) -> Result<(), TextError> {
        let limit = self.contract.max_context_len;
        if needed > limit { Err(TextError::ContextFull { needed, limit }) } else { Ok(()) }
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
        if position < len {
            self.end_ahead();
        }
        self.tokens.truncate(position);
        self.embedder.truncate(position);
        self.cached_len = self.cached_len.min(position);
        self.logits_valid &= position == len;
        Ok(())
    }

    /// Removes all tokens and resets the state of the model.
    pub fn reset(&mut self) {
        self.tokens.clear();
        self.embedder.truncate(0);
        self.logits_valid = false;
        self.end_ahead();
        if let Some(draft) = &mut self.draft {
            draft.reset();
        }
        self.reset_state();
    }

    /// Writes the tokens that the model has read and its state to `path`, for a later
    /// [`load_state`](Self::load_state). The file has about the size of the used part of the cache.
    ///
    /// # Errors
    /// [`TextError::State`]; [`TextError::Embedding`] if the context has rows of an encoder.
    pub fn save_state(&self, path: &Path) -> Result<(), TextError> {
        if !self.embedder.is_empty() {
            let reason = "a state with rows of an encoder cannot be saved".to_owned();
            return Err(TextError::Embedding { reason });
        }
        let mut label = (self.written_len as u64).to_le_bytes().to_vec();
        let read = &self.tokens[..self.cached_len];
        label.extend(read.iter().flat_map(|token| token.to_le_bytes()));
        Ok(self.model.save_state(path, &label)?)
    }

    /// Makes the tokens and the state in the file at `path` the context. Returns false if there is no
    /// file.
    ///
    /// # Errors
    /// [`TextError::State`] if the file is damaged or belongs to another program. The context is then
    /// unchanged. [`TextError::UnknownToken`] and [`TextError::ContextFull`] if its tokens are not those of
    /// a context of this model, which is then empty.
    pub fn load_state(&mut self, path: &Path) -> Result<bool, TextError> {
        let Some(label) = self.model.load_state(path)? else { return Ok(false) };
        let (written, tokens) = label.split_at_checked(size_of::<u64>()).unwrap_or_default();
        let tokens = tokens.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let written = written.try_into().map_or(0, u64::from_le_bytes);
        self.end_ahead();
        self.embedder.truncate(0);
        self.tokens = tokens.collect();
        let is_context = self.check_tokens(&self.tokens).and(self.check_len(self.tokens.len()));
        if is_context.is_err() {
            self.reset();
        }
        is_context?;
        self.cached_len = self.tokens.len();
        self.written_len = usize::try_from(written).unwrap_or(usize::MAX).max(self.cached_len);
        self.logits_valid = false;
        Ok(true)
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
            self.end_ahead();
            // Only decoding has a draft: a prompt is read in large runs anyway.
            if self.cached_len + 1 == self.tokens.len()
                && let Some(draft) = &mut self.draft
            {
                let context = self.contract.max_context_len - self.tokens.len();
                let most = context.min(self.contract.max_prefill_chunk - 1);
                self.ahead.tokens = draft.propose(&self.tokens, most, canceled)?;
            }
            while self.cached_len < self.tokens.len() {
                let run = self.run_chunk(canceled);
                if run.is_err() {
                    self.ahead.tokens.clear();
                }
                run?;
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
        let ahead = if end == self.tokens.len() { self.ahead.tokens.as_slice() } else { &[] };
        let tokens = self.tokens[start..end].iter().chain(ahead);
        self.run_tokens.extend(tokens.map(|&token| i64::from(token)));
        let num_positions = match positions {
            Positions::None => 0,
            Positions::First => 1,
            Positions::PerToken => self.run_tokens.len(),
        };
        self.run_positions.clear();
        // Positions are indices into a vector, which has at most `isize::MAX` elements.
        self.run_positions.extend((start..start + num_positions).map(|position| position as i64));
        let failed = |error| run_error(method, error);
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
        let embedded: Vec<Tensor> = match &self.contract.embedding {
            None => Vec::new(),
            Some(embedding) => {
                let Self { model, embedder, tokens, .. } = self;
                embedder.embed(model, embedding, tokens, start..end, &options)?;
                embedder.inputs(embedding).map_err(failed)?
            }
        };
        let token_sizes = [1, self.run_tokens.len()];
        let position_sizes = [num_positions];
        let mut inputs: Vec<Input<'_>> =
            embedded.iter().map(|tensor| Input::Tensor(tensor.view())).collect();
        if embedded.is_empty() {
            let tokens = TensorView::new(&token_sizes, &self.run_tokens).map_err(failed)?;
            inputs.push(Input::Tensor(tokens));
        }
        if positions != Positions::None {
            let view = TensorView::new(&position_sizes, &self.run_positions).map_err(failed)?;
            inputs.push(Input::Tensor(view));
        }
        // A run that fails may have changed the state.
        self.written_len = self.written_len.max(start + self.run_tokens.len());
        let outputs = self.model.run_with(method, &inputs, &options)?;
        if end == self.tokens.len() {
            let logits = outputs.tensor(0).map_err(failed)?;
            let Ahead { tokens, logits: of_ahead, .. } = &mut self.ahead;
            copy_logits(&logits, tokens.len(), vocab_size, &mut self.logits).map_err(failed)?;
            of_ahead.clear();
            let mut row = Vec::new();
            for after in (0..tokens.len()).rev() {
                copy_logits(&logits, after, vocab_size, &mut row).map_err(failed)?;
                of_ahead.extend_from_slice(&row);
            }
        }
        self.cached_len = end;
        Ok(())
    }
}

/// Copies the first `vocab_size` logits of the token before the last `after` ones to `out`, converted to
/// `f32`.
fn copy_logits(
    logits: &TensorView<'_>,
    after: usize,
    vocab_size: usize,
    out: &mut Vec<f32>,
) -> Result<(), Error> {
    let width = logits.sizes().last().copied().unwrap_or(0);
    let start = logits.numel().checked_sub((after + 1) * width).filter(|_| vocab_size <= width);
    let start = start.ok_or(Error::InvalidTensor { reason: "the logits have the wrong size" })?;
    read_float_range(logits, start..start + vocab_size, out)
}

fn run_error(method: &str, error: Error) -> TextError {
    let error = RunError::Instruction { instruction: 0, error };
    TextError::Model(ModelError::Run { method: method.to_owned(), operator: None, error })
}
