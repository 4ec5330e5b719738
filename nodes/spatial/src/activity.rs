//! Steps and activity of the wearer of a motion sensor.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Activity as Report, Imu, ToolMessage};

use crate::{
    activity_tools,
    rate::{FirstMeasurements, is_break},
    step_counter::StepCounter,
};

params! {
    /// Settings of [`Activity`].
    pub struct ActivityParams {
        /// Measurements per second. Default: measured from the first ones.
        pub rate: Option<f64>, range 10.0..=10000.0, unit "Hz";
        /// Height of the wearer, for distances. Default: there are none.
        pub height: Option<f64>, range 0.5..=2.8, unit "m";
    }
}

/// Counts steps and tells walking from running, by the acceleration.
///
/// A step is a peak of the magnitude of the acceleration between 0.7 and 3.5 Hz, at least 250 ms after
/// the one before. A walk begins with four regular steps, which are counted at once, and ends two seconds
/// after the last one. Steps of at least 140 per minute whose peaks exceed 5 m/s² are those of a run.
///
/// Tool calls, without arguments: `how_many_steps` (`steps`), `cadence` (`activity`, `cadence_per_min`),
/// `how_far` (`distance_m`, from the steps and the `height` of the wearer), and `heart_rate`, whose answer is
/// that there is no sensor for it. Each result has a `phrase`. Calls of other tools are ignored.
///
/// After a gap of more than half a second, or if the clock of the source restarts, a walk has ended;
/// the steps stay.
///
/// Latency: a quarter of a second, and four steps at the start of a walk.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValues, Params, Timestamp};
/// use afferent_messages::{Activity as Report, ActivityKind, Imu};
/// use afferent_nodes_spatial::{Activity, ActivityParams};
///
/// let params = ActivityParams::from_values(&ParamValues::new())?;
/// let mut bench = NodeBench::new(Activity::open(params, &OpenCx::default())?);
/// // 10 s of a walk with 120 steps per minute.
/// let mut last = Report::default();
/// for at in 0..1000 {
///     let up = 9.81 + 3.0 * (std::f32::consts::TAU * 2.0 * at as f32 / 100.0).sin();
///     let imu = Imu { angular_velocity_rad_s: [0.0; 3], acceleration_m_s2: [0.0, 0.0, up] };
///     for (_, packet) in bench.call(Activity::IMU, Timestamp(at * 10_000_000), imu)? {
///         last = *packet.get::<Report>().unwrap();
///     }
/// }
/// assert_eq!(last.kind, ActivityKind::Walking);
/// assert!((last.cadence_per_min - 120.0).abs() < 2.0 && (18..=20).contains(&last.steps));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Activity {
    height_m: Option<f64>,
    report: Report,
    first: FirstMeasurements<f64>,
    counter: Option<StepCounter>,
    last: Option<Timestamp>,
}

ports! {
    impl Activity {
        /// Measurements, at 10 Hz to 10 kHz.
        in IMU: Imu;
        /// Tool calls.
        in CALLS: ToolMessage, optional;
        /// Steps and activity, after each step and when the activity changes.
        out ACTIVITY: Report;
        /// One result per call.
        out RESULTS: ToolMessage, optional;
    }
}

impl Activity {
    fn push(&mut self, cx: &mut Cx<'_>, at: Timestamp, m_s2: f64) {
        let Some(counter) = &mut self.counter else { return };
        let was = counter.kind();
        if self.last.is_some_and(|last| at == last || is_break(last, at)) {
            counter.interrupt();
        }
        self.last = Some(at);
        if counter.push(at, m_s2) || counter.kind() != was {
            self.report = Report {
                kind: counter.kind(),
                steps: counter.steps(),
                cadence_per_min: counter.cadence_per_min() as f32,
            };
            cx.send_at(Self::ACTIVITY, at, self.report);
        }
    }
}

impl Node for Activity {
    type Params = ActivityParams;

    const NAME: &'static str = "activity";
    const SUMMARY: &'static str = "Counts steps and tells walking from running.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "a quarter of a second; four steps at the start of a walk";

