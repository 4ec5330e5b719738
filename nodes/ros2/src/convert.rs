//! Messages to and from payloads.
//!
//! A payload has no stamp: its packet has one, and the caller translates between the session clock
//! and the clock of ROS. Methods that fill a payload reuse its memory.

use afferent_graph::PayloadType;

use crate::{Error, msg::RosMessage};

mod audio;
mod image;
mod imu;
mod point_cloud;
mod pose;
mod text;
mod transforms;

pub use audio::PcmFormat;

/// Type of the [`Dynamic`](afferent_graph::Dynamic) values that carry messages of type `M` without
/// another payload, as [`cdr`](crate::cdr) bytes.
pub fn dynamic_type<M: RosMessage>() -> PayloadType {
    PayloadType::dynamic(M::NAME, afferent_graph::OnFull::Block)
}

/// Value of `is_bigendian` of this processor.
const IS_BIG_ENDIAN: bool = cfg!(target_endian = "big");

fn fault<M: RosMessage>(reason: impl ToString) -> Error {
    Error::Convert { message: M::NAME, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use afferent_graph::{Dynamic, Payload};

    use super::*;
    use crate::{cdr, msg::sensor_msgs::CameraInfo};

    #[test]
    fn messages_without_a_payload_type_are_dynamic_values() {
        let info = CameraInfo { width: 640, ..CameraInfo::default() };
        let ty = Some(Arc::new(dynamic_type::<CameraInfo>()));
        let mut value = Dynamic { ty, bytes: Vec::new() };
        cdr::encode(&info, &mut value.bytes).unwrap();
        assert_eq!(value.ty(), CameraInfo::NAME);
        assert_eq!(cdr::decode::<CameraInfo>(&value.bytes), Ok(info));
    }
}
