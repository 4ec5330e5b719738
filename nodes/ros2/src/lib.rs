//! ROS 2 messages, type hashes and zenoh keys, without a ROS installation.
//!
//! A program that exchanges these bytes under these keys with a zenoh router is a peer of
//! `rmw_zenoh`. Nothing here opens a connection.
//!
//! | module | holds |
//! |---|---|
//! | [`msg`] | messages as Rust structs, their names and type hashes |
//! | `convert` | messages to and from payloads: methods of the messages |
//! | [`cdr`] | XCDR1, the encoding of messages |
//! | [`type_hash`] | RIHS01 type hashes, computed from message definitions |
//! | [`key`] | keys of topics, names of types and nodes |
//! | [`liveliness`], [`Qos`] | liveliness tokens, by which peers discover each other |
//! | [`Attachment`] | sequence number, time and sender beside each message |
//!
//! | message | payload |
//! |---|---|
//! | `sensor_msgs/Image` | [`Image`](afferent_messages::Image) |
//! | `sensor_msgs/CompressedImage`, PNG only | [`Image`](afferent_messages::Image) |
//! | `sensor_msgs/Imu` | [`Imu`](afferent_messages::Imu); without orientation and covariances |
//! | `std_msgs/String` | [`Text`](afferent_messages::Text) |
//! | `audio_common_msgs/AudioDataStamped`, 16-bit PCM | [`AudioBlock`](afferent_messages::AudioBlock) |
//! | every other message | [`Dynamic`](afferent_graph::Dynamic) |

mod attachment;
pub mod cdr;
mod convert;
mod error;
pub mod key;
pub mod liveliness;
pub mod msg;
mod qos;
pub mod type_hash;

pub use attachment::Attachment;
pub use convert::{PcmFormat, dynamic_type};
pub use error::Error;
pub use qos::{Durability, History, Qos, Reliability};
