//! Measurements of the motion sensors of Linux.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, ports};
use afferent_messages::Imu as Measurement;

use crate::{
    ImuParams, MotionSensor,
    reconnect::{Policy, Reconnect},
    session_clock::SessionClock,
};

mod device;
mod pair;
mod scan;
mod setup;
mod stream;
mod sysfs;
#[cfg(test)]
mod tests;

use device::{Quantity, Root, choose, devices, invalid};
use stream::{Opened, Stream};

/// Measures acceleration and angular velocity with the motion sensors of Linux (Industrial I/O).
///
/// `device` has an accelerometer and a gyroscope, or they are two devices; then there is a measurement
/// for each of the gyroscope, with the acceleration interpolated at its time. `afferent devices` lists
/// them. Scale, offset and mount matrix are those of the driver. Acceleration includes gravity, with the
/// sign that the driver gives it.
///
/// The timestamp of a measurement is that of the driver, which is set to the monotonic clock. Stamps of
/// another clock, such as that of the sensor, are shifted so that the quickest arrival took no time.
///
/// A sensor that is unplugged, or gives no measurements for `timeout`, is lost. With `on_lost: restart`,
/// the node opens it again once it is back, and measurements go on.
///
/// Needs Linux, the real clock, and permission to write the files of the sensor in
/// `/sys/bus/iio/devices`. One program can read a sensor at a time.
///
/// Latency: the delivery by the driver and `watermark` periods; with two devices, the period of the
/// accelerometer.
///
/// ```
/// use afferent_graph::{Node, OpenCx, ParamValue, Params};
/// use afferent_nodes_device::{Imu, ImuParams};
///
/// let values = [("device".to_owned(), ParamValue::Text("no_such_sensor".into()))];
/// let params = ImuParams::from_values(&values.into())?;
/// let error = Imu::check(&params, &OpenCx::default()).unwrap_err().to_string();
/// assert!(error.contains("there is no sensor \"no_such_sensor\""), "{error}");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Imu {
    root: Root,
    params: ImuParams,
    device: Reconnect<Opened, Stream>,
    clock: SessionClock,
    /// Measurements of one call; kept for its memory.
    taken: Vec<(i64, Measurement)>,
}

/// Longest wait for measurements in one call.
const WAIT: Duration = Duration::from_millis(20);

/// Time between two attempts to open a lost sensor.
const RETRY: Duration = Duration::from_millis(250);

ports! {
    impl Imu {
        /// Measurements, at the rate of the gyroscope.
        out IMU: Measurement;
    }
}

impl Imu {
    fn open_in(root: Root, params: ImuParams) -> Result<Self, NodeError> {
        check_params(&params)?;
        let opened = Opened::open(&root, &params)?;
        let policy = Policy {
            kind: "imu",
            device: opened.name(),
            value: "measurement",
            on_lost: params.on_lost,
            timeout: params.timeout,
            retry: RETRY,
        };
        let device = Reconnect::new(opened, policy);
        Ok(Self { root, params, device, clock: SessionClock::default(), taken: Vec::new() })
    }

    fn measure(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.clock.compare(cx.now());
        let open = || Opened::open(&self.root, &self.params);
        let Some(stream) = self.device.running(cx, open, Opened::start)? else { return Ok(()) };
        let read = stream.next(WAIT, &mut self.taken);
        let offset = (self.params.stamp_offset * 1e6) as i64;
        let is_silent = self.taken.is_empty();
        for (ns, measurement) in self.taken.drain(..) {
            let at = self.clock.session_time(ns.saturating_add(offset));
            cx.send_at(Self::IMU, self.device.stamp(cx.now(), at), measurement);
        }
        match read {
            Err(reason) => self.device.lose(cx, &reason),
            Ok(()) if is_silent => self.device.check_timeout(cx),
            Ok(()) => Ok(()),
        }
    }
}

impl Node for Imu {
    type Params = ImuParams;

    const NAME: &'static str = "imu";
    const SUMMARY: &'static str = "Measures acceleration and angular velocity (Industrial I/O).";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "the delivery by the driver";

    fn check(params: &ImuParams, _: &OpenCx) -> Result<(), NodeError> {
        check_params(params)?;
        choose(&devices(&Root::system()), params).map(drop)
    }

    fn open(params: ImuParams, _: &OpenCx) -> Result<Self, NodeError> {
        Self::open_in(Root::system(), params)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.measure(cx)
    }
}

fn check_params(params: &ImuParams) -> Result<(), NodeError> {
    if params.watermark > params.buffer {
        let reason = format!("the buffer holds only {} measurements (buffer)", params.buffer);
        return Err(invalid("watermark", reason));
    }
    if let Some(text) = &params.mount_matrix {
        sysfs::matrix(text).map_err(|reason| invalid("mount_matrix", reason))?;
    }
    Ok(())
}

/// Motion sensors of this machine, by number.
pub(crate) fn list() -> Vec<MotionSensor> {
    let sensor = |device: device::Device| MotionSensor {
        has_accelerometer: device.has(Quantity::Acceleration),
        has_gyroscope: device.has(Quantity::AngularVelocity),
        id: device.id,
        name: device.name,
    };
    devices(&Root::system()).into_iter().map(sensor).collect()
}
