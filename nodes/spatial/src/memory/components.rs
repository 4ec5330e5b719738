//! Components of the entities of a scene, with the names of OpenXR spatial entities where there are
//! some.

use std::sync::Arc;

use afferent_messages::vision::{PlaneAlignment, PlaneLabel};
use bevy_ecs::{component::Component, world::EntityWorldMut};
use glam::{DMat3, DQuat, DVec3};
use serde::{Deserialize, Serialize};

use crate::frames::Rigid;

/// Number of an entity, which lasts as long as the file.
#[derive(Component, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Persistence {
    /// The number; none is used again.
    pub id: u64,
}

/// Class of an object.
#[derive(Component, Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SemanticLabel {
    /// Name of the class.
    pub class: Arc<str>,
    /// Logarithm of the odds that the object is there: rises when it is seen, falls when it should be
    /// seen and is not.
    pub log_odds: f32,
}

/// Name that a person gave to an object.
#[derive(Component, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name(pub String);

/// Position of the middle of an object in its map.
#[derive(Component, Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// x, y and z in meters; z points up.
    pub m: [f64; 3],
    /// Covariance, row after row, in square meters.
    pub covariance_m2: [[f64; 3]; 3],
}

impl Position {
    /// The position as a vector, and its covariance as a matrix.
    pub(crate) fn parts(&self) -> (DVec3, DMat3) {
        (DVec3::from_array(self.m), DMat3::from_cols_array_2d(&self.covariance_m2))
    }

    /// The position in another frame.
    pub(crate) fn in_frame(&self, frame_from_this: &Rigid) -> Self {
        let rotation = DMat3::from_quat(DQuat::from_array(frame_from_this.rotation_xyzw));
        let (_, covariance) = self.parts();
        let m = DVec3::from_array(frame_from_this.apply(self.m));
        Self::from_parts(m, rotation * covariance * rotation.transpose())
    }

    /// A position with the same variance along each axis.
    pub(crate) fn new(m: DVec3, variance_m2: f64) -> Self {
        Self::from_parts(m, DMat3::from_diagonal(DVec3::splat(variance_m2)))
    }

    pub(crate) fn from_parts(m: DVec3, covariance: DMat3) -> Self {
        Self { m: m.to_array(), covariance_m2: covariance.to_cols_array_2d() }
    }
}

/// Size of an object along the axes of its map.
#[derive(Component, Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounded3d {
    /// Size along x, y and z, in meters.
    pub size_m: [f32; 3],
}

/// A flat surface: a rectangle around its middle. `PlaneSemanticLabel`, `PlaneAlignment` and `Bounded2D` of
/// OpenXR in one, since a plane has all three.
#[derive(Component, Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plane {
    /// Kind of surface.
    pub label: PlaneLabel,
    /// Direction.
    pub alignment: PlaneAlignment,
    /// Orientation in its map, a unit quaternion x, y, z, w: z is the normal; x and y are the sides of the
    /// rectangle.
    pub rotation_xyzw: [f64; 4],
    /// Size along x and y, in meters.
    pub size_m: [f32; 2],
}

/// Sightings of an object.
#[derive(Component, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Time of the first one, in nanoseconds since 1970.
    pub first_ns: u64,
    /// Time of the last one.
    pub last_ns: u64,
    /// Their number.
    pub count: u32,
}

/// Map that the position of an entity is in.
#[derive(Component, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Number of the map: 0 for that of all sessions with a fixed frame.
    pub map: u64,
}

/// A pose that is recognized in every session, such as a marker or an anchor of OpenXR.
#[derive(Component, Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    /// Name of the anchor.
    pub name: String,
    /// Orientation in its map: a unit quaternion x, y, z, w.
    pub rotation_xyzw: [f64; 4],
}

/// Keyframe: a pose of the camera, and the embedding of its image. A later session finds the map by it.
#[derive(Component, Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Keyframe {
    /// Orientation of the camera in its map, a unit quaternion x, y, z, w.
    pub rotation_xyzw: [f64; 4],
    /// Space of the vector.
    pub space: String,
    /// Embedding of the image.
    pub vector: Vec<f32>,
}

/// Part of an image that shows an object.
#[derive(Component, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastImage {
    /// Time of the image, in nanoseconds since 1970.
    pub at_ns: u64,
    /// PNG file.
    pub png: Arc<[u8]>,
}

/// An object that was not seen often enough to be sure. It is neither answered nor kept.
#[derive(Component, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tentative;

/// An entity with all components that are kept: a line of a file, and of `afferent memory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntityRecord {
    /// Number of the entity.
    pub id: u64,
    /// Position.
    pub position: Position,
    /// Sightings.
    pub seen: Seen,
    /// Map of the position.
    pub provenance: Provenance,
    /// Class, for objects.
    pub label: Option<SemanticLabel>,
    /// Size, for objects.
    pub bounds: Option<Bounded3d>,
    /// Surface, for planes.
    pub plane: Option<Plane>,
    /// Name that a person gave.
    pub name: Option<Name>,
    /// Name and orientation, for anchors.
    pub anchor: Option<Anchor>,
    /// Orientation and embedding, for keyframes.
    pub keyframe: Option<Keyframe>,
    /// Last image, within a second of the last sighting.
    pub image: Option<LastImage>,
}

impl EntityRecord {
    /// An entity that was seen once, without the components of objects, planes and anchors.
    pub fn new(id: u64, position: Position, at_ns: u64, map: u64) -> Self {
        Self {
            id,
            position,
            seen: Seen { first_ns: at_ns, last_ns: at_ns, count: 1 },
            provenance: Provenance { map },
            label: None,
            bounds: None,
            plane: None,
            name: None,
            anchor: None,
            keyframe: None,
            image: None,
        }
    }

    /// Adds the components to an entity.
    pub(crate) fn insert_into(self, entity: &mut EntityWorldMut<'_>) {
        let Self {
            id,
            position,
            seen,
            provenance,
            label,
            bounds,
            plane,
            name,
            anchor,
            keyframe,
            image,
        } = self;
        entity.insert((Persistence { id }, position, seen, provenance));
        if let Some(label) = label {
            entity.insert(label);
        }
        if let Some(bounds) = bounds {
            entity.insert(bounds);
        }
        if let Some(plane) = plane {
            entity.insert(plane);
        }
        if let Some(name) = name {
            entity.insert(name);
        }
        if let Some(anchor) = anchor {
            entity.insert(anchor);
        }
        if let Some(keyframe) = keyframe {
            entity.insert(keyframe);
        }
        if let Some(image) = image {
            entity.insert(image);
        }
    }
}
