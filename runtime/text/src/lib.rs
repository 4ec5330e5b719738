//! Text generation with language models: tokenizers, decoding, sampling.
//!
//! | module          | contents                                                                |
//! |-----------------|-------------------------------------------------------------------------|
//! | `tokenizer`     | text to tokens; files of Hugging Face, SentencePiece, tiktoken, Mistral |
//! | `call_constraint` | constrains tool calls to valid JSON with known names                  |
//! | `chat_template` | dialogues to tokens, by a Jinja template                                |
//! | `decode_stream` | tokens to text, incrementally                                           |
//! | `cache`         | kinds of model state, and the rewinds that they allow                   |
//! | `companions`    | files beside a program: tokenizer, chat template, generation defaults   |
//! | `contract`      | inputs, outputs and metadata methods of a language model program        |
//! | `draft`         | expects the next tokens with a small model: speculative decoding        |
//! | `embedding`     | rows of an encoder in the context, for models that see or hear          |
//! | `generator`     | a model with the tokens of its context and the state of its KV cache    |
//! | `sampler`       | selects the next token from logits                                      |
//! | `generation`    | generates an answer token by token                                      |
//! | `stop_strings`  | strings that end an answer                                              |
//! | `error`         | [`TextError`]                                                           |
//!
//! Begin with [`Generator`] and [`Tokenizer`]:
//!
//! ```no_run
//! use afferent_runtime::{Model, ModelOptions};
//! use afferent_text::{GenerationOptions, Generator, Tokenizer};
//!
//! let tokenizer = Tokenizer::open("tokenizer.json")?;
//! let model = Model::open("llama.pte", ModelOptions::new(afferent_kernels::KERNELS))?;
//! let mut generator = Generator::new(model)?;
//! let prompt = generator.encode(&tokenizer, "Once upon a time")?;
//! for token in generator.generate(&tokenizer, &prompt, &GenerationOptions::default())? {
//!     print!("{}", token?.text);
//! }
//! # Ok::<(), afferent_text::TextError>(())
//! ```
//!
//! **Invariant:** this crate depends on no kernel and no backend. The caller configures both in the
//! [`Model`](afferent_runtime::Model).

mod cache;
mod call_constraint;
mod chat_template;
mod companions;
mod contract;
mod decode_stream;
mod draft;
mod embedding;
mod error;
mod generation;
mod generator;
mod message_template;
mod sampler;
mod stop_strings;
mod tokenizer;

pub use cache::Cache;
pub use call_constraint::{CallConstraint, ToolNames};
pub use chat_template::{ChatCall, ChatMessage, ChatOptions, ChatPrompt, ChatTemplate, ChatTool};
pub use companions::Companions;
pub use contract::{Contract, ContractOptions, DecodeMethod, Positions};
pub use decode_stream::DecodeStream;
pub use embedding::{EmbeddingRows, Segment, TokenEmbedding};
pub use error::TextError;
pub use generation::{
    FinishReason, GeneratedToken, Generation, GenerationOptions, GenerationState,
};
pub use generator::Generator;
pub use message_template::MessageTemplate;
pub use sampler::{Sampler, Sampling, SamplingOverrides};
pub use stop_strings::StopStrings;
pub use tokenizer::Tokenizer;
