//! Orientation of an inertial measurement unit.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Imu, Orientation as Estimate};
use vqf_rs::{Params as VqfParams, VQF};

use crate::rate::{FirstMeasurements, is_break};

params! {
    /// Settings of [`Orientation`].
    pub struct OrientationParams {
        /// Measurements per second. Default: measured from the first ones.
        pub rate: Option<f64>, range 10.0..=10000.0, unit "Hz";
        /// Time constant with which gravity corrects the tilt. A longer one trusts the gyroscope more.
        pub tau: Duration = "3s", range 0.1..=60.0;
        /// Largest angular velocity, after subtraction of its mean, at rest.
        pub rest_rotation: f64 = "2", range 0.01..=100.0, unit "deg/s";
        /// Largest acceleration, after subtraction of its mean, at rest.
        pub rest_acceleration: f64 = "0.5", range 0.01..=100.0, unit "m/s²";
        /// Largest bias of the gyroscope.
        pub max_bias: f64 = "2", range 0.0..=100.0, unit "deg/s";
    }
}

/// Estimates the orientation of an inertial measurement unit from angular velocity and acceleration.
///
/// The filter is VQF (Laidig and Seel, 2023): it integrates the angular velocity, corrects the tilt by
/// the acceleration of gravity, which it filters in a frame that does not rotate, and estimates the bias
/// of the gyroscope at rest and in motion. Without a magnetometer, the heading is relative to that at
/// the start and drifts slowly. The estimate is an orientation only: positions cannot be found from
/// inertial measurements for more than some seconds.
///
/// The first measurements, up to 32, wait until the rate is known. After a gap of more than half a
/// second, or if the clock of the source restarts, the estimate begins again, with the known bias.
/// Measurements that are not finite are dropped and logged.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValues, Params, Timestamp};
/// use afferent_messages::{Imu, Orientation as Estimate};
/// use afferent_nodes_spatial::{Orientation, OrientationParams};
///
/// let params = OrientationParams::from_values(&ParamValues::new())?;
/// let mut bench = NodeBench::new(Orientation::open(params, &OpenCx::default())?);
/// // Lies on its side: gravity along x.
/// let imu = Imu { angular_velocity_rad_s: [0.0; 3], acceleration_m_s2: [9.81, 0.0, 0.0] };
/// let mut tilt = 0.0;
/// for at in 0..400 {
///     let sent = bench.call(Orientation::IMU, Timestamp(at * 5_000_000), imu)?;
///     for (_, packet) in &sent {
///         tilt = packet.get::<Estimate>().unwrap().tilt_rad().to_degrees();
///     }
/// }
/// assert!((tilt - 90.0).abs() < 0.1);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Orientation {
    params: OrientationParams,
    first: FirstMeasurements<Imu>,
    filter: Option<VQF>,
    /// Time of the last measurement.
    last: Option<Timestamp>,
    has_warned: bool,
}

const GRAVITY_M_S2: f64 = 9.806_65;

ports! {
    impl Orientation {
        /// Measurements, at 10 Hz to 10 kHz.
        in IMU: Imu;
        /// Orientation after each measurement.
        out ORIENTATION: Estimate;
    }
}

impl Orientation {
    /// Filter for measurements with a period in seconds.
    fn filter(&self, period_s: f64) -> VQF {
        let params = VqfParams {
            tau_acc: self.params.tau.as_secs_f64(),
            rest_th_gyr: self.params.rest_rotation,
            rest_th_acc: self.params.rest_acceleration,
            bias_clip: self.params.max_bias,
            ..VqfParams::default()
        };
        VQF::new(period_s, None, None, Some(params))
    }

