//! Planes of a scene: what is seen of them grows with each image.

use afferent_messages::vision::{self, PlaneAlignment, PlaneLabel};
use bevy_ecs::entity::Entity;
use glam::{DQuat, DVec2, DVec3};

use super::{
    EntityRecord, Persistence, Plane, Position, Provenance, SceneMemory, Seen,
    components::Tentative,
};

/// Components that the association reads.
pub(super) type PlaneParts = (
    Entity,
    &'static Persistence,
    &'static Plane,
    &'static Position,
    &'static Seen,
    &'static Provenance,
    Option<&'static Tentative>,
);

/// A plane of the current map.
#[derive(Clone, Copy)]
struct Known {
    entity: Entity,
    id: u64,
    plane: Plane,
    center: DVec3,
    seen: Seen,
    is_tentative: bool,
}

/// Two planes are one if their normals are within 20°, and neither lies farther from the other than this,
/// in meters.
const SAME_NORMAL: f64 = 0.94;
const SAME_OFFSET_M: f64 = 0.25;

/// Gap between the rectangles of one plane, in meters. Tables stand apart.
const GAP_M: f64 = 0.5;
const TABLE_GAP_M: f64 = 0.0;

/// Share of what is seen beyond a known rectangle that it grows by at least: single images may be wrong.
const LEAST_GROWTH: f64 = 0.2;

/// Variance of the middle of a plane along each axis, in square meters.
const VARIANCE_M2: f64 = 0.0025;

/// Most sightings that count in the mean of a plane, so that it follows what is seen.
const MAX_WEIGHT: u32 = 20;

impl SceneMemory {
    /// Updates the memory with the planes that one image shows, in the frame of the input poses.
    /// `at_ns` is the time in nanoseconds since 1970.
    pub(crate) fn observe_planes(&mut self, at_ns: u64, found: &[vision::Plane]) {
        for found in found.iter().filter(|found| is_valid(found)) {
            let center = self.map_from_world.apply(found.center_m);
            let turn = DQuat::from_array(self.map_from_world.rotation_xyzw);
            let rotation = (turn * DQuat::from_array(found.orientation_xyzw)).normalize();
            let plane = Plane {
                label: found.label,
                alignment: found.alignment,
                rotation_xyzw: rotation.to_array(),
                size_m: found.size_m,
            };
            self.add_plane(at_ns, plane, DVec3::from_array(center));
        }
        self.forget_old(at_ns);
    }

    /// Adds what is seen of a plane to the known one, or begins a new one.
    fn add_plane(&mut self, at_ns: u64, plane: Plane, center: DVec3) {
        let mut same = self.planes_like(&plane, center);
        if same.is_empty() {
            self.begin_plane(at_ns, plane, center);
            return;
        }
        let Known { entity, id, plane: known, center: at, seen, is_tentative } = same.remove(0);
        let share = 1.0 / f64::from(seen.count.min(MAX_WEIGHT) + 1);
        let (mut plane, mut center) =
            joined((known, at), (plane, center), share, share.max(LEAST_GROWTH));
        let mut seen =
            Seen { last_ns: at_ns.max(seen.last_ns), count: seen.count.saturating_add(1), ..seen };
        // The new part may be what connects two planes.
        for other in same.iter().filter(|other| other.is_tentative == is_tentative) {
            let weights = f64::from(other.seen.count) + f64::from(seen.count);
            let share = f64::from(other.seen.count) / weights;
            (plane, center) = joined((plane, center), (other.plane, other.center), share, 1.0);
            seen.first_ns = seen.first_ns.min(other.seen.first_ns);
            seen.count = seen.count.saturating_add(other.seen.count);
            self.forget(other.id);
        }
        let mut entity = self.world.entity_mut(entity);
        entity.insert((plane, Position::new(center, VARIANCE_M2), seen));
        if is_tentative && seen.count >= self.settings.confirm_count {
            entity.remove::<Tentative>();
        }
        self.changed.insert(id);
    }

    /// Known planes that this one is a part of, the nearest first.
    fn planes_like(&mut self, plane: &Plane, center: DVec3) -> Vec<Known> {
        let map = self.map;
        let known = self.planes.iter(&self.world).filter(|parts| parts.5.map == map);
        let known = known.map(|(entity, persistence, plane, position, seen, _, tentative)| Known {
            entity,
            id: persistence.id,
            plane: *plane,
            center: DVec3::from_array(position.m),
            seen: *seen,
            is_tentative: tentative.is_some(),
        });
        let offset = |known: &Known| known.plane.normal().dot(center - known.center).abs();
        let mut same: Vec<Known> =
            known.filter(|known| is_same((&known.plane, known.center), (plane, center))).collect();
        same.sort_by(|a, b| {
            a.is_tentative
                .cmp(&b.is_tentative)
                .then(offset(a).total_cmp(&offset(b)))
                .then(a.id.cmp(&b.id))
        });
        same
    }

    fn begin_plane(&mut self, at_ns: u64, plane: Plane, center: DVec3) {
        let id = self.new_id();
        let position = Position::new(center, VARIANCE_M2);
        let record =
            EntityRecord { plane: Some(plane), ..EntityRecord::new(id, position, at_ns, self.map) };
        self.begin_entity(record);
    }

