//! Difference of two clocks.

/// Difference of two clocks, from readings whose second clock may be read too late.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offset(Option<i64>);

impl Offset {
    /// Share of a larger difference that is believed: most are delays, but clocks drift.
    const RISE: i64 = 16;

    /// Takes a difference that may be too large; returns the best one so far.
    pub(crate) fn update(&mut self, found: i64) -> i64 {
        let best = match self.0 {
            Some(best) if found > best => {
                best.saturating_add(found.saturating_sub(best) / Self::RISE)
            }
            _ => found,
        };
        *self.0.insert(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_ignored_and_drift_is_followed() {
        let mut offset = Offset::default();
        let found = [100, 3300, 100, 90, 90].map(|found| offset.update(found));
        assert_eq!(found, [100, 300, 100, 90, 90]);
        let mut last = 0;
        for step in 0..1000 {
            last = offset.update(90 + 10_000 * step);
        }
        let lag = 90 + 10_000 * 999 - last;
        assert!((0..=160_000).contains(&lag), "{lag}");
    }
}
