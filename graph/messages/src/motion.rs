//! Motion of a body: orientation and steps.

use crate::{
    Cdr, CdrMessage,
    pose::{IDENTITY, slerp},
};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Orientation of an inertial measurement unit in a world frame whose z axis points up. The heading is
/// relative to that at the start. It says nothing about the position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Orientation {
    /// `world_from_imu`, a unit quaternion x, y, z, w.
    pub rotation_xyzw: [f64; 4],
    /// Acceleration in the world frame without gravity, in meters per second squared.
    pub acceleration_m_s2: [f32; 3],
    /// Estimated bias of the gyroscope about x, y, and z of the unit, in radians per second.
    pub gyro_bias_rad_s: [f32; 3],
    /// Standard deviation of the bias, in radians per second.
    pub gyro_bias_sigma_rad_s: f32,
    /// True if the unit has been at rest for some seconds.
    pub is_at_rest: bool,
}

impl Default for Orientation {
    /// The axes of the unit are those of the world.
    fn default() -> Self {
        Self {
            rotation_xyzw: IDENTITY,
            acceleration_m_s2: [0.0; 3],
            gyro_bias_rad_s: [0.0; 3],
            gyro_bias_sigma_rad_s: 0.0,
            is_at_rest: false,
        }
    }
}

impl Orientation {
    /// Rotation about the z axis of the world, in radians from −π to π.
    pub fn heading_rad(&self) -> f64 {
        let [x, y, z, w] = self.rotation_xyzw;
        (2.0 * (w * z + x * y)).atan2(1.0 - 2.0 * (y * y + z * z))
    }

    /// Angle between the z axes of the unit and of the world, in radians from 0 to π.
    pub fn tilt_rad(&self) -> f64 {
        let [x, y, ..] = self.rotation_xyzw;
        (1.0 - 2.0 * (x * x + y * y)).clamp(-1.0, 1.0).acos()
    }
}

impl Payload for Orientation {
    const TYPE: &'static str = "spatial/Orientation";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::DropOldest;
    const INTERPOLATES: bool = true;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let names = ["qx", "qy", "qz", "qw"].into_iter();
        let mut fields: Vec<_> = names.zip(self.rotation_xyzw.map(Field::Number)).collect();
        fields.push(("tilt_deg", Field::Number(self.tilt_rad().to_degrees())));
        fields.push(("heading_deg", Field::Number(self.heading_rad().to_degrees())));
        fields.push(("at_rest", Field::Text(self.is_at_rest.to_string())));
        fields
    }

    /// Spherical linear for the rotation, linear for the acceleration; the rest is that of the nearer
    /// one.
    fn interpolate(&self, later: &Self, share: f64, into: &mut Self) {
        *into = if share < 0.5 { *self } else { *later };
        into.rotation_xyzw = slerp(self.rotation_xyzw, later.rotation_xyzw, share);
        let (from, to) = (self.acceleration_m_s2, later.acceleration_m_s2);
        into.acceleration_m_s2 =
            std::array::from_fn(|axis| from[axis] + (to[axis] - from[axis]) * share as f32);
    }
}

impl CdrMessage for Orientation {
    const MESSAGE: &'static str = "afferent_msgs/msg/Orientation";
    const SCHEMA: &'static str = "# world_from_imu: x, y, z, w
float64[4] rotation_xyzw
float32[3] acceleration_m_s2
float32[3] gyro_bias_rad_s
float32 gyro_bias_sigma_rad_s
bool is_at_rest
";
    type Wire = ([f64; 4], [f32; 3], [f32; 3], f32, bool);

    fn to_wire(&self) -> Self::Wire {
        (
            self.rotation_xyzw,
            self.acceleration_m_s2,
            self.gyro_bias_rad_s,
            self.gyro_bias_sigma_rad_s,
            self.is_at_rest,
        )
    }

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        let (rotation_xyzw, acceleration_m_s2, gyro_bias_rad_s, gyro_bias_sigma_rad_s, is_at_rest) =
            wire;
        Ok(Self {
            rotation_xyzw,
            acceleration_m_s2,
            gyro_bias_rad_s,
            gyro_bias_sigma_rad_s,
            is_at_rest,
        })
    }
}

/// Kind of the activity, as a motion sensor on the body tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ActivityKind {
    /// No steps: standing, sitting, or other motion.
    #[default]
    Resting,
    /// Steps with one foot on the ground.
    Walking,
    /// Steps with both feet in the air.
    Running,
}

impl ActivityKind {
    /// Name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resting => "resting",
            Self::Walking => "walking",
            Self::Running => "running",
        }
    }
}

/// Steps of the wearer of a motion sensor.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Activity {
    /// Kind of the motion.
    pub kind: ActivityKind,
    /// Steps since the start.
    pub steps: u64,
    /// Steps per minute; 0 at rest.
    pub cadence_per_min: f32,
}

impl Payload for Activity {
    const TYPE: &'static str = "spatial/Activity";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("event", Field::Text(self.kind.name().to_owned())),
            ("steps", Field::Int(i64::try_from(self.steps).unwrap_or(i64::MAX))),
            ("cadence", Field::Number(f64::from(self.cadence_per_min))),
        ]
    }
}

impl CdrMessage for Activity {
    const MESSAGE: &'static str = "afferent_msgs/msg/Activity";
    const SCHEMA: &'static str = "# 0 resting, 1 walking, 2 running
uint8 kind
uint64 steps
float32 cadence_per_min
";
    type Wire = (u8, u64, f32);

    fn to_wire(&self) -> Self::Wire {
        (self.kind as u8, self.steps, self.cadence_per_min)
    }

    fn from_wire((kind, steps, cadence_per_min): Self::Wire) -> Result<Self, String> {
        let kind = match kind {
            0 => ActivityKind::Resting,
            1 => ActivityKind::Walking,
            2 => ActivityKind::Running,
            other => return Err(format!("kind {other} is none of 0 to 2")),
        };
        Ok(Self { kind, steps, cadence_per_min })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_of_known_rotations() {
        let check = |rotation_xyzw: [f64; 4], tilt: f64, heading: f64| {
            let found = Orientation { rotation_xyzw, ..Orientation::default() };
            let angles = [found.tilt_rad(), found.heading_rad()].map(f64::to_degrees);
            assert!((angles[0] - tilt).abs() < 1e-6, "{angles:?}");
            assert!((angles[1] - heading).abs() < 1e-6, "{angles:?}");
        };
        let half = 0.5_f64.sqrt();
        check([0.0, 0.0, 0.0, 1.0], 0.0, 0.0);
        check([half, 0.0, 0.0, half], 90.0, 0.0);
        check([0.0, 0.0, half, half], 0.0, 90.0);
        check([0.0, 0.0, -half, half], 0.0, -90.0);
        check([1.0, 0.0, 0.0, 0.0], 180.0, 0.0);
    }

    #[test]
    fn unknown_kinds_are_refused() {
        assert!(Activity::from_wire((3, 0, 0.0)).is_err());
        let walking = Activity { kind: ActivityKind::Walking, steps: 7, cadence_per_min: 110.0 };
        assert_eq!(Activity::from_wire(walking.to_wire()), Ok(walking));
    }
}
