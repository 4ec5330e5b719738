//! Fields of `model.yaml` for language models.

use indexmap::IndexMap;
use serde::Deserialize;

/// Chat template of a language model: the file of a Jinja template, or the parts of a prompt.
///
/// With [`template`](Self::template), the other parts are absent; so is the whole section if
/// `tokenizer_config.json` or `chat_template.jinja` beside the tokenizer has the template.
///
/// Otherwise `{text}` marks the content in each part. A prompt consists of [`begin`](Self::begin),
/// [`system`](Self::system), and for each turn [`user`](Self::user) and [`answer`](Self::answer).
/// The model then generates the answer up to [`end`](Self::end). `user`, `answer` and `end` are
/// required.
///
/// For a model that sees, `{image}` in [`user`](Self::user) marks where the images of a turn are; for one
/// that hears, `{audio}` marks where its audio is.
///
/// A tool call starts with [`call`](Self::call), followed by a JSON object with the `name` of the
/// tool and its `arguments`. The result, also a JSON object, is appended as
/// [`result`](Self::result). Another [`answer`](Self::answer) then prompts the model for the final
/// answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// Jinja template, a file relative to the package folder.
    pub template: Option<String>,
    /// Format of tool calls; by default that which the template or the tokenizer contains. For
    /// packages with a Jinja template.
    pub tool_format: Option<ToolFormat>,
    /// Default system prompt.
    pub instructions: Option<String>,
    /// Start of the dialogue.
    #[serde(default)]
    pub begin: String,
    /// Template of the system prompt.
    pub system: Option<String>,
    /// Template of a user turn.
    #[serde(default)]
    pub user: String,
    /// Generation prompt: start of an answer of the model.
    #[serde(default)]
    pub answer: String,
    /// End of an answer. With a Jinja template, a token besides those that the files name.
    #[serde(default)]
    pub end: String,
    /// Start of a tool call; must be a single token.
    pub call: Option<String>,
    /// Template of a tool result.
    pub result: Option<String>,
    /// Token that stands for an image in a prompt, such as `<image>`; by default that of the program or
    /// of the tokenizer. For models that see.
    pub image_token: Option<String>,
    /// Text in place of that token, with `{image}` where the rows of the image are, such as
    /// `<start_of_image>{image}<end_of_image>`; by default only the rows.
    pub image: Option<String>,
    /// Tools that the model was trained with, or that the Jinja template gets.
    #[serde(default)]
    pub tools: Vec<Tool>,
}

impl Chat {
    /// True if the section has the parts of a prompt, and thus no Jinja template.
    pub fn has_parts(&self) -> bool {
        !self.user.is_empty() || !self.answer.is_empty()
    }

    /// Checks that there is a template or all required parts, and not both.
    pub(crate) fn check(&self) -> Result<(), String> {
        let parts = [("user", &self.user), ("answer", &self.answer), ("end", &self.end)];
        if self.has_parts() {
            if self.template.is_some() || self.tool_format.is_some() {
                let reason = "chat has both `template` or `tool_format`, and the parts of a prompt";
                return Err(reason.to_owned());
            }
            if let Some((name, _)) = parts.iter().find(|(_, text)| text.is_empty()) {
                return Err(format!("chat.{name} is missing; a prompt has user, answer and end"));
            }
        }
        if self.image.as_ref().is_some_and(|text| text.matches("{image}").count() != 1) {
            return Err(
                "chat.image must contain {image} once, where the rows of the image are".to_owned()
            );
        }
        let mut others =
            [("system", &self.system), ("call", &self.call), ("result", &self.result)].into_iter();
        match others.find(|(_, text)| text.is_some() && !self.has_parts()) {
            Some((name, _)) => {
                Err(format!("chat.{name} needs chat.user, chat.answer and chat.end, its prompt"))
            }
            None => Ok(()),
        }
    }
}

/// Format of the tool calls of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, of Qwen, Hermes and SmolLM.
    Hermes,
    /// `{"name": …, "parameters": {…}}`, with or without `<|python_tag|>` before it, of Llama 3.
    Llama,
    /// `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]name[ARGS]{…}`, of Mistral.
    Mistral,
}

/// Tool that a language model can call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Name in tool calls.
    pub name: String,
    /// Description.
    pub about: String,
    /// Names and descriptions of the arguments.
    #[serde(default)]
    pub arguments: IndexMap<String, String>,
    /// Names and descriptions of the result fields, in the order of the training data.
    #[serde(default)]
    pub result: IndexMap<String, String>,
}

/// Kind of the state that a language model keeps between runs: `positional`, `recurrent`, or
/// `{ring: {window: 512}}`.
///
/// It decides what removing tokens from the end of the context costs, which a dialogue does for each
/// interruption. A wrong kind gives wrong answers and no error. A program says that it is recurrent
/// by a position input that it does not use, and that it is a ring by `sliding_window`. It does not
/// say so if only some of its layers are recurrent, as in LFM2 and Qwen3.5: those need this field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CacheKind {
    /// KV cache with an entry for each position. Removing tokens is free.
    Positional,
    /// State that each token changes for good: recurrences, convolutions. Removing tokens reads the
    /// context again.
    Recurrent,
    /// KV cache of the last tokens. Removing tokens is free while the ring holds what attention
    /// sees, and otherwise reads the context again.
    Ring {
        /// Number of tokens that attention sees, at least 1.
        window: usize,
        /// Number of entries, at least `window`; the default is `window`. ExecuTorch's ring caches
        /// have twice as many.
        slots: Option<usize>,
    },
}

impl CacheKind {
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Self::Ring { window: 0, .. } => Err("cache.ring.window must be at least 1".to_owned()),
            Self::Ring { window, slots: Some(slots) } if slots < window => Err(format!(
                "cache.ring.slots is {slots}, but must be at least cache.ring.window ({window})"
            )),
            _ => Ok(()),
        }
    }
}
