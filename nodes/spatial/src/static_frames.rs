//! YAML files of transforms that hold at all times.

use std::{collections::BTreeMap, fs, path::Path};

use afferent_graph::NodeError;
use glam::{DQuat, EulerRot};
use serde::Deserialize;

use crate::frames::{Frames, Rigid};

/// Pose of a child frame in its parent frame.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    parent: String,
    #[serde(default)]
    translation_m: [f64; 3],
    rotation_xyzw: Option<[f64; 4]>,
    /// Roll, pitch and yaw: rotations about the fixed axes x, y and z of the parent, in this order.
    rotation_rpy_deg: Option<[f64; 3]>,
}

/// Adds the transforms of the file at `path`.
///
/// # Errors
/// [`NodeError::File`] with the frame that is wrong.
pub(crate) fn read(path: &Path, frames: &mut Frames) -> Result<(), NodeError> {
    let failed = |reason: String| NodeError::File { path: path.to_owned(), reason };
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    parse(&text, frames).map_err(failed)
}

fn parse(text: &str, frames: &mut Frames) -> Result<(), String> {
    let entries: BTreeMap<String, Entry> =
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    for (child, entry) in entries {
        let rotation_xyzw = match (entry.rotation_xyzw, entry.rotation_rpy_deg) {
            (Some(_), Some(_)) => {
                return Err(format!("{child}: give rotation_xyzw or rotation_rpy_deg, not both"));
            }
            (Some(quaternion), None) => quaternion,
            (None, Some(angles)) => {
                let [roll, pitch, yaw] = angles.map(f64::to_radians);
                DQuat::from_euler(EulerRot::ZYX, yaw, pitch, roll).to_array()
            }
            (None, None) => Rigid::IDENTITY.rotation_xyzw,
        };
        let rigid = Rigid { translation_m: entry.translation_m, rotation_xyzw };
        let added = frames.set_static(&entry.parent, &child, rigid);
        added.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_graph::Timestamp;

    use super::*;

    #[test]
    fn rotations_are_those_of_urdf() {
        let mut frames = Frames::default();
        let text = "
camera: {parent: head, translation_m: [0.1, 0, 0.05], rotation_rpy_deg: [-90, 0, -90]}
head: {parent: body}
imu: {parent: body, rotation_xyzw: [0, 0, 1, 0]}
";
        parse(text, &mut frames).unwrap();
        let body_from_camera = frames.lookup("body", "camera", Timestamp::ZERO).unwrap().rigid;
        // The optical axis looks along x of the body, and the x axis of the camera to the right.
        let near = |found: [f64; 3], expected: [f64; 3]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        };
        near(body_from_camera.apply([0.0, 0.0, 1.0]), [1.1, 0.0, 0.05]);
        near(body_from_camera.apply([1.0, 0.0, 0.0]), [0.1, -1.0, 0.05]);
        near(body_from_camera.apply([0.0, 1.0, 0.0]), [0.1, 0.0, -0.95]);
    }

    #[test]
    fn faults_name_the_frame() {
        let check = |text: &str, expected: &str| {
            let told = parse(text, &mut Frames::default()).unwrap_err();
            assert!(told.contains(expected), "{told}");
        };
        check("a: {parent: a}", "\"a\" from \"a\": the frame would be its own ancestor");
        check("a: {translation_m: [0, 0, 0]}", "parent");
        check("a: {parent: b, rotation_xyzw: [0, 0, 0, 2]}", "not a unit quaternion");
        let both = "a: {parent: b, rotation_xyzw: [0, 0, 0, 1], rotation_rpy_deg: [0, 0, 0]}";
        check(both, "a: give rotation_xyzw or rotation_rpy_deg, not both");
    }
}
