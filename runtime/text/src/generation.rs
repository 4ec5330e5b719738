//! Generates an answer token by token.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    CallConstraint, DecodeStream, Generator, Sampler, Sampling, StopStrings, TextError, Tokenizer,
};

/// Options of a generation: sampling and stop conditions.
#[derive(Debug, Clone)]
pub struct GenerationOptions {
    /// Maximum number of generated tokens.
    pub max_new_tokens: usize,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Strings that end the answer. They are not part of its text.
    pub stop: Vec<String>,
    /// Additional EOS tokens, besides those of the program and of the tokenizer.
    pub extra_eos: Vec<u32>,
    /// Ignores all EOS tokens; for benchmarks.
    pub ignore_eos: bool,
    /// Flag that another thread sets to cancel the generation.
    pub canceled: Option<Arc<AtomicBool>>,
}

impl Default for GenerationOptions {
    /// Greedy decoding until an EOS token or until the context is full.
    fn default() -> Self {
        Self {
            max_new_tokens: usize::MAX,
            sampling: Sampling::default(),
            stop: Vec::new(),
            extra_eos: Vec::new(),
            ignore_eos: false,
            canceled: None,
        }
    }
}

impl GenerationOptions {
    /// Lets an answer end at `mark`, a token of its own, or else a stop string. An empty one has no effect.
    pub fn end_at(&mut self, mark: &str, tokenizer: &Tokenizer) {
        match tokenizer.token_id(mark.trim()) {
            Some(end) => self.extra_eos.push(end),
            None if !mark.is_empty() => self.stop.push(mark.to_owned()),
            None => {}
        }
    }
}

/// Generated token with the text that it completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedToken {
    /// Token id.
    pub token: u32,
    /// Text that this token completes. May be empty, and may include text of earlier tokens.
    pub text: String,
    /// Length of the context including this token. [`Generator::rewind`] to this position removes
    /// all later tokens.
    pub position: usize,
}

/// Cause of the end of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model generated this EOS token.
    Eos(u32),
    /// The string at this index of [`GenerationOptions::stop`] was generated. Its tokens stay in the
    /// context.
    StopString(usize),
    /// [`GenerationOptions::max_new_tokens`] tokens were generated.
    Length,
    /// The context of the model is full.
    ContextFull,
    /// The generation was canceled. The context ends with the last token that was returned.
    Canceled,
}

impl FinishReason {
    /// Name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eos(_) => "eos",
            Self::StopString(_) => "stop_string",
            Self::Length => "length",
            Self::ContextFull => "context_full",
            Self::Canceled => "canceled",
        }
    }
}

/// State of a generation, for callers that do other work between tokens.
///
/// It belongs to one generator and one tokenizer. The generator must not be used for anything else
/// until the generation has ended.
pub struct GenerationState {
    sampler: Sampler,
    stream: DecodeStream,
    stop: StopStrings,
    eos: Vec<u32>,
    /// Constraint of the next tokens until it is complete.
    constraint: Option<CallConstraint>,
    /// Logits with those of other tokens at −∞.
    masked: Vec<f32>,
    /// Number of tokens that may still be generated.
    remaining: usize,
    finish_reason: Option<FinishReason>,
    /// True after an error.
    failed: bool,
}

impl GenerationState {
    /// Appends `prompt` to the context of `generator`. The first [`next`](Self::next) runs the
    /// prefill.
    ///
    /// # Errors
    /// Those of [`Generator::push`], and [`TextError::InvalidSetting`].
    pub fn start(
        generator: &mut Generator,
        tokenizer: &Tokenizer,
        prompt: &[u32],
        options: &GenerationOptions,
    ) -> Result<Self, TextError> {
        let sampler = Sampler::new(options.sampling)?;
        generator.push(prompt)?;
        let eos = generator.contract().eos.iter().chain(tokenizer.eos());
        let use_eos = !options.ignore_eos;
        let mut state = Self {
            eos: eos.chain(&options.extra_eos).copied().filter(|_| use_eos).collect(),
            sampler,
            stream: DecodeStream::continuing(),
            stop: StopStrings::new(options.stop.clone()),
            constraint: None,
            masked: Vec::new(),
            remaining: options.max_new_tokens,
            finish_reason: None,
            failed: false,
        };
        state.check_limits(generator);
        Ok(state)
    }

