//! Package `audio_common_msgs`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{bytes, std_msgs::Header};

/// Encoded audio. The message says neither encoding nor sample rate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct AudioData<'a> {
    #[serde(borrow, with = "bytes")]
    pub data: Cow<'a, [u8]>,
}

/// Encoded audio with the capture time of its first sample.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct AudioDataStamped<'a> {
    pub header: Header,
    #[serde(borrow)]
    pub audio: AudioData<'a>,
}

super::ros_messages! {
    AudioData<'_>: "audio_common_msgs/msg/AudioData", "a9742fba1567e649bbdba6ae034a72c7ef129b97c7a4da50fd2f3e1bfd8ffa86";
    AudioDataStamped<'_>: "audio_common_msgs/msg/AudioDataStamped", "6fc679d5a868ed68e4d301f1ef42abecc86140afb57d255656ff2d9e476ea9e3";
}
