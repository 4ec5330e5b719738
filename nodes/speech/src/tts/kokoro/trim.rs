//! Silence around speech.

use std::ops::Range;

/// Samples of the moving average.
const WINDOW: usize = 10;
/// Level of silence.
const SILENCE: f64 = 0.005;

/// Range of `samples` from the first to the last that are loud, by a moving average, with a `margin` on
/// both sides; empty if all is silent.
pub(super) fn trim(samples: &[f32], margin: usize) -> Range<usize> {
    let excess = |sample: &f32| (f64::from(sample.abs()) - SILENCE).max(0.0);
    let is_loud =
        |window: &[f32]| window.iter().map(excess).sum::<f64>() >= SILENCE * WINDOW as f64;
    let Some(first) = samples.windows(WINDOW).position(is_loud) else { return 0..0 };
    let last = samples.windows(WINDOW).rposition(is_loud).unwrap_or(first);
    // The first window is loud from its last sample on, and the last one to its first sample.
    let start = (first + WINDOW - 1).saturating_sub(margin);
    start..(last + margin + 1).min(samples.len()).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_cut() {
        let mut samples = vec![0.001; 100];
        assert_eq!(trim(&samples, 5), 0..0);
        samples[40..60].fill(0.5);
        // One loud sample is enough for a window of ten.
        assert_eq!(trim(&samples, 5), 35..65);
        assert_eq!(trim(&samples, 1000), 0..100);
        assert_eq!(trim(&samples[..5], 5), 0..0);
    }
}
