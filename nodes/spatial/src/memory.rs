//! Memory of a scene: entities with components.
//!
//! The state is a world of `bevy_ecs`. [`SceneMemory`] changes it; `observe.rs` associates what is seen
//! with what is known, `answer.rs` finds objects and says where they are, `file.rs` keeps the entities
//! in a file; `planes.rs` keeps surfaces, and `keyframes.rs` finds
//! the maps of earlier sessions. The node `scene_memory` is a thin layer on it.

mod answer;
mod components;
mod file;
mod keyframes;
mod last_image;
mod observe;
mod planes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bevy_ecs::{
    entity::Entity,
    query::{Or, QueryData, QueryState, With, Without},
    world::World,
};
use glam::{DMat3, DQuat, DVec3};

use crate::frames::Rigid;
pub use answer::{Answer, Candidate, Viewer};
use components::Tentative;
pub use components::{
    Anchor, Bounded3d, EntityRecord, Keyframe, LastImage, Name, Persistence, Plane, Position,
    Provenance, Seen, SemanticLabel,
};
pub use file::{MemoryFile, MemoryFileError, Snapshot, read};
pub(crate) use last_image::FORMATS as IMAGE_FORMATS;
pub use observe::ObserveSettings;

/// Variances of named positions and of anchors, along each axis, in square meters.
const NAMED_VARIANCE_M2: f64 = 0.01;
const ANCHOR_VARIANCE_M2: f64 = 1e-4;

/// A change of a memory, as files keep it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Change {
    /// An entity is new, or has new values.
    Put(Box<EntityRecord>),
    /// The entity with this number is gone.
    Remove(u64),
}

/// Entities of a scene.
///
/// Only confirmed objects count: those that were seen several times.
pub struct SceneMemory {
    world: World,
    /// Confirmed and tentative entities by their numbers.
    entities: BTreeMap<u64, Entity>,
    records: QueryState<RecordParts, Without<Tentative>>,
    objects: QueryState<observe::ObjectParts>,
    planes: QueryState<planes::PlaneParts>,
    keyframes: QueryState<keyframes::KeyframeParts>,
    ages: QueryState<observe::AgeParts, Aging>,
    settings: ObserveSettings,
    next_id: u64,
    /// Map that positions of this session are in.
    map: u64,
    /// Transform from the frame of the input poses to the map.
    map_from_world: Rigid,
    /// Keyframes of another map that the last images look like.
    recognized: Vec<keyframes::Recognized>,
    changed: BTreeSet<u64>,
    removed: BTreeSet<u64>,
}

/// Entities that are forgotten by age.
type Aging = Or<(With<SemanticLabel>, With<Plane>, With<Keyframe>)>;

/// Components of a record.
#[derive(QueryData)]
struct RecordParts {
    persistence: &'static Persistence,
    position: &'static Position,
    seen: &'static Seen,
    provenance: &'static Provenance,
    label: Option<&'static SemanticLabel>,
    bounds: Option<&'static Bounded3d>,
    plane: Option<&'static Plane>,
    name: Option<&'static Name>,
    anchor: Option<&'static Anchor>,
    keyframe: Option<&'static Keyframe>,
    image: Option<&'static LastImage>,
}

