//! Turns of the speakers in audio.

use afferent_graph::{Field, Payload, RecordCodec, Timestamp, WireCodec};

use crate::{Cdr, CdrMessage};

/// Turns in a stretch of audio that ends at the timestamp of the packet and begins at that of the packet
/// before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpeakerTurns {
    /// Turns that end or go on in this audio, by their start. Turns of several speakers may overlap.
    pub turns: Vec<SpeakerTurn>,
}

/// Time in which one speaker talks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpeakerTurn {
    /// Number of the speaker, from zero: the same voice has the same number in all packets of a stream.
    pub speaker: u32,
    /// Start of the turn.
    pub start: Timestamp,
    /// End of the turn so far.
    pub end: Timestamp,
    /// True if the turn has ended. Otherwise the next packet has a turn with the same speaker and start.
    pub has_ended: bool,
}

impl Payload for SpeakerTurns {
    const TYPE: &'static str = "speech/SpeakerTurns";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut speakers: Vec<u32> = self.turns.iter().map(|turn| turn.speaker).collect();
        speakers.sort_unstable();
        speakers.dedup();
        let speakers: Vec<String> = speakers.iter().map(u32::to_string).collect();
        vec![
            ("turns", Field::Int(i64::try_from(self.turns.len()).unwrap_or(i64::MAX))),
            ("speakers", Field::Text(speakers.join(" "))),
        ]
    }
}

impl CdrMessage for SpeakerTurns {
    const MESSAGE: &'static str = "afferent_msgs/msg/SpeakerTurns";
    const SCHEMA: &'static str = "afferent_msgs/SpeakerTurn[] turns
================================================================================
MSG: afferent_msgs/SpeakerTurn
uint32 speaker
int64 start_ns
int64 end_ns
bool has_ended
";
    type Wire = (Vec<(u32, i64, i64, bool)>,);

    fn to_wire(&self) -> Self::Wire {
        let turn = |turn: &SpeakerTurn| (turn.speaker, turn.start.0, turn.end.0, turn.has_ended);
        (self.turns.iter().map(turn).collect(),)
    }

    fn from_wire((turns,): Self::Wire) -> Result<Self, String> {
        let turn = |(speaker, start, end, has_ended)| SpeakerTurn {
            speaker,
            start: Timestamp(start),
            end: Timestamp(end),
            has_ended,
        };
        Ok(Self { turns: turns.into_iter().map(turn).collect() })
    }
}
