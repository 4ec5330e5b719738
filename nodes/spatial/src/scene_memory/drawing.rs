//! Entities of a scene memory for viewers.

use afferent_graph::Choice;
use afferent_messages::{Pose, SceneEntity, SceneUpdate};

use crate::{
    frames::Rigid,
    memory::{Change, EntityRecord},
};

/// Size of the box of an entity without one, in meters.
const DEFAULT_SIZE_M: f64 = 0.1;

/// Thickness of the box of a plane, in meters.
const PLANE_M: f64 = 0.01;

/// Frame of the drawn entities.
pub(super) struct Drawing<'d> {
    /// Coordinate frame of the viewers.
    pub(super) frame_id: &'d str,
    /// Map that is drawn; entities of others have no position in the frame.
    pub(super) map: u64,
    pub(super) world_from_map: Rigid,
}

impl Drawing<'_> {
    /// The changes as boxes with labels.
    pub(super) fn update(&self, changes: &[Change]) -> SceneUpdate {
        let mut update = SceneUpdate::default();
        for change in changes {
            match change {
                Change::Put(record) if record.provenance.map == self.map => {
                    update.entities.push(self.entity(record));
                }
                Change::Put(_) => {}
                Change::Remove(id) => update.deletions.push(id.to_string()),
            }
        }
        update
    }

    fn entity(&self, record: &EntityRecord) -> SceneEntity {
        let class = record.label.as_ref().map(|label| &*label.class);
        let anchor = record.anchor.as_ref().map(|anchor| anchor.name.as_str());
        let name = record.name.as_ref().map(|name| name.0.as_str());
        let plane = record.plane.map(|plane| plane.label.word());
        let size_m = record.bounds.map(|bounds| bounds.size_m.map(f64::from)).or_else(|| {
            let [width, height] = record.plane?.size_m.map(f64::from);
            Some([width, height, PLANE_M])
        });
        let turn = record.plane.map_or(Rigid::IDENTITY, |plane| Rigid {
            rotation_xyzw: plane.rotation_xyzw,
            ..Rigid::IDENTITY
        });
        SceneEntity {
            id: record.id.to_string(),
            label: name.or(anchor).or(class).or(plane).unwrap_or("?").to_owned(),
            pose: Pose {
                frame_id: self.frame_id.to_owned(),
                position_m: self.world_from_map.apply(record.position.m),
                orientation_xyzw: self.world_from_map.then(&turn).rotation_xyzw,
            },
            size_m: size_m.unwrap_or([DEFAULT_SIZE_M; 3]),
            color: color(class.or(plane).unwrap_or_default()),
        }
    }
}

/// A color that is the same for each object of a class.
fn color(class: &str) -> [f64; 4] {
    let hash =
        class.bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let hue = f64::from(hash % 360) / 60.0;
    let channel = |shift: f64| {
        let position = (hue + shift).rem_euclid(6.0);
        (2.0 - (position - 3.0).abs()).clamp(0.0, 1.0)
    };
    [1.0 - channel(3.0), channel(4.0), channel(2.0), 0.5]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_differ_by_class() {
        let colors = ["cup", "table", "lamp", "chair"].map(color);
        for (index, one) in colors.iter().enumerate() {
            assert!(one.iter().all(|channel| (0.0..=1.0).contains(channel)), "{one:?}");
            assert!(colors[..index].iter().all(|other| other != one), "{colors:?}");
        }
    }
}