impl SceneMemory {
    /// An empty memory. Positions of this session are in the map `map`: 0 if the frame of the input poses
    /// is the same in every session, otherwise a number of the session.
    pub fn new(settings: ObserveSettings, map: u64) -> Self {
        let mut world = World::new();
        Self {
            records: world.query_filtered(),
            objects: world.query(),
            planes: world.query(),
            keyframes: world.query(),
            ages: world.query_filtered(),
            world,
            entities: BTreeMap::new(),
            settings,
            next_id: 1,
            map,
            map_from_world: Rigid::IDENTITY,
            recognized: Vec::new(),
            changed: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }

    /// Adds the entities of a file. They count as kept.
    pub fn restore(&mut self, snapshot: Snapshot) {
        self.next_id = self.next_id.max(snapshot.next_id);
        for record in snapshot.records {
            let id = record.id;
            self.next_id = self.next_id.max(id.saturating_add(1));
            let mut entity = self.world.spawn_empty();
            record.insert_into(&mut entity);
            self.entities.insert(id, entity.id());
        }
    }

    /// Map that positions of this session are in.
    pub fn map(&self) -> u64 {
        self.map
    }

    /// Transform from the frame of the input poses to the map.
    pub fn map_from_world(&self) -> Rigid {
        self.map_from_world
    }

    /// All confirmed entities, in the order of their numbers.
    pub fn records(&mut self) -> Vec<EntityRecord> {
        let mut records: Vec<_> = self.records.iter(&self.world).map(record).collect();
        records.sort_by_key(|record| record.id);
        records
    }

    /// Snapshot of all confirmed entities, for a file.
    pub fn snapshot(&mut self) -> Snapshot {
        Snapshot { next_id: self.next_id, records: self.records() }
    }

    /// The entity with this number, if it is confirmed.
    pub fn get(&mut self, id: u64) -> Option<EntityRecord> {
        let entity = *self.entities.get(&id)?;
        self.records.get(&self.world, entity).ok().map(record)
    }

    /// Number of confirmed entities.
    pub fn len(&mut self) -> usize {
        self.records.iter(&self.world).count()
    }

    /// True if nothing is remembered.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// Changes since the last call, to be kept.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let removed = std::mem::take(&mut self.removed);
        let changed = std::mem::take(&mut self.changed);
        let gone = removed.into_iter().map(Change::Remove).collect::<Vec<_>>();
        let put = changed.into_iter().filter_map(|id| self.get(id));
        gone.into_iter().chain(put.map(|record| Change::Put(Box::new(record)))).collect()
    }

    /// Forgets an entity; false if there is none with this number.
    pub fn forget(&mut self, id: u64) -> bool {
        let Some(entity) = self.entities.remove(&id) else { return false };
        let was_kept = self.world.get::<Tentative>(entity).is_none();
        self.world.despawn(entity);
        self.changed.remove(&id);
        if was_kept {
            self.removed.insert(id);
        }
        true
    }

    /// Gives an object a name; false if there is no object with this number.
    pub fn set_name(&mut self, id: u64, name: &str) -> bool {
        let Some(entity) = self.entities.get(&id) else { return false };
        self.world.entity_mut(*entity).insert(Name(name.to_owned()));
        self.changed.insert(id);
        true
    }

    /// Adds an entity with a position and a time, and returns its number.
    pub fn remember(&mut self, name: &str, position_m: [f64; 3], at_ns: u64) -> u64 {
        let id = self.new_id();
        let m = DVec3::from_array(self.map_from_world.apply(position_m));
        let position = Position::new(m, NAMED_VARIANCE_M2);
        let record = EntityRecord {
            name: Some(Name(name.to_owned())),
            ..EntityRecord::new(id, position, at_ns, self.map)
        };
        self.insert(record);
        id
    }

