//! Transforms between coordinate frames, over time.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use afferent_graph::{Payload, Timestamp};
use afferent_messages::{Pose, Transform};

/// Position and orientation of a frame in another one: `parent_from_child`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rigid {
    /// Origin of the child, in meters.
    pub translation_m: [f64; 3],
    /// Rotation of the child, a unit quaternion x, y, z, w.
    pub rotation_xyzw: [f64; 4],
}

impl Rigid {
    /// The transform that changes nothing.
    pub const IDENTITY: Self =
        Self { translation_m: [0.0; 3], rotation_xyzw: [0.0, 0.0, 0.0, 1.0] };

    /// Coordinates of a point of the child frame in the parent frame.
    pub fn apply(&self, point: [f64; 3]) -> [f64; 3] {
        let turned = rotate(self.rotation_xyzw, point);
        std::array::from_fn(|axis| turned[axis] + self.translation_m[axis])
    }

    /// `a_from_c` of `self`, an `a_from_b`, and `next`, a `b_from_c`.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        Self {
            translation_m: self.apply(next.translation_m),
            rotation_xyzw: product(self.rotation_xyzw, next.rotation_xyzw),
        }
    }

    /// `child_from_parent`.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let [x, y, z, w] = self.rotation_xyzw;
        let rotation_xyzw = [-x, -y, -z, w];
        let translation_m = rotate(rotation_xyzw, self.translation_m).map(|axis| -axis);
        Self { translation_m, rotation_xyzw }
    }
}

impl From<&Pose> for Rigid {
    fn from(pose: &Pose) -> Self {
        Self { translation_m: pose.position_m, rotation_xyzw: pose.orientation_xyzw }
    }
}

/// Rotation of `point` by a unit quaternion.
pub(crate) fn rotate([x, y, z, w]: [f64; 4], [px, py, pz]: [f64; 3]) -> [f64; 3] {
    // t = 2 q × p, p + w t + q × t
    let (tx, ty, tz) = (2.0 * (y * pz - z * py), 2.0 * (z * px - x * pz), 2.0 * (x * py - y * px));
    [px + w * tx + y * tz - z * ty, py + w * ty + z * tx - x * tz, pz + w * tz + x * ty - y * tx]
}

/// Product of two quaternions.
pub(crate) fn product([ax, ay, az, aw]: [f64; 4], [bx, by, bz, bw]: [f64; 4]) -> [f64; 4] {
    [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]
}

/// Result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The transform.
    pub rigid: Rigid,
    /// True if a transform on the path was interpolated between two times.
    pub is_interpolated: bool,
}

/// Reason why a transform is not known.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Nothing connects the frames.
    #[error("no path from the frame {to:?} to {from:?}{hint}")]
    NoPath {
        /// Frame of the result.
        to: String,
        /// Frame of the source.
        from: String,
        /// Known frames.
        hint: String,
    },
    /// The time is before the oldest transform that is kept.
    #[error(
        "{parent:?} from {child:?}: the oldest transform is {by:?} later than the time asked for"
    )]
    TooOld {
        /// Parent frame.
        parent: String,
        /// Child frame.
        child: String,
        /// Distance from the time.
        by: Duration,
    },
    /// The time is after the newest transform.
    #[error(
        "{parent:?} from {child:?}: the newest transform is {by:?} earlier than the time asked for"
    )]
    TooNew {
        /// Parent frame.
        parent: String,
        /// Child frame.
        child: String,
        /// Distance from the time.
        by: Duration,
    },
    /// A transform is not valid.
    #[error("{parent:?} from {child:?}: {reason}")]
    Invalid {
        /// Parent frame.
        parent: String,
        /// Child frame.
        child: String,
        /// Failed check.
        reason: &'static str,
    },
}

/// Transforms of a child frame to its parent.
#[derive(Debug)]
struct Edge {
    parent: String,
    history: History,
}

#[derive(Debug)]
enum History {
    Static(Rigid),
    /// Times in increasing order.
    Moving(VecDeque<(Timestamp, Rigid)>),
}

