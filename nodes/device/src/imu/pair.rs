//! Pairs of an accelerometer and a gyroscope that measure at different times.

use std::collections::VecDeque;

use afferent_messages::Imu;

/// Longest time between two accelerations, in nanoseconds, for which those between them are known.
const MAX_GAP_NS: i64 = 500_000_000;

/// Most measurements of each sensor that wait for the other one.
const MAX_WAITING: usize = 16_384;

/// Joins angular velocities with the acceleration at their time, which is interpolated linearly.
///
/// Nothing is extrapolated: an angular velocity waits for the next acceleration, and is dropped without
/// one ahead of it or across a gap of the accelerometer.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    /// Accelerations with their times, from the last one ahead of the next angular velocity.
    accelerations: Waiting,
    velocities: Waiting,
    /// Number of angular velocities that were dropped after the first pair.
    dropped: u64,
    has_paired: bool,
}

impl Pair {
    pub(crate) fn acceleration(&mut self, ns: i64, axes: [f32; 3]) {
        self.accelerations.push(ns, axes);
    }

    pub(crate) fn velocity(&mut self, ns: i64, axes: [f32; 3]) {
        self.dropped += u64::from(self.velocities.push(ns, axes));
    }

    /// Number of angular velocities without an acceleration since the first pair.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Moves the pairs that are complete to `to`, with their times.
    pub(crate) fn take(&mut self, to: &mut Vec<(i64, Imu)>) {
        while let Some(&(ns, angular_velocity_rad_s)) = self.velocities.all.front() {
            // The last acceleration ahead of the angular velocity, and the one after it.
            while self.accelerations.all.get(1).is_some_and(|(next, _)| *next <= ns) {
                self.accelerations.all.pop_front();
            }
            let paired = match (self.accelerations.all.front(), self.accelerations.all.get(1)) {
                (Some((at, axes)), _) if *at == ns => Some(*axes),
                (Some((at, _)), _) if *at > ns => None,
                (Some(from), Some(to)) => between(*from, *to, ns),
                _ => return,
            };
            self.velocities.all.pop_front();
            match paired {
                Some(acceleration_m_s2) => {
                    self.has_paired = true;
                    to.push((ns, Imu { angular_velocity_rad_s, acceleration_m_s2 }));
                }
                None => self.dropped += u64::from(self.has_paired),
            }
        }
    }
}

/// Measurements of one sensor, with their times.
#[derive(Debug, Default)]
struct Waiting {
    all: VecDeque<(i64, [f32; 3])>,
    /// Time of the last one that was added.
    last: Option<i64>,
}

impl Waiting {
    /// Adds a measurement; true if the oldest one had to go. Those that go back in time are left out.
    fn push(&mut self, ns: i64, axes: [f32; 3]) -> bool {
        if self.last.is_some_and(|last| ns < last) {
            return false;
        }
        self.last = Some(ns);
        self.all.push_back((ns, axes));
        self.all.len() > MAX_WAITING && self.all.pop_front().is_some()
    }
}

/// The value at `ns` between two others; `None` across a gap.
fn between(from: (i64, [f32; 3]), to: (i64, [f32; 3]), ns: i64) -> Option<[f32; 3]> {
    let span = to.0.saturating_sub(from.0);
    if span > MAX_GAP_NS {
        return None;
    }
    let share = (ns - from.0) as f64 / span.max(1) as f64;
    let axis = |axis: usize| {
        let [from, to] = [from.1[axis], to.1[axis]].map(f64::from);
        (from + (to - from) * share) as f32
    };
    Some(std::array::from_fn(axis))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measurements in the order of their arrival: `A` accelerations, `G` angular velocities, with their
    /// times, which are also the values. Returns times and accelerations of the pairs, and the number of
    /// dropped ones.
    fn paired(arrivals: &[(char, i64)]) -> (Vec<(i64, f32)>, u64) {
        let (mut pair, mut found) = (Pair::default(), Vec::new());
        for &(kind, ns) in arrivals {
            let axes = [ns as f32, -ns as f32, 0.0];
            match kind {
                'A' => pair.acceleration(ns, axes),
                _ => pair.velocity(ns, axes),
            }
            pair.take(&mut found);
        }
        for (ns, imu) in &found {
            let [x, y, z] = imu.acceleration_m_s2;
            assert_eq!((y, z), (-x, 0.0));
            assert_eq!(imu.angular_velocity_rad_s[0], *ns as f32);
        }
        let found = found.into_iter().map(|(ns, imu)| (ns, imu.acceleration_m_s2[0]));
        (found.collect(), pair.dropped())
    }

    #[test]
    fn accelerations_are_those_of_the_times_of_the_gyroscope() {
        let check = |arrivals: &[(char, i64)], expected: &[i64]| {
            let expected: Vec<_> = expected.iter().map(|at| (*at, *at as f32)).collect();
            assert_eq!(paired(arrivals), (expected, 0), "{arrivals:?}");
        };
        check(&[('A', 0), ('A', 10), ('G', 0), ('G', 4), ('G', 10)], &[0, 4, 10]);
        check(&[('A', 0), ('G', 4), ('G', 8)], &[]);
        check(&[('A', 0), ('G', 4), ('G', 8), ('G', 12), ('A', 10)], &[4, 8]);
        check(&[('G', 4), ('G', 8), ('A', 5), ('A', 10), ('A', 20)], &[8]);
        check(&[('A', 0), ('A', 10), ('A', 20), ('A', 30), ('G', 25)], &[25]);
        check(&[('A', 0), ('A', 10), ('G', 5), ('A', 20), ('G', 15)], &[5, 15]);
        check(&[('A', 10), ('A', 10), ('G', 10)], &[10]);
        check(&[('G', 1), ('G', 2)], &[]);
    }

    #[test]
    fn a_gap_of_the_accelerometer_is_not_bridged() {
        let ms = 1_000_000;
        let arrivals = [('A', 0), ('G', 0), ('G', 100 * ms), ('A', 600 * ms), ('G', 600 * ms)];
        assert_eq!(paired(&arrivals), (vec![(0, 0.0), (600 * ms, 6e8)], 1));
    }

    #[test]
    fn queues_are_bounded() {
        let mut pair = Pair::default();
        for ns in 0..3 * MAX_WAITING as i64 {
            pair.velocity(ns, [0.0; 3]);
        }
        assert_eq!(pair.velocities.all.len(), MAX_WAITING);
        let mut pair = Pair::default();
        for ns in 0..3 * MAX_WAITING as i64 {
            pair.acceleration(ns, [0.0; 3]);
        }
        assert_eq!(pair.accelerations.all.len(), MAX_WAITING);
    }

    #[test]
    fn times_that_go_back_are_left_out() {
        let arrivals = [('A', 0), ('A', 20), ('A', 10), ('G', 15), ('G', 5)];
        assert_eq!(paired(&arrivals), (vec![(15, 15.0)], 0));
    }
}
