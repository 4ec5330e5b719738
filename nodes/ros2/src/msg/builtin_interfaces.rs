//! Package `builtin_interfaces`.

use serde::{Deserialize, Serialize};

/// A time: seconds since the epoch of its clock, rounded down, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct Time {
    pub sec: i32,
    pub nanosec: u32,
}

impl Time {
    const SECOND_NS: i64 = 1_000_000_000;

    /// The time `nanos` after the epoch; `None` if the seconds do not fit the message.
    pub fn from_nanos(nanos: i64) -> Option<Self> {
        let sec = i32::try_from(nanos.div_euclid(Self::SECOND_NS)).ok()?;
        let nanosec = u32::try_from(nanos.rem_euclid(Self::SECOND_NS)).ok()?;
        Some(Self { sec, nanosec })
    }

    /// Nanoseconds since the epoch.
    pub fn nanos(self) -> i64 {
        i64::from(self.sec) * Self::SECOND_NS + i64::from(self.nanosec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_convert_to_nanoseconds() {
        for (nanos, sec, nanosec) in [
            (0, 0, 0),
            (-1, -1, 999_999_999),
            (1_500_000_000, 1, 500_000_000),
            (i64::from(i32::MIN) * 1_000_000_000, i32::MIN, 0),
        ] {
            let time = Time { sec, nanosec };
            assert_eq!((Time::from_nanos(nanos), time.nanos()), (Some(time), nanos));
        }
        for nanos in [i64::MAX, i64::MIN, (1 << 31) * 1_000_000_000] {
            assert_eq!(Time::from_nanos(nanos), None);
        }
        let most = Time { sec: i32::MAX, nanosec: u32::MAX };
        assert_eq!(most.nanos(), 2_147_483_651_294_967_295);
    }
}
