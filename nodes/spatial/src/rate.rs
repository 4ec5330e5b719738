//! Rate and gaps of measurements.

use std::time::Duration;

use afferent_graph::Timestamp;

/// Measurements from which the rate is taken.
pub(crate) const FIRST: usize = 32;
/// Time without a measurement after which what came before is of no use.
const MAX_GAP: Duration = Duration::from_millis(500);

/// The first measurements of a stream, until they are enough to know the rate.
#[derive(Debug)]
pub(crate) struct FirstMeasurements<T>(Vec<(Timestamp, T)>);

impl<T> Default for FirstMeasurements<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FirstMeasurements<T> {
    /// Adds a measurement. Returns all of them with their median period in seconds once they are
    /// [`FIRST`]; the period is `None` if no time is later than the one before.
    #[expect(clippy::type_complexity, reason = "the measurements with their period")]
    pub(crate) fn push(
        &mut self,
        at: Timestamp,
        value: T,
    ) -> Option<(Vec<(Timestamp, T)>, Option<f64>)> {
        self.0.push((at, value));
        if self.0.len() < FIRST {
            return None;
        }
        let all = std::mem::take(&mut self.0);
        let times: Vec<Timestamp> = all.iter().map(|(at, _)| *at).collect();
        Some((all, period_s(&times)))
    }
}

/// True if a measurement at `at` does not continue those up to `last`: after a gap, or an earlier time.
pub(crate) fn is_break(last: Timestamp, at: Timestamp) -> bool {
    at < last || at.since(last) > MAX_GAP
}

/// Median period, in seconds; `None` if no time is later than the one before.
fn period_s(times: &[Timestamp]) -> Option<f64> {
    let steps = times.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0));
    let mut periods: Vec<i64> = steps.filter(|&ns| ns > 0).collect();
    periods.sort_unstable();
    periods.get(periods.len() / 2).map(|&ns| ns as f64 * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_is_the_median() {
        let check = |times: &[i64], expected: Option<f64>| {
            let times: Vec<Timestamp> = times.iter().copied().map(Timestamp).collect();
            assert_eq!(period_s(&times), expected, "{times:?}");
        };
        check(&[], None);
        check(&[5, 5, 5], None);
        check(&[0, 10, 20, 90, 100], Some(1e-8));
        check(&[i64::MIN, i64::MAX], Some(i64::MAX as f64 * 1e-9));
    }
}
