//! Rate of the images of a file, and the slot of each image in it.

use std::time::Duration;

use afferent_graph::Timestamp;

/// Images per second, as a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) numerator: u32,
    pub(super) denominator: u32,
}

/// Rates of cameras and of television.
const COMMON: [Rate; 16] = [
    Rate::whole(1),
    Rate::whole(2),
    Rate::whole(5),
    Rate::whole(10),
    Rate::whole(15),
    Rate::whole(20),
    Rate { numerator: 24_000, denominator: 1001 },
    Rate::whole(24),
    Rate::whole(25),
    Rate { numerator: 30_000, denominator: 1001 },
    Rate::whole(30),
    Rate::whole(50),
    Rate { numerator: 60_000, denominator: 1001 },
    Rate::whole(60),
    Rate::whole(90),
    Rate::whole(120),
];

/// Largest difference of a measured rate from a common one, as a share.
const TOLERANCE: f64 = 0.02;

impl Rate {
    /// Rate of a file with one image.
    pub(super) const DEFAULT: Self = Self::whole(30);

    const fn whole(numerator: u32) -> Self {
        Self { numerator, denominator: 1 }
    }

    pub(super) fn fps(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    /// The rate of `fps`, exactly if it is a common one or has three decimals.
    pub(super) fn of(fps: f64) -> Self {
        Self::common(fps, 1e-5).unwrap_or_else(|| Self {
            numerator: (fps * 1000.0).round().max(1.0) as u32,
            denominator: 1000,
        })
    }

    /// The rate of images with these timestamps, or the common rate beside it. Distances of several
    /// times the median are those of missing images.
    pub(super) fn of_times(times: &[Timestamp]) -> Self {
        let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
        let mut gaps: Vec<Duration> = gaps.filter(|gap| !gap.is_zero()).collect();
        gaps.sort();
        let Some(median) = gaps.get(gaps.len() / 2) else { return Self::DEFAULT };
        let periods = gaps.iter().map(|gap| gap.div_duration_f64(*median).round().max(1.0));
        let seconds: f64 = gaps.iter().map(Duration::as_secs_f64).sum();
        let fps = (periods.sum::<f64>() / seconds).clamp(0.01, 1000.0);
        Self::common(fps, TOLERANCE).unwrap_or_else(|| Self::of(fps))
    }

    fn common(fps: f64, tolerance: f64) -> Option<Self> {
        let error = |rate: &Self| (rate.fps() / fps - 1.0).abs();
        let nearest = COMMON.into_iter().min_by(|one, other| error(one).total_cmp(&error(other)));
        nearest.filter(|rate| error(rate) <= tolerance)
    }
}

/// Longest pause in which the last image is repeated.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Part of a period by which an image may be late without a repetition of the last one.
const MAX_LATE: f64 = 0.75;

/// Slots of images in a file of a constant rate.
#[derive(Debug)]
pub(super) struct Timeline {
    fps: f64,
    /// Time of slot 0.
    start: Timestamp,
    /// Next slot.
    next: u64,
}

/// Slot of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// After the last image has been repeated this often.
    After(u64),
    /// The slot is taken: the images are faster than the rate.
    Taken,
}

impl Timeline {
    pub(super) fn new(rate: Rate, start: Timestamp) -> Self {
        Self { fps: rate.fps(), start, next: 0 }
    }

    pub(super) fn slot(&mut self, at: Timestamp) -> Slot {
        let next = self.next as f64;
        let late = at.since(self.start).as_secs_f64() * self.fps - next;
        if late <= -1.0 {
            return Slot::Taken;
        }
        let repeated = if late > MAX_LATE { late.round() as u64 } else { 0 };
        if late > MAX_PAUSE.as_secs_f64() * self.fps {
            tracing::warn!("a pause of {:.0} s is left out", late / self.fps);
            self.start = self.start + Duration::from_secs_f64(late / self.fps);
            self.next += 1;
            return Slot::After(0);
        }
        self.next += repeated + 1;
        Slot::After(repeated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Timestamp {
        Timestamp((ms * 1e6) as i64)
    }

    #[test]
    fn rates_are_found() {
        let check = |times: &[f64], numerator, denominator| {
            let times: Vec<_> = times.iter().map(|time| ms(*time)).collect();
            assert_eq!(Rate::of_times(&times), Rate { numerator, denominator }, "{times:?}");
        };
        check(&[0.0, 31.1, 66.9, 102.0, 133.3], 30, 1);
        check(&[0.0, 33.367, 66.733, 100.1], 30_000, 1001);
        check(&[5.0, 45.0, 165.5, 204.0, 245.0], 25, 1);
        check(&[0.0, 140.0, 280.0], 7143, 1000);
        check(&[0.0, 0.0, 0.0], 30, 1);
        check(&[7.0], 30, 1);
        check(&[0.0, 1e12], 10, 1000);
        assert_eq!(Rate::of(29.97), Rate { numerator: 30_000, denominator: 1001 });
        assert_eq!(Rate::of(30_000.0 / 1001.0), Rate { numerator: 30_000, denominator: 1001 });
        assert_eq!(Rate::of(12.5), Rate { numerator: 12_500, denominator: 1000 });
    }

    #[test]
    fn images_keep_their_times() {
        let check = |times: &[f64], expected: &[Slot]| {
            let mut timeline = Timeline::new(Rate::whole(10), ms(times[0]));
            let slots: Vec<_> = times.iter().map(|time| timeline.slot(ms(*time))).collect();
            assert_eq!(slots, expected, "{times:?}");
        };
        use Slot::{After, Taken};
        check(&[50.0, 150.0, 250.0], &[After(0), After(0), After(0)]);
        // Jitter, without a repetition.
        check(&[0.0, 160.0, 190.0, 300.0, 370.0], &[After(0); 5]);
        // One image is missing, then three.
        check(&[0.0, 199.0, 601.0, 700.0], &[After(0), After(1), After(3), After(0)]);
        // Twice as fast as the rate.
        check(&[0.0, 50.0, 100.0, 150.0, 200.0], &[After(0), After(0), Taken, After(0), Taken]);
        // An hour without images.
        check(&[0.0, 3.6e6, 3.6e6 + 100.0], &[After(0), After(0), After(0)]);
    }
}
