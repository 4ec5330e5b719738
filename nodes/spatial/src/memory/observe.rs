//! Association of what is seen with what is known.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use afferent_graph::SessionStart;
use afferent_messages::vision::Detection3d;
use bevy_ecs::entity::Entity;
use glam::{DMat3, DQuat, DVec3};

use super::{
    Bounded3d, EntityRecord, Name, Persistence, Position, Provenance, SceneMemory, Seen,
    SemanticLabel, components::Tentative,
};
use crate::camera_view::CameraView;

/// Settings of the association.
#[derive(Debug, Clone, PartialEq)]
pub struct ObserveSettings {
    /// Sightings after which an object is confirmed.
    pub confirm_count: u32,
    /// Time within which they must come.
    pub confirm_within: Duration,
    /// Distance up to which a missing object counts as gone, in meters.
    pub visible_distance_m: f64,
    /// Most objects; the one that was seen least recently is forgotten.
    pub max_objects: usize,
    /// Age at which an object that was not seen again is forgotten.
    pub max_age: Duration,
}

impl Default for ObserveSettings {
    fn default() -> Self {
        Self {
            confirm_count: 3,
            confirm_within: Duration::from_secs(2),
            visible_distance_m: 3.0,
            max_objects: 10_000,
            max_age: Duration::from_secs(90 * 24 * 3600),
        }
    }
}

/// Components that the association reads.
pub(super) type ObjectParts = (
    Entity,
    &'static Persistence,
    &'static SemanticLabel,
    &'static Position,
    &'static Bounded3d,
    &'static Seen,
    &'static Provenance,
    Option<&'static Tentative>,
);

/// Components that forgetting by age reads.
pub(super) type AgeParts =
    (&'static Persistence, &'static Seen, Option<&'static Name>, Option<&'static Tentative>);

/// An object of the current map.
struct Known {
    entity: Entity,
    id: u64,
    class: Arc<str>,
    log_odds: f32,
    position: Position,
    size_m: [f32; 3],
    seen: Seen,
    is_tentative: bool,
}

/// Squared Mahalanobis distance below which a detection may be of an object: the 97th percentile of
/// three dimensions.
const GATE: f64 = 9.0;

/// No object is matched at a larger distance than this, in meters.
const MAX_JUMP_M: f64 = 1.5;

/// The errors of nearby images are alike, so that a sighting counts as this share of an independent
/// one.
const INDEPENDENCE: f64 = 0.3;

/// Variance that each sighting adds to a position, so that an object that was moved a little is followed:
/// process noise, in square meters.
const PROCESS_NOISE_M2: f64 = 1.1e-4;

/// Change of the logarithm of the odds at a sighting of score 1, and at a miss; its limit, and the value at which an
/// object is forgotten.
const HIT: f32 = 1.5;
const MISS: f32 = 0.25;
const MAX_LOG_ODDS: f32 = 6.0;
const GONE: f32 = -1.0;

const YEAR_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;

/// Share of the image, from its middle, in which an object must lie to count as missing.
const INNER_VIEW: f64 = 0.8;

/// Least size of an object in the image, as a share of its width, to count as missing.
const LEAST_SHARE: f64 = 0.06;

/// Margin of the depth beyond which an object is occluded, as a share of its distance.
const DEPTH_MARGIN: f64 = 0.2;

/// Shares of the mean size within which two objects are the same: of one class, and of two.
const SAME_CLASS_OVERLAP: f64 = 0.6;
const OTHER_CLASS_OVERLAP: f64 = 0.4;

impl SceneMemory {
    /// Updates the memory with the objects that one image shows. `at_ns` is the time in nanoseconds
    /// since 1970. Returns the objects with the detections of them.
    pub(crate) fn observe(
        &mut self,
        at_ns: u64,
        found: &[Detection3d],
        view: Option<&CameraView<'_>>,
    ) -> Vec<(u64, Detection3d)> {
        let found: Vec<Detection3d> =
            found.iter().filter(|found| is_valid(found)).cloned().collect();
        let in_map: Vec<_> = found.iter().map(|found| self.detection_in_map(found)).collect();
        let known = self.known();
        let ids = self.associate(at_ns, &in_map, &known);
        if let Some(view) = view {
            self.count_misses(&known, &ids, view);
        }
        self.merge(&ids);
        self.forget_old(at_ns);
        ids.into_iter().zip(found).filter_map(|(id, found)| Some((id?, found))).collect()
    }