    fn open(params: ActivityParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self {
            height_m: params.height,
            report: Report::default(),
            first: FirstMeasurements::default(),
            counter: params.rate.map(StepCounter::new),
            last: None,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(call) = cx.get(Self::CALLS).cloned() {
            if let Some(result) = activity_tools::run(&call, &self.report, self.height_m) {
                cx.send(Self::RESULTS, ToolMessage { json: result.to_string(), ..call });
            }
            return Ok(());
        }
        let Some(imu) = cx.get(Self::IMU) else { return Ok(()) };
        let squares: f64 = imu.acceleration_m_s2.map(|axis| f64::from(axis).powi(2)).iter().sum();
        let (at, m_s2) = (cx.at(), squares.sqrt());
        if !m_s2.is_finite() {
            return Ok(());
        }
        if self.counter.is_none() {
            let Some((first, period)) = self.first.push(at, m_s2) else { return Ok(()) };
            self.counter = period.map(|period| StepCounter::new(period.recip()));
            for (at, m_s2) in first {
                self.push(cx, at, m_s2);
            }
            return Ok(());
        }
        self.push(cx, at, m_s2);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValues, Params};
    use afferent_messages::ActivityKind;

    use super::*;

    const RATE: f64 = 100.0;

    /// A walk or a run of a synthetic body: impacts of the heels, arm swing at half the frequency of the
    /// steps, noise, and pauses. Returns the magnitudes and the number of steps.
    fn walk(seed: u64) -> (Vec<f64>, u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut between = move |low: f64, high: f64| low + (high - low) * random.f64();
        let is_run = seed % 5 == 4;
        let (mut samples, mut steps) = (Vec::new(), 0);
        let noise = between(0.05, 0.4);
        let swing = between(0.0, 0.9);
        for _ in 0..3 {
            let rest = (between(3.0, 6.0) * RATE) as usize;
            // At rest, a hand moves slowly now and then.
            let sway = between(0.0, 0.25);
            samples.extend(
                (0..rest).map(|at| {
                    9.81 + sway * (at as f64 / RATE * 2.2).sin() + between(-noise, noise)
                }),
            );
            let base = if is_run { between(150.0, 180.0) } else { between(85.0, 130.0) } / 60.0;
            let strength = if is_run { between(7.0, 10.0) } else { between(1.6, 3.5) };
            let (mut phase, mut drift, count) = (0.0_f64, 0.0, between(20.0, 60.0) as u64);
            let asymmetry = between(0.0, 0.25);
            while phase < count as f64 {
                drift = 0.98 * drift + between(-0.02, 0.02);
                phase += base * (1.0 + drift) / RATE;
                let angle = std::f64::consts::TAU * phase;
                let side =
                    1.0 + asymmetry * if (phase as u64).is_multiple_of(2) { 1.0 } else { -1.0 };
                let impact = strength * side * (-angle.cos() + 0.3 * (2.0 * angle + 0.6).cos());
                let arm = swing * (angle / 2.0 + 1.0).sin();
                samples.push(9.81 + impact + arm + between(-noise, noise));
            }
            steps += count;
        }
        samples.extend(std::iter::repeat_n(9.81, (3.0 * RATE) as usize));
        (samples, steps)
    }

    fn reports(samples: &[f64]) -> Vec<Report> {
        let params = ActivityParams::from_values(&ParamValues::new()).unwrap();
        let mut bench = NodeBench::new(Activity::open(params, &OpenCx::default()).unwrap());
        let mut found = Vec::new();
        for (at, m_s2) in samples.iter().enumerate() {
            let time = Timestamp((at as f64 / RATE * 1e9) as i64);
            // The direction of the unit does not matter.
            let acceleration_m_s2 = [0.6, 0.0, 0.8].map(|axis| axis * *m_s2 as f32);
            let imu = Imu { acceleration_m_s2, ..Imu::default() };
            let sent = bench.call(Activity::IMU, time, imu).unwrap();
            found.extend(sent.iter().map(|(_, packet)| *packet.get::<Report>().unwrap()));
        }
        found
    }

    #[test]
    fn steps_of_twenty_walks_are_within_three_percent() {
        for seed in 0..20 {
            let (samples, steps) = walk(seed);
            let found = reports(&samples);
            let counted = found.last().unwrap().steps;
            let error = counted as f64 / steps as f64 - 1.0;
            println!("walk {seed}: {counted} of {steps} steps, {:.1} %", error * 100.0);
            assert!(error.abs() <= 0.03, "walk {seed}: {counted} of {steps}");
            let kind = if seed % 5 == 4 { ActivityKind::Running } else { ActivityKind::Walking };
            let right = found.iter().filter(|report| report.kind == kind).count();
            assert!(right * 10 > found.len() * 8, "walk {seed}: {right} of {}", found.len());
            assert_eq!(found.last().unwrap().kind, ActivityKind::Resting);
        }
    }

    #[test]
    fn other_motion_has_no_steps() {
        let mut random = fastrand::Rng::with_seed(3);
        let jolts: Vec<f64> = (0..6000)
            .map(|at| {
                let jolt = if at % 600 == 0 { 12.0 } else { 0.0 };
                9.81 + jolt + 0.3 * (random.f64() - 0.5)
            })
            .collect();
        assert!(reports(&jolts).is_empty());
        assert!(reports(&[9.81; 500]).is_empty());
        assert!(reports(&[f64::NAN; 500]).is_empty());
    }

    #[test]
    fn a_gap_ends_a_walk() {
        let mut counter = StepCounter::new(RATE);
        let at = |sample: usize| Timestamp(sample as i64 * 10_000_000);
        let value =
            |sample: usize| 9.81 + 3.0 * (sample as f64 / RATE * 2.0 * std::f64::consts::TAU).sin();
        for sample in 0..600 {
            counter.push(at(sample), value(sample));
        }
        assert_eq!(counter.kind(), ActivityKind::Walking);
        let steps = counter.steps();
        counter.interrupt();
        assert_eq!((counter.kind(), counter.steps()), (ActivityKind::Resting, steps));
    }
}
