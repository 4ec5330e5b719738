//! Compressed images on topics of `sensor_msgs/CompressedImage`.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, ports};
use afferent_messages::Image;

use crate::{
    TimeOf, cdr,
    endpoint::endpoint_params,
    link,
    msg::sensor_msgs::CompressedImage,
    topic::{TopicIn, TopicOut, input_error},
};

/// Receives compressed images from a topic of ROS 2 (`sensor_msgs/CompressedImage`).
///
/// Images in other formats than PNG and JPEG are dropped, counted and logged.
///
/// Latency: that of the network.
pub struct Ros2CompressedImageSource {
    topic: TopicIn,
    frame_id: Option<String>,
}

endpoint_params! {
    /// Settings of [`Ros2CompressedImageSource`].
    Ros2CompressedImageSourceParams {
        /// Topic, such as `/camera/image_raw/compressed`.
        pub topic: String;
        /// Coordinate frame of the images; that of the messages if absent.
        pub frame_id: Option<String>;
        /// Timestamp of the images.
        pub time: TimeOf = "sender";
    }
}

ports! {
    impl Ros2CompressedImageSource {
        /// Decoded images of the topic.
        out IMAGES: Image;
    }
}

impl Node for Ros2CompressedImageSource {
    type Params = Ros2CompressedImageSourceParams;

    const NAME: &'static str = "ros2_compressed_image_source";
    const SUMMARY: &'static str =
        "Receives compressed images from a topic of ROS 2 (sensor_msgs/CompressedImage).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the network";

    fn check(params: &Ros2CompressedImageSourceParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<CompressedImage<'_>>(cx)?)
    }

    fn open(params: Ros2CompressedImageSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<CompressedImage<'_>>(cx)?;
        let topic = TopicIn::open(&endpoint, params.time, cx)?;
        Ok(Self { topic, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(message) = self.topic.receive() else { return Ok(()) };
        let bytes = message.bytes();
        let mut image = cx.loan(Self::IMAGES);
        let filled = cdr::decode::<CompressedImage<'_>>(&bytes).and_then(|decoded| {
            *image = decoded.to_payload()?;
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

/// Publishes compressed images on a topic of ROS 2 (`sensor_msgs/CompressedImage`).
///
/// The messages hold PNG, without loss. Empty images are skipped.
///
/// Latency: none; a thread sends the messages.
pub struct Ros2CompressedImageSink {
    topic: TopicOut,
    frame_id: Option<String>,
}

endpoint_params! {
    /// Settings of [`Ros2CompressedImageSink`].
    Ros2CompressedImageSinkParams {
        /// Topic, such as `/camera/image_raw/compressed`.
        pub topic: String;
        /// Coordinate frame of the messages; that of each image if absent.
        pub frame_id: Option<String>;
    }
}

ports! {
    impl Ros2CompressedImageSink {
        /// Images of any size and pixel format.
        in IMAGES: Image;
    }
}

impl Node for Ros2CompressedImageSink {
    type Params = Ros2CompressedImageSinkParams;

    const NAME: &'static str = "ros2_compressed_image_sink";
    const SUMMARY: &'static str =
        "Publishes compressed images on a topic of ROS 2 (sensor_msgs/CompressedImage).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none; a thread sends the messages";

    fn check(params: &Ros2CompressedImageSinkParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<CompressedImage<'_>>(cx)?)
    }

    fn open(params: Ros2CompressedImageSinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<CompressedImage<'_>>(cx)?;
        Ok(Self { topic: TopicOut::open(&endpoint, cx)?, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(image) = cx.get(Self::IMAGES) else { return Ok(()) };
        if image.bytes().is_empty() {
            return Ok(());
        }
        let header = self.topic.header(cx, "")?;
        let mut message = CompressedImage::from_payload(image, header)
            .map_err(|error| input_error(Self::IMAGES.name(), error))?;
        if let Some(frame_id) = &self.frame_id {
            message.header.frame_id.clone_from(frame_id);
        }
        self.topic.publish(cx, &message)
    }
}
