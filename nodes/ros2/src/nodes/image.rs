//! Images on topics of `sensor_msgs/Image`.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, ports};
use afferent_messages::Image;

use crate::{
    TimeOf, cdr,
    endpoint::endpoint_params,
    link,
    msg::sensor_msgs,
    topic::{TopicIn, TopicOut, input_error},
};

/// Receives images from a topic of ROS 2 (`sensor_msgs/Image`).
///
/// Encodings are those of the payload; images of others are dropped, counted and logged.
///
/// Latency: that of the network.
pub struct Ros2ImageSource {
    topic: TopicIn,
    frame_id: Option<String>,
}

endpoint_params! {
    /// Settings of [`Ros2ImageSource`].
    Ros2ImageSourceParams {
        /// Topic, such as `/camera/image_raw`.
        pub topic: String;
        /// Coordinate frame of the images; that of the messages if absent.
        pub frame_id: Option<String>;
        /// Timestamp of the images.
        pub time: TimeOf = "sender";
    }
}

ports! {
    impl Ros2ImageSource {
        /// Images of the topic, with their row padding.
        out IMAGES: Image;
    }
}

impl Node for Ros2ImageSource {
    type Params = Ros2ImageSourceParams;

    const NAME: &'static str = "ros2_image_source";
    const SUMMARY: &'static str = "Receives images from a topic of ROS 2 (sensor_msgs/Image).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the network";

    fn check(params: &Ros2ImageSourceParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<sensor_msgs::Image<'_>>(cx)?)
    }

    fn open(params: Ros2ImageSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<sensor_msgs::Image<'_>>(cx)?;
        let topic = TopicIn::open(&endpoint, params.time, cx)?;
        Ok(Self { topic, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(message) = self.topic.receive() else { return Ok(()) };
        let bytes = message.bytes();
        let mut image = cx.loan(Self::IMAGES);
        let filled = cdr::decode::<sensor_msgs::Image<'_>>(&bytes).and_then(|decoded| {
            decoded.fill(&mut image)?;
            Ok(Some(decoded.header.stamp))
        });
        if let Some(at) = self.topic.accept(cx, &message, filled) {
            if let Some(frame_id) = &self.frame_id {
                image.frame_id.clone_from(frame_id);
            }
            cx.send_at(Self::IMAGES, at, image);
        }
        Ok(())
    }
}

/// Publishes images on a topic of ROS 2 (`sensor_msgs/Image`).
///
/// Latency: none; a thread sends the messages.
pub struct Ros2ImageSink {
    topic: TopicOut,
    frame_id: Option<String>,
}

endpoint_params! {
    /// Settings of [`Ros2ImageSink`].
    Ros2ImageSinkParams {
        /// Topic, such as `/camera/image_raw`.
        pub topic: String;
        /// Coordinate frame of the messages; that of each image if absent.
        pub frame_id: Option<String>;
    }
}

ports! {
    impl Ros2ImageSink {
        /// Images of any size and pixel format.
        in IMAGES: Image;
    }
}

impl Node for Ros2ImageSink {
    type Params = Ros2ImageSinkParams;

    const NAME: &'static str = "ros2_image_sink";
    const SUMMARY: &'static str = "Publishes images on a topic of ROS 2 (sensor_msgs/Image).";
    const PORTS: &'static [Port] = Self::PORTS;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none; a thread sends the messages";

    fn check(params: &Ros2ImageSinkParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<sensor_msgs::Image<'_>>(cx)?)
    }

    fn open(params: Ros2ImageSinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<sensor_msgs::Image<'_>>(cx)?;
        Ok(Self { topic: TopicOut::open(&endpoint, cx)?, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(image) = cx.get(Self::IMAGES) else { return Ok(()) };
        let header = self.topic.header(cx, "")?;
        let mut message = sensor_msgs::Image::from_payload(image, header)
            .map_err(|error| input_error(Self::IMAGES.name(), error))?;
        if let Some(frame_id) = &self.frame_id {
            message.header.frame_id.clone_from(frame_id);
        }
        self.topic.publish(cx, &message)
    }
}
