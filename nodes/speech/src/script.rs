//! Scripted texts of the fake nodes.

use afferent_graph::NodeError;

/// Texts separated by "|".
pub(crate) struct Script {
    texts: Vec<String>,
    next: usize,
}

impl Script {
    pub(crate) fn new(texts: &str) -> Self {
        Self { texts: texts.split('|').map(|text| text.trim().to_owned()).collect(), next: 0 }
    }

    /// The next text; the first follows the last.
    pub(crate) fn next(&mut self) -> &str {
        let text = &self.texts[self.next % self.texts.len()];
        self.next += 1;
        text
    }
}

/// Checks that no text of the parameter `name` is empty.
pub(crate) fn check_texts(name: &'static str, texts: &str) -> Result<(), NodeError> {
    if texts.split('|').any(|text| text.trim().is_empty()) {
        let reason = "a text is empty; separate texts by \"|\"".to_owned();
        return Err(NodeError::InvalidParam { name: name.into(), reason });
    }
    Ok(())
}
