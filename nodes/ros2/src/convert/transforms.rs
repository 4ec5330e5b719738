//! `tf2_msgs/TFMessage` and transforms.

use afferent_graph::Timestamp;
use afferent_messages::{Transform, Transforms};

use crate::msg::{
    builtin_interfaces::Time,
    geometry_msgs::{self, Quaternion, TransformStamped, Vector3},
    std_msgs::Header,
    tf2_msgs::TFMessage,
};

impl TFMessage {
    /// Replaces `transforms` by those of the message. `timestamp` turns stamps into session time.
    pub fn fill(&self, transforms: &mut Transforms, timestamp: impl Fn(Time) -> Timestamp) {
        let convert = |stamped: &TransformStamped| {
            let Vector3 { x, y, z } = stamped.transform.translation;
            Transform {
                at: timestamp(stamped.header.stamp),
                frame_id: stamped.header.frame_id.clone(),
                child_frame_id: stamped.child_frame_id.clone(),
                translation_m: [x, y, z],
                rotation_xyzw: stamped.transform.rotation.xyzw(),
            }
        };
        transforms.transforms.clear();
        transforms.transforms.extend(self.transforms.iter().map(convert));
    }

    /// Message with `transforms`. `stamp` turns session time into stamps.
    ///
    /// # Errors
    /// Those of `stamp`.
    pub fn from_payload<E>(
        transforms: &Transforms,
        stamp: impl Fn(Timestamp) -> Result<Time, E>,
    ) -> Result<Self, E> {
        let convert = |transform: &Transform| {
            let [x, y, z] = transform.translation_m;
            Ok(TransformStamped {
                header: Header {
                    stamp: stamp(transform.at)?,
                    frame_id: transform.frame_id.clone(),
                },
                child_frame_id: transform.child_frame_id.clone(),
                transform: geometry_msgs::Transform {
                    translation: Vector3 { x, y, z },
                    rotation: Quaternion::from_xyzw(transform.rotation_xyzw),
                },
            })
        };
        Ok(Self {
            transforms: transforms.transforms.iter().map(convert).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_round_trip_with_their_times() {
        let transform = |at, child: &str| Transform {
            at: Timestamp(at),
            frame_id: "odom".to_owned(),
            child_frame_id: child.to_owned(),
            translation_m: [1.0, -0.0, 1e300],
            rotation_xyzw: [0.5, -0.5, 0.1, 0.7],
        };
        let transforms =
            Transforms { transforms: vec![transform(-1, "base"), transform(5, "laser")] };
        let stamp = |at: Timestamp| Time::from_nanos(at.0 + 7).ok_or("too late");
        let message = TFMessage::from_payload(&transforms, stamp).unwrap();
        assert_eq!(message.transforms[1].header.stamp, Time { sec: 0, nanosec: 12 });
        let mut again = Transforms { transforms: vec![Transform::default(); 3] };
        message.fill(&mut again, |time| Timestamp(time.nanos() - 7));
        assert_eq!(again, transforms);
        let late = Transforms { transforms: vec![transform(i64::MAX - 7, "base")] };
        assert_eq!(TFMessage::from_payload(&late, stamp), Err("too late"));
    }
}
