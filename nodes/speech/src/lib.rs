//! Speech: one node per file.
//!
//! To add one: write `src/<node>.rs` and add its lines below.

mod asr;
mod fake_asr;
mod fake_llm;
mod fake_tts;
mod heard;
mod llm;
mod recurrent;
mod script;
mod tts;
mod vad;
mod wake_word;

use afferent_graph::{NodeDef, NodeEntry};

pub use asr::{Asr, AsrParams};
pub use fake_asr::{FakeAsr, FakeAsrParams, Listen};
pub use fake_llm::{FakeLlm, FakeLlmParams};
pub use fake_tts::{FakeTts, FakeTtsParams};
pub use llm::{Llm, LlmParams};
pub use tts::{Clause, Mark, SpokenWord, Tts, TtsParams, Utterance, Voice};
pub use vad::{Vad, VadParams};
pub use wake_word::{WakeWord, WakeWordParams};

/// Every node of this crate, alphabetical.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<Asr>,
    NodeDef::of::<FakeAsr>,
    NodeDef::of::<FakeLlm>,
    NodeDef::of::<FakeTts>,
    NodeDef::of::<Llm>,
    NodeDef::of::<Tts>,
    NodeDef::of::<Vad>,
    NodeDef::of::<WakeWord>,
];
