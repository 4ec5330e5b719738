//! Inertial measurements on topics of `sensor_msgs/Imu`.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, ports};
use afferent_messages::Imu;

use crate::{
    TimeOf, cdr,
    endpoint::endpoint_params,
    link,
    msg::sensor_msgs,
    topic::{TopicIn, TopicOut},
};

/// Receives inertial measurements from a topic of ROS 2 (`sensor_msgs/Imu`).
///
/// Orientation and covariances are left out.
///
/// Latency: that of the network.
pub struct Ros2ImuSource {
    topic: TopicIn,
}

endpoint_params! {
    /// Settings of [`Ros2ImuSource`].
    Ros2ImuSourceParams {
        /// Topic, such as `/imu/data_raw`.
        pub topic: String;
        /// Timestamp of the measurements.
        pub time: TimeOf = "sender";
    }
}

ports! {
    impl Ros2ImuSource {
        /// Measurements of the topic.
        out IMU: Imu;
    }
}

impl Node for Ros2ImuSource {
    type Params = Ros2ImuSourceParams;

    const NAME: &'static str = "ros2_imu_source";
    const SUMMARY: &'static str =
        "Receives inertial measurements from a topic of ROS 2 (sensor_msgs/Imu).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the network";

    fn check(params: &Ros2ImuSourceParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<sensor_msgs::Imu>(cx)?)
    }

    fn open(params: Ros2ImuSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<sensor_msgs::Imu>(cx)?;
        Ok(Self { topic: TopicIn::open(&endpoint, params.time, cx)? })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(message) = self.topic.receive() else { return Ok(()) };
        let bytes = message.bytes();
        let mut imu = cx.loan(Self::IMU);
        let filled = cdr::decode::<sensor_msgs::Imu>(&bytes).map(|decoded| {
            *imu = decoded.to_payload();
            Some(decoded.header.stamp)
        });
        if let Some(at) = self.topic.accept(cx, &message, filled) {
            cx.send_at(Self::IMU, at, imu);
        }
        Ok(())
    }
}

/// Publishes inertial measurements on a topic of ROS 2 (`sensor_msgs/Imu`).
///
/// The messages have no orientation and unknown covariances.
///
/// Latency: none; a thread sends the messages.
pub struct Ros2ImuSink {
    topic: TopicOut,
    frame_id: String,
}

endpoint_params! {
    /// Settings of [`Ros2ImuSink`].
    Ros2ImuSinkParams {
        /// Topic, such as `/imu/data_raw`.
        pub topic: String;
        /// Coordinate frame of the measurements.
        pub frame_id: String = "imu_link";
    }
}

ports! {
    impl Ros2ImuSink {
        /// Measurements in the coordinate frame of the sensor.
        in IMU: Imu;
    }
}

impl Node for Ros2ImuSink {
    type Params = Ros2ImuSinkParams;

    const NAME: &'static str = "ros2_imu_sink";
    const SUMMARY: &'static str =
        "Publishes inertial measurements on a topic of ROS 2 (sensor_msgs/Imu).";
    const PORTS: &'static [Port] = Self::PORTS;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none; a thread sends the messages";

    fn check(params: &Ros2ImuSinkParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<sensor_msgs::Imu>(cx)?)
    }

    fn open(params: Ros2ImuSinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<sensor_msgs::Imu>(cx)?;
        Ok(Self { topic: TopicOut::open(&endpoint, cx)?, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(imu) = cx.get(Self::IMU) else { return Ok(()) };
        let header = self.topic.header(cx, &self.frame_id)?;
        let message = sensor_msgs::Imu::from_payload(imu, header);
        self.topic.publish(cx, &message)
    }
}
