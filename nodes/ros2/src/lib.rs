//! Nodes that exchange messages with ROS 2 over zenoh, without a ROS installation.
//!
//! A program that exchanges these bytes under these keys with a zenoh router is a peer of
//! `rmw_zenoh`. Connections need the feature `zenoh`. Without it, the nodes are in the catalog, but
//! fail with a message about the feature when a graph is checked or opened.
//!
//! | nodes | message | payload |
//! |---|---|---|
//! | [`Ros2AudioSource`], [`Ros2AudioSink`] | `audio_common_msgs/AudioDataStamped`, 16-bit PCM | [`AudioBlock`](afferent_messages::AudioBlock) |
//! | [`Ros2CompressedImageSource`], [`Ros2CompressedImageSink`] | `sensor_msgs/CompressedImage`, PNG or JPEG; sinks send PNG | [`Image`](afferent_messages::Image) |
//! | [`Ros2ImageSource`], [`Ros2ImageSink`] | `sensor_msgs/Image` | [`Image`](afferent_messages::Image) |
//! | [`Ros2ImuSource`], [`Ros2ImuSink`] | `sensor_msgs/Imu`, without orientation and covariances | [`Imu`](afferent_messages::Imu) |
//! | [`Ros2PointsSource`], [`Ros2PointsSink`] | `sensor_msgs/PointCloud2` | [`PointCloud`](afferent_messages::PointCloud) |
//! | [`Ros2PoseSource`], [`Ros2PoseSink`] | `geometry_msgs/PoseStamped` | [`Pose`](afferent_messages::Pose) |
//! | [`Ros2TextSource`], [`Ros2TextSink`] | `std_msgs/String` | [`Text`](afferent_messages::Text) |
//! | [`Ros2TfSource`], [`Ros2TfSink`] | `tf2_msgs/TFMessage` | [`Transforms`](afferent_messages::Transforms) |
//!
//! | module | holds |
//! |---|---|
//! | `nodes` | the nodes, one file for each message |
//! | `endpoint`, `topic` | parameters of every node, and topics with session time |
//! | `link` | publishers and subscribers over zenoh; [`Sessions`] is the service that nodes share |
//! | [`msg`] | messages as Rust structs, their names and type hashes |
//! | `convert` | messages to and from payloads: methods of the messages |
//! | [`cdr`] | XCDR1, the encoding of messages |
//! | [`type_hash`] | RIHS01 type hashes, computed from message definitions |
//! | [`key`] | keys of topics, names of types and nodes |
//! | [`liveliness`], [`Qos`] | liveliness tokens, by which peers discover each other |
//! | [`Attachment`] | sequence number, time and sender beside each message |
//!
//! Begin with `nodes/imu.rs`. To add a message, write `nodes/<message>.rs` and add its lines to
//! `nodes.rs` and [`NODES`].

mod attachment;
pub mod cdr;
mod convert;
mod endpoint;
mod error;
mod faults;
pub mod key;
#[cfg_attr(not(feature = "zenoh"), path = "link_stub.rs")]
mod link;
pub mod liveliness;
pub mod msg;
mod nodes;
mod qos;
mod topic;
pub mod type_hash;

use afferent_graph::{NodeDef, NodeEntry};

pub use attachment::Attachment;
pub use convert::{PcmFormat, dynamic_type};
pub use endpoint::{QosWord, TimeOf};
pub use error::Error;
pub use link::Sessions;
pub use nodes::*;
pub use qos::{Durability, History, Qos, Reliability};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<Ros2AudioSink>,
    NodeDef::of::<Ros2AudioSource>,
    NodeDef::of::<Ros2CompressedImageSink>,
    NodeDef::of::<Ros2CompressedImageSource>,
    NodeDef::of::<Ros2ImageSink>,
    NodeDef::of::<Ros2ImageSource>,
    NodeDef::of::<Ros2ImuSink>,
    NodeDef::of::<Ros2ImuSource>,
    NodeDef::of::<Ros2PointsSink>,
    NodeDef::of::<Ros2PointsSource>,
    NodeDef::of::<Ros2PoseSink>,
    NodeDef::of::<Ros2PoseSource>,
    NodeDef::of::<Ros2TextSink>,
    NodeDef::of::<Ros2TextSource>,
    NodeDef::of::<Ros2TfSink>,
    NodeDef::of::<Ros2TfSource>,
];
