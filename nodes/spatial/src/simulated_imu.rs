//! Inertial measurements of a simulated wearer.

use std::{f64::consts::TAU, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Activity, ActivityKind, Imu, Orientation};
use glam::{DQuat, DVec3};

params! {
    /// Settings of [`SimulatedImu`].
    pub struct SimulatedImuParams {
        /// Measurements per second.
        pub rate: f64 = "100", range 10.0..=2000.0, unit "Hz";
        /// Steps per minute; 0 stands still.
        pub cadence: f64 = "112", range 0.0..=240.0, unit "1/min";
        /// Rest before the first step.
        pub rest: Duration = "5s", range 0.0..=3600.0;
        /// Length of the stream. Default: it does not end.
        pub duration: Option<Duration>, range 0.01..=86400.0;
        /// Bias of the gyroscope about each axis, in degrees per second.
        pub gyro_bias: f64 = "0.5", range -20.0..=20.0, unit "°/s";
        /// Standard deviation of the noise of the acceleration, in meters per second squared.
        pub noise: f64 = "0.1", range 0.0..=10.0, unit "m/s²";
        /// Seed of the noise.
        pub seed: u32 = "1", range 0.0..=4294967295.0;
    }
}

/// Simulates the inertial measurement unit of a person that rests and then walks, with the true
/// orientation and the true number of steps: for tests, and for graphs without a sensor.
///
/// The wearer turns slowly, and sways with each step. The unit measures the steps, gravity, the bias of its
/// gyroscope, and noise. A measurement depends only on its number and the parameters. If the graph is slow, measurements are
/// sent late; none is dropped.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::Imu;
/// use afferent_nodes_spatial::{SimulatedImu, SimulatedImuParams};
///
/// let params = SimulatedImuParams::from_values(&Default::default())?;
/// let mut bench = NodeBench::new(SimulatedImu::open(params, &OpenCx::default())?);
/// let (sent, _) = bench.poll(Timestamp::ZERO)?;
/// let up = sent[0].1.get::<Imu>().unwrap().acceleration_m_s2[2];
/// assert!((9.0..10.6).contains(&up));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct SimulatedImu {
    params: SimulatedImuParams,
    random: fastrand::Rng,
    /// Number of the next measurement.
    next: u64,
    steps: u64,
}

ports! {
    impl SimulatedImu {
        /// Measurements.
        out IMU: Imu;
        /// True orientation at each measurement. The true bias of the gyroscope is that of the
        /// parameter.
        out ORIENTATION: Orientation, optional;
        /// True number of steps, at each one.
        out ACTIVITY: Activity, optional;
    }
}

const GRAVITY_M_S2: f64 = 9.81;

/// Amplitudes of the vertical acceleration of a step and of its second harmonic, and of the swing
/// forward and back.
const BOUNCE_M_S2: f64 = 2.6;
const IMPACT_M_S2: f64 = 0.9;
const SWING_M_S2: f64 = 0.8;

impl SimulatedImu {
    /// Steps since the start of the walk, with a fraction, at a time in seconds.
    fn phase(&self, seconds: f64) -> f64 {
        ((seconds - self.params.rest.as_secs_f64()) * self.params.cadence / 60.0).max(0.0)
    }

    /// `world_from_imu` at a time in seconds.
    fn orientation(&self, seconds: f64) -> DQuat {
        let phase = self.phase(seconds);
        let since = (seconds - self.params.rest.as_secs_f64()).max(0.0);
        let turn = 0.6 * (0.15 * since).sin();
        let sway = 0.06 * (TAU * phase / 2.0).sin();
        let nod = 0.04 * (TAU * phase).sin();
        DQuat::from_rotation_z(turn) * DQuat::from_rotation_y(nod) * DQuat::from_rotation_x(sway)
    }

    /// Acceleration in the axes of the world, without gravity, at a time in seconds.
    fn acceleration(&self, seconds: f64) -> DVec3 {
        let phase = self.phase(seconds);
        if phase == 0.0 {
            return DVec3::ZERO;
        }
        let up = BOUNCE_M_S2 * (TAU * phase).sin() + IMPACT_M_S2 * (2.0 * TAU * phase).sin();
        DVec3::new(SWING_M_S2 * (TAU * phase).cos(), 0.3 * (TAU * phase / 2.0).cos(), up)
    }

    /// Noise of standard deviation one, the sum of twelve uniform values.
    fn noise(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }

    /// Angular velocity in the axes of the unit, in radians per second, by a difference over 2 ms.
    fn angular_velocity(&self, seconds: f64) -> DVec3 {
        const HALF_S: f64 = 0.001;
        let (before, after) =
            (self.orientation(seconds - HALF_S), self.orientation(seconds + HALF_S));
        (before.inverse() * after).to_scaled_axis() / (2.0 * HALF_S)
    }
}

impl Node for SimulatedImu {
    type Params = SimulatedImuParams;

