//! Nodes: one file for each message, with a source and a sink.

mod audio;
mod compressed_image;
mod image;
mod imu;
mod points;
mod pose;
mod text;
mod tf;

pub use audio::{Ros2AudioSink, Ros2AudioSinkParams, Ros2AudioSource, Ros2AudioSourceParams};
pub use compressed_image::{
    Ros2CompressedImageSink, Ros2CompressedImageSinkParams, Ros2CompressedImageSource,
    Ros2CompressedImageSourceParams,
};
pub use image::{Ros2ImageSink, Ros2ImageSinkParams, Ros2ImageSource, Ros2ImageSourceParams};
pub use imu::{Ros2ImuSink, Ros2ImuSinkParams, Ros2ImuSource, Ros2ImuSourceParams};
pub use points::{Ros2PointsSink, Ros2PointsSinkParams, Ros2PointsSource, Ros2PointsSourceParams};
pub use pose::{Ros2PoseSink, Ros2PoseSinkParams, Ros2PoseSource, Ros2PoseSourceParams};
pub use text::{Ros2TextSink, Ros2TextSinkParams, Ros2TextSource, Ros2TextSourceParams};
pub use tf::{Ros2TfSink, Ros2TfSinkParams, Ros2TfSource, Ros2TfSourceParams};
