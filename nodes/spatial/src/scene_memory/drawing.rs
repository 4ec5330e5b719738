//! Entities of a scene memory for viewers.

use afferent_messages::{Pose, SceneEntity, SceneUpdate};

use crate::memory::{Change, EntityRecord};

/// Size of the box of an entity without one, in meters.
const DEFAULT_SIZE_M: f64 = 0.1;

/// The changes as boxes with labels, in the coordinate frame `frame_id`.
pub(super) fn scene_update(changes: &[Change], frame_id: &str) -> SceneUpdate {
    let mut update = SceneUpdate::default();
    for change in changes {
        match change {
            Change::Put(record) => update.entities.push(entity(record, frame_id)),
            Change::Remove(id) => update.deletions.push(id.to_string()),
        }
    }
    update
}

fn entity(record: &EntityRecord, frame_id: &str) -> SceneEntity {
    let class = record.label.as_ref().map(|label| &*label.class);
    let anchor = record.anchor.as_ref().map(|anchor| anchor.name.as_str());
    let name = record.name.as_ref().map(|name| name.0.as_str());
    SceneEntity {
        id: record.id.to_string(),
        label: name.or(anchor).or(class).unwrap_or("?").to_owned(),
        pose: Pose {
            frame_id: frame_id.to_owned(),
            position_m: record.position.m,
            ..Pose::default()
        },
        size_m: record.bounds.map_or([DEFAULT_SIZE_M; 3], |bounds| bounds.size_m.map(f64::from)),
        color: color(class.unwrap_or_default()),
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