/// A tree of coordinate frames. Each frame but the roots has one parent; a moving one keeps its
/// transforms of the last seconds.
///
/// ```
/// use afferent_graph::Timestamp;
/// use afferent_messages::Transform;
/// use afferent_nodes_spatial::frames::{FrameError, Frames, Rigid};
///
/// let mut frames = Frames::default();
/// let camera = Rigid { translation_m: [0.0, 0.1, 0.0], ..Rigid::IDENTITY };
/// frames.set_static("head", "camera", camera)?;
/// for (seconds, x) in [(0, 0.0), (1, 2.0)] {
///     frames.push(&Transform {
///         at: Timestamp(seconds * 1_000_000_000),
///         frame_id: "world".to_owned(),
///         child_frame_id: "head".to_owned(),
///         translation_m: [x, 0.0, 0.0],
///         ..Transform::default()
///     })?;
/// }
/// let found = frames.lookup("world", "camera", Timestamp(250_000_000))?;
/// assert_eq!(found.rigid.translation_m, [0.5, 0.1, 0.0]);
/// assert!(found.is_interpolated);
/// let late = frames.lookup("world", "camera", Timestamp(2_000_000_000));
/// assert!(matches!(late, Err(FrameError::TooNew { .. })));
/// # Ok::<(), FrameError>(())
/// ```
#[derive(Debug)]
pub struct Frames {
    edges: BTreeMap<String, Edge>,
    kept: Duration,
}

impl Default for Frames {
    /// Keeps the transforms of ten seconds.
    fn default() -> Self {
        Self::new(Duration::from_secs(10))
    }
}

/// Most transforms of a frame, so that a source with wrong times cannot fill the memory.
const MAX_TRANSFORMS: usize = 100_000;

impl Frames {
    /// Frames that keep the transforms of the last `kept`.
    pub fn new(kept: Duration) -> Self {
        Self { edges: BTreeMap::new(), kept }
    }

    /// Sets a transform that holds at all times.
    ///
    /// # Errors
    /// [`FrameError::Invalid`].
    pub fn set_static(
        &mut self,
        parent: &str,
        child: &str,
        rigid: Rigid,
    ) -> Result<(), FrameError> {
        let rigid = self.checked(parent, child, rigid)?;
        let edge = Edge { parent: parent.to_owned(), history: History::Static(rigid) };
        self.edges.insert(child.to_owned(), edge);
        Ok(())
    }

    /// Adds a transform of a moving frame. One that is older than the last replaces nothing: it is
    /// inserted in order of time. If the clock restarts by more than the time that is kept, the older
    /// transforms are dropped. A new parent replaces the old one.
    ///
    /// # Errors
    /// [`FrameError::Invalid`].
    pub fn push(&mut self, transform: &Transform) -> Result<(), FrameError> {
        let Transform { at, frame_id, child_frame_id, translation_m, rotation_xyzw } = transform;
        let rigid = Rigid { translation_m: *translation_m, rotation_xyzw: *rotation_xyzw };
        let rigid = self.checked(frame_id, child_frame_id, rigid)?;
        let kept = self.kept;
        let new = || Edge { parent: frame_id.clone(), history: History::Moving(VecDeque::new()) };
        let edge = self.edges.entry(child_frame_id.clone()).or_insert_with(new);
        if edge.parent != *frame_id || matches!(edge.history, History::Static(_)) {
            *edge = new();
        }
        let History::Moving(history) = &mut edge.history else { return Ok(()) };
        if history.back().is_some_and(|(last, _)| last.since(*at) > kept) {
            history.clear();
        }
        let index = history.partition_point(|(other, _)| other < at);
        match history.get_mut(index).filter(|(other, _)| other == at) {
            Some(same) => same.1 = rigid,
            None => history.insert(index, (*at, rigid)),
        }
        let newest = history.back().map_or(*at, |(at, _)| *at);
        while history.len() > MAX_TRANSFORMS
            || history.front().is_some_and(|(oldest, _)| newest.since(*oldest) > kept)
        {
            history.pop_front();
        }
        Ok(())
    }

