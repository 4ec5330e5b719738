//! Opens a language model with its tokenizer, chat template and sampling.

use std::path::Path;

use afferent_graph::{NodeError, OpenCx};
use afferent_package::{CacheKind, Chat, ModelPackage, ToolFormat};
use afferent_text::{
    Cache, CallConstraint, ChatOptions, ChatTool, Companions, ContractOptions, GenerationOptions,
    Generator, TextError, Tokenizer, ToolNames,
};

use super::{
    format::{Format, JinjaFormat},
    settings::{Settings, Thinking},
    template::ChatParts,
};

/// A model that is ready for a dialogue.
pub(super) struct Opened {
    pub(super) generator: Generator,
    pub(super) format: Format,
    pub(super) options: GenerationOptions,
    /// Constraint of tool calls, if it is wanted and the format has one.
    pub(super) constraint: Option<CallConstraint>,
}

impl Opened {
    /// Opens the package or the program at `path`.
    pub(super) fn open(path: &Path, settings: &Settings, cx: &OpenCx) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let text_failed = |error: TextError| failed(error.to_string());
        let LanguageModel { package, mut generator, mut companions } =
            open_model(path, &settings.backend, cx)?;
        if let Some(draft) = &settings.draft {
            let other = open_model(draft, "", cx)?;
            let failed = |reason: String| NodeError::Model { path: draft.clone(), reason };
            let open = |companions: &Companions| {
                Tokenizer::open(&companions.tokenizer).map_err(|error| failed(error.to_string()))
            };
            if !open(&companions)?.has_same_tokens(&open(&other.companions)?) {
                let own = companions.tokenizer.display();
                return Err(failed(format!("its tokens are not those of {own}")));
            }
            let set = generator.set_draft(other.generator, settings.draft_tokens);
            set.map_err(|error| failed(error.to_string()))?;
        }
        let manifest = &package.manifest;
        let chat = manifest.chat.clone().unwrap_or_default();
        if let Some(file) = &chat.template {
            companions.set_template(package.folder().join(file)).map_err(text_failed)?;
        }
        let mut options = GenerationOptions {
            max_new_tokens: settings.max_new,
            sampling: settings.sampling.or(companions.sampling.unwrap_or_default()),
            stop: settings.stop.iter().cloned().collect(),
            ..GenerationOptions::default()
        };
        let format = if chat.has_parts() {
            let system = settings.system.as_deref().or(chat.instructions.as_deref());
            let template = ChatParts::new(&companions.tokenizer, &chat).map_err(text_failed)?;
            if chat.call.is_some() && chat.result.is_none() {
                let reason =
                    "chat.call in model.yaml requires chat.result, the format of tool results";
                return Err(failed(reason.to_owned()));
            }
            Format::Parts(template.prefix(system).map_err(text_failed)?, Box::new(template))
        } else {
            let format = jinja(&companions, &chat, settings).map_err(text_failed)?;
            Format::Jinja(Box::new(format.ok_or_else(|| failed(no_template(&companions)))?))
        };
        let tokenizer = format.tokenizer();
        options.extra_eos = companions.eos_tokens(tokenizer);
        options.extra_eos.extend(format.end());
        options.end_at(&chat.end, tokenizer);
        let constraint = settings.constrain_calls.then(|| constraint(&chat, &format)).flatten();
        Ok(Self { generator, format, options, constraint })
    }
}

/// A language model with the files beside it.
struct LanguageModel {
    package: ModelPackage,
    generator: Generator,
    companions: Companions,
}

/// Opens the package or the program at `path`, with the variant for `backend` if it is not empty.
fn open_model(path: &Path, backend: &str, cx: &OpenCx) -> Result<LanguageModel, NodeError> {
    let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
    let text_failed = |error: TextError| failed(error.to_string());
    let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
    package.expect_task("chat").map_err(|error| failed(error.to_string()))?;
    let package = package.with_backend(backend).map_err(|error| failed(error.to_string()))?;
    let model = package.open_main(cx.services.need::<afferent_runtime::ModelOptions>()?);
    let model = model.map_err(|error| failed(error.to_string()))?;
    let manifest = &package.manifest;
    let contract =
        ContractOptions { method: manifest.method.clone(), cache: manifest.cache.map(cache_of) };
    let generator = Generator::with_options(model, &contract).map_err(text_failed)?;
    let tokenizer = manifest.tokenizer.as_ref().map(|file| package.folder().join(file));
    let companions = Companions::find(package.folder(), tokenizer.as_deref());
    let companions = companions.map_err(text_failed)?;
    Ok(LanguageModel { package, generator, companions })
}

/// Constraint of calls of the tools of `chat`; `None` without tools, and for the format of Mistral,
/// which is a list.
fn constraint(chat: &Chat, format: &Format) -> Option<CallConstraint> {
    let field = match format {
        Format::Parts(_, template) => template.call.map(|_| "arguments")?,
        Format::Jinja(format) => match format.tool_format? {
            ToolFormat::Hermes => "arguments",
            ToolFormat::Llama => "parameters",
            ToolFormat::Mistral => return None,
        },
    };
    let tools = chat.tools.iter().map(|tool| ToolNames {
        name: tool.name.clone(),
        arguments: tool.arguments.keys().cloned().collect(),
    });
    CallConstraint::new(tools.collect(), field)
}

/// Kind of the state that `cache` in model.yaml says.
pub fn cache_of(kind: CacheKind) -> Cache {
    match kind {
        CacheKind::Positional => Cache::Positional,
        CacheKind::Recurrent => Cache::Recurrent,
        CacheKind::Ring { window, slots } => Cache::Ring { window, slots: slots.unwrap_or(window) },
    }
}

/// Format of a Jinja template; `None` if the files have none.
fn jinja(
    companions: &Companions,
    chat: &Chat,
    settings: &Settings,
) -> Result<Option<JinjaFormat>, TextError> {
    let tokenizer = Tokenizer::open(&companions.tokenizer)?;
    let Some(template) = companions.chat_template(tokenizer).transpose()? else { return Ok(None) };
    let tools = chat.tools.iter().map(|tool| ChatTool {
        name: tool.name.clone(),
        description: tool.about.clone(),
        arguments: tool.arguments.clone(),
    });
    let enable_thinking = (settings.thinking == Thinking::Off).then_some(false);
    let options = ChatOptions { tools: tools.collect(), enable_thinking };
    let system = settings.system.clone().or_else(|| chat.instructions.clone());
    Ok(Some(JinjaFormat::new(template, options, chat.tool_format, system)))
}

fn no_template(companions: &Companions) -> String {
    format!(
        "no chat template; copy tokenizer_config.json or chat_template.jinja of the model to the \
         folder of {}, or define `chat` in model.yaml",
        companions.tokenizer.display()
    )
}
