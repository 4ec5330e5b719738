//! One Euro filter: a low-pass filter that follows fast motion and removes the noise of slow motion.

use std::f64::consts::TAU;

use afferent_graph::Timestamp;

/// Cutoff frequency of the speed, in hertz.
const SPEED_CUTOFF: f64 = 1.0;

/// A filter for several values (Casiez, Roussel and Vogel, "1€ Filter", CHI 2012).
#[derive(Debug, Clone)]
pub(crate) struct OneEuro {
    /// Cutoff frequency without motion, in hertz.
    min_cutoff: f64,
    /// Increase of the cutoff in hertz, for a speed of 1 % of the size in a second.
    beta: f64,
    last: Option<Timestamp>,
    values: Vec<Value>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Value {
    raw: f64,
    filtered: f64,
    /// Filtered speed in percent of the size in a second.
    speed: f64,
}

/// Weight of a new value after `seconds`.
fn weight(cutoff: f64, seconds: f64) -> f64 {
    let step = TAU * cutoff * seconds;
    step / (step + 1.0)
}

impl OneEuro {
    /// A filter without values. With a `min_cutoff` of zero, it changes nothing.
    pub(crate) fn new(min_cutoff: f64, beta: f64) -> Self {
        Self { min_cutoff, beta, last: None, values: Vec::new() }
    }

    /// Filters `values` of the time `at`, of an object with this size.
    pub(crate) fn filter(&mut self, at: Timestamp, size: f64, values: &mut [f32]) {
        let seconds = self.last.map(|last| at.since(last).as_secs_f64());
        let seconds = seconds.filter(|seconds| *seconds > 0.0 && size > 0.0);
        self.last = Some(at);
        let is_started = self.values.len() == values.len();
        let (Some(seconds), true) = (seconds.filter(|_| self.min_cutoff > 0.0), is_started) else {
            let first = |value: &f32| {
                let raw = f64::from(*value);
                Value { raw, filtered: raw, speed: 0.0 }
            };
            self.values = values.iter().map(first).collect();
            return;
        };
        for (state, value) in self.values.iter_mut().zip(values) {
            let raw = f64::from(*value);
            let speed = (raw - state.raw) / size * 100.0 / seconds;
            state.speed += (speed - state.speed) * weight(SPEED_CUTOFF, seconds);
            let cutoff = self.min_cutoff + self.beta * state.speed.abs();
            state.filtered += (raw - state.filtered) * weight(cutoff, seconds);
            state.raw = raw;
            *value = state.filtered as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters the values at 30 Hz.
    fn run(filter: &mut OneEuro, values: impl IntoIterator<Item = f32>) -> Vec<f32> {
        let values = values.into_iter().enumerate();
        let one = |(index, value): (usize, f32)| {
            let mut values = [value];
            filter.filter(Timestamp(index as i64 * 33_333_333), 100.0, &mut values);
            values[0]
        };
        values.map(one).collect()
    }

    #[test]
    fn noise_is_removed_and_motion_is_followed() {
        let noise = (0..60_u8).map(|index| 50.0 + if index % 2 == 0 { 0.5 } else { -0.5 });
        let still = run(&mut OneEuro::new(1.0, 0.05), noise);
        let spread = still[30..].iter().map(|value| (value - 50.0).abs()).fold(0.0, f32::max);
        assert!(spread < 0.2, "{spread}");
        // 300 pixels in a second: the cutoff is 16 Hz, and the lag about a third of an image.
        let moving = run(&mut OneEuro::new(1.0, 0.05), (0..60_u8).map(|i| f32::from(i) * 10.0));
        let lag = 590.0 - moving[59];
        assert!((2.0..4.0).contains(&lag), "{lag}");
        let slow = run(&mut OneEuro::new(1.0, 0.0), (0..60_u8).map(|i| f32::from(i) * 10.0));
        assert!(590.0 - slow[59] > 40.0, "without beta");
    }

    #[test]
    fn first_values_and_those_without_a_cutoff_are_kept() {
        let mut filter = OneEuro::new(1.0, 0.05);
        assert_eq!(run(&mut filter, [3.0, 3.0]), [3.0, 3.0]);
        let mut two = [1.0, 2.0];
        filter.filter(Timestamp(1 << 40), 100.0, &mut two);
        assert_eq!(two, [1.0, 2.0], "another number of values");
        assert_eq!(run(&mut OneEuro::new(0.0, 0.0), [1.0, 5.0, 2.0]), [1.0, 5.0, 2.0]);
        let mut filter = OneEuro::new(1.0, 0.05);
        let mut same = [7.0];
        filter.filter(Timestamp(5), 100.0, &mut [1.0]);
        filter.filter(Timestamp(5), 100.0, &mut same);
        assert_eq!(same, [7.0], "no time has passed");
    }
}
