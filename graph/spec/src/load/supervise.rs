//! Reads `on_error` and `deadline`.
//!
//! ```yaml
//! on_error: stop                                   # the default
//! on_error: restart                                # with the defaults below
//! on_error: {restart: {backoff: 100ms, limit: 5}}
//! on_error: degrade                                # nothing instead of results
//! on_error: {degrade: last}                        # the last ones again
//! deadline: 50ms
//! ```

use crate::{
    Degrade, Diagnostic, OnError, Restart,
    load::reader::Reader,
    suggest,
    yaml::{Node, Value},
};

/// Names of the policies.
const WORDS: [&str; 3] = ["stop", "restart", "degrade"];

impl Reader {
    /// Policy for failed calls; `what` names the setting.
    pub(crate) fn on_error(&mut self, node: &Node, what: &str) -> Option<OnError> {
        match &node.value {
            Value::Map(map) => {
                let meant = self.keys(map, &["restart", "degrade"], what);
                match (map.as_slice(), node.get("restart"), node.get("degrade")) {
                    ([_], Some(restart), _) => self.restart(restart, what).map(OnError::Restart),
                    ([_], _, Some(degrade)) => self.degrade(degrade, what).map(OnError::Degrade),
                    _ if meant.is_empty() => {
                        self.wrong(node, what, "one of stop, restart, degrade");
                        None
                    }
                    _ => None,
                }
            }
            Value::Scalar { text, .. } if !node.is_null() => match text.as_str() {
                "stop" => Some(OnError::Stop),
                "restart" => Some(OnError::Restart(Restart::default())),
                "degrade" => Some(OnError::Degrade(Degrade::default())),
                _ => self.unknown_word(node, what, text, &WORDS),
            },
            _ => {
                self.wrong(node, what, "one of stop, restart, degrade");
                None
            }
        }
    }

    fn restart(&mut self, node: &Node, what: &str) -> Option<Restart> {
        let what = format!("\"restart\" of {what}");
        let mut restart = Restart::default();
        if node.is_null() {
            return Some(restart);
        }
        let map = self.map(node, &what, "\"backoff\" and \"limit\"")?;
        self.keys(map, &["backoff", "limit"], &what);
        if let Some(backoff) = node.get("backoff") {
            restart.backoff = self.duration(backoff, &format!("\"backoff\" of {what}"))?;
        }
        if let Some(limit) = node.get("limit") {
            let what = format!("\"limit\" of {what}");
            let text = self.text(limit, &what)?;
            match text.parse() {
                Ok(count) if count > 0 => restart.limit = count,
                _ => {
                    let message = format!("{what} must be an integer from 1 on, not \"{text}\"");
                    self.error(&limit.location, message);
                    return None;
                }
            }
        }
        Some(restart)
    }

    fn degrade(&mut self, node: &Node, what: &str) -> Option<Degrade> {
        let what = format!("\"degrade\" of {what}");
        if node.is_null() {
            return Some(Degrade::Nothing);
        }
        match self.text(node, &what)? {
            "nothing" => Some(Degrade::Nothing),
            "last" => Some(Degrade::Last),
            other => self.unknown_word(node, &what, other, &["nothing", "last"]),
        }
    }

    /// Reports that `text` is not one of `words`.
    pub(crate) fn unknown_word<T>(
        &mut self,
        node: &Node,
        what: &str,
        text: &str,
        words: &[&str],
    ) -> Option<T> {
        let message = format!("{what}: \"{text}\" is not one of {}", words.join(", "));
        let help = suggest::closest(text, words.iter().copied());
        let help = help.map(|word| format!("did you mean \"{word}\"?"));
        self.faults.push(Diagnostic::error(Some(&node.location), message).help(help));
        None
    }
}
