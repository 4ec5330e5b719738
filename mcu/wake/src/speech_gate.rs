//! Starts and ends of speech from probabilities.

use core::time::Duration;

/// Thresholds and durations of [`SpeechGate`].
#[derive(Debug, Clone, Copy)]
pub struct Thresholds {
    /// Probability from which on a window counts as speech.
    pub threshold: f32,
    /// Probability below which a window counts as silence.
    pub neg_threshold: f32,
    /// Least length of speech.
    pub min_speech: Duration,
    /// Least length of a pause that ends speech.
    pub min_silence: Duration,
    /// Least length of speech that ends a pause.
    pub min_resume: Duration,
    /// Longest speech segment.
    pub max_speech: Duration,
}

/// Start or end of speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeechChange {
    /// Speech begins.
    Start,
    /// Speech ends.
    End,
}

/// Share of the longest speech segment after which any pause ends it.
const SEEK_PAUSE_SHARE: f64 = 2.0 / 3.0;

/// Hysteresis: turns probabilities into starts and ends of speech. All times are in nanoseconds of
/// one clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SpeechGate {
    /// Start of the current speech, once it has lasted `min_speech`.
    speech_since_ns: Option<i64>,
    /// Start of speech that has not lasted long enough, before speech or in a pause.
    candidate_since_ns: Option<i64>,
    /// Start of the current silence or pause.
    silence_since_ns: Option<i64>,
}

impl SpeechGate {
    /// True between a start and an end of speech.
    pub fn in_speech(&self) -> bool {
        self.speech_since_ns.is_some()
    }

    /// True if there is silence and no candidate of speech.
    pub fn is_silent(&self) -> bool {
        !self.in_speech() && self.silence_since_ns.is_some()
    }

    /// Length of the silence at `now_ns`.
    pub fn silent_for(&self, now_ns: i64) -> Duration {
        self.silence_since_ns.map_or(Duration::ZERO, |since_ns| elapsed(since_ns, now_ns))
    }

    /// Restarts the measurement of silence.
    pub fn mark_reset(&mut self, now_ns: i64) {
        self.silence_since_ns = Some(now_ns);
    }

    /// Updates the gate with the probability of the window from `start_ns` to `end_ns`. Returns a
    /// start or an end of speech, and its time.
    pub fn update(
        &mut self,
        start_ns: i64,
        end_ns: i64,
        probability: f32,
        thresholds: &Thresholds,
    ) -> Option<(SpeechChange, i64)> {
        if probability < thresholds.neg_threshold {
            self.candidate_since_ns = None;
            self.silence_since_ns.get_or_insert(start_ns);
        } else if probability >= thresholds.threshold {
            if !self.in_speech() {
                self.silence_since_ns = None;
            }
            if !self.in_speech() || self.silence_since_ns.is_some() {
                self.candidate_since_ns.get_or_insert(start_ns);
            }
        }
        let lasting = |since: Option<i64>, least: Duration| {
            since.filter(|&since_ns| elapsed(since_ns, end_ns) >= least)
        };
        match self.speech_since_ns {
            None => {
                let since = lasting(self.candidate_since_ns, thresholds.min_speech)?;
                self.candidate_since_ns = None;
                self.speech_since_ns = Some(since);
                Some((SpeechChange::Start, since))
            }
            Some(since) => {
                if lasting(self.candidate_since_ns, thresholds.min_resume).is_some() {
                    (self.candidate_since_ns, self.silence_since_ns) = (None, None);
                }
                let pause = lasting(self.silence_since_ns, thresholds.min_silence);
                let seek_pause = thresholds.max_speech.mul_f64(SEEK_PAUSE_SHARE);
                let short_pause = lasting(Some(since), seek_pause).and(self.silence_since_ns);
                let cut = lasting(Some(since), thresholds.max_speech).map(|_| end_ns);
                let at = pause.or(short_pause).or(cut)?;
                self.speech_since_ns = None;
                Some((SpeechChange::End, at))
            }
        }
    }
}

/// Time from `since_ns` to `now_ns`; zero if that is earlier.
fn elapsed(since_ns: i64, now_ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(now_ns.saturating_sub(since_ns)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: i64 = 32_000_000;

    /// Checks the starts (`+`) and ends (`-`), with their window, for one probability per window.
    fn check(probabilities: &[f32], expected: &[(char, i64)]) {
        let ms = Duration::from_millis;
        let thresholds = Thresholds {
            threshold: 0.5,
            neg_threshold: 0.35,
            min_speech: ms(64),
            min_silence: ms(96),
            min_resume: ms(64),
            max_speech: ms(1000),
        };
        let mut gate = SpeechGate::default();
        let mut found = Vec::new();
        let mut start = 0;
        for &probability in probabilities {
            let end = start + WINDOW_NS;
            if let Some((kind, at)) = gate.update(start, end, probability, &thresholds) {
                let sign = if kind == SpeechChange::Start { '+' } else { '-' };
                found.push((sign, at / WINDOW_NS));
            }
            start = end;
        }
        assert_eq!(found, expected, "{probabilities:?}");
    }

    #[test]
    fn speech_has_a_minimum_length_and_spans_short_pauses() {
        check(&[0.1, 0.9, 0.1, 0.1], &[]);
        check(&[0.1, 0.9, 0.9, 0.1, 0.1, 0.1], &[('+', 1), ('-', 3)]);
        check(&[0.9, 0.9, 0.1, 0.9, 0.9, 0.1, 0.1, 0.1], &[('+', 0), ('-', 5)]);
    }

    #[test]
    fn short_speech_does_not_end_a_pause() {
        check(&[0.9, 0.9, 0.1, 0.9, 0.1, 0.1], &[('+', 0), ('-', 2)]);
        check(&[0.9, 0.9, 0.1, 0.9, 0.4, 0.1, 0.1, 0.1], &[('+', 0), ('-', 5)]);
        // Speech at the end of a long enough pause may start the next segment.
        check(&[0.9, 0.9, 0.1, 0.1, 0.9, 0.9], &[('+', 0), ('-', 2), ('+', 4)]);
    }

    #[test]
    fn between_the_thresholds_nothing_changes() {
        check(&[0.9, 0.4, 0.4], &[('+', 0)]);
        check(&[0.4, 0.4, 0.4], &[]);
        check(&[0.9, 0.9, 0.1, 0.4, 0.4], &[('+', 0), ('-', 2)]);
    }

    #[test]
    fn long_speech_is_cut() {
        let ends = [('+', 0), ('-', 32), ('+', 32)];
        check(&[0.9; 40], &ends);
    }

    #[test]
    fn long_speech_is_cut_at_a_pause() {
        let mut probabilities = [0.9; 40];
        (probabilities[15], probabilities[25], probabilities[28]) = (0.1, 0.1, 0.1);
        check(&probabilities, &[('+', 0), ('-', 25), ('+', 26)]);
    }
}