    const NAME: &'static str = "simulated_imu";
    const SUMMARY: &'static str = "Simulates the inertial measurement unit of a walking person.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: SimulatedImuParams, _: &OpenCx) -> Result<Self, NodeError> {
        let random = fastrand::Rng::with_seed(params.seed.into());
        Ok(Self { params, random, next: 0, steps: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let seconds = self.next as f64 / self.params.rate;
        let at = Timestamp::ZERO + Duration::from_secs_f64(seconds);
        if self.params.duration.is_some_and(|duration| seconds >= duration.as_secs_f64()) {
            cx.end();
            return Ok(());
        }
        if cx.now() < at {
            cx.resume_at(at);
            return Ok(());
        }
        self.next += 1;
        let rotation = self.orientation(seconds);
        let acceleration = self.acceleration(seconds);
        let force = rotation.inverse() * (acceleration + DVec3::Z * GRAVITY_M_S2);
        let scale = self.params.noise;
        let force = force + scale * DVec3::new(self.noise(), self.noise(), self.noise());
        let bias = self.params.gyro_bias.to_radians();
        let gyro = self.angular_velocity(seconds) + DVec3::splat(bias);
        let single = |vector: DVec3| vector.to_array().map(|axis| axis as f32);
        let imu = Imu { angular_velocity_rad_s: single(gyro), acceleration_m_s2: single(force) };
        cx.send_at(Self::IMU, at, imu);
        let truth = Orientation {
            rotation_xyzw: rotation.to_array(),
            acceleration_m_s2: single(acceleration),
            gyro_bias_rad_s: [bias as f32; 3],
            gyro_bias_sigma_rad_s: 0.0,
            is_at_rest: self.phase(seconds) == 0.0,
        };
        cx.send_at(Self::ORIENTATION, at, truth);
        // A step is where the acceleration is the largest, at a quarter of the phase.
        let steps = (self.phase(seconds) + 0.75).floor() as u64;
        if steps > self.steps {
            self.steps = steps;
            let cadence_per_min = self.params.cadence as f32;
            let kind = if self.params.cadence < 140.0 {
                ActivityKind::Walking
            } else {
                ActivityKind::Running
            };
            cx.send_at(Self::ACTIVITY, at, Activity { kind, steps, cadence_per_min });
        }
        cx.resume();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params};

    use super::*;
    use crate::{
        Activity as ActivityNode, ActivityParams, Orientation as OrientationNode, OrientationParams,
    };

    /// Runs the simulation for a minute; returns its packets in order.
    fn minute(cadence: f64) -> Vec<(Timestamp, afferent_graph::Packet)> {
        let values: ParamValues = [
            ("cadence".to_owned(), ParamValue::Float(cadence)),
            ("duration".to_owned(), ParamValue::Duration(Duration::from_secs(60))),
        ]
        .into();
        let params = SimulatedImuParams::from_values(&values).unwrap();
        let mut bench = NodeBench::new(SimulatedImu::open(params, &OpenCx::default()).unwrap());
        let mut packets = Vec::new();
        loop {
            let (sent, _) = bench.poll(Timestamp(i64::MAX)).unwrap();
            if sent.is_empty() {
                return packets;
            }
            packets.extend(sent.into_iter().map(|(_, packet)| (packet.header.at, packet)));
        }
    }

    #[test]
    fn steps_are_counted_as_simulated() {
        let packets = minute(112.0);
        let params = ActivityParams::from_values(&ParamValues::new()).unwrap();
        let mut node = NodeBench::new(ActivityNode::open(params, &OpenCx::default()).unwrap());
        let (mut found, mut truth) = (Activity::default(), Activity::default());
        for (at, packet) in &packets {
            if let Some(imu) = packet.get::<Imu>() {
                for (_, sent) in node.call(ActivityNode::IMU, *at, *imu).unwrap() {
                    found = *sent.get::<Activity>().unwrap();
                }
            }
            truth = packet.get().copied().unwrap_or(truth);
        }
        assert_eq!(truth.steps, 103, "55 s of 112 steps per minute");
        assert!(found.steps.abs_diff(truth.steps) <= 2, "{found:?}");
        assert!((found.cadence_per_min - 112.0).abs() < 3.0, "{found:?}");
    }

    #[test]
    fn the_true_orientation_is_that_of_the_measurements() {
        let packets = minute(112.0);
        let params = OrientationParams::from_values(&ParamValues::new()).unwrap();
        let mut node = NodeBench::new(OrientationNode::open(params, &OpenCx::default()).unwrap());
        let mut found = std::collections::BTreeMap::new();
        let mut worst = 0.0_f64;
        for (at, packet) in &packets {
            if let Some(imu) = packet.get::<Imu>() {
                for (_, sent) in node.call(OrientationNode::IMU, *at, *imu).unwrap() {
                    found.insert(sent.header.at, *sent.get::<Orientation>().unwrap());
                }
            }
        }
        for (at, packet) in packets.iter().filter(|(at, _)| at.0 > 10_000_000_000) {
            let (Some(truth), Some(found)) = (packet.get::<Orientation>(), found.get(at)) else {
                continue;
            };
            worst = worst.max((found.tilt_rad() - truth.tilt_rad()).abs().to_degrees());
        }
        assert!(worst > 0.0 && worst < 2.5, "{worst}°");
    }
}
