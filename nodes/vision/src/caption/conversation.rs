//! Questions about images and their answers, within the context of the model.

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use afferent_graph::{NodeError, OpenCx};
use afferent_messages::Image;
use afferent_text::{GenerationOptions, GenerationState, Generator, TextError};

use super::{
    files::{ENCODER, Opened, Settings},
    prompt::{Format, Shown, Turn},
};
use crate::model_image::ModelImage;

/// A model and the last questions with their images and answers.
///
/// The oldest questions are dropped when the next answer would exceed the context. The KV cache of the
/// common beginning of two prompts is kept.
pub(super) struct Conversation {
    path: PathBuf,
    generator: Generator,
    image: ModelImage,
    format: Format,
    options: GenerationOptions,
    /// Number of earlier questions in a prompt.
    history: usize,
    turns: Vec<Turn>,
    answer: Option<Answer>,
    /// Number of images so far.
    shown: u64,
}

/// An answer in progress.
struct Answer {
    state: GenerationState,
    text: String,
    /// The text with the names of special tokens.
    raw: String,
    tokens: Vec<u32>,
}

impl Conversation {
    /// Opens the package or program at `path`.
    pub(super) fn open(
        path: &Path,
        settings: &Settings,
        history: usize,
        cx: &OpenCx,
    ) -> Result<Self, NodeError> {
        let Opened { generator, image, format, options, rows } = Opened::open(path, settings, cx)?;
        let conversation = Self {
            path: path.to_owned(),
            generator,
            image,
            format,
            options,
            history,
            turns: Vec::new(),
            answer: None,
            shown: 0,
        };
        let shortest = Turn { question: "a".to_owned(), ..Turn::default() };
        let prompt = conversation.format.prompt(&[shortest]);
        let prompt = prompt.map_err(|error| conversation.model_error(&error))?;
        let context = conversation.generator.contract().max_context_len;
        let seen = rows.saturating_mul(settings.images);
        let needed = prompt.len().saturating_add(seen).saturating_add(settings.max_new);
        if needed > context {
            let reason = format!(
                "a question with {} images of {rows} rows and an answer of {} tokens need {needed} tokens \
                 of the model's context of {context}; lower `images` or `max_new`",
                settings.images, settings.max_new
            );
            return Err(NodeError::InvalidParam { name: "images".into(), reason });
        }
        Ok(conversation)
    }

    /// Error of the model.
    pub(super) fn model_error(&self, error: &TextError) -> NodeError {
        match error.is_canceled() {
            true => NodeError::Canceled,
            false => NodeError::Model { path: self.path.clone(), reason: error.to_string() },
        }
    }

    /// Makes the rows of `image`.
    pub(super) fn show(&mut self, image: &Image, cancel: &AtomicBool) -> Result<Shown, NodeError> {
        let failed = |reason: String| NodeError::Model { path: self.path.clone(), reason };
        let input = self.image.prepare(image).map_err(failed)?;
        let rows = self.generator.run_encoder(ENCODER, &[input], Some(cancel));
        let rows = rows.map_err(|error| self.model_error(&error))?;
        self.shown += 1;
        Ok(Shown { number: self.shown, rows })
    }

    /// Begins the answer to a question of turn `number`, which replaces an earlier one of the same turn.
    pub(super) fn ask(
        &mut self,
        number: u64,
        question: &str,
        images: Vec<Shown>,
    ) -> Result<(), TextError> {
        self.stop();
        self.turns.pop_if(|last| last.number == number);
        let surplus = self.turns.len().saturating_sub(self.history);
        self.turns.drain(..surplus);
        self.turns.push(Turn { number, images, question: question.to_owned(), ..Turn::default() });
        let begun = self.begin();
        if begun.is_err() {
            self.turns.pop();
        }
        begun
    }

    /// Begins the answer to the last question. Drops the oldest turns until it fits into the context.
    fn begin(&mut self) -> Result<(), TextError> {
        let limit = self.generator.contract().max_context_len;
        let available = limit.saturating_sub(self.options.max_new_tokens);
        let mut first = 0;
        let prompt = loop {
            let prompt = self.format.prompt(&self.turns[first..])?;
            let is_last = first + 1 == self.turns.len();
            // At least one token is left for the answer.
            if prompt.len() <= available || is_last && prompt.len() < limit {
                break prompt;
            }
            if is_last {
                return Err(TextError::ContextFull { needed: prompt.len() + 1, limit });
            }
            first += 1;
        };
        self.turns.drain(..first);
        self.generator.set_context(&prompt.segments)?;
        self.format.begin(prompt);
        let Self { generator, format, options, .. } = self;
        let state = GenerationState::start(generator, format.tokenizer(), &[], options)?;
        let (text, raw) = (String::new(), String::new());
        self.answer = Some(Answer { state, text, raw, tokens: Vec::new() });
        Ok(())
    }

    /// The next piece of the answer; `None` at its end.
    pub(super) fn next(&mut self, cancel: &AtomicBool) -> Result<Option<String>, TextError> {
        let Self { generator, format, answer, .. } = self;
        let Some(current) = answer else { return Ok(None) };
        let tokenizer = format.tokenizer();
        let Some(token) = current.state.next(generator, tokenizer, Some(cancel))? else {
            self.stop();
            return Ok(None);
        };
        current.tokens.push(token.token);
        current.raw.push_str(&token.text);
        current.raw.push_str(tokenizer.special_name(token.token).unwrap_or_default());
        let is_start = current.text.is_empty();
        let text = if is_start { token.text.trim_start() } else { &token.text };
        current.text.push_str(text);
        Ok(Some(text.to_owned()))
    }

    /// True while an answer is in progress.
    pub(super) fn is_answering(&self) -> bool {
        self.answer.is_some()
    }

    /// Tokens of the context, with a placeholder for each row.
    #[cfg(test)]
    pub(super) fn tokens(&self) -> &[u32] {
        self.generator.tokens()
    }

    /// Number of images that the encoder has run on.
    #[cfg(test)]
    pub(super) fn shown(&self) -> u64 {
        self.shown
    }

    /// Ends the answer in progress; what was generated stays in the history.
    pub(super) fn stop(&mut self) {
        if let (Some(answer), Some(turn)) = (self.answer.take(), self.turns.last_mut()) {
            self.format.finish(turn, &answer.tokens, answer.text, &answer.raw);
        }
    }
}