    /// Cause of the end; `None` while the generation has not ended.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.finish_reason
    }

    /// Lets only tokens through that `constraint` accepts, until it is complete. It has no effect if
    /// the vocabulary has no such token.
    ///
    /// Each token then costs one look at the whole vocabulary, some milliseconds for 100,000 tokens.
    pub fn constrain(&mut self, constraint: CallConstraint) {
        self.constraint = Some(constraint).filter(|constraint| !constraint.is_complete());
    }

    /// Ends the generation if no further token is allowed or fits into the context.
    fn check_limits(&mut self, generator: &Generator) {
        if self.finish_reason.is_none() {
            let is_full = generator.tokens().len() >= generator.contract().max_context_len;
            self.finish_reason = match self.remaining {
                0 => Some(FinishReason::Length),
                _ if is_full => Some(FinishReason::ContextFull),
                _ => None,
            };
        }
    }

    /// Runs the model over all tokens that are not in the KV cache. Returns false if canceled.
    fn run_model(
        &mut self,
        generator: &mut Generator,
        canceled: Option<&AtomicBool>,
    ) -> Result<bool, TextError> {
        match generator.logits(canceled) {
            Err(error) if error.is_canceled() => {
                self.finish_reason = Some(FinishReason::Canceled);
                Ok(false)
            }
            result => result.map(|_| true),
        }
    }

    /// Generates the next token. Returns `None` after the end of the generation and after an error.
    ///
    /// Setting `canceled` ends the generation, also during a run of the model.
    ///
    /// # Errors
    /// [`TextError::Model`] and those of [`Sampler::sample`].
    pub fn next(
        &mut self,
        generator: &mut Generator,
        tokenizer: &Tokenizer,
        canceled: Option<&AtomicBool>,
    ) -> Result<Option<GeneratedToken>, TextError> {
        if self.finish_reason.is_some() || self.failed {
            return Ok(None);
        }
        let next = self.decode_step(generator, tokenizer, canceled);
        self.failed = next.is_err();
        next
    }

    /// Runs the model and samples one token.
    fn decode_step(
        &mut self,
        generator: &mut Generator,
        tokenizer: &Tokenizer,
        canceled: Option<&AtomicBool>,
    ) -> Result<Option<GeneratedToken>, TextError> {
        if canceled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            self.finish_reason = Some(FinishReason::Canceled);
            return Ok(None);
        }
        if !self.run_model(generator, canceled)? {
            return Ok(None);
        }
        let (tokens, logits) = (generator.tokens(), generator.last_logits());
        let is_masked = match &self.constraint {
            Some(constraint) => mask(constraint, tokenizer, logits, &mut self.masked),
            None => false,
        };
        let logits = if is_masked { &self.masked } else { logits };
        let token = self.sampler.sample(logits, tokens)?;
        self.constraint =
            self.constraint.take().filter(|_| is_masked).and_then(|mut constraint| {
                let (bytes, _) = tokenizer.token_table().bytes(token)?;
                (constraint.push(bytes) && !constraint.is_complete()).then_some(constraint)
            });
        let mut text = if self.eos.contains(&token) {
            self.finish_reason = Some(FinishReason::Eos(token));
            String::new()
        } else {
            self.stream.push(tokenizer, token)?
        };
        generator.push(&[token])?;
        self.remaining -= 1;
        self.check_limits(generator);
        if self.finish_reason.is_some() {
            text.push_str(&self.stream.finish());
        }
        let (mut text, stop_index) = self.stop.push(&text);
        match stop_index {
            Some(index) => self.finish_reason = Some(FinishReason::StopString(index)),
            None if self.finish_reason.is_some() => text.push_str(&self.stop.finish()),
            None => {}
        }
        Ok(Some(GeneratedToken { token, text, position: generator.tokens().len() }))
    }
}

/// Copies `logits` to `masked`, with −∞ for tokens that `constraint` does not accept. Returns false if
/// it accepts none.
fn mask(
    constraint: &CallConstraint,
    tokenizer: &Tokenizer,
    logits: &[f32],
    masked: &mut Vec<f32>,
) -> bool {
    let next = constraint.next_bytes();
    let accepts = |token: u32| {
        let Some((bytes, _)) = tokenizer.token_table().bytes(token) else { return false };
        bytes.first().is_some_and(|&first| next[usize::from(first)]) && constraint.accepts(bytes)
    };
    masked.clear();
    let tokens = logits.iter().zip(0..);
    masked.extend(tokens.map(
        |(&logit, token)| {
            if accepts(token) { logit } else { f32::NEG_INFINITY }
        },
    ));
    masked.iter().any(|&logit| logit > f32::NEG_INFINITY)
}

/// Iterator over generated tokens. Each item is one run of the model.
///
/// If it is dropped early, the context keeps the tokens generated so far.
pub struct Generation<'a> {
    generator: &'a mut Generator,
    tokenizer: &'a Tokenizer,
    state: GenerationState,
    canceled: Option<Arc<AtomicBool>>,
}

impl<'a> Generation<'a> {
    pub(crate) fn start(
        generator: &'a mut Generator,
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        options: &GenerationOptions,
    ) -> Result<Self, TextError> {
        let mut state = GenerationState::start(generator, tokenizer, prompt, options)?;
        state.run_model(generator, options.canceled.as_deref())?;
        Ok(Self { generator, tokenizer, state, canceled: options.canceled.clone() })
    }

    /// Cause of the end; `None` while the generation has not ended.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.state.finish_reason()
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<GeneratedToken, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.state.next(self.generator, self.tokenizer, self.canceled.as_deref()).transpose()
    }
}
