//! Texts that a fake node gives one after the other.

use afferent_graph::NodeError;

/// Texts, written with "|" between them.
pub(crate) struct Script {
    texts: Vec<String>,
    next: usize,
}

impl Script {
    pub(crate) fn new(texts: &str) -> Self {
        Self { texts: texts.split('|').map(|text| text.trim().to_owned()).collect(), next: 0 }
    }

    /// The next text; after the last one the first again.
    pub(crate) fn next(&mut self) -> &str {
        let text = &self.texts[self.next % self.texts.len()];
        self.next += 1;
        text
    }
}

/// Refuses a parameter `name` without any text.
pub(crate) fn no_text(name: &'static str, texts: &str) -> Result<(), NodeError> {
    if texts.split('|').any(|text| text.trim().is_empty()) {
        let reason = "there is an empty text; write texts with \"|\" between them".to_owned();
        return Err(NodeError::InvalidParam { name: name.into(), reason });
    }
    Ok(())
}
