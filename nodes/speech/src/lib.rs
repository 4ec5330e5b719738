//! Speech nodes, from audio to words and from words to audio.
//!
//! | node | purpose |
//! |---|---|
//! | [`Vad`] | voice activity detection |
//! | [`WakeWord`] | detects wake words and spoken commands |
//! | [`Asr`] | speech recognition: CTC, Whisper, Parakeet, Voxtral, Moonshine |
//! | [`Chat`], [`Transcribe`], [`Speak`] | answers user text, recognizes speech and speaks by a server |
//! | [`ClassifyText`] | tells the classes of texts |
//! | [`Diarize`] | turns of speakers: Sortformer |
//! | [`SpeakerLabels`] | speakers of the words of transcripts |
//! | [`Llm`] | answers with a language model, with tool calls |
//! | [`EmbedText`] | turns text into vectors that can be compared |
//! | [`Translate`] | translates text with an encoder and a decoder |
//! | [`Tts`] | speech synthesis: own voice, Supertonic, Kokoro, Voxtral |
//! | [`FakeAsr`], [`FakeLlm`], [`FakeTts`] | scripted stand-ins for graph tests |
//!
//! Begin with `vad.rs`. `recurrent.rs` runs models with a state, `programs.rs` models
//! of several programs, `seq2seq.rs` decoders of rows of an encoder; `mel.rs` computes features,
//! `text_encoder.rs` runs models such as BERT;
//! `contracts.rs` tells the node for a model; `server.rs` sends requests to servers;
//! `heard_words.rs` counts the words of an answer that were played.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod asr;
mod chat;
mod classify_text;
pub mod contracts;
mod diarize;
mod embed_text;
mod fake_asr;
mod fake_llm;
mod fake_tts;
mod heard_words;
mod llm;
mod mel;
mod programs;
mod recurrent;
mod script;
mod seq2seq;
mod server;
mod speak;
mod speaker_labels;
mod text_encoder;
mod transcribe;
mod translate;
mod tts;
mod vad;
mod wake_word;

use afferent_graph::{NodeDef, NodeEntry};

pub use asr::{Asr, AsrParams, AsrTask};
pub use chat::{Chat, ChatParams};
pub use classify_text::{ClassifyText, ClassifyTextParams, TextScores};
pub use diarize::{Diarize, DiarizeParams};
pub use embed_text::{EmbedText, EmbedTextParams};
pub use fake_asr::{FakeAsr, FakeAsrParams, Listen};
pub use fake_llm::{FakeLlm, FakeLlmParams};
pub use fake_tts::{FakeTts, FakeTtsParams};
pub use llm::{ChatParts, Llm, LlmParams, cache_of};
pub use speak::{Speak, SpeakParams};
pub use speaker_labels::{SpeakerLabels, SpeakerLabelsParams};
pub use transcribe::{Transcribe, TranscribeParams};
pub use translate::{Translate, TranslateParams};
pub use tts::{Clause, ClauseEnd, SpokenWord, Tts, TtsParams, TtsPhonemizer, Utterance, Voice};
pub use vad::{Vad, VadParams};
pub use wake_word::{WakeWord, WakeWordParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<Asr>,
    NodeDef::of::<Chat>,
    NodeDef::of::<ClassifyText>,
    NodeDef::of::<Diarize>,
    NodeDef::of::<EmbedText>,
    NodeDef::of::<FakeAsr>,
    NodeDef::of::<FakeLlm>,
    NodeDef::of::<FakeTts>,
    NodeDef::of::<Llm>,
    NodeDef::of::<Speak>,
    NodeDef::of::<SpeakerLabels>,
    NodeDef::of::<Transcribe>,
    NodeDef::of::<Translate>,
    NodeDef::of::<Tts>,
    NodeDef::of::<Vad>,
    NodeDef::of::<WakeWord>,
];