    /// Checks a transform, and makes its rotation a unit quaternion.
    fn checked(&self, parent: &str, child: &str, rigid: Rigid) -> Result<Rigid, FrameError> {
        let norm = rigid.rotation_xyzw.iter().map(|value| value * value).sum::<f64>().sqrt();
        let is_finite = rigid.translation_m.iter().all(|value| value.is_finite());
        let mut ancestors = std::iter::successors(Some(parent), |frame| {
            self.edges.get(*frame).map(|edge| edge.parent.as_str())
        });
        let reason = if parent.is_empty() || child.is_empty() {
            "a frame has no name"
        } else if ancestors.any(|frame| frame == child) {
            "the frame would be its own ancestor"
        } else if !is_finite || !norm.is_finite() {
            "a number is not finite"
        } else if (norm - 1.0).abs() > 0.01 {
            "the rotation is not a unit quaternion"
        } else {
            let rotation_xyzw = rigid.rotation_xyzw.map(|value| value / norm);
            return Ok(Rigid { rotation_xyzw, ..rigid });
        };
        Err(FrameError::Invalid { parent: parent.to_owned(), child: child.to_owned(), reason })
    }

    /// The transform `to_from_from` at `at`, interpolated between the two nearest times of each moving
    /// frame on the path. Nothing is extrapolated.
    ///
    /// # Errors
    /// [`FrameError::NoPath`], [`FrameError::TooOld`] and [`FrameError::TooNew`].
    pub fn lookup(&self, to: &str, from: &str, at: Timestamp) -> Result<Found, FrameError> {
        let (to_chain, from_chain) = (self.chain(to), self.chain(from));
        let common = to_chain.iter().find(|frame| from_chain.contains(frame));
        let Some(common) = common else {
            let known: Vec<&str> = self.edges.keys().map(String::as_str).collect();
            let hint = match known.is_empty() {
                true => "; no frame is known".to_owned(),
                false => format!("; known are {}", known.join(", ")),
            };
            return Err(FrameError::NoPath { to: to.to_owned(), from: from.to_owned(), hint });
        };
        let below = |chain: &[&str]| {
            let mut found = Found { rigid: Rigid::IDENTITY, is_interpolated: false };
            for child in chain.iter().take_while(|frame| *frame != common) {
                let step = self.parent_from(child, at)?;
                found.rigid = step.rigid.then(&found.rigid);
                found.is_interpolated |= step.is_interpolated;
            }
            Ok(found)
        };
        let (up, down) = (below(&from_chain)?, below(&to_chain)?);
        Ok(Found {
            rigid: down.rigid.inverse().then(&up.rigid),
            is_interpolated: up.is_interpolated || down.is_interpolated,
        })
    }

    /// True if the frame `child` lies on the path between two frames, as far as that is known, and
    /// moves.
    pub fn moves(&self, to: &str, from: &str, child: &str) -> bool {
        let (to_chain, from_chain) = (self.chain(to), self.chain(from));
        let moving = self.edges.get(child).map(|edge| &edge.history);
        // A frame above both cancels out.
        to_chain.contains(&child) != from_chain.contains(&child)
            && matches!(moving, Some(History::Moving(_)))
    }

    /// The frame and its ancestors.
    fn chain<'f>(&'f self, frame: &'f str) -> Vec<&'f str> {
        let parent = |frame: &&'f str| self.edges.get(*frame).map(|edge| edge.parent.as_str());
        std::iter::successors(Some(frame), parent).collect()
    }

