//! Package `tf2_msgs`.

use serde::{Deserialize, Serialize};

use super::geometry_msgs::TransformStamped;

/// Transforms between coordinate frames.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct TFMessage {
    pub transforms: Vec<TransformStamped>,
}

super::ros_messages! {
    TFMessage: "tf2_msgs/msg/TFMessage",
        "e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087";
}
