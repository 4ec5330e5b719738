//! Prompts with images: the parts of `model.yaml`, or a Jinja template.

use afferent_package::Chat;
use afferent_text::{
    ChatMessage, ChatOptions, ChatPrompt, ChatTemplate, EmbeddingRows, MessageTemplate, Segment,
    TextError, Tokenizer,
};

/// An image with its rows.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// Number of the image.
    pub(super) number: u64,
    pub(super) rows: EmbeddingRows,
}

/// A question with its images and, once it is answered, the answer.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) images: Vec<Shown>,
    pub(super) question: String,
    pub(super) answer: Option<String>,
    /// Tokens of the answer, of a format of parts.
    pub(super) tokens: Vec<u32>,
}

/// Prompt for an answer.
pub(super) struct Prompt {
    pub(super) segments: Vec<Segment>,
    /// Text and tokens of a Jinja template.
    chat: ChatPrompt,
}

impl Prompt {
    /// Number of positions in the context.
    pub(super) fn len(&self) -> usize {
        let len = |segment: &Segment| match segment {
            Segment::Tokens(tokens) => tokens.len(),
            Segment::Rows { rows, .. } => rows.len(),
        };
        self.segments.iter().map(len).sum()
    }
}

/// Tokens of a prompt around the rows of an image.
pub(super) struct ImageTokens {
    placeholder: u32,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl ImageTokens {
    /// `text` is [`Chat::image`].
    pub(super) fn new(
        placeholder: u32,
        text: Option<&str>,
        special: &Tokenizer,
    ) -> Result<Self, TextError> {
        let (before, after) = text.and_then(|text| text.split_once("{image}")).unwrap_or_default();
        let (before, after) = (special.encode(before)?, special.encode(after)?);
        Ok(Self { placeholder, before, after })
    }

    /// Appends an image to a prompt.
    fn push(&self, image: &Shown, segments: &mut Vec<Segment>) {
        segments.push(Segment::Tokens(self.before.clone()));
        let (placeholder, rows) = (self.placeholder, image.rows.clone());
        segments.push(Segment::Rows { placeholder, rows });
        segments.push(Segment::Tokens(self.after.clone()));
    }
}

/// Format of a prompt.
pub(super) enum Format {
    /// Parts of `chat` in `model.yaml`.
    Parts(Box<Parts>),
    /// Jinja template.
    Jinja(Box<Jinja>),
}

/// Parts of a prompt as tokens.
pub(super) struct Parts {
    image: ImageTokens,
    /// Tokenizer that reads special tokens as text.
    plain: Tokenizer,
    /// Tokens at the start of every prompt.
    prefix: Vec<u32>,
    /// A question without images.
    question: MessageTemplate,
    /// A question with images: the tokens before them, and the rest.
    with_images: (Vec<u32>, MessageTemplate),
    /// Tokens before an answer.
    answer: Vec<u32>,
    /// Tokens after an answer.
    end: Vec<u32>,
}

/// Jinja template of a dialogue.
pub(super) struct Jinja {
    image: ImageTokens,
    template: ChatTemplate,
    system: Option<ChatMessage>,
    /// The last prompt, with what was generated after it.
    earlier: ChatPrompt,
}

impl Parts {
    /// Encodes `chat`; `special` reads special tokens as such.
    pub(super) fn new(
        chat: &Chat,
        image: ImageTokens,
        system: Option<&str>,
        special: &Tokenizer,
    ) -> Result<Self, TextError> {
        let question = MessageTemplate::new(special, &chat.user.replacen("{image}", "", 1))?;
        let (before, rest) = chat.user.split_once("{image}").unwrap_or_default();
        let with_images = (special.encode(before)?, MessageTemplate::new(special, rest)?);
        let (answer, end) = (special.encode(&chat.answer)?, special.encode(&chat.end)?);
        let template = chat.system.as_deref().map(|text| MessageTemplate::new(special, text));
        let template = template.transpose()?;
        let mut prefix = special.encode(&chat.begin)?;
        let mut used = [&prefix, &with_images.0, &answer, &end, &image.before, &image.after]
            .map(Vec::as_slice)
            .concat();
        used.push(image.placeholder);
        let messages = [Some(&question), Some(&with_images.1), template.as_ref()];
        used.extend(messages.into_iter().flatten().flat_map(MessageTemplate::tokens));
        let plain = special.clone().with_special_as_text(&used);
        if let (Some(template), Some(text)) = (&template, system) {
            prefix.extend(template.encode(&plain, text)?);
        }
        Ok(Self { image, plain, prefix, question, with_images, answer, end })
    }

