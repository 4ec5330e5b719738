//! Results of vision models.
//!
//! Positions are in pixels of the source image, in the coordinates of [`Affine`](crate::Affine);
//! they are neither scaled nor clipped by the size of a model's input. Maps of values, such as
//! [`Depth`] and [`Mask`], keep the size of the model's output and say in `to_source` where their
//! pixels lie in the source image.
//!
//! The timestamp of a result is that of its image.

mod annotations;
mod body_pose;
mod camera_calibration;
mod classes;
mod depth;
mod detections;
mod detections3d;
mod embedding;
mod gesture_event;
mod hands;
mod mask;
mod planes;
mod text_regions;

pub use annotations::{AnnotationLabel, AnnotationShape, ImageAnnotations, ShapeKind};
pub use body_pose::{Body, BodyPose, Keypoint, Skeleton};
pub use camera_calibration::CameraCalibration;
pub use classes::{Class, Classes};
pub use depth::{Depth, DepthKind};
pub use detections::{Box2d, Detection, Detections};
pub use detections3d::{Detection3d, Detections3d, View};
pub use embedding::{Embedding, cosine};
pub use gesture_event::{GestureEvent, GestureKind};
pub use hands::{Hand, Handedness, Hands};
pub use mask::{Mask, MaskKind};
pub use planes::{Plane, PlaneAlignment, PlaneLabel, Planes};
pub use text_regions::{TextRegion, TextRegions};

use afferent_graph::Field;

/// A number of elements as a field of a log.
fn count(n: usize) -> Field {
    Field::Int(i64::try_from(n).unwrap_or(i64::MAX))
}
