//! Who speaks when: one node per file.
//!
//! To add one: write `src/<node>.rs` and add its lines below.

mod barge_in;
mod push_to_talk;
mod sentences;
mod tool;
mod turn_detector;

use afferent_graph::{NodeDef, NodeEntry};

pub use barge_in::{BargeIn, BargeInParams};
pub use push_to_talk::{PushToTalk, PushToTalkParams};
pub use sentences::{Sentences, SentencesParams};
pub use tool::{Tool, ToolParams};
pub use turn_detector::{TurnDetector, TurnDetectorParams};

/// Every node of this crate, alphabetical.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<BargeIn>,
    NodeDef::of::<PushToTalk>,
    NodeDef::of::<Sentences>,
    NodeDef::of::<Tool>,
    NodeDef::of::<TurnDetector>,
];
