//! Payload types of the shipped nodes, their recorded form, and their form between processes.
//!
//! Each type says its unit and layout, its fields for logs, and its ROS 2 message. Sound, images
//! and features hold the runtime's own `Tensor`, so they enter a model without a copy.
//! Begin with [`AudioBlock`] in `audio.rs`, the shortest one with bulk data.
//!
//! | module | holds |
//! |---|---|
//! | `audio`, `features`, `image`, `imu`, `point_cloud` | sensor data |
//! | `affine`, `camera`, `camera_file` | geometry of images, calibrations |
//! | `pose`, `transforms`, `motion`, `scene` | space |
//! | [`vision`] | results of vision models |
//! | `speech`, `speaker_turns`, `text`, `dialogue` | events and text of a conversation |
//! | `device_status` | state of a microcontroller |
//! | `playout` | audio between packets and an output device |
//! | `cdr` | recorded form: CDR with ROS 2 message definitions |
//! | `bytes` | byte sequences in messages |
//! | `wire` | form between processes and machines: metadata as CDR, bulk bytes as they are |

mod affine;
mod audio;
mod bytes;
mod camera;
mod camera_file;
mod cdr;
mod device_status;
mod dialogue;
mod features;
mod image;
mod imu;
mod motion;
mod playout;
mod point_cloud;
mod pose;
mod scene;
mod speaker_turns;
mod speech;
mod text;
mod transforms;
pub mod vision;
mod wire;

pub use affine::Affine;
pub use audio::{AudioBlock, SampleRate};
pub use camera::{Camera, DistortionModel};
pub use cdr::{Cdr, CdrMessage};
pub use device_status::DeviceStatus;
pub use dialogue::{Interruption, ToolMessage, TurnEvent, TurnEventKind};
pub use features::Features;
pub use image::{
    ColorMatrix, ColorRange, Colorimetry, Image, ImageError, PixelFormat, Plane, RawImage,
};
pub use imu::Imu;
pub use motion::{Activity, ActivityKind, Orientation};
pub use playout::{Gain, Played, Playout};
pub use point_cloud::PointCloud;
pub use pose::Pose;
pub use scene::{SceneEntity, SceneUpdate};
pub use speaker_turns::{SpeakerTurn, SpeakerTurns};
pub use speech::{HeardWord, KeywordEvent, SpeechEvent, SpeechEventKind, Transcript};
pub use text::{Text, Word};
pub use transforms::{Transform, Transforms};
pub use wire::{Matrix, Wire, WireMessage};

use afferent_graph::PayloadType;
use vision::{
    BodyPose, CameraCalibration, Classes, Depth, Detections, Detections3d, Embedding, GestureEvent,
    Hands, ImageAnnotations, Mask, Planes, TextRegions,
};

/// Every payload type of this crate.
pub const PAYLOADS: &[PayloadType] = &[
    PayloadType::of::<Activity>(),
    PayloadType::of::<AudioBlock>(),
    PayloadType::of::<BodyPose>(),
    PayloadType::of::<CameraCalibration>(),
    PayloadType::of::<Classes>(),
    PayloadType::of::<Depth>(),
    PayloadType::of::<Detections>(),
    PayloadType::of::<Detections3d>(),
    PayloadType::of::<DeviceStatus>(),
    PayloadType::of::<Embedding>(),
    PayloadType::of::<Features>(),
    PayloadType::of::<Gain>(),
    PayloadType::of::<GestureEvent>(),
    PayloadType::of::<Hands>(),
    PayloadType::of::<Image>(),
    PayloadType::of::<ImageAnnotations>(),
    PayloadType::of::<Imu>(),
    PayloadType::of::<Interruption>(),
    PayloadType::of::<KeywordEvent>(),
    PayloadType::of::<Mask>(),
    PayloadType::of::<Orientation>(),
    PayloadType::of::<Planes>(),
    PayloadType::of::<Played>(),
    PayloadType::of::<PointCloud>(),
    PayloadType::of::<Pose>(),
    PayloadType::of::<SceneUpdate>(),
    PayloadType::of::<SpeakerTurns>(),
    PayloadType::of::<SpeechEvent>(),
    PayloadType::of::<Text>(),
    PayloadType::of::<TextRegions>(),
    PayloadType::of::<ToolMessage>(),
    PayloadType::of::<Transcript>(),
    PayloadType::of::<Transforms>(),
    PayloadType::of::<TurnEvent>(),
    PayloadType::of::<Word>(),
];

/// The payload type `name` of [`PAYLOADS`].
///
/// # Errors
/// That there is none, with the names of all.
pub fn payload_type(name: &str) -> Result<&'static PayloadType, String> {
    PAYLOADS.iter().find(|ty| *ty.name == *name).ok_or_else(|| {
        let names: Vec<_> = PAYLOADS.iter().map(|ty| &*ty.name).collect();
        format!("there is no payload type {name:?}; there are {}", names.join(", "))
    })
}
