//! Motion.

use crate::{Field, OnFull, Payload};

/// What an inertial measurement unit measured at one time, in its own coordinate frame
/// (ROS `sensor_msgs/Imu`).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Imu {
    /// Angular velocity about x, y and z, in radians per second.
    pub angular_velocity_rad_s: [f32; 3],
    /// Acceleration along x, y and z with that of gravity, in metres per second squared.
    pub acceleration_m_s2: [f32; 3],
}

impl Payload for Imu {
    const TYPE: &'static str = "spatial/Imu";
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
