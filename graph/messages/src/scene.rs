//! Entities of a scene, as viewers draw them.

use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};
use serde::{Deserialize, Serialize};

use crate::{
    Cdr, CdrMessage, Pose,
    pose::{IDENTITY, pose_definition},
};

/// Changes of the entities of a scene (`foxglove_msgs/SceneUpdate`): boxes with a label.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SceneUpdate {
    /// Entities that are gone, by their identifiers.
    pub deletions: Vec<String>,
    /// Entities that are new, or replace those with the same identifier.
    pub entities: Vec<SceneEntity>,
}

/// A box with a label.
#[derive(Debug, Clone, PartialEq)]
pub struct SceneEntity {
    /// Identifier, the same in each update.
    pub id: String,
    /// Text above the box.
    pub label: String,
    /// Middle and orientation, and their coordinate frame.
    pub pose: Pose,
    /// Size along the axes of the box, in meters.
    pub size_m: [f64; 3],
    /// Red, green, blue and opacity, from 0 to 1.
    pub color: [f64; 4],
}

impl Default for SceneEntity {
    /// A box without a size.
    fn default() -> Self {
        Self {
            id: String::new(),
            label: String::new(),
            pose: Pose::default(),
            size_m: [0.0; 3],
            color: [1.0; 4],
        }
    }
}

impl Payload for SceneUpdate {
    const TYPE: &'static str = "spatial/SceneUpdate";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    // An update that is dropped would leave entities of the past in the scene.
    const ON_FULL: OnFull = OnFull::Block;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let labels: Vec<&str> = self.entities.iter().map(|entity| entity.label.as_str()).collect();
        let count = |count: usize| Field::Int(i64::try_from(count).unwrap_or(i64::MAX));
        vec![
            ("deletions", count(self.deletions.len())),
            ("entities", count(self.entities.len())),
            ("labels", Field::Text(labels.join(", "))),
        ]
    }
}

/// `foxglove_msgs/SceneEntityDeletion`: stamp, type (0 is one identifier), identifier.
type RosDeletion = ((i32, u32), u8, String);

/// `foxglove_msgs/CubePrimitive`: position, orientation, size, color.
type RosCube = ([f64; 3], [f64; 4], [f64; 3], [f64; 4]);

/// `foxglove_msgs/TextPrimitive`: position, orientation, whether it faces the viewer, size, whether the
/// size is in pixels, color, text.
type RosText = ([f64; 3], [f64; 4], bool, f64, bool, [f64; 4], String);

/// Fields of `foxglove_msgs/SceneEntity`. Primitives that are not used have no elements, whose type does
/// not matter.
#[derive(Serialize, Deserialize)]
pub struct RosEntity {
    timestamp: (i32, u32),
    frame_id: String,
    id: String,
    lifetime: (i32, u32),
    frame_locked: bool,
    metadata: Vec<(String, String)>,
    arrows: Vec<u8>,
    cubes: Vec<RosCube>,
    spheres: Vec<u8>,
    cylinders: Vec<u8>,
    lines: Vec<u8>,
    triangles: Vec<u8>,
    texts: Vec<RosText>,
    models: Vec<u8>,
}

/// Height of the labels in meters.
const FONT_M: f64 = 0.08;

/// The message of Foxglove, which its 3D panel draws. Stamps and lifetimes are zero: an entity stays until
/// it is deleted.
impl CdrMessage for SceneUpdate {
    const MESSAGE: &'static str = "foxglove_msgs/msg/SceneUpdate";
    const SCHEMA: &'static str = concat!(include_str!("scene/SceneUpdate.msg"), pose_definition!());
    type Wire = (Vec<RosDeletion>, Vec<RosEntity>);

    fn to_wire(&self) -> Self::Wire {
        let deletions = self.deletions.iter().map(|id| ((0, 0), 0, id.clone()));
        (deletions.collect(), self.entities.iter().map(RosEntity::new).collect())
    }

    fn from_wire((deletions, entities): Self::Wire) -> Result<Self, String> {
        let id = |(_, kind, id): RosDeletion| match kind {
            0 => Ok(id),
            _ => Err("a deletion of all entities; only single ones are supported".to_owned()),
        };
        Ok(Self {
            deletions: deletions.into_iter().map(id).collect::<Result<_, _>>()?,
            entities: entities.into_iter().map(RosEntity::entity).collect::<Result<_, _>>()?,
        })
    }
}

impl RosEntity {
    fn new(entity: &SceneEntity) -> Self {
        let Pose { frame_id, position_m, orientation_xyzw } = &entity.pose;
        let [x, y, z] = *position_m;
        let above = [x, y, z + entity.size_m[2] / 2.0 + FONT_M];
        let text = (above, IDENTITY, true, FONT_M, false, [1.0; 4], entity.label.clone());
        Self {
            timestamp: (0, 0),
            frame_id: frame_id.clone(),
            id: entity.id.clone(),
            lifetime: (0, 0),
            frame_locked: false,
            metadata: Vec::new(),
            arrows: Vec::new(),
            cubes: vec![(*position_m, *orientation_xyzw, entity.size_m, entity.color)],
            spheres: Vec::new(),
            cylinders: Vec::new(),
            lines: Vec::new(),
            triangles: Vec::new(),
            texts: vec![text],
            models: Vec::new(),
        }
    }

    fn entity(self) -> Result<SceneEntity, String> {
        let ([cube], [text]) = (self.cubes.as_slice(), self.texts.as_slice()) else {
            let (cubes, texts) = (self.cubes.len(), self.texts.len());
            return Err(format!(
                "entity {:?} has {cubes} cubes and {texts} texts; one of each was expected",
                self.id
            ));
        };
        let (position_m, orientation_xyzw, size_m, color) = *cube;
        let pose = Pose { frame_id: self.frame_id, position_m, orientation_xyzw };
        Ok(SceneEntity { id: self.id, label: text.6.clone(), pose, size_m, color })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_other_senders_are_checked() {
        let table = SceneEntity { id: "7".into(), label: "table".into(), ..SceneEntity::default() };
        let update = SceneUpdate { deletions: vec!["3".into()], entities: vec![table] };
        assert_eq!(SceneUpdate::from_wire(update.to_wire()).unwrap(), update);
        let check = |change: fn(&mut <SceneUpdate as CdrMessage>::Wire), expected: &str| {
            let mut wire = update.to_wire();
            change(&mut wire);
            assert_eq!(SceneUpdate::from_wire(wire).unwrap_err(), expected);
        };
        check(|wire| wire.0[0].1 = 1, "a deletion of all entities; only single ones are supported");
        let expected = "entity \"7\" has 0 cubes and 1 texts; one of each was expected";
        check(|wire| wire.1[0].cubes.clear(), expected);
    }
}
