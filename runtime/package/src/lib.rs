//! Model packages: a folder with `model.yaml` and programs, of which the best that runs is taken.
//!
//! ```yaml
//! afferent_model: 1
//! name: vad
//! task: voice_activity          # what it is for
//! contract: silero_vad          # what its methods take and give
//! sample_rate: 16000
//! variants:                     # the first that this machine can run is taken
//!   - {file: vad_xnnpack.pte, backend: XnnpackBackend, precision: fp32, bytes: 1, sha256: "…"}
//!   - {file: vad_portable.pte, backend: portable, precision: fp32, bytes: 1, sha256: "…"}
//! labels: []                    # names of the columns of a classifier's result
//! tokenizer: tokenizer.json     # of a language model
//! chat: {user: "<|user|> {text}<|end|>", answer: "<|assistant|>", end: "<|end|>"}  # see [`Chat`]
//! decision: {threshold: 0.6}    # defaults of the node that decides, see [`Decision`]
//! decoder: {language_model: words.arpa, language_weight: 0.5, word_bonus: 1.0}  # of a recogniser
//! licence: Apache-2.0
//! provenance: how it came to be
//! quality: {}                   # measured figures, in any form
//! limits: []                    # what it cannot do
//! ```
//!
//! A bare `.pte` file is a package of one variant that says nothing about itself.

mod manifest;
mod package;

pub use manifest::{Chat, Decision, Decoder, Manifest, Quality, Threshold, Tool, Variant};
pub use package::{ModelPackage, PackageError};
