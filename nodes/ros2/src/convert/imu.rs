//! `sensor_msgs/Imu` and inertial measurements.

use afferent_messages::Imu;

use crate::msg::{
    geometry_msgs::{Quaternion, Vector3},
    sensor_msgs,
    std_msgs::Header,
};

impl sensor_msgs::Imu {
    /// The measurement, in single precision. Orientation and covariances are left out.
    pub fn to_payload(&self) -> Imu {
        let narrow = |vector: Vector3| [vector.x, vector.y, vector.z].map(|axis| axis as f32);
        Imu {
            angular_velocity_rad_s: narrow(self.angular_velocity),
            acceleration_m_s2: narrow(self.linear_acceleration),
        }
    }

    /// Message with a measurement, without an estimate of the orientation and with unknown
    /// covariances.
    pub fn from_payload(imu: &Imu, header: Header) -> Self {
        let wide = |axes: [f32; 3]| {
            let [x, y, z] = axes.map(f64::from);
            Vector3 { x, y, z }
        };
        // A covariance that starts with -1 means that there is no estimate; zeros are unknown.
        let mut orientation_covariance = [0.0; 9];
        orientation_covariance[0] = -1.0;
        Self {
            header,
            orientation: Quaternion::default(),
            orientation_covariance,
            angular_velocity: wide(imu.angular_velocity_rad_s),
            linear_acceleration: wide(imu.acceleration_m_s2),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_round_trip() {
        let imu = Imu {
            angular_velocity_rad_s: [0.1, -0.2, 1e-42],
            acceleration_m_s2: [f32::MAX, f32::INFINITY, 9.81],
        };
        let message = sensor_msgs::Imu::from_payload(&imu, Header::default());
        assert_eq!(message.to_payload(), imu);
        assert_eq!((message.orientation.w, message.orientation_covariance[0]), (1.0, -1.0));
    }
}
