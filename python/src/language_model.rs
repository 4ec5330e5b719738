//! Tokenizers and text generation.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use afferent_package::ModelPackage;
use afferent_runtime::{Model, ModelFile, ModelOptions};
use afferent_simd::pool;
use afferent_text::{
    ChatMessage, ChatOptions, ChatPrompt, ChatTemplate, Companions, FinishReason,
    GenerationOptions, Generator, Sampling, Tokenizer as TextTokenizer,
};
use pyo3::{prelude::*, types::PyDict};

use crate::{app, error, lock};

/// Text to tokens and back, from tokenizer.json, tekken.json, vocab.txt, a .model file of
/// SentencePiece or tiktoken, or a .bin file of llama2.c.
#[pyclass(frozen, module = "afferent")]
pub(crate) struct Tokenizer(Arc<TextTokenizer>);

#[pymethods]
impl Tokenizer {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let tokenizer = py.detach(|| TextTokenizer::open(path));
        Ok(Self(Arc::new(tokenizer.map_err(|error| error::text(&error))?)))
    }

    /// Tokens of `text`. With `special`, names of control tokens in the text become these tokens.
    #[pyo3(signature = (text, *, special=false))]
    fn encode(&self, text: &str, special: bool) -> PyResult<Vec<u32>> {
        let tokens = if special { self.0.encode_with_special(text) } else { self.0.encode(text) };
        tokens.map_err(|error| error::text(&error))
    }

    /// Text of `tokens`.
    fn decode(&self, tokens: Vec<u32>) -> PyResult<String> {
        self.0.decode(&tokens).map_err(|error| error::text(&error))
    }

    /// Number of tokens of the vocabulary.
    #[getter]
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    /// Token that begins a text, or None.
    #[getter]
    fn bos(&self) -> Option<u32> {
        self.0.bos()
    }

    /// Tokens that end a text.
    #[getter]
    fn eos(&self) -> Vec<u32> {
        self.0.eos().to_vec()
    }
}

/// A language model with its tokenizer and chat template.
#[pyclass(frozen, subclass, module = "afferent")]
pub(crate) struct LanguageModel {
    generator: Mutex<Generator>,
    tokenizer: Arc<TextTokenizer>,
    template: Option<ChatTemplate>,
    defaults: GenerationOptions,
}

#[pymethods]
impl LanguageModel {
    /// Opens the program or the folder at `path`, with the files beside it. `tokenizer` is the path of
    /// a tokenizer elsewhere.
    #[new]
    #[pyo3(signature = (path, *, tokenizer=None, threads=1))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        tokenizer: Option<PathBuf>,
        threads: usize,
    ) -> PyResult<Self> {
        let options = ModelOptions { workers: pool::workers(threads), ..app().models().clone() };
        py.detach(|| Self::open(&path, tokenizer.as_deref(), options))
    }

    /// The tokenizer.
    #[getter]
    fn tokenizer(&self) -> Tokenizer {
        Tokenizer(self.tokenizer.clone())
    }

    /// Continues `prompt`, a text or a list of tokens, or answers `messages`, a list of dicts with
    /// `role` and `content`.
    ///
    /// `on_text` is called with each part of the text. Returns a dict with `text`, `tokens` and
    /// `finish`: "eos", "stop", "length", "full" or "canceled".
    #[pyo3(signature = (prompt=None, *, messages=None, max_tokens=128, temperature=None,
        top_k=None, top_p=None, min_p=None, repetition_penalty=None, seed=0, stop=vec![],
        on_text=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn generate<'py>(
        &self,
        py: Python<'py>,
        prompt: Option<Prompt>,
        messages: Option<Vec<Bound<'py, PyDict>>>,
        max_tokens: usize,
        temperature: Option<f32>,
        top_k: Option<usize>,
        top_p: Option<f32>,
        min_p: Option<f32>,
        repetition_penalty: Option<f32>,
        seed: u64,
        stop: Vec<String>,
        on_text: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let base = &self.defaults.sampling;
        let sampling = Sampling {
            temperature: temperature.unwrap_or(base.temperature),
            top_k: top_k.unwrap_or(base.top_k),
            top_p: top_p.unwrap_or(base.top_p),
            min_p: min_p.unwrap_or(base.min_p),
            repetition_penalty: repetition_penalty.unwrap_or(base.repetition_penalty),
            seed,
            ..*base
        };
        let canceled = Arc::new(AtomicBool::new(false));
        let options = GenerationOptions {
            max_new_tokens: max_tokens,
            sampling,
            stop,
            canceled: Some(canceled.clone()),
            ..self.defaults.clone()
        };
        let messages = messages.map(|list| list.iter().map(read_message).collect());
        let messages = messages.transpose()?;
        let answer = py.detach(|| {
            self.answer(prompt, messages, &options, |text| {
                Python::attach(|py| {
                    let called = on_text.as_ref().filter(|_| !text.is_empty());
                    let called = called.map_or(Ok(()), |call| call.call1(py, (text,)).map(drop));
                    called.and_then(|()| py.check_signals())
                })
                .inspect_err(|_| canceled.store(true, Ordering::Relaxed))
            })
        })?;
        let dict = PyDict::new(py);
        dict.set_item("text", answer.text)?;
        dict.set_item("tokens", answer.tokens)?;
        dict.set_item("finish", answer.finish.map(FinishReason::name))?;
        Ok(dict)
    }
}

