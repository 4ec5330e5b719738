//! Text from language models: tokens and back, and one token after the other.
//!
//! | module        | holds                                                                     |
//! |---------------|---------------------------------------------------------------------------|
//! | `tokenizer`   | text to tokens; files of Hugging Face, SentencePiece and tiktoken         |
//! | `text_stream` | tokens to text, as they come                                              |
//! | `contract`    | what a program takes and gives: its metadata methods and its inputs       |
//! | `generator`   | a model, the tokens of its context, and which of them its cache holds     |
//! | `sampler`     | the next token from logits                                                |
//! | `stop`        | texts that end an answer                                                  |
//! | `answer`      | an answer, token by token                                                 |
//! | `error`       | why there is no text                                                      |
//!
//! ```no_run
//! use afferent_runtime::{Model, ModelOptions};
//! use afferent_text::{AnswerOptions, Generator, Tokenizer};
//!
//! let tokenizer = Tokenizer::open("tokenizer.json")?;
//! let model = Model::open("llama.pte", ModelOptions::new(afferent_kernels::KERNELS))?;
//! let mut generator = Generator::new(model)?;
//! let prompt = generator.encode(&tokenizer, "Once upon a time")?;
//! for piece in generator.answer(&tokenizer, &prompt, &AnswerOptions::default())? {
//!     print!("{}", piece?.text);
//! }
//! # Ok::<(), afferent_text::TextError>(())
//! ```
//!
//! **Invariant:** it knows neither a kernel nor a backend; a [`Model`](afferent_runtime::Model)
//! comes with both.

mod answer;
mod contract;
mod error;
mod generator;
mod sampler;
mod stop;
mod text_stream;
mod tokenizer;

pub use answer::{Answer, AnswerOptions, AnswerState, Finish, Piece};
pub use contract::{Contract, Positions};
pub use error::TextError;
pub use generator::Generator;
pub use sampler::{Sampler, Sampling};
pub use stop::StopTexts;
pub use text_stream::TextStream;
pub use tokenizer::Tokenizer;
