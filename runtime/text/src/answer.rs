//! An answer, token by token.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{Generator, Sampler, Sampling, StopTexts, TextError, TextStream, Tokenizer};

/// How an answer is made, and when it ends.
#[derive(Debug, Clone)]
pub struct AnswerOptions {
    /// Most tokens of it.
    pub max_new: usize,
    /// How its tokens are chosen.
    pub sampling: Sampling,
    /// Texts that end it; they are not part of its text.
    pub stop: Vec<String>,
    /// Tokens that end it, beside those of the model or else of the tokenizer.
    pub end: Vec<u32>,
    /// Whether all tokens that end an answer are ignored, which benchmarks want.
    pub ignore_end: bool,
    /// Set by another thread to end it.
    pub cancelled: Option<Arc<AtomicBool>>,
}

impl Default for AnswerOptions {
    /// The likeliest tokens, until the model ends the answer or its context is full.
    fn default() -> Self {
        Self {
            max_new: usize::MAX,
            sampling: Sampling::default(),
            stop: Vec::new(),
            end: Vec::new(),
            ignore_end: false,
            cancelled: None,
        }
    }
}

/// A token of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The token.
    pub token: u32,
    /// The text that is certain with it: may be empty, and may have begun with earlier tokens.
    pub text: String,
    /// Tokens of the context up to this one: [`Generator::rewind`] to here forgets what follows.
    pub position: usize,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model said so, by this token.
    EndToken(u32),
    /// The text at this index of [`AnswerOptions::stop`] came. Its tokens are in the context.
    StopText(usize),
    /// It has [`AnswerOptions::max_new`] tokens.
    Length,
    /// The model's context is full.
    ContextFull,
    /// [`AnswerOptions::cancelled`] was set. The context has the tokens up to the last piece.
    Cancelled,
}

impl Finish {
    /// A word for it, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndToken(_) => "end_token",
            Self::StopText(_) => "stop_text",
            Self::Length => "length",
            Self::ContextFull => "context_full",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How far an answer has come, for whoever has other things to do between its pieces. It belongs to
/// one generator and one tokenizer; nothing else may be done with that generator meanwhile.
pub struct AnswerState {
    sampler: Sampler,
    stream: TextStream,
    stop: StopTexts,
    end: Vec<u32>,
    left: usize,
    finish: Option<Finish>,
    /// Whether it ended with an error.
    failed: bool,
}

impl AnswerState {
    /// Appends `prompt` to the context of `generator`; it goes through the model with the first
    /// piece.
    ///
    /// # Errors
    /// Those of [`Generator::push`], and [`TextError::Setting`].
    pub fn start(
        generator: &mut Generator,
        tokenizer: &Tokenizer,
        prompt: &[u32],
        options: &AnswerOptions,
    ) -> Result<Self, TextError> {
        let sampler = Sampler::new(options.sampling)?;
        generator.push(prompt)?;
        let end = match generator.contract().end.as_slice() {
            [] => tokenizer.end(),
            end => end,
        };
        let ends = !options.ignore_end;
        let mut state = Self {
            end: end.iter().chain(&options.end).copied().filter(|_| ends).collect(),
            sampler,
            stream: TextStream::going_on(),
            stop: StopTexts::new(options.stop.clone()),
            left: options.max_new,
            finish: None,
            failed: false,
        };
        state.look_for_end(generator);
        Ok(state)
    }

    /// Why the answer ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Ends the answer where there is no room for a token.
    fn look_for_end(&mut self, generator: &Generator) {
        if self.finish.is_none() {
            let full = generator.tokens().len() >= generator.contract().context;
            self.finish = match self.left {
                0 => Some(Finish::Length),
                _ if full => Some(Finish::ContextFull),
                _ => None,
            };
        }
    }

    /// Runs the model over what is new, if the answer has not ended; whether it has not been
    /// cancelled.
    fn read(
        &mut self,
        generator: &mut Generator,
        cancelled: Option<&AtomicBool>,
    ) -> Result<bool, TextError> {
        match generator.logits(cancelled) {
            Err(error) if error.is_cancelled() => {
                self.finish = Some(Finish::Cancelled);
                Ok(false)
            }
            result => result.map(|_| true),
        }
    }

    /// The next piece, by a run of the model; `None` when the answer has ended, as it does with an
    /// error. `cancelled` ends it, also within a run.
    ///
    /// # Errors
    /// [`TextError::Model`] and those of choosing a token.
    pub fn next(
        &mut self,
        generator: &mut Generator,
        tokenizer: &Tokenizer,
        cancelled: Option<&AtomicBool>,
    ) -> Result<Option<Piece>, TextError> {
        if self.finish.is_some() || self.failed {
            return Ok(None);
        }
        let found = self.go_on(generator, tokenizer, cancelled);
        self.failed = found.is_err();
        found
    }

    /// The next piece of an answer that has not ended.
    fn go_on(
        &mut self,
        generator: &mut Generator,
        tokenizer: &Tokenizer,
        cancelled: Option<&AtomicBool>,
    ) -> Result<Option<Piece>, TextError> {
        if cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            self.finish = Some(Finish::Cancelled);
            return Ok(None);
        }
        if !self.read(generator, cancelled)? {
            return Ok(None);
        }
        let (tokens, logits) = (generator.tokens(), generator.last_logits());
        let token = self.sampler.sample(logits, tokens)?;
        let mut text = if self.end.contains(&token) {
            self.finish = Some(Finish::EndToken(token));
            String::new()
        } else {
            self.stream.push(tokenizer, token)?
        };
        generator.push(&[token])?;
        self.left -= 1;
        self.look_for_end(generator);
        if self.finish.is_some() {
            text.push_str(&self.stream.finish());
        }
        let (mut text, found) = self.stop.push(&text);
        match found {
            Some(index) => self.finish = Some(Finish::StopText(index)),
            None if self.finish.is_some() => text.push_str(&self.stop.finish()),
            None => {}
        }
        Ok(Some(Piece { token, text, position: generator.tokens().len() }))
    }
}

/// An answer that is being made: each piece is a run of the model. Dropped early, it leaves the
/// context with the tokens so far.
pub struct Answer<'a> {
    generator: &'a mut Generator,
    tokenizer: &'a Tokenizer,
    state: AnswerState,
    cancelled: Option<Arc<AtomicBool>>,
}

impl<'a> Answer<'a> {
    pub(crate) fn start(
        generator: &'a mut Generator,
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        options: &AnswerOptions,
    ) -> Result<Self, TextError> {
        let mut state = AnswerState::start(generator, tokenizer, prompt, options)?;
        state.read(generator, options.cancelled.as_deref())?;
        Ok(Self { generator, tokenizer, state, cancelled: options.cancelled.clone() })
    }

    /// Why the answer ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.state.finish()
    }
}

impl Iterator for Answer<'_> {
    type Item = Result<Piece, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.state.next(self.generator, self.tokenizer, self.cancelled.as_deref()).transpose()
    }
}
