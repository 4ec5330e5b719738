//! Words with times from the tokens of a transcript.

use afferent_text::{TextError, Tokenizer};

use super::vocabulary::Vocabulary;
use crate::asr::segments::{SegmentWord, spread_words};

/// Text between two time tokens.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Segment {
    pub(super) text: String,
    /// Start and end in seconds.
    pub(super) start: f64,
    pub(super) end: f64,
}

/// Segments of the tokens of a transcript of `len_s` seconds. Text without times spans all of it.
pub(super) fn segments(
    tokens: &[u32],
    vocabulary: &Vocabulary,
    tokenizer: &Tokenizer,
    len_s: f64,
) -> Result<Vec<Segment>, TextError> {
    let mut found: Vec<Segment> = Vec::new();
    let (mut start, mut text) = (0.0, Vec::new());
    let mut add = |text: &mut Vec<u32>, start: f64, end: f64| -> Result<(), TextError> {
        if !text.is_empty() {
            let (start, end) = (start.min(len_s), end.min(len_s));
            let decoded = tokenizer.decode(text)?;
            found.push(Segment { text: decoded, start, end: end.max(start) });
            text.clear();
        }
        Ok(())
    };
    for &token in tokens {
        match vocabulary.seconds(token) {
            Some(seconds) => {
                add(&mut text, start, seconds)?;
                start = seconds;
            }
            None => text.push(token),
        }
    }
    add(&mut text, start, len_s)?;
    Ok(found)
}

/// Words of `segments`, split at spaces. Their times divide those of the segment by their letters.
pub(super) fn words(segments: &[Segment]) -> Vec<SegmentWord> {
    let of = |segment: &Segment| spread_words(&segment.text, segment.start, segment.end);
    segments.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_divided_by_letters() {
        let segment = Segment { text: " go to bed".to_owned(), start: 1.0, end: 2.0 };
        let found = words(&[segment]);
        let times: Vec<(&str, u128, u128)> = found
            .iter()
            .map(|word| (word.text.as_str(), word.start.as_millis(), word.end.as_millis()))
            .collect();
        assert_eq!(times, [("go", 1000, 1300), ("to", 1300, 1600), ("bed", 1600, 2000)]);
        assert!(words(&[Segment { text: " ".to_owned(), start: 0.0, end: 1.0 }]).is_empty());
    }
}
