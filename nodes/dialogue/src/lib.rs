//! Dialogue nodes: turn taking, interrupts, and tools of a voice agent.
//!
//! | node | purpose |
//! |---|---|
//! | [`TurnDetector`] | endpointing: decides when the user has finished a turn |
//! | [`BargeIn`] | decides when user speech interrupts the agent |
//! | [`PushToTalk`] | passes audio only while a key is held |
//! | [`WakeGate`] | passes audio only after a wake word |
//! | [`Sentences`] | cuts the text of a language model into parts for speech synthesis |
//! | [`Intents`] | recognizes questions by a grammar, and answers them with tools |
//! | [`Tool`] | runs the tool calls of a language model |
//!
//! Begin with `turn_detector.rs`, which defines a turn, then `barge_in.rs`.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod barge_in;
mod intents;
mod push_to_talk;
mod sentences;
mod tool;
mod turn_detector;
mod wake_gate;

use afferent_graph::{NodeDef, NodeEntry};

pub use barge_in::{BargeIn, BargeInParams};
pub use intents::{Intents, IntentsParams};
pub use push_to_talk::{PushToTalk, PushToTalkParams};
pub use sentences::{Sentences, SentencesParams};
pub use tool::{Tool, ToolParams};
pub use turn_detector::{TurnDetector, TurnDetectorParams};
pub use wake_gate::{WakeGate, WakeGateParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<BargeIn>,
    NodeDef::of::<Intents>,
    NodeDef::of::<PushToTalk>,
    NodeDef::of::<Sentences>,
    NodeDef::of::<Tool>,
    NodeDef::of::<TurnDetector>,
    NodeDef::of::<WakeGate>,
];
