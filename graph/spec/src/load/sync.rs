//! Reads `sync` and `on_time_fault`.
//!
//! ```yaml
//! sync: exact
//! sync: {approx: 10ms}                       # the largest distance
//! sync: latest
//! sync: {latest: 100ms}                      # the greatest age
//! sync: interpolate
//! sync: {window: {before: 50ms, after: 5ms}}
//! sync: barrier
//! ```

use std::time::Duration;

use crate::{
    OnTimeFault, SyncPolicy,
    load::reader::Reader,
    yaml::{Node, Value},
};

/// Names of the sync policies.
const WORDS: [&str; 6] = ["exact", "approx", "latest", "interpolate", "window", "barrier"];

impl Reader {
    /// Sync policy of a stream; `what` names the setting.
    pub(crate) fn sync(&mut self, node: &Node, what: &str) -> Option<SyncPolicy> {
        let Value::Map(map) = &node.value else {
            let text = self.text(node, what)?;
            return match text {
                "exact" => Some(SyncPolicy::Exact),
                "latest" => Some(SyncPolicy::Latest { max_age: None }),
                "interpolate" => Some(SyncPolicy::Interpolate),
                "barrier" => Some(SyncPolicy::Barrier),
                "approx" | "window" => {
                    let form = if text == "approx" { "10ms" } else { "{before: 50ms, after: 0ms}" };
                    let message = format!("{what}: \"{text}\" needs times: {{{text}: {form}}}");
                    self.error(&node.location, message);
                    None
                }
                _ => self.unknown_word(node, what, text, &WORDS),
            };
        };
        let meant = self.keys(map, &["approx", "latest", "window"], what);
        match map.as_slice() {
            [(key, value)] => {
                let what = format!("\"{}\" of {what}", key.text);
                match key.text.as_str() {
                    "approx" => Some(SyncPolicy::Approx { slop: self.duration(value, &what)? }),
                    "latest" => {
                        Some(SyncPolicy::Latest { max_age: Some(self.duration(value, &what)?) })
                    }
                    "window" => self.window(value, &what),
                    _ => None,
                }
            }
            _ => {
                if meant.is_empty() {
                    self.wrong(
                        node,
                        what,
                        "one of exact, approx, latest, interpolate, window, barrier",
                    );
                }
                None
            }
        }
    }

    fn window(&mut self, node: &Node, what: &str) -> Option<SyncPolicy> {
        let map = self.map(node, what, "\"before\" and \"after\"")?;
        self.keys(map, &["before", "after"], what);
        let mut side = |key: &str| match node.get(key) {
            Some(value) => self.span(value, &format!("\"{key}\" of {what}")),
            None => Some(Duration::ZERO),
        };
        Some(SyncPolicy::Window { before: side("before")?, after: side("after")? })
    }

    /// Policy for packets with wrong timestamps.
    pub(crate) fn on_time_fault(&mut self, node: &Node, what: &str) -> Option<OnTimeFault> {
        match self.text(node, what)? {
            "drop" => Some(OnTimeFault::Drop),
            "clamp" => Some(OnTimeFault::Clamp),
            "restart" => Some(OnTimeFault::Restart),
            other => self.unknown_word(node, what, other, &["drop", "clamp", "restart"]),
        }
    }
}
