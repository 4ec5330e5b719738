//! Package `std_msgs`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::builtin_interfaces::Time;

/// Time and coordinate frame of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct Header {
    pub stamp: Time,
    pub frame_id: std::string::String,
}

/// A text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct String<'a> {
    pub data: Cow<'a, str>,
}

super::ros_messages! {
    String<'_>: "std_msgs/msg/String",
        "df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18";
}
