//! The pose of one coordinate frame in another, from many transforms.

use std::{collections::VecDeque, path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Pose, Transform, Transforms as Message};

use crate::{
    frames::{FrameError, Frames, Rigid},
    static_frames,
};

params! {
    /// Settings of [`Transforms`].
    pub struct TransformsParams {
        /// Path of a YAML file with the transforms that hold at all times. Default: there are none.
        pub frames: Option<PathBuf>;
        /// Frame that the poses are given in.
        pub to: String = "world";
        /// Frame whose poses are sent.
        pub from: String = "camera";
        /// Child frame of the poses on the input `poses`.
        pub child: String = "body";
        /// Time for which transforms are kept, and longest time for which a pose waits for them.
        pub keep: Duration = "10s", range 0.01..=3600.0;
    }
}

/// Keeps a tree of coordinate frames, and sends the pose of the frame `from` in the frame `to`:
/// `world_from_camera` by default.
///
/// Transforms come from the file `frames`, from ROS or a recording on `transforms` and `static`, and from the
/// poses of a body, such as a headset, on `poses`. Each time a moving transform
/// arrives, the pose at its time is sent; the other transforms of the path are interpolated at that
/// time. Nothing is extrapolated: if one of them is not known yet, the time waits for it, up to `keep`.
/// Poses that could not be computed are counted in a warning, with the reason.
///
/// ```yaml
/// # frames.yaml: each child frame in its parent
/// camera: {parent: head, translation_m: [0.03, 0, 0.1], rotation_rpy_deg: [-90, 0, -90]}
/// head: {parent: body, translation_m: [0, 0, 0.25]}
/// ```
///
/// Rotations are a quaternion `rotation_xyzw`, or roll, pitch and yaw as in URDF.
///
/// Latency: until every transform of the path is known.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::Pose;
/// use afferent_nodes_spatial::{Transforms, TransformsParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-frames-{}.yaml", std::process::id()));
/// std::fs::write(&path, "camera: {parent: body, translation_m: [0, 0, 1.5]}").unwrap();
/// let values = [("frames".to_owned(), ParamValue::Path(path.clone()))].into();
/// let params = TransformsParams::from_values(&values)?;
/// let mut bench = NodeBench::new(Transforms::open(params, &OpenCx::default())?);
/// let frame_id = "world".to_owned();
/// let body = Pose { frame_id, position_m: [1.0, 2.0, 0.0], ..Pose::default() };
/// let sent = bench.call(Transforms::POSES, Timestamp(7), body)?;
/// assert_eq!(sent[0].1.get::<Pose>().unwrap().position_m, [1.0, 2.0, 1.5]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Transforms {
    params: TransformsParams,
    frames: Frames,
    /// Times that wait for a transform, in order.
    waiting: VecDeque<Timestamp>,
    last: Option<Timestamp>,
    /// Times for which no pose was found.
    missed: u64,
}

/// Most times that wait.
const MAX_WAITING: usize = 10_000;

ports! {
    impl Transforms {
        /// Transforms, as of `/tf` of ROS.
        in TRANSFORMS: Message, optional;
        /// Transforms that hold at all times, as of `/tf_static` of ROS.
        in STATIC: Message, optional;
        /// Poses of the frame `child`.
        in POSES: Pose, optional;
        /// Pose of the frame `from` in the frame `to`, in the order of time.
        out POSE: Pose;
        /// The same pose as a transform, for viewers and for `/tf` of ROS.
        out TRANSFORM: Message, optional;
    }
}

impl Transforms {
    /// Adds a transform, and queues its time.
    fn push(&mut self, transform: &Transform, port: &'static str) -> Result<(), NodeError> {
        self.frames.push(transform).map_err(|error| invalid(port, &error))?;
        let at = transform.at;
        let newest = self.waiting.back().copied().max(self.last);
        if newest.is_some_and(|newest| newest.since(at) > self.params.keep) {
            // The clock of the source has restarted.
            (self.last, self.waiting) = (None, VecDeque::new());
        }
        let is_new = self.last.is_none_or(|last| at > last)
            && self.waiting.back().is_none_or(|back| at > *back);
        if is_new
            && self.frames.moves(&self.params.to, &self.params.from, &transform.child_frame_id)
        {
            if self.waiting.len() >= MAX_WAITING {
                self.waiting.pop_front();
                self.miss("too many times wait for a transform");
            }
            self.waiting.push_back(at);
        }
        Ok(())
    }

    /// Sends the poses of all times that wait and are known by now.
    fn send(&mut self, cx: &mut Cx<'_>) {
        while let Some(at) = self.waiting.front().copied() {
            match self.frames.lookup(&self.params.to, &self.params.from, at) {
                Ok(found) => {
                    let pose = Pose {
                        frame_id: self.params.to.clone(),
                        position_m: found.rigid.translation_m,
                        orientation_xyzw: found.rigid.rotation_xyzw,
                    };
                    cx.send_at(Self::POSE, at, pose);
                    let transform = Transform {
                        at,
                        frame_id: self.params.to.clone(),
                        child_frame_id: self.params.from.clone(),
                        translation_m: found.rigid.translation_m,
                        rotation_xyzw: found.rigid.rotation_xyzw,
                    };
                    cx.send_at(Self::TRANSFORM, at, Message { transforms: vec![transform] });
                    self.last = Some(at);
                }
                Err(error @ (FrameError::TooNew { .. } | FrameError::NoPath { .. })) => {
                    let newest = self.waiting.back().copied().unwrap_or(at);
                    if newest.since(at) <= self.params.keep {
                        return;
                    }
                    self.miss(&error.to_string());
                }
                Err(error) => self.miss(&error.to_string()),
            }
            self.waiting.pop_front();
        }
    }

