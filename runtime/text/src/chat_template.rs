//! Chat templates in Jinja, as in `tokenizer_config.json` of Hugging Face.

mod environment;
mod guard;

use std::iter;

use indexmap::IndexMap;
use minijinja::{Environment, Value};

use crate::{TextError, Tokenizer};
use guard::Guard;

/// Message of a dialogue.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Text of the message; the result, of a tool.
    pub content: String,
    /// Number of images before the text.
    pub images: usize,
    /// Text of a thinking block before the content.
    pub reasoning_content: Option<String>,
    /// Tool calls of the model.
    pub tool_calls: Vec<ChatCall>,
    /// Name of the tool, of a result.
    pub name: Option<String>,
    /// Id of the call, of a result.
    pub tool_call_id: Option<String>,
}

/// Tool call of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatCall {
    /// Id of the call: nine letters and digits, as Mistral requires.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, a JSON object.
    pub arguments: String,
}

/// Tool that a model may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatTool {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Names and descriptions of the arguments, which are strings and required.
    pub arguments: IndexMap<String, String>,
}

/// Variables of a template other than the messages.
#[derive(Debug, Clone, Default)]
pub struct ChatOptions {
    /// Tools that the model may call.
    pub tools: Vec<ChatTool>,
    /// Value of `enable_thinking`; `None` leaves it undefined.
    pub enable_thinking: Option<bool>,
}

/// Chat template with the tokenizer of its model.
///
/// A template gets the variables `messages`, `tools`, `add_generation_prompt`, `bos_token`,
/// `eos_token` and `enable_thinking`, and the functions `raise_exception` and `strftime_now`. Not
/// supported are documents and contents of sound.
///
/// The content of a message with images is a list, `[{"type": "image"}, {"type": "text", "text": …}]`,
/// for which the template writes a token of its own for each image.
///
/// **Control tokens in contents stay text.** A mark (U+FDD0) is inserted into each control token that
/// a content contains, after its first character, and no such token matches. The mark is removed
/// when the text is encoded, with a tokenizer that knows no control tokens. Conditions of the
/// template see the mark, so a user cannot write `</think>` to begin an answer. A control word that
/// is not a token of the vocabulary, such as `[INST]` of Llama 2, cannot be told from text.
pub struct ChatTemplate {
    environment: Environment<'static>,
    guard: Guard,
    special_tokens: IndexMap<String, String>,
    end: Option<u32>,
}

/// Text of a dialogue and its tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatPrompt {
    /// Text, with marks in control tokens that are text.
    marked: String,
    /// Tokens.
    pub tokens: Vec<u32>,
}

impl ChatPrompt {
    /// Text of the prompt.
    pub fn text(&self) -> String {
        guard::without_marks(&self.marked)
    }

    /// Appends what a model has generated: its tokens, and their text with the names of special
    /// tokens.
    pub fn push_generated(&mut self, tokens: &[u32], text: &str) {
        self.tokens.extend_from_slice(tokens);
        self.marked.push_str(text);
    }
}

impl ChatTemplate {
    /// Compiles `source`. `special_tokens` are variables such as `bos_token`.
    ///
    /// # Errors
    /// [`TextError::ChatTemplate`] if the template has a syntax error.
    pub fn new(
        source: &str,
        special_tokens: IndexMap<String, String>,
        tokenizer: Tokenizer,
    ) -> Result<Self, TextError> {
        let environment = environment::compile(source)?;
        let guard = Guard::new(tokenizer, source);
        let mut template = Self { environment, guard, special_tokens, end: None };
        template.end = template.find_end();
        Ok(template)
    }

