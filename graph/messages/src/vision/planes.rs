//! Flat surfaces in space.

use serde::{Deserialize, Serialize};

use afferent_graph::{Choice, Field, Payload, RecordCodec, WireCodec, choices};

use super::count;
use crate::{
    Cdr, CdrMessage,
    pose::{IDENTITY, pose_definition},
    wire::choice,
};

choices! {
    /// Direction of a plane, with the names of OpenXR.
    #[derive(Default, Hash, Serialize, Deserialize)]
    pub enum PlaneAlignment {
        /// Its normal points up.
        #[default]
        HorizontalUpward = "horizontal_upward",
        /// Its normal points down.
        HorizontalDownward = "horizontal_downward",
        /// Its normal is horizontal.
        Vertical = "vertical",
    }
}

choices! {
    /// Kind of surface that a plane belongs to.
    #[derive(Default, Hash, Serialize, Deserialize)]
    pub enum PlaneLabel {
        /// The floor of a room.
        Floor = "floor",
        /// The ceiling of a room.
        Ceiling = "ceiling",
        /// A wall.
        Wall = "wall",
        /// A surface that things lie on.
        Table = "table",
        /// Any other surface.
        #[default]
        Other = "other",
    }
}

/// Flat surfaces that an image shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Planes {
    /// Coordinate frame of the planes; its z axis points up.
    pub frame_id: String,
    /// The planes, the largest part of the image first.
    pub planes: Vec<Plane>,
}

/// A rectangle that encloses the visible part of a flat surface.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plane {
    /// Kind of surface.
    pub label: PlaneLabel,
    /// Direction.
    pub alignment: PlaneAlignment,
    /// Middle of the rectangle: x, y and z, in meters.
    pub center_m: [f64; 3],
    /// Orientation, a unit quaternion x, y, z, w: the z axis is the normal, to the side of the camera; x
    /// and y are the sides of the rectangle.
    pub orientation_xyzw: [f64; 4],
    /// Size along x and y of the orientation, in meters.
    pub size_m: [f32; 2],
}

impl Default for Plane {
    /// A point without a size, whose normal points up.
    fn default() -> Self {
        Self {
            label: PlaneLabel::default(),
            alignment: PlaneAlignment::default(),
            center_m: [0.0; 3],
            orientation_xyzw: IDENTITY,
            size_m: [0.0; 2],
        }
    }
}

impl Payload for Planes {
    const TYPE: &'static str = "vision/Planes";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let described = |plane: &Plane| {
            let ([x, y, z], [width, height]) = (plane.center_m, plane.size_m);
            format!("{} {x:.2} {y:.2} {z:.2} {width:.2}x{height:.2}", plane.label.word())
        };
        let planes: Vec<String> = self.planes.iter().map(described).collect();
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("count", count(self.planes.len())),
            ("planes", Field::Text(planes.join(", "))),
        ]
    }
}

/// Label, alignment, pose, size.
type WirePlane = (String, String, [f64; 3], [f64; 4], [f32; 2]);

impl CdrMessage for Planes {
    const MESSAGE: &'static str = "afferent_msgs/msg/Planes";
    const SCHEMA: &'static str = concat!(
        "string frame_id
afferent_msgs/Plane[] planes
================================================================================
MSG: afferent_msgs/Plane
string label # such as floor
string alignment # such as horizontal_upward
geometry_msgs/Pose pose # middle; z is the normal
float32[2] size_m # along x and y
",
        pose_definition!(),
    );
    type Wire = (String, Vec<WirePlane>);

    fn to_wire(&self) -> Self::Wire {
        let planes = self.planes.iter().map(|plane| {
            let Plane { label, alignment, center_m, orientation_xyzw, size_m } = *plane;
            let (label, alignment) = (label.word().to_owned(), alignment.word().to_owned());
            (label, alignment, center_m, orientation_xyzw, size_m)
        });
        (self.frame_id.clone(), planes.collect())
    }

    fn from_wire((frame_id, planes): Self::Wire) -> Result<Self, String> {
        let plane = |(label, alignment, center_m, orientation_xyzw, size_m): WirePlane| {
            let mut numbers = center_m.iter().chain(&orientation_xyzw);
            if !numbers.all(|number| number.is_finite()) {
                return Err(format!("{label}: its pose must be finite"));
            }
            if !size_m.iter().all(|size| size.is_finite() && *size >= 0.0) {
                return Err(format!(
                    "{label}: size {size_m:?}; it must be finite and not negative"
                ));
            }
            let (label, alignment) = (choice("label", &label)?, choice("alignment", &alignment)?);
            Ok(Plane { label, alignment, center_m, orientation_xyzw, size_m })
        };
        let planes = planes.into_iter().map(plane).collect::<Result<_, String>>()?;
        Ok(Self { frame_id, planes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_other_senders_are_checked() {
        let floor = Plane { label: PlaneLabel::Floor, size_m: [2.0, 1.5], ..Plane::default() };
        let value = Planes { frame_id: "world".to_owned(), planes: vec![floor] };
        assert_eq!(Planes::from_wire(value.to_wire()).unwrap(), value);
        let check = |change: fn(&mut WirePlane), expected: &str| {
            let mut wire = value.to_wire();
            change(&mut wire.1[0]);
            let told = Planes::from_wire(wire).unwrap_err();
            assert!(told.contains(expected), "{told}");
        };
        check(|plane| plane.4[1] = -1.0, "it must be finite and not negative");
        check(|plane| plane.0 = "roof".to_owned(), "roof");
        check(|plane| plane.2[0] = f64::NAN, "finite");
    }
}