    fn prompt(&self, turns: &[Turn]) -> Result<Vec<Segment>, TextError> {
        let mut segments = vec![Segment::Tokens(self.prefix.clone())];
        for (at, turn) in turns.iter().enumerate() {
            let images = new_images(turns, at);
            let question = if images.is_empty() {
                self.question.encode(&self.plain, &turn.question)?
            } else {
                let (before, rest) = &self.with_images;
                segments.push(Segment::Tokens(before.clone()));
                images.iter().for_each(|image| self.image.push(image, &mut segments));
                rest.encode(&self.plain, &turn.question)?
            };
            segments.push(Segment::Tokens(question));
            segments.push(Segment::Tokens(self.answer.clone()));
            segments.push(Segment::Tokens(turn.tokens.clone()));
        }
        Ok(segments)
    }
}

impl Jinja {
    /// Takes the first of `candidates` that the template has for an image.
    ///
    /// # Errors
    /// A message that says what is missing.
    pub(super) fn new(
        template: ChatTemplate,
        candidates: &[u32],
        text: Option<&str>,
        special: &Tokenizer,
        system: Option<String>,
    ) -> Result<Self, String> {
        let system = system.map(|text| message("system", text));
        let question = ChatMessage { images: 1, ..message("user", "a".to_owned()) };
        let messages: Vec<ChatMessage> = system.iter().cloned().chain([question]).collect();
        let options = ChatOptions::default();
        let prompt = template.prompt(&messages, &options, &ChatPrompt::default());
        let prompt = prompt.map_err(|error| error.to_string())?;
        let count = |token: u32| prompt.tokens.iter().filter(|found| **found == token).count();
        let found = candidates.iter().copied().find(|token| count(*token) == 1);
        let placeholder = found.ok_or_else(|| {
            format!(
                "the chat template has no token for an image, or several; its prompt is {:?}. Name the \
                 token with chat.image_token in model.yaml",
                prompt.text()
            )
        })?;
        let image = ImageTokens::new(placeholder, text, special);
        let image = image.map_err(|error| error.to_string())?;
        Ok(Self { image, template, system, earlier: ChatPrompt::default() })
    }

    fn prompt(&self, turns: &[Turn]) -> Result<Prompt, TextError> {
        let (mut messages, mut images) = (Vec::from_iter(self.system.clone()), Vec::new());
        for (at, turn) in turns.iter().enumerate() {
            let new = new_images(turns, at);
            let question = message("user", turn.question.clone());
            messages.push(ChatMessage { images: new.len(), ..question });
            messages.extend(turn.answer.clone().map(|answer| message("assistant", answer)));
            images.extend(new);
        }
        let chat = self.template.prompt(&messages, &ChatOptions::default(), &self.earlier)?;
        let mut parts = chat.tokens.split(|token| *token == self.image.placeholder);
        let mut segments =
            Vec::from_iter(parts.next().map(|tokens| Segment::Tokens(tokens.into())));
        let mut shown = images.iter();
        for tokens in parts {
            let Some(image) = shown.next() else {
                return Err(self.wrong_count(&chat, images.len()));
            };
            self.image.push(image, &mut segments);
            segments.push(Segment::Tokens(tokens.into()));
        }
        match shown.next() {
            None => Ok(Prompt { segments, chat }),
            Some(_) => Err(self.wrong_count(&chat, images.len())),
        }
    }

