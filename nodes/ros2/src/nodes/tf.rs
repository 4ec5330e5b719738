//! Transforms on topics of `tf2_msgs/TFMessage`.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, ports};
use afferent_messages::Transforms;

use crate::{
    TimeOf, cdr,
    endpoint::endpoint_params,
    link,
    msg::tf2_msgs::TFMessage,
    topic::{TopicIn, TopicOut},
};

/// Receives transforms from a topic of ROS 2 (`tf2_msgs/TFMessage`).
///
/// Each transform has the time of its stamp. The packet has the time of the arrival, because a topic
/// has several publishers; with `time: sender`, it has the latest stamp of its transforms.
///
/// Transforms of `/tf_static` that were published before the start are not received.
///
/// Latency: that of the network.
pub struct Ros2TfSource {
    topic: TopicIn,
}

endpoint_params! {
    /// Settings of [`Ros2TfSource`].
    Ros2TfSourceParams {
        /// Topic, such as `/tf`.
        pub topic: String = "/tf";
        /// Timestamp of the packets.
        pub time: TimeOf = "arrival";
    }
}

ports! {
    impl Ros2TfSource {
        /// Transforms of the topic.
        out TRANSFORMS: Transforms;
    }
}

impl Node for Ros2TfSource {
    type Params = Ros2TfSourceParams;

    const NAME: &'static str = "ros2_tf_source";
    const SUMMARY: &'static str = "Receives transforms from a topic of ROS 2 (tf2_msgs/TFMessage).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the network";

    fn check(params: &Ros2TfSourceParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<TFMessage>(cx)?)
    }

    fn open(params: Ros2TfSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<TFMessage>(cx)?;
        Ok(Self { topic: TopicIn::open(&endpoint, params.time, cx)? })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(message) = self.topic.receive() else { return Ok(()) };
        let bytes = message.bytes();
        let mut transforms = cx.loan(Self::TRANSFORMS);
        let filled = cdr::decode::<TFMessage>(&bytes).map(|decoded| {
            decoded.fill(&mut transforms, |stamp| self.topic.session_time(stamp));
            decoded.transforms.iter().map(|transform| transform.header.stamp).max()
        });
        if let Some(at) = self.topic.accept(cx, &message, filled) {
            cx.send_at(Self::TRANSFORMS, at, transforms);
        }
        Ok(())
    }
}

/// Publishes transforms on a topic of ROS 2 (`tf2_msgs/TFMessage`).
///
/// Latency: none; a thread sends the messages.
pub struct Ros2TfSink {
    topic: TopicOut,
}

endpoint_params! {
    /// Settings of [`Ros2TfSink`].
    Ros2TfSinkParams {
        /// Topic, such as `/tf`.
        pub topic: String = "/tf";
    }
}

ports! {
    impl Ros2TfSink {
        /// Transforms, each with its own time.
        in TRANSFORMS: Transforms;
    }
}

impl Node for Ros2TfSink {
    type Params = Ros2TfSinkParams;

    const NAME: &'static str = "ros2_tf_sink";
    const SUMMARY: &'static str = "Publishes transforms on a topic of ROS 2 (tf2_msgs/TFMessage).";
    const PORTS: &'static [Port] = Self::PORTS;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none; a thread sends the messages";

    fn check(params: &Ros2TfSinkParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<TFMessage>(cx)?)
    }

    fn open(params: Ros2TfSinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<TFMessage>(cx)?;
        Ok(Self { topic: TopicOut::open(&endpoint, cx)? })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(transforms) = cx.get(Self::TRANSFORMS) else { return Ok(()) };
        let message = TFMessage::from_payload(transforms, |at| self.topic.stamp(at))?;
        self.topic.publish(cx, &message)
    }
}
