//! Chat template of a model package, as tokens.

use std::path::Path;

use afferent_package::Chat;
use afferent_text::{MessageTemplate, TextError, Tokenizer};

/// The texts of [`Chat`] as tokens.
pub struct ChatParts {
    /// Tokenizer that encodes special tokens in user text as plain text.
    pub(super) plain: Tokenizer,
    begin: Vec<u32>,
    system: Option<MessageTemplate>,
    pub(super) user: MessageTemplate,
    /// Tokens before an answer.
    pub(super) answer: Vec<u32>,
    /// Tokens after an answer.
    pub(super) end: Vec<u32>,
    /// First token of a tool call.
    pub(super) call: Option<u32>,
    pub(super) result: Option<MessageTemplate>,
    /// Names of the tools, and of the fields of their results.
    pub(super) result_fields: Vec<(String, Vec<String>)>,
}

impl ChatParts {
    /// Encodes `chat` with the tokenizer at `path`.
    ///
    /// # Errors
    /// [`TextError`]: the tokenizer cannot be opened, or `chat.call` is not one of its tokens.
    pub fn new(path: &Path, chat: &Chat) -> Result<Self, TextError> {
        let special = Tokenizer::open(path)?;
        let message = |text: &String| MessageTemplate::new(&special, text);
        let encoded = |text: &str| special.encode(text);
        let token = |name: &String| {
            let reason = format!(
                "chat.call in model.yaml is {name:?}, which is not a token of this tokenizer"
            );
            let path = path.to_owned();
            special.token_id(name).ok_or(TextError::Tokenizer { path, reason })
        };
        let (begin, end) = (encoded(&chat.begin)?, encoded(&chat.end)?);
        let (user, answer) = (message(&chat.user)?, encoded(&chat.answer)?);
        let system = chat.system.as_ref().map(message).transpose()?;
        let result = chat.result.as_ref().map(message).transpose()?;
        let call = chat.call.as_ref().map(token).transpose()?;
        let mut used = [begin.as_slice(), &answer, &end].concat();
        for message in [Some(&user), system.as_ref(), result.as_ref()].into_iter().flatten() {
            used.extend(message.tokens());
        }
        used.extend(call);
        Ok(Self {
            plain: special.with_special_as_text(&used),
            begin,
            system,
            user,
            answer,
            end,
            call,
            result,
            result_fields: chat
                .tools
                .iter()
                .map(|tool| (tool.name.clone(), tool.result.keys().cloned().collect()))
                .collect(),
        })
    }

    /// Tokenizer that encodes special tokens as text.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.plain
    }

    /// Prompt for the answer to a question, after the system prompt.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn prompt(&self, system: Option<&str>, question: &str) -> Result<Vec<u32>, TextError> {
        let mut tokens = self.prefix(system)?;
        tokens.extend(self.user.encode(&self.plain, question)?);
        tokens.extend_from_slice(&self.answer);
        Ok(tokens)
    }

    /// Tokens at the start of every prompt.
    pub(super) fn prefix(&self, system: Option<&str>) -> Result<Vec<u32>, TextError> {
        let mut tokens = self.begin.clone();
        if let (Some(message), Some(text)) = (&self.system, system) {
            tokens.extend(message.encode(&self.plain, text)?);
        }
        Ok(tokens)
    }
}
