//! Prompts of `afferent model generate`: texts, or messages in a chat template.

use afferent_nodes_speech::ChatParts;
use afferent_package::{Chat, ModelPackage};
use afferent_text::{
    ChatMessage, ChatOptions, ChatPrompt, ChatTemplate, Companions, Generator, Tokenizer,
};
use anyhow::Context;

/// Form of prompts.
pub(super) enum Prompts {
    /// Text that the model continues.
    Text(Box<Tokenizer>),
    /// Message of a user after a system prompt, in the parts of `chat` in model.yaml.
    Parts(Box<ChatParts>, Option<String>),
    /// Message of a user after a system prompt, in a Jinja template.
    Jinja(Box<ChatTemplate>, Option<String>),
}

impl Prompts {
    /// Texts for the tokenizer of `companions`.
    pub(super) fn text(companions: &Companions) -> anyhow::Result<Self> {
        Ok(Self::Text(Box::new(Tokenizer::open(&companions.tokenizer)?)))
    }

    /// Messages in the template `chat` of the package, or else in that of the files beside the tokenizer.
    pub(super) fn chat(
        package: &ModelPackage,
        mut companions: Companions,
        chat: &Chat,
        system: Option<&str>,
    ) -> anyhow::Result<Self> {
        let system = system.map(str::to_owned).or_else(|| chat.instructions.clone());
        if chat.has_parts() {
            let parts = ChatParts::new(&companions.tokenizer, chat)?;
            return Ok(Self::Parts(Box::new(parts), system));
        }
        if let Some(file) = &chat.template {
            companions.set_template(package.folder().join(file))?;
        }
        let tokenizer = Tokenizer::open(&companions.tokenizer)?;
        let template = companions.chat_template(tokenizer).with_context(|| {
            format!(
                "no chat template; copy chat_template.jinja or tokenizer_config.json of the model \
                 to the folder of {}, define `chat` in model.yaml, or leave out --chat",
                companions.tokenizer.display()
            )
        })?;
        Ok(Self::Jinja(Box::new(template?), system))
    }

    pub(super) fn tokenizer(&self) -> &Tokenizer {
        match self {
            Self::Text(tokenizer) => tokenizer,
            Self::Parts(parts, _) => parts.tokenizer(),
            Self::Jinja(template, _) => template.tokenizer(),
        }
    }

    /// Token that a Jinja template puts after an answer.
    pub(super) fn end(&self) -> Option<u32> {
        match self {
            Self::Jinja(template, _) => template.end(),
            Self::Text(_) | Self::Parts(..) => None,
        }
    }

    /// Tokens of the prompt `text`.
    pub(super) fn encode(&self, generator: &Generator, text: &str) -> anyhow::Result<Vec<u32>> {
        let (template, system) = match self {
            Self::Text(tokenizer) => return Ok(generator.encode(tokenizer, text)?),
            Self::Parts(parts, system) => return Ok(parts.prompt(system.as_deref(), text)?),
            Self::Jinja(template, system) => (template, system),
        };
        let message = |role: &str, content: &str| ChatMessage {
            role: role.to_owned(),
            content: content.to_owned(),
            ..ChatMessage::default()
        };
        let system = system.as_ref().map(|text| message("system", text));
        let messages: Vec<ChatMessage> =
            system.into_iter().chain([message("user", text)]).collect();
        let (options, earlier) = (ChatOptions::default(), ChatPrompt::default());
        Ok(template.prompt(&messages, &options, &earlier)?.tokens)
    }
}
