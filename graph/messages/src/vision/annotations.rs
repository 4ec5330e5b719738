//! Lines and text for viewers of images.

use serde::{Deserialize, Serialize};

use super::count;
use crate::{Cdr, CdrMessage};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Lines, points and text that a viewer draws over images (`foxglove_msgs/ImageAnnotations`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImageAnnotations {
    /// Lines and points.
    pub shapes: Vec<AnnotationShape>,
    /// Text.
    pub labels: Vec<AnnotationLabel>,
}

/// Points, or lines between points.
#[derive(Debug, Clone, PartialEq)]
pub struct AnnotationShape {
    /// Meaning of the points.
    pub kind: ShapeKind,
    /// Points in pixels of the source image, x and y.
    pub points: Vec<[f32; 2]>,
    /// Red, green, blue.
    pub color: [u8; 3],
}

/// Meaning of the points of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeKind {
    /// Single points.
    Points,
    /// A closed polygon.
    Outline,
    /// Pairs of points, each a line.
    Lines,
}

/// Text in an image.
#[derive(Debug, Clone, PartialEq)]
pub struct AnnotationLabel {
    /// Point in pixels of the source image, x and y: the lower left corner of the text.
    pub position: [f32; 2],
    /// The text.
    pub text: String,
    /// Red, green, blue of the text.
    pub color: [u8; 3],
    /// Color of the ground below it.
    pub background: [u8; 3],
}

impl Payload for ImageAnnotations {
    const TYPE: &'static str = "vision/ImageAnnotations";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![("shapes", count(self.shapes.len())), ("labels", count(self.labels.len()))]
    }
}

/// Thickness of lines, and height of text, in pixels.
const THICKNESS_PX: f64 = 2.0;
const FONT_PX: f64 = 12.0;

/// `foxglove_msgs/PointsAnnotation`: stamp, type, points, color, colors of the points, fill, thickness.
type RosPoints = ((i32, u32), u8, Vec<[f64; 2]>, [f64; 4], Vec<[f64; 4]>, [f64; 4], f64);

/// Fields of `foxglove_msgs/TextAnnotation`.
#[derive(Serialize, Deserialize)]
pub struct RosLabel {
    stamp: (i32, u32),
    position: [f64; 2],
    text: String,
    font_size: f64,
    text_color: [f64; 4],
    background_color: [f64; 4],
}

/// The message of Foxglove, which its image panel draws. Stamps are zero because a recording stores the
/// timestamp beside each message. There are no circles.
impl CdrMessage for ImageAnnotations {
    const MESSAGE: &'static str = "foxglove_msgs/msg/ImageAnnotations";
    const SCHEMA: &'static str = include_str!("annotations/ImageAnnotations.msg");
    type Wire = (Vec<u8>, Vec<RosPoints>, Vec<RosLabel>);

    fn to_wire(&self) -> Self::Wire {
        let shapes = self.shapes.iter().map(|shape| {
            let kind = match shape.kind {
                ShapeKind::Points => 1,
                ShapeKind::Outline => 2,
                ShapeKind::Lines => 4,
            };
            let points = shape.points.iter().map(|point| point.map(f64::from)).collect();
            let color = rgba(shape.color);
            ((0, 0), kind, points, color, Vec::new(), color, THICKNESS_PX)
        });
        let labels = self.labels.iter().map(|label| RosLabel {
            stamp: (0, 0),
            position: label.position.map(f64::from),
            text: label.text.clone(),
            font_size: FONT_PX,
            text_color: rgba(label.color),
            background_color: rgba(label.background),
        });
        (Vec::new(), shapes.collect(), labels.collect())
    }

    fn from_wire((circles, shapes, labels): Self::Wire) -> Result<Self, String> {
        if !circles.is_empty() {
            return Err("circles; only points, lines and text are supported".to_owned());
        }
        let shapes = shapes.into_iter().map(|(_, kind, points, color, ..)| {
            let kind = match kind {
                1 => ShapeKind::Points,
                2 => ShapeKind::Outline,
                4 => ShapeKind::Lines,
                _ => return Err(format!("type {kind} of an annotation; it must be 1, 2 or 4")),
            };
            let points = points.into_iter().map(|point| point.map(|value| value as f32)).collect();
            Ok(AnnotationShape { kind, points, color: rgb(color) })
        });
        let labels = labels.into_iter().map(|label| AnnotationLabel {
            position: label.position.map(|value| value as f32),
            text: label.text,
            color: rgb(label.text_color),
            background: rgb(label.background_color),
        });
        Ok(Self { shapes: shapes.collect::<Result<_, _>>()?, labels: labels.collect() })
    }
}

/// A color with full opacity, from 0 to 1.
fn rgba([red, green, blue]: [u8; 3]) -> [f64; 4] {
    let part = |value: u8| f64::from(value) / 255.0;
    [part(red), part(green), part(blue), 1.0]
}

fn rgb([red, green, blue, _]: [f64; 4]) -> [u8; 3] {
    // A value that is not a number becomes 0.
    [red, green, blue].map(|value| (value * 255.0).round().clamp(0.0, 255.0) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_other_senders_are_checked() {
        let shape = |kind| AnnotationShape {
            kind,
            points: vec![[1.0, 2.0], [3.5, 4.0]],
            color: [255, 82, 3],
        };
        let label = AnnotationLabel {
            position: [1.5, 2.0],
            text: "cup".to_owned(),
            color: [1, 2, 3],
            background: [0, 0, 255],
        };
        let kinds = [ShapeKind::Points, ShapeKind::Outline, ShapeKind::Lines];
        let value = ImageAnnotations { shapes: kinds.map(shape).into(), labels: vec![label] };
        assert_eq!(ImageAnnotations::from_wire(value.to_wire()).unwrap(), value);
        let check = |change: fn(&mut <ImageAnnotations as CdrMessage>::Wire), expected: &str| {
            let mut wire = value.to_wire();
            change(&mut wire);
            assert_eq!(ImageAnnotations::from_wire(wire).unwrap_err(), expected);
        };
        check(|wire| wire.1[0].1 = 9, "type 9 of an annotation; it must be 1, 2 or 4");
        check(|wire| wire.0.push(1), "circles; only points, lines and text are supported");
    }
}
