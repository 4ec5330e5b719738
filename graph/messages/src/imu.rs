//! Inertial measurements.

use afferent_core::ForeignBytes;
use serde::{Deserialize, Serialize};

use crate::{Cdr, CdrMessage, Wire, WireMessage, cdr::ros_header, wire::no_bulk};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// One measurement of an inertial measurement unit, in its own coordinate frame (ROS
/// `sensor_msgs/Imu`).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Imu {
    /// Angular velocity about x, y, and z, in radians per second.
    pub angular_velocity_rad_s: [f32; 3],
    /// Acceleration along x, y, and z including gravity, in meters per second squared.
    pub acceleration_m_s2: [f32; 3],
}

impl Payload for Imu {
    const TYPE: &'static str = "spatial/Imu";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::DropOldest;
    const INTERPOLATES: bool = true;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let names =
            ["gyro_x", "gyro_y", "gyro_z", "acceleration_x", "acceleration_y", "acceleration_z"];
        let values = self.angular_velocity_rad_s.iter().chain(&self.acceleration_m_s2);
        names.into_iter().zip(values.map(|value| Field::Number(f64::from(*value)))).collect()
    }

    fn interpolate(&self, later: &Self, share: f64, into: &mut Self) {
        let between = |from: [f32; 3], to: [f32; 3]| {
            std::array::from_fn(|axis| from[axis] + (to[axis] - from[axis]) * share as f32)
        };
        into.angular_velocity_rad_s =
            between(self.angular_velocity_rad_s, later.angular_velocity_rad_s);
        into.acceleration_m_s2 = between(self.acceleration_m_s2, later.acceleration_m_s2);
    }
}

/// The standard message of ROS 2, which has more fields than [`Imu`]. Its stamp is zero because a
/// recording stores the timestamp beside each message.
impl CdrMessage for Imu {
    const MESSAGE: &'static str = "sensor_msgs/msg/Imu";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
geometry_msgs/Quaternion orientation
float64[9] orientation_covariance
geometry_msgs/Vector3 angular_velocity
float64[9] angular_velocity_covariance
geometry_msgs/Vector3 linear_acceleration
float64[9] linear_acceleration_covariance
",
        ros_header!(),
        "================================================================================
MSG: geometry_msgs/Quaternion
float64 x
float64 y
float64 z
float64 w
================================================================================
MSG: geometry_msgs/Vector3
float64 x
float64 y
float64 z
"
    );
    type Wire = RosImu;

    fn to_wire(&self) -> RosImu {
        let wide = |axes: [f32; 3]| axes.map(f64::from);
        // A covariance that starts with -1 means that there is no estimate.
        let mut unknown = [0.0; 9];
        unknown[0] = -1.0;
        RosImu {
            stamp: (0, 0),
            frame_id: "imu".to_owned(),
            orientation: [0.0, 0.0, 0.0, 1.0],
            orientation_covariance: unknown,
            angular_velocity: wide(self.angular_velocity_rad_s),
            angular_velocity_covariance: [0.0; 9],
            linear_acceleration: wide(self.acceleration_m_s2),
            linear_acceleration_covariance: [0.0; 9],
        }
    }

    fn from_wire(wire: RosImu) -> Result<Self, String> {
        let narrow = |axes: [f64; 3]| axes.map(|axis| axis as f32);
        Ok(Self {
            angular_velocity_rad_s: narrow(wire.angular_velocity),
            acceleration_m_s2: narrow(wire.linear_acceleration),
        })
    }
}

/// The message of ROS 2 holds `f64`, and the conversion of a NaN may change its bits.
impl WireMessage for Imu {
    const LAYOUT: &'static str =
        "float32[3] angular_velocity_rad_s\nfloat32[3] acceleration_m_s2\n";
    type Meta = ([f32; 3], [f32; 3]);

    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String> {
        Ok(((self.angular_velocity_rad_s, self.acceleration_m_s2), &[]))
    }

    fn from_parts(meta: Self::Meta, bulk: ForeignBytes) -> Result<Self, String> {
        no_bulk(&bulk)?;
        let (angular_velocity_rad_s, acceleration_m_s2) = meta;
        Ok(Self { angular_velocity_rad_s, acceleration_m_s2 })
    }
}

/// Fields of `sensor_msgs/msg/Imu`.
#[derive(Serialize, Deserialize)]
pub struct RosImu {
    stamp: (i32, u32),
    frame_id: String,
    orientation: [f64; 4],
    orientation_covariance: [f64; 9],
    angular_velocity: [f64; 3],
    angular_velocity_covariance: [f64; 9],
    linear_acceleration: [f64; 3],
    linear_acceleration_covariance: [f64; 9],
}
