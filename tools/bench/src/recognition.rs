//! Speech recognition downstream of a voice activity detector, and the distance of transcripts.

use afferent_graph::{NodeBench, Packet};
use afferent_messages::{AudioBlock, SpeechEvent};
use afferent_nodes_speech::Asr;
use anyhow::Result;

/// Passes the output of a voice activity detector to the recognizer. Returns the output of that.
pub(crate) fn recognize(
    asr: &mut NodeBench<Asr>,
    speech: Vec<(&'static str, Packet)>,
) -> Result<Vec<(&'static str, Packet)>> {
    let mut transcripts = Vec::new();
    for (_, packet) in speech {
        let at = packet.header.at;
        if let Some(event) = packet.get::<SpeechEvent>() {
            transcripts.extend(asr.call(Asr::EVENTS, at, *event)?);
        } else if let Some(audio) = packet.get::<AudioBlock>() {
            transcripts.extend(asr.call(Asr::AUDIO, at, audio.clone())?);
        }
    }
    Ok(transcripts)
}

/// Least number of words to insert, delete or replace.
pub(crate) fn edit_distance<T: PartialEq>(expected: &[T], found: &[T]) -> usize {
    let mut row: Vec<usize> = (0..=found.len()).collect();
    for (i, word) in expected.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in found.iter().enumerate() {
            let changed = diagonal + usize::from(word != other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[found.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let check = |expected: &str, found: &str, distance| {
            let [a, b] = [expected, found].map(|text| text.split_whitespace().collect::<Vec<_>>());
            assert_eq!(edit_distance(&a, &b), distance, "{expected} / {found}");
        };
        check("a b c", "a b c", 0);
        check("a b c", "a x c", 1);
        check("a b c", "b c", 1);
        check("a b c", "a b b c", 1);
        check("a b", "", 2);
        check("", "a", 1);
    }
}