    /// Takes a measurement into the filter and sends the estimate.
    fn update(&mut self, cx: &mut Cx<'_>, at: Timestamp, imu: &Imu) {
        let since = self.last.map_or(Duration::ZERO, |last| at.since(last));
        self.last = Some(at);
        let Some(filter) = &mut self.filter else { return };
        let wide = |axes: [f32; 3]| axes.map(f64::from);
        let gyro = wide(imu.angular_velocity_rad_s);
        match since {
            Duration::ZERO => filter.update_gyr(gyro),
            since => filter.update_gyr_with_ts(gyro, since.as_secs_f64()),
        }
        let acceleration = wide(imu.acceleration_m_s2);
        filter.update_acc(acceleration);
        let rotation = filter.quat_6d();
        let (bias, sigma) = filter.bias_estimate();
        let [x, y, z] = rotation.rotate(acceleration);
        cx.send_at(
            Self::ORIENTATION,
            at,
            Estimate {
                rotation_xyzw: [rotation.1, rotation.2, rotation.3, rotation.0],
                acceleration_m_s2: [x, y, z - GRAVITY_M_S2].map(|axis| axis as f32),
                gyro_bias_rad_s: bias.map(|axis| axis as f32),
                gyro_bias_sigma_rad_s: sigma as f32,
                is_at_rest: filter.rest_detected(),
            },
        );
    }

    /// Begins again after a gap or a restart of the clock, with the bias that is known.
    fn restart(&mut self) {
        let Some(filter) = &self.filter else { return };
        let mut fresh = self.filter(filter.coeffs().gyr_ts);
        let (bias, sigma) = filter.bias_estimate();
        fresh.set_bias_estimate(bias, Some(sigma));
        self.filter = Some(fresh);
        self.last = None;
    }
}

impl Node for Orientation {
    type Params = OrientationParams;