    fn miss(&mut self, reason: &str) {
        self.missed += 1;
        // The first, the tenth, the hundredth.
        if self.missed.ilog10() != (self.missed - 1).checked_ilog10().unwrap_or(u32::MAX) {
            tracing::warn!("no pose at {} times so far: {reason}", self.missed);
        }
    }
}

fn invalid(port: &'static str, error: &FrameError) -> NodeError {
    NodeError::InvalidInput { port: port.into(), reason: error.to_string() }
}

impl Node for Transforms {
    type Params = TransformsParams;

    const NAME: &'static str = "transforms";
    const SUMMARY: &'static str = "Sends the pose of one coordinate frame in another.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "until every transform of the path is known";

    fn check(params: &TransformsParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(drop)
    }

    fn open(params: TransformsParams, _: &OpenCx) -> Result<Self, NodeError> {
        let mut frames = Frames::new(params.keep);
        if let Some(path) = &params.frames {
            static_frames::read(path, &mut frames)?;
        }
        Ok(Self { params, frames, waiting: VecDeque::new(), last: None, missed: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(pose) = cx.get(Self::POSES) {
            let transform = Transform {
                at: cx.at(),
                frame_id: pose.frame_id.clone(),
                child_frame_id: self.params.child.clone(),
                translation_m: pose.position_m,
                rotation_xyzw: pose.orientation_xyzw,
            };
            self.push(&transform, Self::POSES.name())?;
        } else if let Some(message) = cx.get(Self::STATIC) {
            for transform in &message.transforms {
                let Transform { frame_id, child_frame_id, translation_m, rotation_xyzw, .. } =
                    transform;
                let rigid = Rigid { translation_m: *translation_m, rotation_xyzw: *rotation_xyzw };
                let added = self.frames.set_static(frame_id, child_frame_id, rigid);
                added.map_err(|error| invalid(Self::STATIC.name(), &error))?;
            }
        } else if let Some(message) = cx.get(Self::TRANSFORMS) {
            for transform in &message.transforms {
                self.push(transform, Self::TRANSFORMS.name())?;
            }
        }
        self.send(cx);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValues, Params};

    use super::*;

    fn transforms() -> NodeBench<Transforms> {
        let params = TransformsParams::from_values(&ParamValues::new()).unwrap();
        NodeBench::new(Transforms::open(params, &OpenCx::default()).unwrap())
    }

    fn message(ms: i64, parent: &str, child: &str, x: f64) -> Message {
        let transform = Transform {
            at: Timestamp(ms * 1_000_000),
            frame_id: parent.to_owned(),
            child_frame_id: child.to_owned(),
            translation_m: [x, 0.0, 0.0],
            ..Transform::default()
        };
        Message { transforms: vec![transform] }
    }

    /// Times in milliseconds and x of the poses that a message causes.
    fn sent(bench: &mut NodeBench<Transforms>, message: Message) -> Vec<(i64, f64)> {
        let at = message.transforms[0].at;
        let sent = bench.call(Transforms::TRANSFORMS, at, message).unwrap();
        let (poses, transforms): (Vec<_>, Vec<_>) =
            sent.iter().partition(|(_, packet)| packet.get::<Pose>().is_some());
        let x = |transform: &Transform| (transform.at.0 / 1_000_000, transform.translation_m[0]);
        let transforms = transforms.iter().map(|(_, packet)| packet.get::<Message>().unwrap());
        let transforms: Vec<_> = transforms.map(|message| x(&message.transforms[0])).collect();
        let poses = poses.iter().map(|(_, packet)| {
            (packet.header.at.0 / 1_000_000, packet.get::<Pose>().unwrap().position_m[0])
        });
        let poses: Vec<_> = poses.collect();
        assert_eq!(poses, transforms);
        poses
    }

    #[test]
    fn a_time_waits_for_every_transform_of_the_path() {
        let mut bench = transforms();
        assert_eq!(sent(&mut bench, message(0, "world", "body", 10.0)), []);
        // The camera on the body is known from 50 ms on: 0 ms is older than that.
        assert_eq!(sent(&mut bench, message(50, "body", "camera", 1.0)), []);
        assert_eq!(sent(&mut bench, message(100, "world", "body", 20.0)), [(50, 16.0)]);
        assert_eq!(sent(&mut bench, message(100, "body", "camera", 2.0)), [(100, 22.0)]);
        assert_eq!(sent(&mut bench, message(150, "body", "camera", 3.0)), []);
        assert_eq!(sent(&mut bench, message(200, "world", "body", 40.0)), [(150, 33.0)]);
        // A frame that is not on the path.
        assert_eq!(sent(&mut bench, message(300, "body", "hand", 9.0)), []);
        // The clock restarts.
        assert_eq!(sent(&mut bench, message(-60_000, "world", "body", 1.0)), []);
        assert_eq!(sent(&mut bench, message(-60_000, "body", "camera", 1.0)), [(-60_000, 2.0)]);
    }

    #[test]
    fn static_transforms_hold_at_all_times() {
        let mut bench = transforms();
        let camera = message(0, "body", "camera", 1.0);
        assert!(bench.call(Transforms::STATIC, Timestamp(0), camera).unwrap().is_empty());
        assert_eq!(sent(&mut bench, message(90_000, "world", "body", 2.0)), [(90_000, 3.0)]);
    }

    #[test]
    fn invalid_transforms_are_refused() {
        let mut bench = transforms();
        let error = bench.call(Transforms::TRANSFORMS, Timestamp(0), message(0, "a", "a", 0.0));
        assert!(error.unwrap_err().to_string().contains("its own ancestor"));
    }
}