    /// Label of the plane that an object at a point lies on: a table before the floor. `below_m` is half of
    /// the height of the object.
    pub(super) fn plane_below(
        &mut self,
        point: DVec3,
        below_m: f64,
        map: u64,
    ) -> Option<PlaneLabel> {
        let planes = self.planes.iter(&self.world).filter(|parts| {
            parts.5.map == map && parts.6.is_none() && parts.2.is_below(parts.3, point, below_m)
        });
        let labels: Vec<PlaneLabel> = planes.map(|parts| parts.2.label).collect();
        [PlaneLabel::Table, PlaneLabel::Floor].into_iter().find(|label| labels.contains(label))
    }
}

/// Distance between the lower end of an object and the surface that it lies on, in meters: into it and above it.
const INTO_M: f64 = 0.1;
const ABOVE_M: f64 = 0.25;

impl Plane {
    pub(crate) fn normal(&self) -> DVec3 {
        DQuat::from_array(self.rotation_xyzw) * DVec3::Z
    }

    /// The corners of the rectangle around a middle.
    fn corners(&self, center: DVec3) -> [DVec3; 4] {
        let rotation = DQuat::from_array(self.rotation_xyzw);
        let [width, height] = self.size_m.map(|size| f64::from(size) / 2.0);
        [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]
            .map(|(x, y)| center + rotation * DVec3::new(x * width, y * height, 0.0))
    }

    /// True if an object at a point lies on the rectangle.
    fn is_below(&self, position: &Position, point: DVec3, below_m: f64) -> bool {
        let to = DQuat::from_array(self.rotation_xyzw).inverse();
        let apart = to * (point - DVec3::from_array(position.m));
        let half = self.size_m.map(|size| f64::from(size) / 2.0);
        apart.x.abs() < half[0]
            && apart.y.abs() < half[1]
            && (-INTO_M..ABOVE_M).contains(&(apart.z - below_m))
    }
}

fn is_valid(plane: &vision::Plane) -> bool {
    let norm = plane.orientation_xyzw.iter().map(|value| value * value).sum::<f64>();
    plane.center_m.iter().all(|value| value.is_finite())
        && plane.size_m.iter().all(|size| size.is_finite() && *size >= 0.0)
        && (0.5..2.0).contains(&norm)
}

/// True if two planes are parts of one.
fn is_same((one, at): (&Plane, DVec3), (other, center): (&Plane, DVec3)) -> bool {
    // A small part of a wall has no label.
    let is_part = one.alignment == PlaneAlignment::Vertical
        && [one.label, other.label].contains(&PlaneLabel::Other);
    let is_label = one.label == other.label || is_part;
    let offset = one.normal().dot(center - at).abs();
    let back = other.normal().dot(at - center).abs();
    if !is_label
        || one.alignment != other.alignment
        || one.normal().dot(other.normal()) < SAME_NORMAL
        || offset.min(back) > SAME_OFFSET_M
    {
        return false;
    }
    let to = DQuat::from_array(one.rotation_xyzw).inverse();
    let corners = other.corners(center).map(|corner| (to * (corner - at)).truncate());
    let low = corners.into_iter().fold(corners[0], DVec2::min);
    let high = corners.into_iter().fold(corners[0], DVec2::max);
    let gap = if one.label == PlaneLabel::Table { TABLE_GAP_M } else { GAP_M };
    let half = one.size_m.map(|size| f64::from(size) / 2.0 + gap);
    low.x < half[0] && high.x > -half[0] && low.y < half[1] && high.y > -half[1]
}

/// A plane that grows towards the rectangle of another by `growth`, at the mean of both weighted by `share`. The
/// axes are those of the first.
fn joined(one: (Plane, DVec3), other: (Plane, DVec3), share: f64, growth: f64) -> (Plane, DVec3) {
    let ((plane, at), (part, center)) = (one, other);
    let normal = plane.normal().lerp(part.normal(), share).normalize_or(plane.normal());
    let turn = DQuat::from_rotation_arc(plane.normal(), normal);
    let rotation = (turn * DQuat::from_array(plane.rotation_xyzw)).normalize();
    let offset = normal.dot(center - at) * share;
    let to = rotation.inverse();
    let corners = part.corners(center).map(|corner| (to * (corner - at)).truncate());
    let half = DVec2::from(plane.size_m.map(|size| f64::from(size) / 2.0));
    let low = corners.into_iter().fold(-half, DVec2::min);
    let high = corners.into_iter().fold(half, DVec2::max);
    let (low, high) = ((-half).lerp(low, growth), half.lerp(high, growth));
    let label = if plane.label == PlaneLabel::Other { part.label } else { plane.label };
    let size = high - low;
    let joined = Plane {
        label,
        rotation_xyzw: rotation.to_array(),
        size_m: [size.x as f32, size.y as f32],
        ..plane
    };
    (joined, at + rotation * ((low + high) / 2.0).extend(offset))
}
