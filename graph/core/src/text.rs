//! What nodes say and are told in words.

use std::time::Duration;

use crate::{Codec, Field, Payload, Recorded};

/// Text as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// The text.
    pub text: String,
}

impl Payload for Text {
    const TYPE: &'static str = "text/Text";
    const CODEC: Option<Codec> = Some(Codec::of::<Self>());

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![("text", Field::Text(self.text.clone()))]
    }
}

impl Recorded for Text {
    const MESSAGE: &'static str = "afferent_msgs/msg/Text";
    const SCHEMA: &'static str = "string text\n";
    type Wire = (String,);

    fn to_wire(&self) -> Self::Wire {
        (self.text.clone(),)
    }

    fn from_wire((text,): Self::Wire) -> Result<Self, String> {
        Ok(Self { text })
    }
}

/// One spoken word; the time of the packet is when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// The word, in small letters.
    pub text: String,
    /// How long it lasts.
    pub duration: Duration,
}

impl Payload for Word {
    const TYPE: &'static str = "speech/Word";
    const CODEC: Option<Codec> = Some(Codec::of::<Self>());

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let duration = self.duration.as_secs_f64() * 1e3;
        vec![("text", Field::Text(self.text.clone())), ("duration_ms", Field::Number(duration))]
    }
}

impl Recorded for Word {
    const MESSAGE: &'static str = "afferent_msgs/msg/Word";
    const SCHEMA: &'static str = "string text\nuint64 duration_ns\n";
    type Wire = (String, u64);

    fn to_wire(&self) -> Self::Wire {
        (self.text.clone(), u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX))
    }

    fn from_wire((text, duration): Self::Wire) -> Result<Self, String> {
        Ok(Self { text, duration: Duration::from_nanos(duration) })
    }
}
