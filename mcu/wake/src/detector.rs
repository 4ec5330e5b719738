//! Detection of phrases from the scores of a network.

use core::{error::Error, fmt, time::Duration};

/// Smooths scores and detects phrases.
///
/// A phrase is detected when the mean of its last scores reaches its threshold, unless it was
/// detected less than the refractory time ago. Scores before the first count as zero. Label 0 is
/// the background and is never detected.
///
/// `labels` holds a [`Label`] for each score, and `recent` the scores of the runs of a mean: arrays
/// in firmware, vectors on a host.
#[derive(Debug, Clone)]
pub struct Detector<L, S> {
    labels: L,
    /// Scores of the last runs, run after run.
    recent: S,
    /// Position in `recent` of the oldest run, in scores.
    oldest: usize,
    refractory: Duration,
}

/// Threshold of a label, and its last detection.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    threshold: f32,
    last_detected_ns: Option<i64>,
}

impl Label {
    /// Label that is detected from a mean score of `threshold` on.
    pub const fn new(threshold: f32) -> Self {
        Self { threshold, last_detected_ns: None }
    }
}

/// Detected phrase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detected {
    /// Index of the label.
    pub label: usize,
    /// Mean score.
    pub score: f32,
}

/// The number of scores is not that of the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreCountError {
    /// Number of scores.
    pub scores: usize,
    /// Number of labels.
    pub labels: usize,
}

impl fmt::Display for ScoreCountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the network returns {} scores for {} labels", self.scores, self.labels)
    }
}

impl Error for ScoreCountError {}

impl<L: AsMut<[Label]>, S: AsMut<[f32]>> Detector<L, S> {
    /// Detector of phrases. A mean has as many runs as `recent` has scores for each label; `recent`
    /// is overwritten.
    pub fn new(labels: L, recent: S, refractory: Duration) -> Self {
        let mut detector = Self { labels, recent, oldest: 0, refractory };
        detector.restart();
        detector
    }

    /// Forgets the scores. The refractory times go on.
    pub fn restart(&mut self) {
        self.recent.as_mut().fill(0.0);
        self.oldest = 0;
    }

    /// Adds the scores of the run that ends at `now_ns`, and returns the detected phrase: the one
    /// with the highest mean of several.
    ///
    /// # Errors
    /// [`ScoreCountError`].
    pub fn update(
        &mut self,
        scores: &[f32],
        now_ns: i64,
    ) -> Result<Option<Detected>, ScoreCountError> {
        let (labels, recent) = (self.labels.as_mut(), self.recent.as_mut());
        let count = labels.len();
        if scores.len() != count {
            return Err(ScoreCountError { scores: scores.len(), labels: count });
        }
        let oldest = recent.get_mut(self.oldest..).unwrap_or_default();
        for (old, &new) in oldest.iter_mut().zip(scores) {
            *old = new;
        }
        self.oldest += count;
        if self.oldest + count > recent.len() {
            self.oldest = 0;
        }
        let (newer, older) = recent.split_at_checked(self.oldest).unwrap_or_default();
        let runs = recent.len().checked_div(count).unwrap_or_default().max(1);
        let mut detected: Option<Detected> = None;
        for (label, Label { threshold, last_detected_ns }) in labels.iter().enumerate().skip(1) {
            let of_label = |scores| <[f32]>::iter(scores).skip(label).step_by(count.max(1));
            let score = of_label(older).chain(of_label(newer)).sum::<f32>() / runs as f32;
            // A later detection is from before a restart of the clock.
            let is_refractory = last_detected_ns.is_some_and(|last| {
                now_ns >= last && now_ns.abs_diff(last) < nanoseconds(self.refractory)
            });
            if score >= *threshold
                && !is_refractory
                && detected.is_none_or(|best| score.total_cmp(&best.score).is_ge())
            {
                detected = Some(Detected { label, score });
            }
        }
        if let Some(label) = detected.and_then(|detected| labels.get_mut(detected.label)) {
            label.last_detected_ns = Some(now_ns);
        }
        Ok(detected)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_NS: i64 = 40_000_000;
    const REFRACTORY: Duration = Duration::from_millis(160);

    /// Checks the runs that detect "b" (1) or "c" (2), for one pair of scores per run. A mean has
    /// two runs.
    fn check(scores: &[(f32, f32)], expected: &[(usize, usize)]) {
        let mut detector = Detector::new([Label::new(0.6); 3], [9.0; 6], REFRACTORY);
        let mut found = Vec::new();
        for (at, &(b, c)) in scores.iter().enumerate() {
            let detected = detector.update(&[1.0 - b - c, b, c], STEP_NS * at as i64).unwrap();
            found.extend(detected.map(|detected| (at, detected.label)));
        }
        assert_eq!(found, expected, "{scores:?}");
    }

    #[test]
    fn a_single_high_score_is_not_detected() {
        check(&[(0.0, 0.0), (1.0, 0.0), (0.0, 0.0)], &[]);
        check(&[(0.0, 0.0), (1.0, 0.0), (0.4, 0.0)], &[(2, 1)]);
    }

    #[test]
    fn a_detected_phrase_is_refractory() {
        check(&[(1.0, 0.0); 9], &[(1, 1), (5, 1)]);
        check(&[(1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.0)], &[(1, 1), (3, 2)]);
    }

    #[test]
    fn the_number_of_scores_must_match_the_labels() {
        let mut detector = Detector::new([Label::new(0.5); 2], [0.0; 2], REFRACTORY);
        let error = detector.update(&[0.1; 3], 0).unwrap_err();
        assert_eq!(error.to_string(), "the network returns 3 scores for 2 labels");
    }

    #[test]
    fn a_restart_of_the_clock_ends_the_refractory_time() {
        let mut detector = Detector::new([Label::new(0.5); 2], [0.0; 2], REFRACTORY);
        let mut detected =
            |step: i64| detector.update(&[0.0, 1.0], STEP_NS * step).unwrap().is_some();
        assert_eq!([1000, 1001, 3, 4, 7].map(&mut detected), [true, false, true, false, true]);
    }

    #[test]
    fn a_restart_forgets_scores() {
        let mut detector = Detector::new([Label::new(0.6); 2], [0.0; 4], REFRACTORY);
        assert_eq!(detector.update(&[0.0, 1.0], 0), Ok(None));
        detector.restart();
        assert_eq!(detector.update(&[0.0, 1.0], 1), Ok(None));
        assert!(detector.update(&[0.0, 1.0], 2).unwrap().is_some());
    }
}
