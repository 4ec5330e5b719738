//! Speech: one node per file.
//!
//! To add one: write `src/<node>.rs` and add its lines below.

mod asr;
mod llm;
mod recurrent;
mod tts;
mod vad;
mod wake_word;

use afferent_graph::NodeDef;

pub use asr::{Asr, AsrParams};
pub use llm::{Llm, LlmParams};
pub use tts::{Clause, Mark, SpokenWord, Tts, TtsParams, Utterance, Voice};
pub use vad::{Vad, VadParams};
pub use wake_word::{WakeWord, WakeWordParams};

/// Every node of this crate, alphabetical.
pub const NODES: &[NodeDef] = &[
    NodeDef::of::<Asr>(),
    NodeDef::of::<Llm>(),
    NodeDef::of::<Tts>(),
    NodeDef::of::<Vad>(),
    NodeDef::of::<WakeWord>(),
];