    /// A detection in the coordinates of the map.
    fn detection_in_map(&self, found: &Detection3d) -> Detection3d {
        let to = self.map_from_world;
        let rotation = DMat3::from_quat(DQuat::from_array(to.rotation_xyzw));
        let position = Position { m: found.position_m, covariance_m2: found.covariance_m2 };
        let position = position.in_frame(&to);
        Detection3d {
            position_m: position.m,
            covariance_m2: position.covariance_m2,
            size_m: turned(rotation, found.size_m),
            ..found.clone()
        }
    }

    /// Objects of the current map, in the order of their numbers.
    fn known(&mut self) -> Vec<Known> {
        let map = self.map;
        let objects = self.objects.iter(&self.world);
        let mut known: Vec<Known> = objects
            .filter(|parts| parts.6.map == map)
            .map(|(entity, persistence, label, position, bounds, seen, _, tentative)| Known {
                entity,
                id: persistence.id,
                class: label.class.clone(),
                log_odds: label.log_odds,
                position: *position,
                size_m: bounds.size_m,
                seen: *seen,
                is_tentative: tentative.is_some(),
            })
            .collect();
        known.sort_by_key(|object| object.id);
        known
    }

    /// Matches each detection with the nearest object, the nearest pairs first; those left over begin
    /// new objects. Returns the number of the object of each detection.
    fn associate(
        &mut self,
        at_ns: u64,
        found: &[Detection3d],
        known: &[Known],
    ) -> Vec<Option<u64>> {
        let mut pairs = Vec::new();
        for (index, detection) in found.iter().enumerate() {
            for (at, object) in known.iter().enumerate() {
                if let Some(distance) = distance(detection, object) {
                    pairs.push((distance, index, at));
                }
            }
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut ids = vec![None; found.len()];
        let mut taken = vec![false; known.len()];
        for (_, index, at) in pairs {
            if ids[index].is_none() && !taken[at] {
                taken[at] = true;
                ids[index] = Some(known[at].id);
                self.update(at_ns, &found[index], &known[at]);
            }
        }
        for (detection, id) in found.iter().zip(&mut ids).filter(|(_, id)| id.is_none()) {
            let is_known = known.iter().any(|object| is_same_position(detection, object));
            if !is_known {
                *id = Some(self.begin(at_ns, detection));
            }
        }
        ids
    }

    /// Updates an object with a detection of it: a Kalman filter of a position that does not move.
    fn update(&mut self, at_ns: u64, found: &Detection3d, known: &Known) {
        let (mean, covariance) = known.position.parts();
        let noise = DMat3::from_cols_array_2d(&found.covariance_m2) * (1.0 / INDEPENDENCE);
        let Some(inverse) = (covariance + noise).try_inverse() else { return };
        let gain = covariance * inverse;
        let moved = mean + gain * (DVec3::from_array(found.position_m) - mean);
        let left = covariance - gain * covariance;
        let noise = DMat3::from_diagonal(DVec3::splat(PROCESS_NOISE_M2));
        let left = (left + left.transpose()) * 0.5 + noise;
        let count = known.seen.count.saturating_add(1);
        let share = 1.0 / (count.min(20) as f32);
        let size_m: [f32; 3] = std::array::from_fn(|axis| {
            known.size_m[axis] + (found.size_m[axis] - known.size_m[axis]) * share
        });
        let log_odds = (known.log_odds + HIT * found.score).min(MAX_LOG_ODDS);
        let seen = Seen { last_ns: at_ns.max(known.seen.last_ns), count, ..known.seen };
        let mut entity = self.world.entity_mut(known.entity);
        entity.insert((
            Position::from_parts(moved, left),
            Bounded3d { size_m },
            SemanticLabel { class: known.class.clone(), log_odds },
            seen,
        ));
        if known.is_tentative && count >= self.settings.confirm_count {
            entity.remove::<Tentative>();
        }
        self.changed.insert(known.id);
    }

    /// Adds an object that was seen once.
    fn begin(&mut self, at_ns: u64, found: &Detection3d) -> u64 {
        let id = self.new_id();
        let position = Position { m: found.position_m, covariance_m2: found.covariance_m2 };
        let record = EntityRecord {
            label: Some(SemanticLabel { class: found.label.clone(), log_odds: HIT * found.score }),
            bounds: Some(Bounded3d { size_m: found.size_m }),
            ..EntityRecord::new(id, position, at_ns, self.map)
        };
        self.begin_entity(record);
        id
    }

    /// Adds an entity that was seen once.
    pub(super) fn begin_entity(&mut self, record: EntityRecord) {
        let id = record.id;
        self.insert(record);
        if self.settings.confirm_count > 1
            && let Some(entity) = self.entities.get(&id)
        {
            self.world.entity_mut(*entity).insert(Tentative);
        }
    }

    /// Lowers the odds of objects that the image should show and does not.
    fn count_misses(&mut self, known: &[Known], ids: &[Option<u64>], view: &CameraView<'_>) {
        let from_map = self.map_from_world.inverse();
        for object in known.iter().filter(|object| !ids.contains(&Some(object.id))) {
            let point = DVec3::from_array(from_map.apply(object.position.m));
            let size = f64::from(object.size_m.into_iter().fold(0.0, f32::max));
            if !is_expected(view, point, size, self.settings.visible_distance_m) {
                continue;
            }
            let log_odds = object.log_odds - MISS;
            // A person has said that it is there.
            let is_named = self.world.get::<Name>(object.entity).is_some();
            if log_odds < GONE && !is_named {
                self.forget(object.id);
            } else if let Some(mut label) = self.world.get_mut::<SemanticLabel>(object.entity) {
                label.log_odds = log_odds.max(GONE);
                self.changed.insert(object.id);
            }
        }
    }

    /// Joins confirmed objects that have turned out to be one: those at the same position as one of `ids`.
    /// A named one stays, then the one with more sightings, then the older one.
    pub(super) fn merge(&mut self, ids: &[Option<u64>]) {
        let known = self.known();
        let confirmed: Vec<&Known> = known.iter().filter(|object| !object.is_tentative).collect();
        let rank = |object: &Known| {
            let is_named = self.world.get::<Name>(object.entity).is_some();
            (is_named, object.seen.count, Reverse(object.id))
        };
        // Numbers of the one that stays and of the one that goes.
        let mut pairs: Vec<(u64, u64)> = Vec::new();
        for one in confirmed.iter().filter(|object| ids.contains(&Some(object.id))) {
            for other in &confirmed {
                let is_free = |object: &Known| pairs.iter().all(|pair| pair.1 != object.id);
                if one.id != other.id && is_free(one) && is_free(other) && is_same(one, other) {
                    let is_first = rank(one) >= rank(other);
                    let (stays, goes) = if is_first { (one, other) } else { (other, one) };
                    pairs.push((stays.id, goes.id));
                }
            }
        }
        for (stays, goes) in pairs {
            let first = |memory: &Self, id| {
                let seen =
                    memory.entities.get(&id).and_then(|entity| memory.world.get::<Seen>(*entity));
                seen.map(|seen| seen.first_ns)
            };
            let since = first(self, goes);
            if let Some(entity) = self.entities.get(&stays)
                && let Some(mut seen) = self.world.get_mut::<Seen>(*entity)
            {
                seen.first_ns = seen.first_ns.min(since.unwrap_or(seen.first_ns));
                self.changed.insert(stays);
            }
            self.forget(goes);
        }
    }

    /// Forgets tentative objects and planes that were not confirmed in time, and in all maps those that are
    /// old or above the limit. Named ones stay.
    pub(super) fn forget_old(&mut self, at_ns: u64) {
        let age = |since: u64| Duration::from_nanos(at_ns.saturating_sub(since));
        // Times of the virtual clock have no age on the calendar.
        let is_virtual = |ns: u64| ns.abs_diff(SessionStart::VIRTUAL.unix_ns) < YEAR_NS;
        let (mut gone, mut left) = (Vec::new(), Vec::new());
        for (persistence, seen, name, tentative) in self.ages.iter(&self.world) {
            let is_comparable = is_virtual(at_ns) == is_virtual(seen.last_ns);
            if tentative.is_some() {
                if age(seen.first_ns) > self.settings.confirm_within {
                    gone.push(persistence.id);
                }
            } else if name.is_none() {
                match is_comparable && age(seen.last_ns) > self.settings.max_age {
                    true => gone.push(persistence.id),
                    false => left.push((seen.last_ns, persistence.id)),
                }
            }
        }
        let excess = left.len().saturating_sub(self.settings.max_objects);
        if excess > 0 {
            left.sort_unstable();
            gone.extend(left[..excess].iter().map(|(_, id)| *id));
        }
        for id in gone {
            self.forget(id);
        }
    }
}

/// Squared Mahalanobis distance of a detection and an object of the same class; `None` if they do not
/// match.
fn distance(found: &Detection3d, known: &Known) -> Option<f64> {
    if known.class != found.label {
        return None;
    }
    let (mean, covariance) = known.position.parts();
    let apart = DVec3::from_array(found.position_m) - mean;
    if apart.length() > MAX_JUMP_M {
        return None;
    }
    let sum = covariance + DMat3::from_cols_array_2d(&found.covariance_m2);
    let squared = apart.dot(sum.try_inverse()? * apart);
    (0.0..GATE).contains(&squared).then_some(squared)
}

/// True if a detection has a position, a covariance and a score.
fn is_valid(found: &Detection3d) -> bool {
    let has_variance = (0..3).all(|axis| found.covariance_m2[axis][axis] > 0.0);
    let numbers = found.position_m.iter().chain(found.covariance_m2.as_flattened());
    has_variance
        && numbers.copied().all(f64::is_finite)
        && found.size_m.iter().all(|size| size.is_finite())
        && (0.0..=1.0).contains(&found.score)
}

/// Size along the axes of another frame.
pub(super) fn turned(rotation: DMat3, size_m: [f32; 3]) -> [f32; 3] {
    let size = rotation.abs() * DVec3::from_array(size_m.map(f64::from));
    size.to_array().map(|size| size as f32)
}

fn mean_size(one: &[f32; 3], other: &[f32; 3]) -> f64 {
    let largest = |size: &[f32; 3]| f64::from(size.iter().copied().fold(0.0, f32::max));
    (largest(one) + largest(other)) / 2.0
}

/// True if a detection lies where a confirmed object of another class is: one of both is a mistake.
fn is_same_position(found: &Detection3d, known: &Known) -> bool {
    let apart = DVec3::from_array(found.position_m).distance(DVec3::from_array(known.position.m));
    !known.is_tentative
        && known.class != found.label
        && apart < OTHER_CLASS_OVERLAP * mean_size(&found.size_m, &known.size_m).min(0.5)
}

/// True if two confirmed objects are one.
fn is_same(one: &Known, other: &Known) -> bool {
    let apart = DVec3::from_array(one.position.m).distance(DVec3::from_array(other.position.m));
    let size = mean_size(&one.size_m, &other.size_m);
    match one.class == other.class {
        true => apart < (SAME_CLASS_OVERLAP * size).clamp(0.15, 0.6),
        false => apart < OTHER_CLASS_OVERLAP * size.min(0.5),
    }
}

/// True if an object of this size at a point of the world must be visible: in the inner part of the
/// image, near, large enough, and not occluded.
fn is_expected(view: &CameraView<'_>, point: DVec3, size_m: f64, max_distance_m: f64) -> bool {
    let Some((pixel, z)) = view.project(point) else { return false };
    let image = view.size_px();
    let from_middle = (pixel / image - 0.5).abs().max_element() * 2.0;
    let share = size_m * view.focal_px().x / z / image.x;
    z < max_distance_m
        && from_middle < INNER_VIEW
        && share >= LEAST_SHARE
        && view.depth_at(pixel).is_some_and(|depth| depth > z * (1.0 - DEPTH_MARGIN) - size_m / 2.0)
        // The model of a lens folds points far beside the image into it.
        && view.point(pixel.to_array(), z).is_some_and(|back| back.distance(point) < 0.01 * z)
}
