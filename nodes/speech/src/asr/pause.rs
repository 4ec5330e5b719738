//! Pauses within speech, by the level of the audio.

use std::time::Duration;

use afferent_messages::SampleRate;

/// Length of a frame, whose level is measured.
const FRAME: Duration = Duration::from_millis(10);
/// Level of digital silence, in dBFS.
const MIN_LEVEL_DB: f32 = -80.0;
/// Decay of the speech level, in decibels per frame.
const SPEECH_DECAY_DB: f32 = 0.05;
/// Rise of the noise level, in decibels per frame.
const NOISE_RISE_DB: f32 = 0.1;
/// Least difference between speech and noise in which pauses are detected.
const MIN_RANGE_DB: f32 = 12.0;
/// Least length of a pause that [`PauseDetector::since_pause`] regards, in frames.
const MIN_PAUSE_FRAMES: u32 = 8;
/// Longest speech after a pause that [`PauseDetector::since_pause`] regards, in frames.
const MAX_ONSET_FRAMES: u32 = 10;
/// Position of the threshold between the levels of noise and of speech.
const THRESHOLD_SHARE: f32 = 0.35;

/// Tells how long speech has paused.
///
/// A frame is silent if its level is close to the noise level, which follows the quietest frames, and
/// far below the speech level, which follows the loudest ones.
#[derive(Debug)]
pub(super) struct PauseDetector {
    frame_len: usize,
    /// Sum of the squares, and number, of the samples of the current frame.
    frame: (f32, usize),
    levels: Option<Levels>,
    silent_frames: u32,
    /// Frames of the last pause, and frames since its end.
    last_pause: (u32, u32),
}

/// Levels in dBFS.
#[derive(Debug, Clone, Copy)]
struct Levels {
    speech: f32,
    noise: f32,
}

impl PauseDetector {
    pub(super) fn new(rate: SampleRate) -> Self {
        let frame_len = rate.samples(FRAME).max(1);
        Self { frame_len, frame: (0.0, 0), levels: None, silent_frames: 0, last_pause: (0, 0) }
    }

    /// Begins another stream.
    pub(super) fn restart(&mut self) {
        *self = Self { frame_len: self.frame_len, ..Self::new(SampleRate(1)) };
    }

    /// Adds the next samples. Returns the length of the pause in which they begin, both its parts
    /// before and after the first of them; zero if they do not begin in a pause.
    pub(super) fn update(&mut self, samples: &[f32]) -> Duration {
        let (before, mut after, mut is_in_pause) = (self.silent_frames, 0, self.silent_frames > 0);
        for sample in samples {
            self.frame.0 += sample * sample;
            self.frame.1 += 1;
            if self.frame.1 == self.frame_len {
                let mean = self.frame.0 / self.frame_len as f32;
                self.add_frame((10.0 * mean.log10()).max(MIN_LEVEL_DB));
                self.frame = (0.0, 0);
                is_in_pause &= self.silent_frames > 0;
                after += u32::from(is_in_pause);
            }
        }
        if before > 0 { FRAME * (before + after) } else { Duration::ZERO }
    }

    fn add_frame(&mut self, level: f32) {
        let before = self.levels.unwrap_or(Levels { speech: level, noise: level });
        let levels = Levels {
            speech: level.max(before.speech - SPEECH_DECAY_DB),
            noise: level.min(before.noise + NOISE_RISE_DB),
        };
        self.levels = Some(levels);
        let range = levels.speech - levels.noise;
        let is_silent = range >= MIN_RANGE_DB && level < levels.noise + THRESHOLD_SHARE * range;
        self.silent_frames = if is_silent { self.silent_frames + 1 } else { 0 };
        if self.silent_frames >= MIN_PAUSE_FRAMES {
            self.last_pause = (self.silent_frames, 0);
        } else {
            self.last_pause.1 = self.last_pause.1.saturating_add(1);
        }
    }

    /// True if the last frame is silent.
    pub(super) fn is_silent(&self) -> bool {
        self.silent_frames > 0
    }

    /// Time since the start of the last pause, if speech has resumed just now or not at all;
    /// otherwise zero.
    pub(super) fn since_pause(&self) -> Duration {
        match self.last_pause {
            (pause, onset) if pause > 0 && onset <= MAX_ONSET_FRAMES => FRAME * (pause + onset),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds parts of a length in milliseconds and an amplitude, in noise.
    fn feed(detector: &mut PauseDetector, parts: &[(usize, f32)], noise: f32) -> Vec<u128> {
        let mut seed = 1_u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed as f32 / u32::MAX as f32 - 0.5
        };
        let pause = |&(ms, amplitude): &(usize, f32)| {
            let samples: Vec<f32> =
                (0..16 * ms).map(|_| amplitude * random() + noise * random()).collect();
            detector.update(&samples).as_millis()
        };
        parts.iter().map(pause).collect()
    }

    #[test]
    fn pauses_of_speech_are_measured_in_noise_too() {
        let parts = [(300, 0.0), (500, 0.5), (90, 0.0), (60, 0.0), (50, 0.3), (10, 0.0), (9, 0.3)];
        for noise in [0.0, 0.05] {
            let mut detector = PauseDetector::new(SampleRate(16_000));
            assert_eq!(feed(&mut detector, &parts, noise), [0, 0, 0, 150, 150, 0, 10], "{noise}");
        }
    }

    #[test]
    fn without_speech_there_is_no_pause() {
        let mut detector = PauseDetector::new(SampleRate(16_000));
        assert_eq!(feed(&mut detector, &[(500, 0.0), (500, 0.0)], 0.0), [0, 0]);
        assert_eq!(feed(&mut detector, &[(500, 0.0), (500, 0.0)], 0.1), [0, 0]);
    }

    #[test]
    fn the_start_of_speech_after_a_pause_belongs_to_the_pause() {
        let check = |parts: &[(usize, f32)], expected: u128| {
            let mut detector = PauseDetector::new(SampleRate(16_000));
            feed(&mut detector, parts, 0.0);
            assert_eq!(detector.since_pause().as_millis(), expected, "{parts:?}");
        };
        check(&[(500, 0.0)], 0);
        check(&[(500, 0.0), (500, 0.5), (50, 0.0)], 0);
        check(&[(500, 0.5), (200, 0.0)], 200);
        check(&[(500, 0.5), (200, 0.0), (40, 0.5)], 240);
        check(&[(500, 0.5), (200, 0.0), (140, 0.5)], 0);
        check(&[(500, 0.5), (200, 0.0), (40, 0.5), (30, 0.0)], 270);
    }
}