/// A text, or its tokens.
#[derive(FromPyObject)]
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

struct Answer {
    text: String,
    tokens: Vec<u32>,
    finish: Option<FinishReason>,
}

impl LanguageModel {
    fn open(path: &Path, tokenizer: Option<&Path>, options: ModelOptions) -> PyResult<Self> {
        let text_error = |error| error::text(&error);
        let (model, folder, named) = if path.is_dir() {
            let package = ModelPackage::open(path).map_err(|error| error::package(&error))?;
            let model = package.open_main(&options).map_err(|error| error::package(&error))?;
            let named =
                package.manifest.tokenizer.as_deref().and_then(|name| package.companion(name));
            (model, path, named)
        } else {
            let file = ModelFile::open_with(path, &[], options.file_access);
            let model = Model::new(file.map_err(|error| error::model(&error))?, options);
            (model, path.parent().unwrap_or(Path::new("")), None)
        };
        let tokenizer = tokenizer.map(Path::to_owned).or(named);
        let companions = Companions::find(folder, tokenizer.as_deref()).map_err(text_error)?;
        let open = || TextTokenizer::open(&companions.tokenizer).map_err(text_error);
        let template = companions.chat_template(open()?).transpose().map_err(text_error)?;
        let tokenizer = Arc::new(open()?);
        let mut extra_eos = companions.eos_tokens(&tokenizer);
        extra_eos.extend(template.as_ref().and_then(ChatTemplate::end));
        let sampling = companions.sampling.unwrap_or_default();
        let defaults = GenerationOptions { extra_eos, sampling, ..GenerationOptions::default() };
        let generator = Mutex::new(Generator::new(model).map_err(text_error)?);
        Ok(Self { generator, tokenizer, template, defaults })
    }

    fn answer(
        &self,
        prompt: Option<Prompt>,
        messages: Option<Vec<ChatMessage>>,
        options: &GenerationOptions,
        mut on_text: impl FnMut(&str) -> PyResult<()>,
    ) -> PyResult<Answer> {
        let text_error = |error| error::text(&error);
        let mut generator = lock(&self.generator);
        generator.rewind(0).map_err(text_error)?;
        let prompt = match (prompt, messages) {
            (Some(Prompt::Tokens(tokens)), None) => tokens,
            (Some(Prompt::Text(text)), None) => {
                generator.encode(&self.tokenizer, &text).map_err(text_error)?
            }
            (None, Some(messages)) => {
                let template = self.template.as_ref().ok_or_else(|| {
                    error::argument(
                        "the model has no chat template; give a prompt instead of messages, or copy \
                         chat_template.jinja or tokenizer_config.json beside the tokenizer",
                    )
                })?;
                let (options, earlier) = (ChatOptions::default(), ChatPrompt::default());
                template.prompt(&messages, &options, &earlier).map_err(text_error)?.tokens
            }
            _ => return Err(error::argument("give either a prompt or messages")),
        };
        let mut generation =
            generator.generate(&self.tokenizer, &prompt, options).map_err(text_error)?;
        let (mut text, mut tokens) = (String::new(), Vec::new());
        for piece in &mut generation {
            let piece = piece.map_err(text_error)?;
            text.push_str(&piece.text);
            tokens.push(piece.token);
            on_text(&piece.text)?;
        }
        Ok(Answer { text, tokens, finish: generation.finish_reason() })
    }
}

/// Reads a message of a chat.
fn read_message(message: &Bound<'_, PyDict>) -> PyResult<ChatMessage> {
    let field = |name: &str| -> PyResult<String> {
        match message.get_item(name)? {
            Some(value) => value.extract(),
            None => Err(error::argument(format!("a message of a chat has no {name:?}"))),
        }
    };
    Ok(ChatMessage { role: field("role")?, content: field("content")?, ..ChatMessage::default() })
}
