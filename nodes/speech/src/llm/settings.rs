//! Settings of a dialogue.

use std::path::PathBuf;

use afferent_graph::choices;
use afferent_text::Sampling;

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
    /// System prompt in place of that of the package.
    pub(super) system: Option<String>,
    /// Smaller language model that drafts tokens, and most tokens of a draft.
    pub(super) draft: Option<PathBuf>,
    pub(super) draft_tokens: usize,
    /// File with the state after the system prompt.
    pub(super) prompt_cache: Option<PathBuf>,
    /// Most tokens of an answer.
    pub(super) max_new: usize,
    pub(super) temperature: Option<f32>,
    pub(super) top_p: Option<f32>,
    pub(super) top_k: Option<u32>,
    pub(super) min_p: Option<f32>,
    pub(super) repetition_penalty: Option<f32>,
    pub(super) seed: u32,
    pub(super) stop: Option<String>,
    pub(super) thinking: Thinking,
    /// True if tool calls are constrained to valid JSON.
    pub(super) constrain_calls: bool,
}

impl Settings {
    /// Sampling of the parameters; those that are not set are of `defaults`, or greedy.
    pub(super) fn sampling(&self, defaults: Option<Sampling>) -> Sampling {
        let defaults = defaults.unwrap_or_default();
        let top_k = self.top_k.map(|top_k| usize::try_from(top_k).unwrap_or(usize::MAX));
        Sampling {
            temperature: self.temperature.unwrap_or(defaults.temperature),
            top_p: self.top_p.unwrap_or(defaults.top_p),
            top_k: top_k.unwrap_or(defaults.top_k),
            min_p: self.min_p.unwrap_or(defaults.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(defaults.repetition_penalty),
            seed: u64::from(self.seed),
            ..defaults
        }
    }
}
