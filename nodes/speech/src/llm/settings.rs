//! Settings of a dialogue.

use std::path::PathBuf;

use afferent_graph::choices;
use afferent_text::SamplingOverrides;

choices! {
    /// Use of the thinking block at the start of an answer.
    pub enum Thinking {
        /// It is dropped.
        Drop = "drop",
        /// It is sent on `thinking`.
        Send = "send",
        /// The chat template gets `enable_thinking = false`; what the model thinks in spite of it
        /// is dropped.
        Off = "off",
    }
}

/// Settings of a dialogue: those of the node.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Backend of the variant of the package; empty for the first that is available.
    pub(super) backend: String,
    /// System prompt in place of that of the package.
    pub(super) system: Option<String>,
    /// Smaller language model that drafts tokens, and most tokens of a draft.
    pub(super) draft: Option<PathBuf>,
    pub(super) draft_tokens: usize,
    /// File with the state after the system prompt.
    pub(super) prompt_cache: Option<PathBuf>,
    /// Most tokens of an answer.
    pub(super) max_new: usize,
    pub(super) sampling: SamplingOverrides,
    pub(super) stop: Option<String>,
    pub(super) thinking: Thinking,
    /// True if tool calls are constrained to valid JSON.
    pub(super) constrain_calls: bool,
}
