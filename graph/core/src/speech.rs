//! What speech nodes report.

use crate::{Codec, Field, Payload, Recorded};

/// What a voice activity detector saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpeechEventKind {
    /// Speech began at the time of the packet.
    #[default]
    Start,
    /// Speech ended at the time of the packet.
    End,
}

/// The begin or end of speech.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpeechEvent {
    /// Which of the two.
    pub kind: SpeechEventKind,
    /// Probability of speech when it was decided, 0 to 1.
    pub probability: f32,
}

impl Payload for SpeechEvent {
    const TYPE: &'static str = "speech/Event";
    const CODEC: Option<Codec> = Some(Codec::of::<Self>());

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let kind = match self.kind {
            SpeechEventKind::Start => "speech_start",
            SpeechEventKind::End => "speech_end",
        };
        vec![
            ("event", Field::Text(kind.to_owned())),
            ("probability", Field::Number(f64::from(self.probability))),
        ]
    }
}

/// A wake word or a spoken command; the time of the packet is when it was decided.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeywordEvent {
    /// The phrase, as the model's labels spell it.
    pub label: String,
    /// Smoothed score, 0 to 1.
    pub score: f32,
}

impl Payload for KeywordEvent {
    const TYPE: &'static str = "speech/Keyword";
    const CODEC: Option<Codec> = Some(Codec::of::<Self>());

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("event", Field::Text("keyword".to_owned())),
            ("label", Field::Text(self.label.clone())),
            ("score", Field::Number(f64::from(self.score))),
        ]
    }
}

impl Recorded for SpeechEvent {
    const MESSAGE: &'static str = "afferent_msgs/msg/SpeechEvent";
    const SCHEMA: &'static str = "uint8 START=0
uint8 END=1
uint8 kind
float32 probability
";
    type Wire = (u8, f32);

    fn to_wire(&self) -> Self::Wire {
        (u8::from(self.kind == SpeechEventKind::End), self.probability)
    }

    fn from_wire((kind, probability): Self::Wire) -> Result<Self, String> {
        let kind = match kind {
            0 => SpeechEventKind::Start,
            1 => SpeechEventKind::End,
            other => return Err(format!("there is no speech event {other}")),
        };
        Ok(Self { kind, probability })
    }
}

impl Recorded for KeywordEvent {
    const MESSAGE: &'static str = "afferent_msgs/msg/KeywordEvent";
    const SCHEMA: &'static str = "string label\nfloat32 score\n";
    type Wire = (String, f32);

    fn to_wire(&self) -> Self::Wire {
        (self.label.clone(), self.score)
    }

    fn from_wire((label, score): Self::Wire) -> Result<Self, String> {
        Ok(Self { label, score })
    }
}
