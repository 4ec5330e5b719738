//! Rate of measurements.

use afferent_graph::Timestamp;

/// Median period, in seconds; `None` if no time is later than the one before.
pub(crate) fn period_s(times: &[Timestamp]) -> Option<f64> {
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
