//! Payload type of unit tests.

use crate::Payload;

/// A text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub(crate) text: String,
}

impl Payload for Sample {
    const TYPE: &'static str = "test/Sample";
}
