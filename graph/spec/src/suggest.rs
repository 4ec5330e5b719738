//! "Did you mean".

use crate::{Diagnostic, Diagnostics};

/// Candidate that `word` is probably a misspelling of.
pub(crate) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    // Longer words are not misspelled names, and would take long.
    if length == 0 || length > 64 {
        return None;
    }
    let limit = (length / 3).max(1);
    // Most candidates differ too much in length to need a comparison.
    let near = |candidate: &&str| candidate.chars().count().abs_diff(length) <= limit;
    let distance =
        |candidate: &'a str| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate);
    let best =
        candidates.into_iter().filter(near).map(distance).min_by_key(|(distance, _)| *distance);
    // Words without a common letter are not alike, however short.
    best.filter(|(distance, _)| *distance <= limit && *distance < length)
        .map(|(_, candidate)| candidate)
}

/// Help for replacing `word`: the closest candidate, or all of them if they are few, as `what`
/// ("the outputs of \"vad\"").
///
/// `None` if there are many `faults` already: they have a common cause, and searching takes time.
pub(crate) fn help<'a>(
    faults: &[Diagnostic],
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
    what: &str,
) -> Option<String> {
    if faults.len() >= Diagnostics::SHOWN {
        return None;
    }
    if let Some(found) = closest(word, candidates.clone()) {
        return Some(format!("did you mean \"{found}\"?"));
    }
    let all: Vec<_> = candidates.into_iter().take(17).collect();
    match all.as_slice() {
        [] => Some(format!("{what}: there are none")),
        few if few.len() <= 16 => Some(format!("{what}: {}", few.join(", "))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_found() {
        let words = ["threshold", "model", "min_silence", "pre_roll"];
        let cases = [
            ("treshold", Some("threshold")),
            ("Threshold", Some("threshold")),
            ("modle", Some("model")),
            ("preroll", Some("pre_roll")),
            ("silence", None),
            ("zzz", None),
            ("z", None),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(closest(word, words), expected, "{word}");
        }
        assert_eq!(help(&[], "zzz", ["a", "b"], "the inputs").as_deref(), Some("the inputs: a, b"));
    }
}
