//! Formats of prompts: the parts of `model.yaml`, or a Jinja template.

use afferent_package::ToolFormat;
use afferent_text::{
    ChatMessage, ChatOptions, ChatPrompt, ChatTemplate as Jinja, TextError, Tokenizer,
};

use super::{answer::THINK, template::ChatParts};

/// Format of a prompt.
pub(super) enum Format {
    /// Parts of `chat` in `model.yaml`, and the tokens at the start of every prompt.
    Parts(Vec<u32>, Box<ChatParts>),
    /// Jinja template.
    Jinja(Box<JinjaFormat>),
}

/// Jinja template with the variables of a dialogue.
pub(super) struct JinjaFormat {
    template: Jinja,
    options: ChatOptions,
    pub(super) tool_format: Option<ToolFormat>,
    system: Option<ChatMessage>,
    /// The last prompt, with what was generated after it.
    earlier: ChatPrompt,
    /// Number of tool calls so far, for their ids.
    calls: u32,
}

impl Format {
    /// Tokenizer that encodes special tokens as text.
    pub(super) fn tokenizer(&self) -> &Tokenizer {
        match self {
            Self::Parts(_, template) => &template.plain,
            Self::Jinja(format) => format.template.tokenizer(),
        }
    }

    /// Token that a Jinja template puts after an answer.
    pub(super) fn end(&self) -> Option<u32> {
        match self {
            Self::Parts(..) => None,
            Self::Jinja(format) => format.template.end(),
        }
    }
}

impl JinjaFormat {
    /// The format of tool calls is `tool_format`, or that of the template, or that of the tokenizer.
    pub(super) fn new(
        template: Jinja,
        options: ChatOptions,
        tool_format: Option<ToolFormat>,
        system: Option<String>,
    ) -> Self {
        let formats = [
            ("<tool_call>", ToolFormat::Hermes),
            ("[TOOL_CALLS]", ToolFormat::Mistral),
            ("<|python_tag|>", ToolFormat::Llama),
        ];
        let in_template = formats.iter().find(|(mark, _)| template.mentions(mark));
        let is_token = |mark: &str| template.tokenizer().token_id(mark).is_some();
        let found = in_template.or_else(|| formats.iter().find(|(mark, _)| is_token(mark)));
        // Without tools, an answer has no calls.
        let found = found.filter(|_| !options.tools.is_empty()).map(|&(_, format)| format);
        let system = system.map(|text| message("system", text));
        let tool_format = tool_format.or(found);
        Self { template, options, tool_format, system, earlier: ChatPrompt::default(), calls: 0 }
    }

    /// Prompt for the next answer after `messages`.
    pub(super) fn prompt<'m>(
        &'m self,
        messages: impl Iterator<Item = &'m ChatMessage>,
    ) -> Result<ChatPrompt, TextError> {
        let messages: Vec<ChatMessage> = self.system.iter().chain(messages).cloned().collect();
        self.template.prompt(&messages, &self.options, &self.earlier)
    }

    /// Takes `prompt` as the one that the model runs. Returns true if it ends with the start of a
    /// thinking block.
    pub(super) fn begin(&mut self, prompt: ChatPrompt) -> bool {
        let is_thinking = prompt.text().trim_end().ends_with(THINK);
        self.earlier = prompt;
        is_thinking
    }

    /// Adds what was generated after the prompt.
    pub(super) fn push_generated(&mut self, tokens: &[u32], text: &str) {
        self.earlier.push_generated(tokens, text);
    }

    /// Id of the next tool call.
    pub(super) fn next_call_id(&mut self) -> String {
        self.calls = (self.calls + 1) % 100_000;
        format!("call{:05}", self.calls)
    }
}

/// A message with the text `content`.
pub(super) fn message(role: &str, content: String) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content, ..ChatMessage::default() }
}
