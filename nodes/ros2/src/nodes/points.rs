//! Point clouds on topics of `sensor_msgs/PointCloud2`.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, ports};
use afferent_messages::PointCloud;

use crate::{
    TimeOf, cdr,
    endpoint::endpoint_params,
    link,
    msg::sensor_msgs::PointCloud2,
    topic::{TopicIn, TopicOut, input_error},
};

/// Receives point clouds from a topic of ROS 2 (`sensor_msgs/PointCloud2`).
///
/// Values of every data type become `f32`; integers of 32 bits and `float64` are rounded.
///
/// Latency: that of the network.
pub struct Ros2PointsSource {
    topic: TopicIn,
    frame_id: Option<String>,
}

endpoint_params! {
    /// Settings of [`Ros2PointsSource`].
    Ros2PointsSourceParams {
        /// Topic, such as `/lidar/points`.
        pub topic: String;
        /// Coordinate frame of the points; that of the messages if absent.
        pub frame_id: Option<String>;
        /// Timestamp of the point clouds.
        pub time: TimeOf = "sender";
    }
}

ports! {
    impl Ros2PointsSource {
        /// Point clouds of the topic.
        out POINTS: PointCloud;
    }
}

impl Node for Ros2PointsSource {
    type Params = Ros2PointsSourceParams;

    const NAME: &'static str = "ros2_points_source";
    const SUMMARY: &'static str =
        "Receives point clouds from a topic of ROS 2 (sensor_msgs/PointCloud2).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the network";

    fn check(params: &Ros2PointsSourceParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<PointCloud2<'_>>(cx)?)
    }

    fn open(params: Ros2PointsSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<PointCloud2<'_>>(cx)?;
        let topic = TopicIn::open(&endpoint, params.time, cx)?;
        Ok(Self { topic, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(message) = self.topic.receive() else { return Ok(()) };
        let bytes = message.bytes();
        let mut cloud = cx.loan(Self::POINTS);
        let filled = cdr::decode::<PointCloud2<'_>>(&bytes).and_then(|decoded| {
            decoded.fill(&mut cloud)?;
            Ok(Some(decoded.header.stamp))
        });
        if let Some(at) = self.topic.accept(cx, &message, filled) {
            if let Some(frame_id) = &self.frame_id {
                cloud.frame_id.clone_from(frame_id);
            }
            cx.send_at(Self::POINTS, at, cloud);
        }
        Ok(())
    }
}

/// Publishes point clouds on a topic of ROS 2 (`sensor_msgs/PointCloud2`).
///
/// Latency: none; a thread sends the messages.
pub struct Ros2PointsSink {
    topic: TopicOut,
    frame_id: Option<String>,
}

endpoint_params! {
    /// Settings of [`Ros2PointsSink`].
    Ros2PointsSinkParams {
        /// Topic, such as `/lidar/points`.
        pub topic: String;
        /// Coordinate frame of the messages; that of each cloud if absent.
        pub frame_id: Option<String>;
    }
}

ports! {
    impl Ros2PointsSink {
        /// Point clouds with any fields.
        in POINTS: PointCloud;
    }
}

impl Node for Ros2PointsSink {
    type Params = Ros2PointsSinkParams;

    const NAME: &'static str = "ros2_points_sink";
    const SUMMARY: &'static str =
        "Publishes point clouds on a topic of ROS 2 (sensor_msgs/PointCloud2).";
    const PORTS: &'static [Port] = Self::PORTS;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none; a thread sends the messages";

    fn check(params: &Ros2PointsSinkParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<PointCloud2<'_>>(cx)?)
    }

    fn open(params: Ros2PointsSinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<PointCloud2<'_>>(cx)?;
        Ok(Self { topic: TopicOut::open(&endpoint, cx)?, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(cloud) = cx.get(Self::POINTS) else { return Ok(()) };
        let header = self.topic.header(cx, "")?;
        let mut message = PointCloud2::from_payload(cloud, header)
            .map_err(|error| input_error(Self::POINTS.name(), error))?;
        if let Some(frame_id) = &self.frame_id {
            message.header.frame_id.clone_from(frame_id);
        }
        self.topic.publish(cx, &message)
    }
}
