//! Vision nodes.
//!
//! | node | purpose |
//! |---|---|
//! | [`Annotations`] | converts results to lines and text for viewers of recordings |
//! | [`BodyPose`] | finds the joints of bodies in images with a model |
//! | [`Caption`] | answers questions about images with a vision-language model |
//! | [`Classify`] | tells the classes of images with a model |
//! | [`Depth`] | estimates the depth of every pixel of an image with a model |
//! | [`Describe`] | answers questions about objects and text in images |
//! | [`Detect`] | finds objects in images with a model |
//! | [`EmbedImage`] | turns images into vectors that can be compared, with a model |
//! | [`Gesture`] | recognizes gestures of hands |
//! | [`GpuImage`] | copies images to the GPU, where the nodes after it use them |
//! | [`HandDetect`] | finds the palms of hands in images with a model |
//! | [`HandTrack`] | finds and follows hands and their landmarks with two models |
//! | [`ImageView`] | converts images to another size and pixel format |
//! | [`Ocr`] | reads the text in images with two models |
//! | [`Overlay`] | draws results into the images that they were found in |
//! | [`Preview`] | shows images and events on a web page |
//! | [`Segment`] | finds the pixels of classes, objects or the foreground in images with a model |
//! | [`Track`] | gives detected objects numbers that last from image to image |
//! | [`Undistort`] | removes the distortion of the lens from images |
//!
//! Begin with `detect.rs`, and `model_image.rs`, which makes the input of a model from an image and
//! maps results back to the source image. `gpu.rs` has the shaders that do this for images on the GPU
//! (feature `gpu`). `fit.rs` fits images to another size; `pixels.rs` gives
//! images to the kernel for images; `vision_model.rs` loads and runs a model, and `contracts.rs`
//! recognizes it; `boxes.rs` has boxes in an image, their overlap and non-maximum suppression;
//! `yolo_rows.rs` reads them from outputs; `hand.rs` and `text.rs` have the models of hands and text;
//! `regions.rs` joins detections with images; `drawing.rs` draws results; `assignment.rs` pairs two lists at the lowest cost.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod annotations;
mod assignment;
mod body_pose;
pub mod boxes;
mod caption;
mod classify;
pub mod contracts;
mod corners;
mod depth;
mod describe;
mod detect;
mod drawing;
mod embed_image;
pub mod fit;
mod gesture;
#[cfg(feature = "gpu")]
mod gpu;
mod gpu_image;
mod hand;
mod hand_detect;
mod hand_track;
mod image_view;
mod jpeg;
pub mod model_image;
mod ocr;
mod overlay;
pub mod pixels;
mod preview;
mod rate_limit;
mod regions;
mod segment;
mod text;
mod track;
pub mod ultralytics;
mod undistort;
mod vision_model;
mod yolo_rows;

use afferent_graph::{NodeDef, NodeEntry};

pub use annotations::{Annotations, AnnotationsParams};
pub use body_pose::{BodyPose, BodyPoseParams};
pub use caption::{Caption, CaptionParams};
pub use classify::{Classify, ClassifyParams};
pub use depth::{Depth, DepthParams};
pub use describe::{Describe, DescribeParams};
pub use detect::{Detect, DetectParams};
pub use embed_image::{EmbedImage, EmbedImageParams};
pub use gesture::{Gesture, GestureParams};
pub use gpu_image::GpuImage;
pub use hand_detect::{HandDetect, HandDetectParams};
pub use hand_track::{HandTrack, HandTrackParams};
pub use image_view::{ImageView, ImageViewParams, Resampling, ViewFormat};
pub use jpeg::JpegWriter;
pub use ocr::{Ocr, OcrParams};
pub use overlay::{Overlay, OverlayParams};
pub use preview::{Preview, PreviewParams};
pub use segment::{Segment, SegmentParams};
pub use track::{Track, TrackParams};
pub use undistort::Undistort;

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<Annotations>,
    NodeDef::of::<BodyPose>,
    NodeDef::of::<Caption>,
    NodeDef::of::<Classify>,
    NodeDef::of::<Depth>,
    NodeDef::of::<Describe>,
    NodeDef::of::<Detect>,
    NodeDef::of::<EmbedImage>,
    NodeDef::of::<Gesture>,
    NodeDef::of::<GpuImage>,
    NodeDef::of::<HandDetect>,
    NodeDef::of::<HandTrack>,
    NodeDef::of::<ImageView>,
    NodeDef::of::<Ocr>,
    NodeDef::of::<Overlay>,
    NodeDef::of::<Preview>,
    NodeDef::of::<Segment>,
    NodeDef::of::<Track>,
    NodeDef::of::<Undistort>,
];