    fn wrong_count(&self, chat: &ChatPrompt, images: usize) -> TextError {
        let found = chat.tokens.iter().filter(|token| **token == self.image.placeholder).count();
        TextError::ChatTemplate {
            reason: format!("the prompt has {found} tokens for images, but shows {images}"),
        }
    }
}

impl Format {
    /// Tokenizer that reads special tokens as text.
    pub(super) fn tokenizer(&self) -> &Tokenizer {
        match self {
            Self::Parts(parts) => &parts.plain,
            Self::Jinja(jinja) => jinja.template.tokenizer(),
        }
    }

    /// Token that a Jinja template puts after an answer.
    pub(super) fn end(&self) -> Option<u32> {
        match self {
            Self::Parts(_) => None,
            Self::Jinja(jinja) => jinja.template.end(),
        }
    }

    /// Prompt for the answer to the last of `turns`. An image is only in the first turn that shows it.
    pub(super) fn prompt(&self, turns: &[Turn]) -> Result<Prompt, TextError> {
        match self {
            Self::Parts(parts) => {
                let segments = parts.prompt(turns)?;
                Ok(Prompt { segments, chat: ChatPrompt::default() })
            }
            Self::Jinja(jinja) => jinja.prompt(turns),
        }
    }

    /// Takes `prompt` as the one that the model runs.
    pub(super) fn begin(&mut self, prompt: Prompt) {
        if let Self::Jinja(jinja) = self {
            jinja.earlier = prompt.chat;
        }
    }

    /// Ends the answer of `turn`: its tokens and its text, also with the names of special tokens.
    pub(super) fn finish(&mut self, turn: &mut Turn, tokens: &[u32], text: String, raw: &str) {
        match self {
            Self::Parts(parts) => {
                turn.tokens = tokens.to_vec();
                // The model may have generated a part of the end mark.
                let end = &parts.end;
                let has = (0..=end.len()).rev().find(|&len| tokens.ends_with(&end[..len]));
                turn.tokens.extend_from_slice(&end[has.unwrap_or(0)..]);
            }
            Self::Jinja(jinja) => jinja.earlier.push_generated(tokens, raw),
        }
        turn.answer = Some(text);
    }
}

/// Images of the turn at `at` that no turn before it shows.
fn new_images(turns: &[Turn], at: usize) -> Vec<&Shown> {
    let is_known = |image: &&Shown| {
        let mut earlier = turns[..at].iter().flat_map(|turn| &turn.images);
        earlier.any(|other| other.number == image.number)
    };
    turns[at].images.iter().filter(|image| !is_known(image)).collect()
}

fn message(role: &str, content: String) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content, ..ChatMessage::default() }
}

/// Constants of programs with the token of an image: of Hugging Face, optimum and react-native-executorch.
const CONSTANTS: &[&str] = &["image_token_id", "vision_token_id", "image_placeholder_id"];

/// Names of the token of an image in public tokenizers.
const NAMES: &[&str] = &[
    "<image>",
    "<|image_pad|>",
    "<|image|>",
    "<image_soft_token>",
    "<start_of_image>",
    "<IMG_CONTEXT>",
    "[IMG]",
];

/// Tokens that may stand for an image: the named one, or else those of the program and of the tokenizer.
///
/// # Errors
/// The name that is not a token.
pub(super) fn candidates(
    chat: &Chat,
    constant: impl Fn(&str) -> Option<i64>,
    tokenizer: &Tokenizer,
) -> Result<Vec<u32>, String> {
    if let Some(name) = &chat.image_token {
        let token = tokenizer.token_id(name).ok_or_else(|| {
            format!(
                "chat.image_token in model.yaml is {name:?}, which is not a token of this tokenizer"
            )
        })?;
        return Ok(vec![token]);
    }
    let constants = CONSTANTS.iter().filter_map(|name| u32::try_from(constant(name)?).ok());
    let named = NAMES.iter().filter_map(|name| tokenizer.token_id(name));
    Ok(constants.chain(named).collect())
}
