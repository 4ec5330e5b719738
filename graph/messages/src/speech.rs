//! Results of speech nodes.

use crate::{Cdr, CdrMessage};
use afferent_graph::{Field, Payload, RecordCodec, Timestamp, WireCodec};

/// Kind of a [`SpeechEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpeechEventKind {
    /// Speech started at the timestamp of the packet.
    #[default]
    Start,
    /// Speech ended at the timestamp of the packet.
    End,
}

/// Start or end of speech, as detected by a voice activity detector.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpeechEvent {
    /// Kind of the event.
    pub kind: SpeechEventKind,
    /// Probability of speech at the time of the decision, 0 to 1.
    pub probability: f32,
}

impl Payload for SpeechEvent {
    const TYPE: &'static str = "speech/Event";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

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

/// A wake word or a spoken command. The timestamp of the packet is the time of the decision.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeywordEvent {
    /// Label of the model for the phrase.
    pub label: String,
    /// Smoothed score, 0 to 1.
    pub score: f32,
}

impl Payload for KeywordEvent {
    const TYPE: &'static str = "speech/Keyword";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("event", Field::Text("keyword".to_owned())),
            ("label", Field::Text(self.label.clone())),
            ("score", Field::Number(f64::from(self.score))),
        ]
    }
}

/// A recognized word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeardWord {
    /// Spelling of the recognizer.
    pub text: String,
    /// Start of the word.
    pub start: Timestamp,
    /// End of the word.
    pub end: Timestamp,
    /// Number of the speaker, as in [`SpeakerTurn`](crate::SpeakerTurn), if it is known.
    pub speaker: Option<u32>,
}

/// Transcript of an utterance. The timestamp of the packet is the end of the audio that it covers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// Number of the utterance, from zero.
    pub utterance: u64,
    /// True if the words are final. Those of a partial transcript may change.
    pub is_final: bool,
    /// All words of the utterance so far.
    pub words: Vec<HeardWord>,
    /// Language of the words, an ISO 639-1 code such as `en`; empty if the recognizer does not tell.
    pub language: String,
}

impl Transcript {
    /// The words, separated by spaces.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for word in &self.words {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word.text);
        }
        text
    }
}

impl Payload for Transcript {
    const TYPE: &'static str = "speech/Transcript";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let event = if self.is_final { "final" } else { "partial" };
        let mut fields = vec![
            ("event", Field::Text(event.to_owned())),
            ("utterance", Field::Int(i64::try_from(self.utterance).unwrap_or(i64::MAX))),
            ("text", Field::Text(self.text())),
        ];
        if !self.language.is_empty() {
            fields.push(("language", Field::Text(self.language.clone())));
        }
        if self.words.iter().any(|word| word.speaker.is_some()) {
            let speaker = |word: &HeardWord| word.speaker.map_or("?".to_owned(), |n| n.to_string());
            let speakers: Vec<String> = self.words.iter().map(speaker).collect();
            fields.push(("speakers", Field::Text(speakers.join(" "))));
        }
        fields
    }
}

impl CdrMessage for Transcript {
    const MESSAGE: &'static str = "afferent_msgs/msg/Transcript";
    const SCHEMA: &'static str = "# Word after word, with the times of each.
uint64 utterance
bool is_final
string[] words
int64[] starts_ns
int64[] ends_ns
string language
int64[] speakers # -1: not known
";
    type Wire = (u64, bool, Vec<String>, Vec<i64>, Vec<i64>, String, Vec<i64>);

    fn to_wire(&self) -> Self::Wire {
        let texts = self.words.iter().map(|word| word.text.clone()).collect();
        let starts = self.words.iter().map(|word| word.start.0).collect();
        let ends = self.words.iter().map(|word| word.end.0).collect();
        let speakers = self.words.iter().map(|word| word.speaker.map_or(-1, i64::from)).collect();
        (self.utterance, self.is_final, texts, starts, ends, self.language.clone(), speakers)
    }

    fn from_wire(
        (utterance, is_final, texts, starts, ends, language, speakers): Self::Wire,
    ) -> Result<Self, String> {
        if [&starts, &ends, &speakers].iter().any(|list| list.len() != texts.len()) {
            let [starts, ends, speakers] = [starts, ends, speakers].map(|list| list.len());
            let words = texts.len();
            return Err(format!(
                "{words} words with {starts} starts, {ends} ends and {speakers} speakers"
            ));
        }
        let properties = starts.into_iter().zip(ends).zip(speakers);
        let words = texts.into_iter().zip(properties).map(|(text, ((start, end), speaker))| {
            let (start, end) = (Timestamp(start), Timestamp(end));
            HeardWord { text, start, end, speaker: u32::try_from(speaker).ok() }
        });
        Ok(Self { utterance, is_final, words: words.collect(), language })
    }
}

impl CdrMessage for SpeechEvent {
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
            other => return Err(format!("unknown speech event {other}")),
        };
        Ok(Self { kind, probability })
    }
}

impl CdrMessage for KeywordEvent {
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