    /// The transform of `child` to its parent at `at`.
    fn parent_from(&self, child: &str, at: Timestamp) -> Result<Found, FrameError> {
        let exact = |rigid| Ok(Found { rigid, is_interpolated: false });
        let Some(edge) = self.edges.get(child) else { return exact(Rigid::IDENTITY) };
        let history = match &edge.history {
            History::Static(rigid) => return exact(*rigid),
            History::Moving(history) => history,
        };
        let (parent, child) = (edge.parent.clone(), child.to_owned());
        let index = history.partition_point(|(other, _)| *other < at);
        match (index.checked_sub(1).and_then(|before| history.get(before)), history.get(index)) {
            (_, Some((time, rigid))) if *time == at => exact(*rigid),
            (Some((before, from)), Some((after, to))) => {
                let share = at.since(*before).as_secs_f64() / after.since(*before).as_secs_f64();
                Ok(Found { rigid: between(from, to, share), is_interpolated: true })
            }
            (None, Some((oldest, _))) => {
                Err(FrameError::TooOld { parent, child, by: oldest.since(at) })
            }
            (Some((newest, _)), None) => {
                Err(FrameError::TooNew { parent, child, by: at.since(*newest) })
            }
            (None, None) => Err(FrameError::TooNew { parent, child, by: Duration::MAX }),
        }
    }
}

