//! Timing of repeated calls.

use std::time::{Duration, Instant};

/// Converts `time` to microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Median of `values`; the upper one for an even count, NaN for none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Times of `repeat` single calls in microseconds, including two clock reads per call.
pub(crate) fn each<E>(
    repeat: usize,
    mut call: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let mut times = Vec::with_capacity(repeat);
    for _ in 0..repeat {
        let start = Instant::now();
        call()?;
        times.push(micros(start.elapsed()));
    }
    Ok(times)
}

/// Time of a batch of `repeat` calls, in microseconds per call.
pub(crate) fn batch<E>(repeat: usize, mut call: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    for _ in 0..repeat {
        call()?;
    }
    Ok(micros(start.elapsed()) / repeat.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_element() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 3.0);
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn all_calls_are_timed() {
        let mut calls = 0;
        let mut call = || {
            calls += 1;
            Ok::<_, ()>(())
        };
        assert_eq!(each(3, &mut call).map(|times| times.len()), Ok(3));
        assert!(batch(4, &mut call).is_ok_and(f64::is_finite));
        assert_eq!(calls, 7);
    }
}
