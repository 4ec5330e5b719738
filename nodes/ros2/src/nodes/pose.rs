//! Poses on topics of `geometry_msgs/PoseStamped`.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, ports};
use afferent_messages::Pose;

use crate::{
    TimeOf, cdr,
    endpoint::endpoint_params,
    link,
    msg::geometry_msgs::PoseStamped,
    topic::{TopicIn, TopicOut},
};

/// Receives poses from a topic of ROS 2 (`geometry_msgs/PoseStamped`).
///
/// Latency: that of the network.
pub struct Ros2PoseSource {
    topic: TopicIn,
    frame_id: Option<String>,
}

endpoint_params! {
    /// Settings of [`Ros2PoseSource`].
    Ros2PoseSourceParams {
        /// Topic, such as `/goal_pose`.
        pub topic: String;
        /// Coordinate frame of the poses; that of the messages if absent.
        pub frame_id: Option<String>;
        /// Timestamp of the poses.
        pub time: TimeOf = "sender";
    }
}

ports! {
    impl Ros2PoseSource {
        /// Poses of the topic.
        out POSE: Pose;
    }
}

impl Node for Ros2PoseSource {
    type Params = Ros2PoseSourceParams;

    const NAME: &'static str = "ros2_pose_source";
    const SUMMARY: &'static str =
        "Receives poses from a topic of ROS 2 (geometry_msgs/PoseStamped).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the network";

    fn check(params: &Ros2PoseSourceParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<PoseStamped>(cx)?)
    }

    fn open(params: Ros2PoseSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<PoseStamped>(cx)?;
        let topic = TopicIn::open(&endpoint, params.time, cx)?;
        Ok(Self { topic, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(message) = self.topic.receive() else { return Ok(()) };
        let bytes = message.bytes();
        let mut pose = cx.loan(Self::POSE);
        let filled = cdr::decode::<PoseStamped>(&bytes).map(|decoded| {
            decoded.fill(&mut pose);
            Some(decoded.header.stamp)
        });
        if let Some(at) = self.topic.accept(cx, &message, filled) {
            if let Some(frame_id) = &self.frame_id {
                pose.frame_id.clone_from(frame_id);
            }
            cx.send_at(Self::POSE, at, pose);
        }
        Ok(())
    }
}

/// Publishes poses on a topic of ROS 2 (`geometry_msgs/PoseStamped`).
///
/// Latency: none; a thread sends the messages.
pub struct Ros2PoseSink {
    topic: TopicOut,
    frame_id: Option<String>,
}

endpoint_params! {
    /// Settings of [`Ros2PoseSink`].
    Ros2PoseSinkParams {
        /// Topic, such as `/goal_pose`.
        pub topic: String;
        /// Coordinate frame of the messages; that of each pose if absent.
        pub frame_id: Option<String>;
    }
}

ports! {
    impl Ros2PoseSink {
        /// Poses.
        in POSE: Pose;
    }
}

impl Node for Ros2PoseSink {
    type Params = Ros2PoseSinkParams;

    const NAME: &'static str = "ros2_pose_sink";
    const SUMMARY: &'static str =
        "Publishes poses on a topic of ROS 2 (geometry_msgs/PoseStamped).";
    const PORTS: &'static [Port] = Self::PORTS;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none; a thread sends the messages";

    fn check(params: &Ros2PoseSinkParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<PoseStamped>(cx)?)
    }

    fn open(params: Ros2PoseSinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<PoseStamped>(cx)?;
        Ok(Self { topic: TopicOut::open(&endpoint, cx)?, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(pose) = cx.get(Self::POSE) else { return Ok(()) };
        let header = self.topic.header(cx, "")?;
        let mut message = PoseStamped::from_payload(pose, header);
        if let Some(frame_id) = &self.frame_id {
            message.header.frame_id.clone_from(frame_id);
        }
        self.topic.publish(cx, &message)
    }
}