/// Linear for the translation, spherical linear for the rotation.
fn between(from: &Rigid, to: &Rigid, share: f64) -> Rigid {
    let pose = |rigid: &Rigid| Pose {
        frame_id: String::new(),
        position_m: rigid.translation_m,
        orientation_xyzw: rigid.rotation_xyzw,
    };
    let mut into = Pose::default();
    pose(from).interpolate(&pose(to), share, &mut into);
    Rigid { translation_m: into.position_m, rotation_xyzw: into.orientation_xyzw }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rotation about z.
    fn about_z(degrees: f64) -> [f64; 4] {
        let half = degrees.to_radians() / 2.0;
        [0.0, 0.0, half.sin(), half.cos()]
    }

    fn transform(ms: i64, parent: &str, child: &str, x: f64, degrees: f64) -> Transform {
        Transform {
            at: Timestamp(ms * 1_000_000),
            frame_id: parent.to_owned(),
            child_frame_id: child.to_owned(),
            translation_m: [x, 0.0, 0.0],
            rotation_xyzw: about_z(degrees),
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn near(found: [f64; 3], expected: [f64; 3]) {
        let is_near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(is_near, "{found:?} {expected:?}");
    }

    /// world ← head (moves) ← camera, and world ← map ← table.
    fn frames() -> Frames {
        let mut frames = Frames::default();
        let camera = Rigid { translation_m: [0.0, 0.1, 0.0], rotation_xyzw: about_z(90.0) };
        frames.set_static("head", "camera", camera).unwrap();
        let table = Rigid { translation_m: [5.0, 0.0, 0.0], ..Rigid::IDENTITY };
        frames.set_static("map", "table", table).unwrap();
        frames.set_static("world", "map", Rigid::IDENTITY).unwrap();
        for (ms, x, degrees) in [(0, 0.0, 0.0), (1000, 2.0, 90.0)] {
            frames.push(&transform(ms, "world", "head", x, degrees)).unwrap();
        }
        frames
    }

    #[test]
    fn paths_go_up_and_down() {
        let frames = frames();
        let found = frames.lookup("world", "camera", at(0)).unwrap();
        assert!(!found.is_interpolated);
        near(found.rigid.apply([1.0, 0.0, 0.0]), [0.0, 1.1, 0.0]);
        let middle = frames.lookup("world", "camera", at(500)).unwrap();
        assert!(middle.is_interpolated);
        let half = 0.5_f64.sqrt();
        near(middle.rigid.apply([0.0; 3]), [1.0 - 0.1 * half, 0.1 * half, 0.0]);
        let table = frames.lookup("camera", "table", at(1000)).unwrap().rigid;
        let world = frames.lookup("world", "camera", at(1000)).unwrap().rigid;
        near(world.apply(table.apply([0.0; 3])), [5.0, 0.0, 0.0]);
        let same = frames.lookup("head", "head", at(99_999)).unwrap();
        assert_eq!(same.rigid, Rigid::IDENTITY);
        // Static frames hold at all times.
        assert!(frames.lookup("world", "table", at(-5)).is_ok());
    }

    #[test]
    fn nothing_is_extrapolated() {
        let frames = frames();
        let error = |ms| frames.lookup("world", "camera", at(ms)).unwrap_err();
        let by = |ms| Duration::from_millis(ms);
        let (parent, child) = ("world".to_owned(), "head".to_owned());
        let old = FrameError::TooOld { parent: parent.clone(), child: child.clone(), by: by(1) };
        assert_eq!(error(-1), old);
        assert_eq!(error(1500), FrameError::TooNew { parent, child, by: by(500) });
        let told = frames.lookup("world", "mug", at(0)).unwrap_err().to_string();
        let expected =
            "no path from the frame \"world\" to \"mug\"; known are camera, head, map, table";
        assert_eq!(told, expected);
    }

    #[test]
    fn old_transforms_are_dropped_and_late_ones_inserted() {
        let mut frames = Frames::new(Duration::from_secs(1));
        for ms in [0, 500, 1000, 1400] {
            frames.push(&transform(ms, "world", "head", ms as f64, 0.0)).unwrap();
        }
        assert!(matches!(frames.lookup("world", "head", at(100)), Err(FrameError::TooOld { .. })));
        frames.push(&transform(1200, "world", "head", 7.0, 0.0)).unwrap();
        near(
            frames.lookup("world", "head", at(1200)).unwrap().rigid.translation_m,
            [7.0, 0.0, 0.0],
        );
        near(
            frames.lookup("world", "head", at(1300)).unwrap().rigid.translation_m,
            [703.5, 0.0, 0.0],
        );
        // The clock restarts.
        frames.push(&transform(-60_000, "world", "head", 3.0, 0.0)).unwrap();
        near(
            frames.lookup("world", "head", at(-60_000)).unwrap().rigid.translation_m,
            [3.0, 0.0, 0.0],
        );
        assert!(matches!(frames.lookup("world", "head", at(1200)), Err(FrameError::TooNew { .. })));
    }

    #[test]
    fn invalid_transforms_are_refused() {
        let mut frames = frames();
        let mut check = |transform: Transform, expected: &str| {
            let told = frames.push(&transform).unwrap_err().to_string();
            assert!(told.ends_with(expected), "{told}");
        };
        let good = transform(0, "world", "head", 0.0, 0.0);
        check(transform(0, "camera", "head", 0.0, 0.0), "the frame would be its own ancestor");
        check(transform(0, "head", "head", 0.0, 0.0), "the frame would be its own ancestor");
        check(transform(0, "", "head", 0.0, 0.0), "a frame has no name");
        check(transform(0, "world", "head", f64::NAN, 0.0), "a number is not finite");
        let rotation_xyzw = [0.0, 0.0, 0.0, 2.0];
        check(Transform { rotation_xyzw, ..good }, "the rotation is not a unit quaternion");
    }

    #[test]
    fn random_paths_invert() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut frames = Frames::default();
        let mut rigid = || {
            let raw: [f64; 4] = std::array::from_fn(|_| random.f64() - 0.5);
            let norm = raw.iter().map(|value| value * value).sum::<f64>().sqrt();
            let translation_m = std::array::from_fn(|_| random.f64() * 10.0 - 5.0);
            Rigid { translation_m, rotation_xyzw: raw.map(|value| value / norm) }
        };
        for (parent, child) in [("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("d", "f")] {
            frames.set_static(parent, child, rigid()).unwrap();
        }
        let names = ["a", "b", "c", "d", "e", "f"];
        for to in names {
            for from in names {
                let there = frames.lookup(to, from, at(0)).unwrap().rigid;
                let back = frames.lookup(from, to, at(0)).unwrap().rigid;
                near(back.apply(there.apply([1.0, 2.0, 3.0])), [1.0, 2.0, 3.0]);
                for middle in names {
                    let first = frames.lookup(middle, from, at(0)).unwrap().rigid;
                    let second = frames.lookup(to, middle, at(0)).unwrap().rigid;
                    near(second.apply(first.apply([1.0, 2.0, 3.0])), there.apply([1.0, 2.0, 3.0]));
                }
            }
        }
    }
}
