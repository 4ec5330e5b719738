//! `geometry_msgs/PoseStamped` and poses.

use afferent_messages::Pose;

use crate::msg::{
    geometry_msgs::{self, Point, PoseStamped, Quaternion},
    std_msgs::Header,
};

impl PoseStamped {
    /// Replaces `pose` by the message.
    pub fn fill(&self, pose: &mut Pose) {
        pose.frame_id.clone_from(&self.header.frame_id);
        let Point { x, y, z } = self.pose.position;
        pose.position_m = [x, y, z];
        pose.orientation_xyzw = self.pose.orientation.xyzw();
    }

    /// Message with `pose`. The coordinate frame of the header becomes that of the pose.
    pub fn from_payload(pose: &Pose, header: Header) -> Self {
        let [x, y, z] = pose.position_m;
        let orientation = Quaternion::from_xyzw(pose.orientation_xyzw);
        Self {
            header: Header { frame_id: pose.frame_id.clone(), ..header },
            pose: geometry_msgs::Pose { position: Point { x, y, z }, orientation },
        }
    }
}

impl Quaternion {
    pub(super) fn xyzw(self) -> [f64; 4] {
        [self.x, self.y, self.z, self.w]
    }

    pub(super) fn from_xyzw([x, y, z, w]: [f64; 4]) -> Self {
        Self { x, y, z, w }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poses_round_trip() {
        let pose = Pose {
            frame_id: "map".to_owned(),
            position_m: [1.0, -0.0, 1e300],
            orientation_xyzw: [0.5, -0.5, 0.1, 0.7],
        };
        let mut again = Pose::default();
        PoseStamped::from_payload(&pose, Header::default()).fill(&mut again);
        assert_eq!(again, pose);
    }
}
