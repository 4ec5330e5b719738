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
    /// Whether tokens that end an answer are ignored, which benchmarks want.
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

/// An answer that is being made: each piece is a run of the model. Dropped early, it leaves the
/// context with the tokens so far.
pub struct Answer<'a> {
    generator: &'a mut Generator,
    tokenizer: &'a Tokenizer,
    sampler: Sampler,
    stream: TextStream,
    stop: StopTexts,
    end: Vec<u32>,
    left: usize,
    cancelled: Option<Arc<AtomicBool>>,
    finish: Option<Finish>,
}

impl<'a> Answer<'a> {
    pub(crate) fn start(
        generator: &'a mut Generator,
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        options: &AnswerOptions,
    ) -> Result<Self, TextError> {
        let sampler = Sampler::new(options.sampling)?;
        generator.push(prompt)?;
        let end = match generator.contract().end.as_slice() {
            _ if options.ignore_end => &[],
            [] => tokenizer.end(),
            end => end,
        };
        let mut answer = Self {
            end: end.to_vec(),
            generator,
            tokenizer,
            sampler,
            stream: TextStream::going_on(),
            stop: StopTexts::new(options.stop.clone()),
            left: options.max_new,
            cancelled: options.cancelled.clone(),
            finish: None,
        };
        match answer.generator.logits(answer.cancelled.as_deref()) {
            Err(error) if error.is_cancelled() => answer.finish = Some(Finish::Cancelled),
            result => _ = result?,
        }
        answer.look_for_end();
        Ok(answer)
    }

    /// Why the answer ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Ends the answer where there is no room for a token.
    fn look_for_end(&mut self) {
        if self.finish.is_none() {
            let full = self.generator.tokens().len() >= self.generator.contract().context;
            self.finish = match self.left {
                0 => Some(Finish::Length),
                _ if full => Some(Finish::ContextFull),
                _ => None,
            };
        }
    }

    fn next_piece(&mut self) -> Result<Option<Piece>, TextError> {
        let cancelled = self.cancelled.as_deref();
        if cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            self.finish = Some(Finish::Cancelled);
            return Ok(None);
        }
        match self.generator.logits(cancelled) {
            Err(error) if error.is_cancelled() => {
                self.finish = Some(Finish::Cancelled);
                return Ok(None);
            }
            result => _ = result?,
        }
        let (tokens, logits) = (self.generator.tokens(), self.generator.last_logits());
        let token = self.sampler.sample(logits, tokens)?;
        let mut text = if self.end.contains(&token) {
            self.finish = Some(Finish::EndToken(token));
            String::new()
        } else {
            self.stream.push(self.tokenizer, token)?
        };
        self.generator.push(&[token])?;
        self.left -= 1;
        self.look_for_end();
        if self.finish.is_some() {
            text.push_str(&self.stream.finish());
        }
        let (mut text, found) = self.stop.push(&text);
        match found {
            Some(index) => self.finish = Some(Finish::StopText(index)),
            None if self.finish.is_some() => text.push_str(&self.stop.finish()),
            None => {}
        }
        Ok(Some(Piece { token, text, position: self.generator.tokens().len() }))
    }
}

impl Iterator for Answer<'_> {
    type Item = Result<Piece, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finish.is_some() {
            return None;
        }
        self.next_piece().transpose()
    }
}