    const NAME: &'static str = "orientation";
    const SUMMARY: &'static str = "Estimates the orientation of an inertial measurement unit.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: OrientationParams, _: &OpenCx) -> Result<Self, NodeError> {
        let mut node = Self {
            params,
            first: FirstMeasurements::default(),
            filter: None,
            last: None,
            has_warned: false,
        };
        node.filter = node.params.rate.map(|rate| node.filter(rate.recip()));
        Ok(node)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(imu) = cx.get(Self::IMU).copied() else { return Ok(()) };
        let at = cx.at();
        let mut values = imu.angular_velocity_rad_s.iter().chain(&imu.acceleration_m_s2);
        if !values.all(|value| value.is_finite()) {
            if !std::mem::replace(&mut self.has_warned, true) {
                tracing::warn!("orientation: measurements that are not finite are dropped");
            }
            return Ok(());
        }
        if self.filter.is_none() {
            let Some((first, period)) = self.first.push(at, imu) else { return Ok(()) };
            self.filter = period.map(|period| self.filter(period));
            for (at, imu) in &first {
                self.update(cx, *at, imu);
            }
            return Ok(());
        }
        if self.last.is_some_and(|last| is_break(last, at)) {
            self.restart();
        }
        self.update(cx, at, &imu);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValues, Params};

    use super::*;
    use crate::{
        frames::{product, rotate},
        rate::FIRST,
    };

    const RATE: f64 = 200.0;

    fn conjugate([x, y, z, w]: [f64; 4]) -> [f64; 4] {
        [-x, -y, -z, w]
    }

    /// Motion with a known orientation: rest for 10 s, then 100 s of rotations about all axes, with
    /// linear acceleration of `amplitude`, a biased gyroscope, and noise. Returns the true orientation
    /// and the measurement of each sample.
    fn motion(amplitude: f64) -> Vec<([f64; 4], Imu)> {
        let (mut random, mut rotation) = (fastrand::Rng::with_seed(7), [0.0, 0.0, 0.0, 1.0]);
        let mut noise = move |sigma: f64| {
            let sum: f64 = (0..12).map(|_| random.f64()).sum();
            (sum - 6.0) * sigma
        };
        let bias = [0.5_f64, -0.4, 0.6].map(f64::to_radians);
        let samples = (0..(110.0 * RATE) as usize).map(|at| {
            let t = at as f64 / RATE;
            let moving = if t < 10.0 { 0.0 } else { 1.0 };
            let rates = [
                0.9 * (0.7 * t).sin() + 0.4 * (2.1 * t).cos(),
                0.8 * (0.9 * t).cos(),
                0.7 * (0.5 * t).sin() + 0.3 * (1.3 * t).sin(),
            ]
            .map(|rate| rate * moving);
            let [x, y, z] = rates.map(|rate| rate / RATE / 2.0);
            let norm = (1.0 + x * x + y * y + z * z).sqrt();
            rotation = product(rotation, [x / norm, y / norm, z / norm, 1.0 / norm]);
            let linear = [(3.1 * t).sin(), (4.3 * t).cos(), (2.3 * t).sin()];
            let linear = linear.map(|axis| axis * amplitude * moving);
            let force = [linear[0], linear[1], linear[2] + GRAVITY_M_S2];
            let force = rotate(conjugate(rotation), force);
            let gyro = std::array::from_fn(|axis| (rates[axis] + bias[axis] + noise(0.002)) as f32);
            let acceleration = force.map(|axis| (axis + noise(0.02)) as f32);
            (rotation, Imu { angular_velocity_rad_s: gyro, acceleration_m_s2: acceleration })
        });
        samples.collect()
    }

    fn open(values: &ParamValues) -> NodeBench<Orientation> {
        let params = OrientationParams::from_values(values).unwrap();
        NodeBench::new(Orientation::open(params, &OpenCx::default()).unwrap())
    }

    /// Tilt error of an estimate, and its heading relative to the truth, in degrees.
    fn error(found: [f64; 4], truth: [f64; 4]) -> (f64, f64) {
        // world_from_estimated · estimated_from_true
        let error = product(found, conjugate(truth));
        let up = rotate(error, [0.0, 0.0, 1.0])[2].clamp(-1.0, 1.0);
        (up.acos().to_degrees(), 2.0 * error[2].atan2(error[3]).to_degrees())
    }

    /// Root mean square of the tilt errors and the drift of the heading.
    fn summary(errors: &[(f64, f64)]) -> (f64, f64) {
        let squares: f64 = errors.iter().map(|(tilt, _)| tilt * tilt).sum();
        let drift = errors[errors.len() - 1].1 - errors[0].1;
        let drift = (drift + 180.0).rem_euclid(360.0) - 180.0;
        ((squares / errors.len() as f64).sqrt(), drift.abs())
    }

    /// First sample whose error counts.
    const FIRST_COUNTED: usize = (15.0 * RATE) as usize;

    fn of_node(truth: &[([f64; 4], Imu)]) -> (f64, f64) {
        let (mut bench, mut errors) = (open(&ParamValues::new()), Vec::new());
        for (at, (_, imu)) in truth.iter().enumerate() {
            let time = Timestamp((at as f64 / RATE * 1e9) as i64);
            for (_, packet) in bench.call(Orientation::IMU, time, *imu).unwrap() {
                let sample = (packet.header.at.0 as f64 * 1e-9 * RATE).round() as usize;
                if sample > FIRST_COUNTED {
                    let found = packet.get::<Estimate>().unwrap();
                    errors.push(error(found.rotation_xyzw, truth[sample].0));
                }
            }
        }
        summary(&errors)
    }

    /// The filter of Madgwick (2010) with a gain of 0.1, for comparison.
    fn of_madgwick(truth: &[([f64; 4], Imu)]) -> (f64, f64) {
        let (mut q, mut errors) = ([0.0, 0.0, 0.0, 1.0_f64], Vec::new());
        let unit = |q: [f64; 4]| {
            let norm = q.iter().map(|value| value * value).sum::<f64>().sqrt();
            if norm > 0.0 { q.map(|value| value / norm) } else { q }
        };
        for (sample, (orientation, imu)) in truth.iter().enumerate() {
            let [gx, gy, gz] = imu.angular_velocity_rad_s.map(f64::from);
            let [ax, ay, az] = imu.acceleration_m_s2.map(f64::from);
            let [ax, ay, az, _] = unit([ax, ay, az, 0.0]);
            let [x, y, z, w] = q;
            let misfit = [
                2.0 * (x * z - w * y) - ax,
                2.0 * (w * x + y * z) - ay,
                1.0 - 2.0 * (x * x + y * y) - az,
            ];
            let gradient = unit([
                2.0 * z * misfit[0] + 2.0 * w * misfit[1] - 4.0 * x * misfit[2],
                -2.0 * w * misfit[0] + 2.0 * z * misfit[1] - 4.0 * y * misfit[2],
                2.0 * x * misfit[0] + 2.0 * y * misfit[1],
                -2.0 * y * misfit[0] + 2.0 * x * misfit[1],
            ]);
            let turn = product(q, [gx / 2.0, gy / 2.0, gz / 2.0, 0.0]);
            q = unit(std::array::from_fn(|at| q[at] + (turn[at] - 0.1 * gradient[at]) / RATE));
            if sample > FIRST_COUNTED {
                errors.push(error(q, *orientation));
            }
        }
        summary(&errors)
    }

    #[test]
    fn tilt_and_heading_stay_near_the_truth() {
        for (amplitude, most_tilt, most_heading) in
            [(0.0, 0.1, 0.3), (1.0, 0.5, 1.0), (3.0, 1.5, 1.0)]
        {
            let truth = motion(amplitude);
            let (tilt, heading) = of_node(&truth);
            let (other_tilt, other_heading) = of_madgwick(&truth);
            println!(
                "{amplitude} m/s²: tilt {tilt:.2}°, heading {heading:.2}°; Madgwick {other_tilt:.2}°, \
                 {other_heading:.2}°"
            );
            assert!(tilt < most_tilt && heading < most_heading, "{amplitude}: {tilt} {heading}");
            assert!(tilt < other_tilt && heading < other_heading, "{other_tilt} {other_heading}");
        }
    }

    fn lying() -> Imu {
        Imu { angular_velocity_rad_s: [0.01, 0.0, 0.0], acceleration_m_s2: [0.0, 0.0, 9.81] }
    }

    #[test]
    fn the_first_measurements_wait_for_the_rate_and_keep_their_times() {
        let mut bench = open(&ParamValues::new());
        for at in 0..FIRST as i64 - 1 {
            let sent = bench.call(Orientation::IMU, Timestamp(at * 10_000_000), lying()).unwrap();
            assert!(sent.is_empty());
        }
        let last = Timestamp((FIRST as i64 - 1) * 10_000_000);
        let sent = bench.call(Orientation::IMU, last, lying()).unwrap();
        let times: Vec<i64> = sent.iter().map(|(_, packet)| packet.header.at.0).collect();
        assert_eq!(times, (0..FIRST as i64).map(|at| at * 10_000_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_gap_begins_the_estimate_again_and_keeps_the_bias() {
        let rate = [("rate".to_owned(), afferent_graph::ParamValue::Float(100.0))].into();
        let mut bench = open(&rate);
        let mut last = Estimate::default();
        for at in 0..1000 {
            let sent = bench.call(Orientation::IMU, Timestamp(at * 10_000_000), lying()).unwrap();
            last = *sent[0].1.get::<Estimate>().unwrap();
        }
        assert!(last.is_at_rest && (last.gyro_bias_rad_s[0] - 0.01).abs() < 1e-3, "{last:?}");
        let sent = bench.call(Orientation::IMU, Timestamp(60_000_000_000), lying()).unwrap();
        let after = sent[0].1.get::<Estimate>().unwrap();
        assert!(!after.is_at_rest, "{after:?}");
        assert!((after.gyro_bias_rad_s[0] - 0.01).abs() < 2e-3, "{after:?}");
    }

    #[test]
    fn measurements_that_are_not_finite_are_dropped() {
        let rate = [("rate".to_owned(), afferent_graph::ParamValue::Float(100.0))].into();
        let mut bench = open(&rate);
        for bad in [f32::NAN, f32::INFINITY] {
            let imu = Imu { acceleration_m_s2: [bad, 0.0, 0.0], ..lying() };
            assert!(bench.call(Orientation::IMU, Timestamp(0), imu).unwrap().is_empty());
        }
        let sent = bench.call(Orientation::IMU, Timestamp(1), lying()).unwrap();
        assert!(sent[0].1.get::<Estimate>().unwrap().rotation_xyzw.iter().all(|v| v.is_finite()));
    }
}
