//! Limit of the number of images per second.

use afferent_graph::Timestamp;

/// Part of a period by which an image may come early: cameras are not exact.
const EARLY: f64 = 0.25;

/// Chooses images, so that they are steady on average and there is no catching up after a pause.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// Time between two images, in nanoseconds.
    period_ns: i64,
    /// Time from which on the next image is used.
    next: Option<Timestamp>,
}

impl RateLimit {
    /// Lets `max_rate` images per second pass.
    pub(crate) fn new(max_rate: f64) -> Self {
        Self { period_ns: (1e9 / max_rate) as i64, next: None }
    }

    /// True if the image at `at` is to be used.
    pub(crate) fn is_due(&mut self, at: Timestamp) -> bool {
        let period = self.period_ns;
        let early = (period as f64 * EARLY) as i64;
        match self.next {
            Some(next) if at.0 < next.0.saturating_sub(early) => false,
            next => {
                let earliest = at.0.saturating_sub(early);
                let planned = next.map_or(at.0, |next| next.0.max(earliest));
                self.next = Some(Timestamp(planned.saturating_add(period)));
                true
            }
        }
    }

    /// Begins again, after the clock of the source restarted.
    pub(crate) fn restart(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_steady_on_average() {
        let count = |rate: f64, max_rate: f64| {
            let mut limit = RateLimit::new(max_rate);
            let at = |image: i64| Timestamp((image as f64 * 1e9 / rate) as i64);
            (0..300).filter(|image| limit.is_due(at(*image))).count()
        };
        assert_eq!(count(30.0, 15.0), 150);
        assert_eq!(count(30.0, 20.0), 200);
        assert_eq!(count(30.0, 60.0), 300);
        let mut limit = RateLimit::new(10.0);
        assert!(limit.is_due(Timestamp(5_000_000_000)) && !limit.is_due(Timestamp(5_020_000_000)));
        limit.restart();
        assert!(limit.is_due(Timestamp::ZERO));
        // After a pause, there is no catching up.
        let at = |image: i64| Timestamp(9_000_000_000 + image * 10_000_000);
        let passed = (0..100).filter(|image| limit.is_due(at(*image))).count();
        assert!((10..=11).contains(&passed), "{passed} in a second");
    }
}