    /// Adds a recognized anchor, or enters the map of the session that knows it. The pose is in the frame of
    /// the input poses.
    ///
    /// If an earlier session knows the anchor, this session has found its map: all that it has seen
    /// moves into it, and what comes in is transformed from now on. Returns true then.
    pub fn observe_anchor(&mut self, name: &str, world_from_anchor: &Rigid, at_ns: u64) -> bool {
        let known = self.records.iter(&self.world).filter_map(|parts| {
            let anchor = parts.anchor.filter(|anchor| anchor.name == name)?;
            let (translation_m, rotation_xyzw) = (parts.position.m, anchor.rotation_xyzw);
            let pose = Rigid { translation_m, rotation_xyzw };
            Some((parts.persistence.id, parts.provenance.map, pose))
        });
        match known.min_by_key(|(id, ..)| *id) {
            Some((_, map, map_from_anchor)) if map != self.map => {
                let found = map_from_anchor.then(&world_from_anchor.inverse());
                self.enter_map(map, &found);
                true
            }
            Some((id, ..)) => {
                self.touch(id, at_ns);
                false
            }
            None => {
                let id = self.new_id();
                let pose = self.map_from_world.then(world_from_anchor);
                let m = DVec3::from_array(pose.translation_m);
                let position = Position::new(m, ANCHOR_VARIANCE_M2);
                let anchor = Anchor { name: name.to_owned(), rotation_xyzw: pose.rotation_xyzw };
                let record = EntityRecord {
                    anchor: Some(anchor),
                    ..EntityRecord::new(id, position, at_ns, self.map)
                };
                self.insert(record);
                false
            }
        }
    }

    /// Moves the entities of this session into the map of an earlier one.
    fn enter_map(&mut self, map: u64, map_from_world: &Rigid) {
        let change = map_from_world.then(&self.map_from_world.inverse());
        let rotation = DMat3::from_quat(DQuat::from_array(change.rotation_xyzw));
        let moved: Vec<_> = self
            .entities
            .iter()
            .filter(|(_, entity)| {
                self.world.get::<Provenance>(**entity).is_some_and(|from| from.map == self.map)
            })
            .map(|(id, entity)| (*id, *entity))
            .collect();
        let mut ids = Vec::new();
        for (id, entity) in moved {
            let mut entity = self.world.entity_mut(entity);
            if let Some(mut position) = entity.get_mut::<Position>() {
                *position = position.in_frame(&change);
            }
            let turned = |rotation: [f64; 4]| {
                let turn = DQuat::from_array(change.rotation_xyzw);
                (turn * DQuat::from_array(rotation)).to_array()
            };
            if let Some(mut anchor) = entity.get_mut::<Anchor>() {
                anchor.rotation_xyzw = turned(anchor.rotation_xyzw);
            }
            if let Some(mut plane) = entity.get_mut::<Plane>() {
                plane.rotation_xyzw = turned(plane.rotation_xyzw);
            }
            if let Some(mut keyframe) = entity.get_mut::<Keyframe>() {
                keyframe.rotation_xyzw = turned(keyframe.rotation_xyzw);
            }
            if let Some(mut bounds) = entity.get_mut::<Bounded3d>() {
                bounds.size_m = observe::turned(rotation, bounds.size_m);
            }
            entity.insert(Provenance { map });
            self.changed.insert(id);
            ids.push(Some(id));
        }
        (self.map, self.map_from_world) = (map, *map_from_world);
        self.merge(&ids);
    }

    /// Counts a sighting of an entity.
    fn touch(&mut self, id: u64, at_ns: u64) {
        let Some(entity) = self.entities.get(&id) else { return };
        if let Some(mut seen) = self.world.get_mut::<Seen>(*entity) {
            seen.last_ns = seen.last_ns.max(at_ns);
            seen.count = seen.count.saturating_add(1);
        }
        self.changed.insert(id);
    }

    fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Adds a confirmed entity.
    fn insert(&mut self, record: EntityRecord) {
        let id = record.id;
        let mut entity = self.world.spawn_empty();
        record.insert_into(&mut entity);
        self.entities.insert(id, entity.id());
        self.changed.insert(id);
    }
}

fn record(parts: RecordPartsItem<'_, '_>) -> EntityRecord {
    EntityRecord {
        id: parts.persistence.id,
        position: *parts.position,
        seen: *parts.seen,
        provenance: *parts.provenance,
        label: parts.label.cloned(),
        bounds: parts.bounds.copied(),
        plane: parts.plane.copied(),
        name: parts.name.cloned(),
        anchor: parts.anchor.cloned(),
        keyframe: parts.keyframe.cloned(),
        image: parts.image.cloned(),
    }
}
