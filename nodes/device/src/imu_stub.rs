//! Stub of the node `imu` for systems other than Linux: it does not open.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, ports};
use afferent_messages::Imu as Measurement;

use crate::{ImuParams, MotionSensor};

/// Measures acceleration and angular velocity with the motion sensors of Linux (Industrial I/O).
///
/// On this system, it fails with a message when a graph opens it.
pub struct Imu;

ports! {
    impl Imu {
        /// Measurements, at the rate of the gyroscope.
        out IMU: Measurement;
    }
}

impl Node for Imu {
    type Params = ImuParams;

    const NAME: &'static str = "imu";
    const SUMMARY: &'static str = "Measures acceleration and angular velocity (Linux only).";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "the delivery by the driver";

    fn check(params: &ImuParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(drop)
    }

    fn open(params: ImuParams, _: &OpenCx) -> Result<Self, NodeError> {
        let name = params.device.unwrap_or_else(|| "imu".to_owned());
        let reason =
            "motion sensors need Linux (Industrial I/O); imu_source reads files".to_owned();
        Err(NodeError::Device { name, reason })
    }

    fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}

/// Motion sensors of this machine: none.
pub(crate) fn list() -> Vec<MotionSensor> {
    Vec::new()
}
