//! Results of vision models for the tests of the wire form.

use std::sync::Arc;

use afferent_core::{ScalarType, Tensor};

use super::{Encoded, NAN, bits, geometry};
use crate::{
    Camera,
    vision::{
        AnnotationLabel, AnnotationShape, Body, BodyPose, Box2d, CameraCalibration, Class, Classes,
        Depth, DepthKind, Detection, Detection3d, Detections, Detections3d, Embedding,
        GestureEvent, GestureKind, Hand, Handedness, Hands, ImageAnnotations, Keypoint, Mask,
        MaskKind, Plane, PlaneAlignment, PlaneLabel, Planes, ShapeKind, Skeleton, TextRegion,
        TextRegions, View,
    },
};

fn same_objects(a: &Detections3d, b: &Detections3d) -> bool {
    a.frame_id == b.frame_id
        && a.detections == b.detections
        && a.view.as_ref().map(|view| &view.pose) == b.view.as_ref().map(|view| &view.pose)
}

/// Maps of values.
pub(super) fn maps() -> Vec<Encoded> {
    let (to_source, camera) = geometry();
    let frame_id = "camera ✓".to_owned();
    let depth = Depth {
        frame_id: frame_id.clone(),
        kind: DepthKind::AffineInverse,
        values: Tensor::new(&[2, 3], &[0.0, -0.0, NAN, f32::INFINITY, 1e-42, 0.1]).unwrap(),
        to_source,
        camera: camera.clone(),
    };
    let same_depth = |a: &Depth, b: &Depth| {
        (&a.frame_id, a.kind, a.to_source, &a.camera)
            == (&b.frame_id, b.kind, b.to_source, &b.camera)
            && bits(&a.values) == bits(&b.values)
    };
    let mask = Mask {
        frame_id,
        kind: MaskKind::Instances,
        labels: vec!["".into(), "cup ✓".into()],
        values: Tensor::new(&[3, 2], &[0_u8, 1, 2, 255, 0, 7]).unwrap(),
        to_source,
        camera,
    };
    let same_mask = |a: &Mask, b: &Mask| {
        (&a.frame_id, a.kind, &a.labels, a.to_source, &a.camera)
            == (&b.frame_id, b.kind, &b.labels, b.to_source, &b.camera)
            && bits(&a.values) == bits(&b.values)
    };
    let embedding = |vectors| Embedding { space: "clip ✓".to_owned(), vectors };
    let same_embedding =
        |a: &Embedding, b: &Embedding| a.space == b.space && bits(&a.vectors) == bits(&b.vectors);
    vec![
        Encoded::new(depth, same_depth),
        Encoded::new(Depth::default(), same_depth),
        Encoded::new(mask, same_mask),
        Encoded::new(Mask::default(), same_mask),
        Encoded::new(
            embedding(Tensor::new(&[2, 2], &[NAN, -0.0, 1.0, 2.0]).unwrap()),
            same_embedding,
        ),
        Encoded::new(embedding(Tensor::zeros(ScalarType::Float, &[0, 512])), same_embedding),
    ]
}

