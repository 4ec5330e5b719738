//! Speech nodes, from audio to words and from words to audio.
//!
//! | node | purpose |
//! |---|---|
//! | [`Vad`] | voice activity detection |
//! | [`WakeWord`] | detects wake words and spoken commands |
//! | [`Asr`] | speech recognition: CTC model, beam search, n-gram language model |
//! | [`Llm`] | answers with a language model, with tool calls |
//! | [`Tts`] | speech synthesis: own voice, Supertonic, Kokoro |
//! | [`FakeAsr`], [`FakeLlm`], [`FakeTts`] | scripted stand-ins for graph tests |
//!
//! Begin with `vad.rs`. `recurrent.rs` runs the models of `vad`, `wake_word`, and `asr`;
//! `heard_words.rs` counts the words of an answer that were played.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod asr;
mod fake_asr;
mod fake_llm;
mod fake_tts;
mod heard_words;
mod llm;
mod programs;
mod recurrent;
mod script;
mod tts;
mod vad;
mod wake_word;

use afferent_graph::{NodeDef, NodeEntry};

pub use asr::{Asr, AsrParams, AsrTask};
pub use fake_asr::{FakeAsr, FakeAsrParams, Listen};
pub use fake_llm::{FakeLlm, FakeLlmParams};
pub use fake_tts::{FakeTts, FakeTtsParams};
pub use llm::{Llm, LlmParams};
pub use tts::{Clause, ClauseEnd, SpokenWord, Tts, TtsParams, TtsPhonemizer, Utterance, Voice};
pub use vad::{Vad, VadParams};
pub use wake_word::{WakeWord, WakeWordParams};

/// All nodes of this crate, in alphabetical order.
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
