//! Messages of ROS 2 as Rust structs.
//!
//! Each module is a ROS package, each field is as in its `.msg` file. `bytes` serializes a byte
//! sequence in one copy.

pub mod audio_common_msgs;
pub mod builtin_interfaces;
mod bytes;
mod definitions;
pub mod geometry_msgs;
pub mod sensor_msgs;
pub mod std_msgs;
pub mod tf2_msgs;

pub use definitions::DEFINITIONS;

/// A message that is published on its own.
pub trait RosMessage {
    /// Name of the type, such as `sensor_msgs/msg/Image`.
    const NAME: &'static str;

    /// RIHS01 hash of the type, which is part of the keys of its topics. It is the one that
    /// [`type_hash`](crate::type_hash::type_hash) computes from [`DEFINITIONS`].
    const TYPE_HASH: &'static str;
}

/// Implements [`RosMessage`].
macro_rules! ros_messages {
    ($($message:ty: $name:literal, $hash:literal;)+) => {
        $(impl $crate::msg::RosMessage for $message {
            const NAME: &'static str = $name;
            const TYPE_HASH: &'static str = concat!("RIHS01_", $hash);
        })+
    };
}
use ros_messages;
