//! Text on topics of `std_msgs/String`.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, ports};
use afferent_messages::Text;

use crate::{
    TimeOf, cdr,
    endpoint::endpoint_params,
    link,
    msg::std_msgs,
    topic::{TopicIn, TopicOut},
};

/// Receives text from a topic of ROS 2 (`std_msgs/String`).
///
/// The message has no stamp: with `time: sender`, its timestamp is the time of sending.
///
/// Latency: that of the network.
pub struct Ros2TextSource {
    topic: TopicIn,
}

endpoint_params! {
    /// Settings of [`Ros2TextSource`].
    Ros2TextSourceParams {
        /// Topic, such as `/chatter`.
        pub topic: String;
        /// Timestamp of the texts.
        pub time: TimeOf = "arrival";
    }
}

ports! {
    impl Ros2TextSource {
        /// Texts of the topic, each complete and outside a conversation.
        out TEXT: Text;
    }
}

impl Node for Ros2TextSource {
    type Params = Ros2TextSourceParams;

    const NAME: &'static str = "ros2_text_source";
    const SUMMARY: &'static str = "Receives text from a topic of ROS 2 (std_msgs/String).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the network";

    fn check(params: &Ros2TextSourceParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<std_msgs::String<'_>>(cx)?)
    }

    fn open(params: Ros2TextSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<std_msgs::String<'_>>(cx)?;
        Ok(Self { topic: TopicIn::open(&endpoint, params.time, cx)? })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(message) = self.topic.receive() else { return Ok(()) };
        let bytes = message.bytes();
        let mut text = cx.loan(Self::TEXT);
        let filled = cdr::decode::<std_msgs::String<'_>>(&bytes).map(|decoded| {
            decoded.fill(&mut text);
            None
        });
        if let Some(at) = self.topic.accept(cx, &message, filled) {
            cx.send_at(Self::TEXT, at, text);
        }
        Ok(())
    }
}

/// Publishes text on a topic of ROS 2 (`std_msgs/String`).
///
/// Each packet is one message; turns of a conversation are left out.
///
/// Latency: none; a thread sends the messages.
pub struct Ros2TextSink {
    topic: TopicOut,
}

endpoint_params! {
    /// Settings of [`Ros2TextSink`].
    Ros2TextSinkParams {
        /// Topic, such as `/chatter`.
        pub topic: String;
    }
}

ports! {
    impl Ros2TextSink {
        /// Complete texts, or chunks.
        in TEXT: Text;
    }
}

impl Node for Ros2TextSink {
    type Params = Ros2TextSinkParams;

    const NAME: &'static str = "ros2_text_sink";
    const SUMMARY: &'static str = "Publishes text on a topic of ROS 2 (std_msgs/String).";
    const PORTS: &'static [Port] = Self::PORTS;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none; a thread sends the messages";

    fn check(params: &Ros2TextSinkParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<std_msgs::String<'_>>(cx)?)
    }

    fn open(params: Ros2TextSinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<std_msgs::String<'_>>(cx)?;
        Ok(Self { topic: TopicOut::open(&endpoint, cx)? })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(text) = cx.get(Self::TEXT) else { return Ok(()) };
        let message = std_msgs::String::from(text);
        self.topic.publish(cx, &message)
    }
}
