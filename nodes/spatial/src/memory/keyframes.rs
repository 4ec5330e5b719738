//! Keyframes, by which a session finds the map of an earlier one.

use afferent_messages::vision::cosine;
use bevy_ecs::entity::Entity;
use glam::{DQuat, DVec3};

use super::{EntityRecord, Keyframe, Persistence, Position, Provenance, SceneMemory};
use crate::frames::Rigid;

/// Components of a keyframe.
pub(super) type KeyframeParts =
    (Entity, &'static Persistence, &'static Keyframe, &'static Position, &'static Provenance);

/// Distance and angle between the poses of two keyframes, in meters and radians.
const APART_M: f64 = 1.0;
const APART_RAD: f64 = 0.5;

/// Images in a row that must be recognized, with transforms that agree within twice the distance and the
/// angle between keyframes.
const ROW: usize = 3;

/// Variance of the pose of a keyframe, in square meters.
const VARIANCE_M2: f64 = 0.25;

/// A keyframe of another map that looks like an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recognized {
    map: u64,
    map_from_world: Rigid,
    cosine: f32,
}

impl SceneMemory {
    /// Keeps what a camera sees as a vector of the space `space`, or finds a keyframe of an earlier
    /// session that looks alike: then this session enters its map, and the call returns true. The pose is in the frame of the
    /// input poses.
    ///
    /// An image is recognized if the cosine between its vector and that of the keyframe is at least
    /// `similarity`. Three images in a row must agree about where this session is.
    pub(crate) fn observe_keyframe(
        &mut self,
        at_ns: u64,
        (space, vector): (&str, &[f32]),
        world_from_camera: &Rigid,
        similarity: f32,
    ) -> bool {
        let known = self.recognize((space, vector), world_from_camera);
        let Some(found) = known.filter(|found| found.cosine >= similarity) else {
            self.recognized.clear();
            self.add_keyframe(at_ns, (space, vector), world_from_camera);
            return false;
        };
        self.recognized.push(found);
        if self.recognized.len() < ROW {
            return false;
        }
        let agree = self.recognized.iter().all(|other| {
            other.map == found.map
                && is_near(&other.map_from_world, &found.map_from_world, 2.0, world_from_camera)
        });
        if !agree {
            self.recognized.remove(0);
            return false;
        }
        let best = self.recognized.iter().max_by(|a, b| a.cosine.total_cmp(&b.cosine));
        let best = *best.unwrap_or(&found);
        self.recognized.clear();
        self.enter_map(best.map, &best.map_from_world);
        true
    }

    /// The keyframe of another map that is most like a vector.
    fn recognize(
        &mut self,
        (space, vector): (&str, &[f32]),
        world_from_camera: &Rigid,
    ) -> Option<Recognized> {
        let map = self.map;
        let others = self.keyframes.iter(&self.world).filter(|parts| parts.4.map != map);
        let scored = others.filter_map(|(_, persistence, keyframe, position, provenance)| {
            let cosine = cosine(&keyframe.vector, vector).filter(|_| keyframe.space == space)?;
            let map_from_camera =
                Rigid { translation_m: position.m, rotation_xyzw: keyframe.rotation_xyzw };
            let map_from_world = map_from_camera.then(&world_from_camera.inverse());
            Some((persistence.id, Recognized { map: provenance.map, map_from_world, cosine }))
        });
        let best = scored.max_by(|a, b| a.1.cosine.total_cmp(&b.1.cosine).then(b.0.cmp(&a.0)));
        best.map(|(_, found)| found)
    }

    /// Adds a keyframe to the map of this session, unless one is near.
    fn add_keyframe(
        &mut self,
        at_ns: u64,
        (space, vector): (&str, &[f32]),
        world_from_camera: &Rigid,
    ) {
        let (map, pose) = (self.map, self.map_from_world.then(world_from_camera));
        let near =
            self.keyframes.iter(&self.world).find(|(_, _, keyframe, position, provenance)| {
                let known =
                    Rigid { translation_m: position.m, rotation_xyzw: keyframe.rotation_xyzw };
                provenance.map == map
                    && keyframe.space == space
                    && is_near(&known, &pose, 1.0, &Rigid::IDENTITY)
            });
        if let Some(id) = near.map(|parts| parts.1.id) {
            self.touch(id, at_ns);
            return;
        }
        let id = self.new_id();
        let position = Position::new(DVec3::from_array(pose.translation_m), VARIANCE_M2);
        let keyframe = Keyframe {
            rotation_xyzw: pose.rotation_xyzw,
            space: space.to_owned(),
            vector: vector.to_owned(),
        };
        let record = EntityRecord {
            keyframe: Some(keyframe),
            ..EntityRecord::new(id, position, at_ns, map)
        };
        self.insert(record);
    }
}

/// True if two transforms take a pose to about the same one.
fn is_near(one: &Rigid, other: &Rigid, times: f64, pose: &Rigid) -> bool {
    let (one, other) = (one.then(pose), other.then(pose));
    let apart =
        DVec3::from_array(one.translation_m).distance(DVec3::from_array(other.translation_m));
    let angle =
        DQuat::from_array(one.rotation_xyzw).angle_between(DQuat::from_array(other.rotation_xyzw));
    apart < APART_M * times && angle < APART_RAD * times
}
