//! Rules for the tokens of a transcript, as those of OpenAI's Whisper.

use super::vocabulary::{TIME_STEP, Vocabulary};

/// Latest time of the first word, in seconds.
const MAX_FIRST_TIME: f64 = 1.0;

/// Excludes tokens that may not follow `said`, the tokens after the prompt, by the logit −∞. Time tokens
/// are allowed if `has_times`.
pub(super) fn apply(logits: &mut [f32], said: &[u32], vocabulary: &Vocabulary, has_times: bool) {
    let mut exclude = |token: u32| {
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit = f32::NEG_INFINITY;
        }
    };
    vocabulary.suppressed.iter().copied().for_each(&mut exclude);
    let times = vocabulary.times.clone();
    if !has_times {
        if said.is_empty() {
            vocabulary.not_first.iter().copied().for_each(&mut exclude);
        }
        times.for_each(exclude);
        return;
    }
    let is_time = |token: &u32| times.contains(token);
    let text_end = vocabulary.end;
    // Text tokens come before the special ones.
    let text = 0..text_end;
    match said {
        // A transcript begins with a time.
        [] => {
            text.for_each(&mut exclude);
            exclude(text_end);
            let most = (MAX_FIRST_TIME / TIME_STEP) as u32;
            (times.start + most + 1..times.end).for_each(exclude);
            return;
        }
        [.., before, last] if is_time(last) && is_time(before) => {
            times.clone().for_each(&mut exclude)
        }
        // The time after text is followed by another time, or the end.
        [.., _, last] if is_time(last) => text.for_each(&mut exclude),
        // The first time is followed by text, or by the end if nothing was said.
        [_] => times.clone().for_each(&mut exclude),
        _ => {}
    }
    // Times do not decrease, and a segment is not empty.
    if let Some(at) = said.iter().rposition(is_time) {
        let is_start = at + 1 < said.len() || at == 0 || !is_time(&said[at - 1]);
        let is_pair = at + 1 == said.len() && is_start && at > 0;
        let least = if is_pair { said[at] } else { said[at] + 1 };
        (times.start..least.min(times.end)).for_each(&mut exclude);
    }
    prefer_time(logits, vocabulary);
}

/// Excludes text if all times together are more probable than every text token.
fn prefer_time(logits: &mut [f32], vocabulary: &Vocabulary) {
    let range = vocabulary.times.start as usize..(vocabulary.times.end as usize).min(logits.len());
    let times = log_sum_exp(&logits[range.clone()]);
    let text = &logits[..range.start];
    let greatest = text.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if times > greatest {
        logits[..range.start].fill(f32::NEG_INFINITY);
    }
}

/// Logarithm of the sum of the exponentials.
pub(super) fn log_sum_exp(logits: &[f32]) -> f32 {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if greatest == f32::NEG_INFINITY {
        return greatest;
    }
    greatest + logits.iter().map(|logit| (logit - greatest).exp()).sum::<f32>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text 0 to 3, end 4, start 5, times 6 to 66.
    fn vocabulary() -> Vocabulary {
        Vocabulary {
            start: 5,
            end: 4,
            no_speech: None,
            no_timestamps: None,
            transcribe: None,
            translate: None,
            languages: Vec::new(),
            times: 6..67,
            suppressed: vec![5],
            not_first: vec![3, 4],
        }
    }

    /// Tokens that may follow `said`.
    fn allowed(said: &[u32], has_times: bool) -> Vec<u32> {
        let mut logits = vec![0.0; 67];
        // Text is more probable than all times.
        logits[..5].fill(10.0);
        apply(&mut logits, said, &vocabulary(), has_times);
        (0..67).filter(|&token| logits[token as usize].is_finite()).collect()
    }

    #[test]
    fn times_come_in_pairs_and_do_not_decrease() {
        let span = |from: u32, to: u32| (from..=to).collect::<Vec<u32>>();
        assert_eq!(allowed(&[], true), span(6, 56), "a time up to 1 s");
        assert_eq!(allowed(&[10], true), [0, 1, 2, 3, 4], "text or the end");
        let text_or_later = [span(0, 4), span(11, 66)].concat();
        assert_eq!(allowed(&[10, 1], true), text_or_later);
        assert_eq!(
            allowed(&[10, 1, 20], true),
            [vec![4], span(20, 66)].concat(),
            "a time or the end"
        );
        assert_eq!(allowed(&[10, 1, 20, 25], true), span(0, 4), "text of the next segment");
        assert_eq!(allowed(&[10, 1, 20, 25, 2], true), [span(0, 4), span(26, 66)].concat());
    }

    #[test]
    fn without_times_there_is_only_text() {
        assert_eq!(allowed(&[], false), [0, 1, 2]);
        assert_eq!(allowed(&[1], false), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_probable_time_excludes_text() {
        let mut logits = vec![0.0; 67];
        apply(&mut logits, &[10, 1], &vocabulary(), true);
        assert!(logits[..6].iter().all(|logit| *logit == f32::NEG_INFINITY));
    }
}