    /// Tokenizer that encodes control tokens as text.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.guard.plain()
    }

    /// Token that the template puts after an answer.
    pub fn end(&self) -> Option<u32> {
        self.end
    }

    /// True if the source of the template contains `text`.
    pub fn mentions(&self, text: &str) -> bool {
        let template = self.environment.get_template(environment::NAME);
        template.is_ok_and(|template| template.source().contains(text))
    }

    /// Text of `messages`, and of the start of an answer.
    ///
    /// # Errors
    /// [`TextError::ChatTemplate`].
    pub fn render(
        &self,
        messages: &[ChatMessage],
        options: &ChatOptions,
        add_generation_prompt: bool,
    ) -> Result<String, TextError> {
        let marked = self.render_marked(messages, options, add_generation_prompt)?;
        Ok(guard::without_marks(&marked))
    }

    /// Tokens of `messages`, and of the start of an answer.
    ///
    /// `earlier` is the prompt and the answer before, whose tokens are kept if the new text begins
    /// with it and it ends with a control token. Thus an answer has the tokens that the model
    /// generated, and the KV cache is of use.
    ///
    /// # Errors
    /// [`TextError::ChatTemplate`] and [`TextError::Encode`].
    pub fn prompt(
        &self,
        messages: &[ChatMessage],
        options: &ChatOptions,
        earlier: &ChatPrompt,
    ) -> Result<ChatPrompt, TextError> {
        let marked = self.render_marked(messages, options, true)?;
        let rest = marked.strip_prefix(earlier.marked.as_str());
        let is_whole =
            |tokens: &[u32]| tokens.last().is_some_and(|last| self.guard.is_control(*last));
        let tokens = match rest.filter(|_| is_whole(&earlier.tokens)) {
            Some(rest) => {
                let mut tokens = earlier.tokens.clone();
                tokens.extend(self.guard.encode(rest, false)?);
                tokens
            }
            None => self.guard.encode(&marked, true)?,
        };
        Ok(ChatPrompt { marked, tokens })
    }

    fn render_marked(
        &self,
        messages: &[ChatMessage],
        options: &ChatOptions,
        add_generation_prompt: bool,
    ) -> Result<String, TextError> {
        let messages = messages.iter().map(|message| self.message(message));
        let mut variables: IndexMap<&str, Value> =
            IndexMap::from([("messages", messages.collect::<Value>())]);
        // Without tools, the variable is none and not undefined, as in `transformers`.
        let tools = options.tools.iter().map(tool).collect();
        let tools = if options.tools.is_empty() { Value::from(()) } else { tools };
        variables.extend([("tools", tools), ("documents", ().into())]);
        variables.insert("add_generation_prompt", add_generation_prompt.into());
        if let Some(enabled) = options.enable_thinking {
            variables.insert("enable_thinking", enabled.into());
        }
        for (name, text) in &self.special_tokens {
            variables.insert(name, text.as_str().into());
        }
        let template = self.environment.get_template(environment::NAME);
        let rendered = template.and_then(|template| template.render(variables));
        rendered.map_err(|error| environment::failed(&error))
    }

    /// A message with marks in its texts.
    fn message(&self, message: &ChatMessage) -> Value {
        let mark = |text: &str| Value::from(self.guard.mark(text));
        let text = mark(&message.content);
        let content = if message.images == 0 {
            text
        } else {
            let image = object([("type", "image".into())]);
            let text = object([("type", "text".into()), ("text", text)]);
            iter::repeat_n(image, message.images).chain([text]).collect()
        };
        let mut fields: Vec<(&str, Value)> =
            vec![("role", message.role.as_str().into()), ("content", content)];
        let optional = [
            ("reasoning_content", &message.reasoning_content),
            ("name", &message.name),
            ("tool_call_id", &message.tool_call_id),
        ];
        for (name, text) in optional {
            fields.extend(text.as_ref().map(|text| (name, mark(text))));
        }
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter().map(|call| {
                let arguments = self.guard.mark(&call.arguments);
                let arguments = serde_json::from_str::<Value>(&arguments);
                let function = object([
                    ("name", mark(&call.name)),
                    ("arguments", arguments.unwrap_or_else(|_| mark(&call.arguments))),
                ]);
                let id = Value::from(call.id.as_str());
                object([("id", id), ("type", "function".into()), ("function", function)])
            });
            fields.push(("tool_calls", calls.collect()));
        }
        object(fields)
    }

    /// The control token after an answer in a rendered dialogue; `None` if the template refuses a
    /// dialogue without tools.
    fn find_end(&self) -> Option<u32> {
        const ANSWER: &str = "afferent answer";
        let message = |role: &str, content: &str| ChatMessage {
            role: role.to_owned(),
            content: content.to_owned(),
            ..ChatMessage::default()
        };
        let messages = [message("user", "a"), message("assistant", ANSWER)];
        let text = self.render_marked(&messages, &ChatOptions::default(), false).ok()?;
        let (_, end) = text.rsplit_once(ANSWER)?;
        self.guard.control_at(end.trim_start()).map(|(_, id)| id)
    }
}

fn object<'k>(fields: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    fields.into_iter().collect()
}

/// JSON schema of a tool, as `transformers.utils.get_json_schema`.
fn tool(tool: &ChatTool) -> Value {
    let properties = tool.arguments.iter().map(|(name, description)| {
        let description = Value::from(description.as_str());
        (name.as_str(), object([("type", "string".into()), ("description", description)]))
    });
    let parameters = object([
        ("type", "object".into()),
        ("properties", object(properties)),
        ("required", tool.arguments.keys().map(|name| Value::from(name.as_str())).collect()),
    ]);
    let function = object([
        ("name", tool.name.as_str().into()),
        ("description", tool.description.as_str().into()),
        ("parameters", parameters),
    ]);
    object([("type", "function".into()), ("function", function)])
}