/// Results without bulk bytes.
pub(super) fn results() -> Vec<Encoded> {
    let frame_id = "camera ✓".to_owned();
    let bounds = Box2d { center: [0.1, -0.0], size: [f32::MAX, 1e-42], angle_rad: -0.5 };
    let found = |label: &str, track| Detection { label: label.into(), score: 0.3, bounds, track };
    let detections = vec![found("cup ✓", Some(u64::MAX)), found("", None)];
    let object = Detection3d {
        label: "mug ✓".into(),
        score: 0.5,
        position_m: [1.0, -2.0, 1e-9],
        covariance_m2: [[0.1, 0.01, 0.0], [0.01, 0.2, 0.0], [0.0, 0.0, 0.3]],
        size_m: [0.1, 0.2, 0.3],
    };
    let objects = Detections3d {
        frame_id: frame_id.clone(),
        detections: vec![object, Detection3d::default()],
        view: Some(View::default()),
    };
    let hand = Hand {
        handedness: Handedness::Left,
        handedness_score: 0.9,
        score: 0.1,
        landmarks: std::array::from_fn(|at| [at as f32, -0.0, f32::INFINITY]),
        world_m: std::array::from_fn(|at| [0.1, at as f32 / 7.0, 1e-42]),
    };
    let keypoints = |len| vec![Keypoint { position: [0.1, f32::MIN], score: -0.0 }; len];
    let body = |len, track| Body { score: 0.5, bounds, keypoints: keypoints(len), track };
    let bodies = vec![body(17, Some(7)), body(17, None)];
    let region = TextRegion {
        corners: [[0.1, -0.0], [1e-42, f32::MAX], [2.0, 3.0], [-4.0, f32::INFINITY]],
        score: 0.5,
        text: "hey ✓\0".to_owned(),
        confidence: 0.25,
    };
    let classes =
        vec![Class { label: "cat".into(), score: 0.7 }, Class { label: "".into(), score: 0.1 }];
    let frame = || frame_id.clone();
    vec![
        Encoded::new(objects, same_objects),
        Encoded::new(Detections3d::default(), same_objects),
        Encoded::new(Detections { frame_id: frame(), detections }, PartialEq::eq),
        Encoded::new(Detections::default(), PartialEq::eq),
        Encoded::new(
            GestureEvent {
                gesture: GestureKind::ThumbUp,
                is_start: true,
                handedness: Handedness::Left,
                position: [1.5, -0.0],
            },
            PartialEq::eq,
        ),
        Encoded::new(GestureEvent::default(), PartialEq::eq),
        Encoded::new(Hands { frame_id: frame(), hands: vec![hand] }, PartialEq::eq),
        Encoded::new(Hands::default(), PartialEq::eq),
        Encoded::new(
            BodyPose { frame_id: frame(), skeleton: Skeleton::Coco17, bodies },
            PartialEq::eq,
        ),
        Encoded::new(BodyPose::default(), PartialEq::eq),
        Encoded::new(TextRegions { frame_id: frame(), regions: vec![region] }, PartialEq::eq),
        Encoded::new(TextRegions::default(), PartialEq::eq),
        Encoded::new(Classes { frame_id: frame(), classes }, PartialEq::eq),
        Encoded::new(Classes::default(), PartialEq::eq),
    ]
}

/// Planes, and what viewers draw.
pub(super) fn drawings() -> Vec<Encoded> {
    let frame_id = "camera ✓".to_owned();
    let half = 0.5_f64.sqrt();
    let plane = Plane {
        label: PlaneLabel::Wall,
        alignment: PlaneAlignment::Vertical,
        center_m: [1.0, -0.0, 1e-300],
        orientation_xyzw: [half, 0.0, 0.0, half],
        size_m: [4.5, 0.0],
    };
    let shape = AnnotationShape {
        kind: ShapeKind::Lines,
        points: vec![[0.5, -0.0], [f32::MAX, 1e-42]],
        color: [0, 127, 255],
    };
    let label = AnnotationLabel {
        position: [1.5, 2.5],
        text: "cup ✓".to_owned(),
        color: [255; 3],
        background: [1, 2, 3],
    };
    let k = [[500.0, 0.0, 319.5], [0.0, 510.0, 239.5], [0.0, 0.0, 1.0]];
    let camera = Arc::new(Camera::from_matrix(640, 480, k));
    vec![
        Encoded::new(Planes { frame_id: frame_id.clone(), planes: vec![plane] }, PartialEq::eq),
        Encoded::new(ImageAnnotations { shapes: vec![shape], labels: vec![label] }, PartialEq::eq),
        Encoded::new(ImageAnnotations::default(), PartialEq::eq),
        Encoded::new(CameraCalibration { frame_id, camera }, PartialEq::eq),
    ]
}
