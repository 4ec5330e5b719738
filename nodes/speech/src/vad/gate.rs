//! Starts and ends of speech from probabilities.

use std::time::Duration;

use afferent_graph::Timestamp;
use afferent_messages::SpeechEventKind;

/// Thresholds and durations of [`SpeechGate`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Thresholds {
    pub(super) threshold: f32,
    pub(super) neg_threshold: f32,
    pub(super) min_speech: Duration,
    pub(super) min_silence: Duration,
    pub(super) min_resume: Duration,
    pub(super) max_speech: Duration,
}

/// Share of the longest speech segment after which any pause ends it.
const SEEK_PAUSE_SHARE: f64 = 2.0 / 3.0;

/// Hysteresis: turns probabilities into starts and ends of speech.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct SpeechGate {
    /// Start of the current speech, once it has lasted `min_speech`.
    speech_since: Option<Timestamp>,
    /// Start of speech that has not lasted long enough, before speech or in a pause.
    candidate_since: Option<Timestamp>,
    /// Start of the current silence or pause.
    silence_since: Option<Timestamp>,
}

impl SpeechGate {
    pub(super) fn in_speech(&self) -> bool {
        self.speech_since.is_some()
    }

    /// True if there is silence and no candidate of speech.
    pub(super) fn is_silent(&self) -> bool {
        !self.in_speech() && self.silence_since.is_some()
    }

    /// Length of the silence at `now`.
    pub(super) fn silent_for(&self, now: Timestamp) -> Duration {
        self.silence_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Restarts the measurement of silence.
    pub(super) fn mark_reset(&mut self, now: Timestamp) {
        self.silence_since = Some(now);
    }

    /// Updates the gate with the probability of the window from `start` to `end`. Returns a start
    /// or an end of speech, and its time.
    pub(super) fn update(
        &mut self,
        start: Timestamp,
        end: Timestamp,
        probability: f32,
        thresholds: &Thresholds,
    ) -> Option<(SpeechEventKind, Timestamp)> {
        if probability < thresholds.neg_threshold {
            self.candidate_since = None;
            self.silence_since.get_or_insert(start);
        } else if probability >= thresholds.threshold {
            if !self.in_speech() {
                self.silence_since = None;
            }
            if !self.in_speech() || self.silence_since.is_some() {
                self.candidate_since.get_or_insert(start);
            }
        }
        let lasting = |since: Option<Timestamp>, least: Duration| {
            since.filter(|&since| end.since(since) >= least)
        };
        match self.speech_since {
            None => {
                let since = lasting(self.candidate_since, thresholds.min_speech)?;
                self.candidate_since = None;
                self.speech_since = Some(since);
                Some((SpeechEventKind::Start, since))
            }
            Some(since) => {
                if lasting(self.candidate_since, thresholds.min_resume).is_some() {
                    (self.candidate_since, self.silence_since) = (None, None);
                }
                let pause = lasting(self.silence_since, thresholds.min_silence);
                let seek_pause = thresholds.max_speech.mul_f64(SEEK_PAUSE_SHARE);
                let short_pause = lasting(Some(since), seek_pause).and(self.silence_since);
                let cut = lasting(Some(since), thresholds.max_speech).map(|_| end);
                let at = pause.or(short_pause).or(cut)?;
                self.speech_since = None;
                Some((SpeechEventKind::End, at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(32);

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
        let mut start = Timestamp::ZERO;
        for &probability in probabilities {
            let end = start + WINDOW;
            if let Some((kind, at)) = gate.update(start, end, probability, &thresholds) {
                let sign = if kind == SpeechEventKind::Start { '+' } else { '-' };
                found.push((sign, at.0 / 32_000_000));
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
