//! Model packages: folders with a manifest (`model.yaml`) and one or more programs.
//!
//! ```yaml
//! afferent_model: 1
//! name: vad
//! task: voice_activity          # checked by the node that loads the package
//! contract: silero_vad          # inputs and outputs of the methods
//! sample_rate: 16000            # Hz
//! variants:                     # the first with an available backend is loaded, or the fastest if measured
//!   - {file: vad_xnnpack.pte, backend: XnnpackBackend, precision: fp32, bytes: 1, sha256: "…"}
//!   - {file: vad_portable.pte, backend: portable, precision: fp32, bytes: 1, sha256: "…"}
//! programs:                     # of a model with several programs, by their role
//!   preprocessor:
//!   - {file: preprocessor.pte, backend: portable, precision: fp32}
//! image: {size: [640, 640], resize: letterbox, scale: 0.0039}  # see [`ImageInput`]
//! labels: []                    # class names of a classifier, in order
//! charset: ""                   # characters of a model that reads text, in place of labels
//! tokenizer: tokenizer.json     # language models
//! language: es                  # voices of this project; English by default
//! voices: {anna: anna.json}     # speech synthesizers; the first is the default
//! chat: {user: "<|user|> {text}<|end|>", answer: "<|assistant|>", end: "<|end|>"}  # see [`Chat`]
//! # or `chat: {template: chat.jinja}`, or no `chat` if tokenizer_config.json has the template
//! cache: recurrent              # positional, recurrent or {ring: {window: 512}}, see [`CacheKind`]
//! method: lora_forward          # of a program with several, see [`Manifest::method`]
//! decision: {threshold: 0.6}    # defaults for the node, see [`Decision`]
//! decoder: {language_model: words.arpa, language_weight: 0.5, word_bonus: 1.0}  # see [`Decoder`]
//! license: Apache-2.0           # SPDX
//! provenance: training data and script
//! quality: {}                   # measured quality, for readers only
//! limits: []                    # known limitations
//! ```
//!
//! A program that is not in its folder is taken from the [`ModelCache`] by its SHA-256.
//!
//! A bare `.pte` file is a package with one variant and an empty manifest. A folder with programs and
//! without a `model.yaml`, as exporters write it, is a package too: programs with the same methods are
//! variants, others have the words of their names that differ as roles, and the tokenizer is found by
//! its name.
//!
//! Begin with [`ModelPackage::open`]; [`Manifest`] has all fields of `model.yaml`.

mod cache;
mod chat;
mod choice;
mod contract;
mod folder;
mod image;
mod manifest;
mod package;
mod roles;

pub use cache::{ModelCache, StoreError, copy_and_hash, user_cache};
pub use chat::{CacheKind, Chat, Tool, ToolFormat};
pub use contract::Contract;
pub use folder::TOKENIZER_FILES;
pub use image::{Color, ImageInput, Pad, Resampling, Resize};
pub use manifest::{Decision, Decoder, Manifest, Quality, Threshold, Variant};
pub use package::{ModelPackage, PackageError};
pub use roles::{precision_in_name, roles};
