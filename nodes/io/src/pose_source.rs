//! Poses of a trajectory file.

use std::path::{Path, PathBuf};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, params, ports};
use afferent_messages::Pose;

use crate::{
    Pace, mcap_messages,
    output::file_error,
    paced::{Paced, Readings},
    timed_lines::{LineLayout, TimedLines},
};

params! {
    /// Settings of [`PoseSource`].
    pub struct PoseSourceParams {
        /// Path of a trajectory, or of a recording (MCAP).
        pub path: PathBuf;
        /// Topic of a recording. Default: the first one with poses.
        pub topic: Option<String>;
        /// Pace of reading.
        pub pace: Pace = "realtime";
        /// Restart the file at its end; timestamps keep increasing.
        pub repeat: bool = "false";
        /// Coordinate frame that the poses are given in. Default: that of the recording, or `world`.
        pub frame_id: Option<String>;
    }
}

/// Reads the trajectory of a camera or a body from a text file, as SLAM programs and data sets write it, or from a recording.
///
/// A recording is an MCAP file with `geometry_msgs/msg/PoseStamped`, of this program or of ROS 2. The time is
/// the stamp of a message, or the time of its publishing if it has none.
///
/// Two layouts of text are recognized by the number of columns: that of the TUM data sets and of `evo`
/// (time in seconds, position x y z in meters, quaternion x y z w), and the ground truth of EuRoC
/// (time in nanoseconds, position, quaternion w x y z, and nine columns that are not used). Columns are
/// separated by commas or spaces. Lines that begin with `#`, empty lines, and a first line with names
/// are skipped. The first pose is at the start of the session. If a line or a
/// message is not a pose, or not later than the one before, those before it are sent, and then the node fails.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::Pose;
/// use afferent_nodes_io::{PoseSource, PoseSourceParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-poses-{}.txt", std::process::id()));
/// std::fs::write(&path, "# time x y z qx qy qz qw\n0.0 1 2 3 0 0 0 1\n").unwrap();
/// let values = [("path".to_owned(), ParamValue::Path(path.clone()))].into();
/// let params = PoseSourceParams::from_values(&values)?;
/// let mut bench = NodeBench::new(PoseSource::open(params, &OpenCx::default())?);
/// let (sent, _) = bench.poll(Timestamp::ZERO)?;
/// assert_eq!(sent[0].1.get::<Pose>().unwrap().position_m, [1.0, 2.0, 3.0]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct PoseSource {
    poses: Paced<Pose>,
    frame_id: Option<String>,
}

/// Layouts of TUM and of EuRoC.
const LAYOUTS: &[LineLayout] = &[
    LineLayout { columns: "time_s, x, y, z, qx, qy, qz, qw", numbers: 7, has_seconds: true },
    LineLayout {
        columns: "time_ns, x, y, z, qw, qx, qy, qz and nine others",
        numbers: 16,
        has_seconds: false,
    },
];

/// Largest distance of the length of a quaternion from one. Files have few digits.
const TOLERANCE: f64 = 0.01;

ports! {
    impl PoseSource {
        /// Poses of the file.
        out POSE: Pose;
    }
}

/// The pose of a line, or `None` if its quaternion is not one.
fn pose(numbers: &[f64], has_scalar_first: bool) -> Option<Pose> {
    let &[x, y, z, a, b, c, d, ..] = numbers else { return None };
    let quaternion = if has_scalar_first { [b, c, d, a] } else { [a, b, c, d] };
    normalized(Pose { position_m: [x, y, z], orientation_xyzw: quaternion, ..Pose::default() })
}

/// A pose whose quaternion has the length one, or `None` if it has another one.
fn normalized(pose: Pose) -> Option<Pose> {
    let quaternion = pose.orientation_xyzw;
    let norm = quaternion.iter().map(|value| value * value).sum::<f64>().sqrt();
    ((norm - 1.0).abs() <= TOLERANCE)
        .then(|| Pose { orientation_xyzw: quaternion.map(|value| value / norm), ..pose })
}

const NOT_A_ROTATION: &str = "the quaternion does not have the length 1";

/// Poses of a file.
fn readings(path: &Path, topic: Option<&str>) -> Result<Readings<Pose>, NodeError> {
    if let Some(mut next) = mcap_messages::readings_of::<Pose>(path, topic)? {
        let path = path.to_owned();
        return Ok(Box::new(move || {
            let Some((time, pose)) = next()? else { return Ok(None) };
            let is_finite = pose.position_m.iter().all(|value| value.is_finite());
            let pose = normalized(pose).filter(|_| is_finite).ok_or_else(|| {
                let reason = if is_finite { NOT_A_ROTATION } else { "the position is not finite" };
                file_error(&path, format!("{time:?} after the first pose: {reason}"))
            })?;
            Ok(Some((time, pose)))
        }));
    }
    let mut lines = TimedLines::open(path, LAYOUTS)?;
    Ok(Box::new(move || {
        let Some((time, numbers)) = lines.next()? else { return Ok(None) };
        let has_scalar_first = lines.layout().is_some_and(|layout| !layout.has_seconds);
        let pose = pose(&numbers, has_scalar_first).ok_or_else(|| lines.fault(NOT_A_ROTATION))?;
        Ok(Some((time, pose)))
    }))
}

impl Node for PoseSource {
    type Params = PoseSourceParams;

    const NAME: &'static str = "pose_source";
    const SUMMARY: &'static str = "Reads the trajectory of a camera or a body from a file.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn check(params: &PoseSourceParams, _: &OpenCx) -> Result<(), NodeError> {
        let first = readings(&params.path, params.topic.as_deref())?()?;
        first.map(drop).ok_or_else(|| file_error(&params.path, "it has no poses"))
    }

    fn open(params: PoseSourceParams, _: &OpenCx) -> Result<Self, NodeError> {
        let PoseSourceParams { path, topic, pace, repeat, frame_id } = params;
        let poses = Paced::open(move || readings(&path, topic.as_deref()), pace, repeat)?;
        Ok(Self { poses, frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some((at, mut pose)) = self.poses.poll(cx)? else { return Ok(()) };
        if let Some(frame_id) = &self.frame_id {
            pose.frame_id.clone_from(frame_id);
        } else if pose.frame_id.is_empty() {
            pose.frame_id = "world".to_owned();
        }
        cx.send_at(Self::POSE, at, pose);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params, Timestamp};

    use super::*;

    fn poses(name: &str, text: &str) -> Result<Vec<(i64, Pose)>, String> {
        let name = format!("afferent-pose-source-{name}-{}.txt", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let values: ParamValues = [
            ("path".to_owned(), ParamValue::Path(path)),
            ("pace".to_owned(), ParamValue::Text("max".into())),
        ]
        .into();
        let params = PoseSourceParams::from_values(&values).unwrap();
        let mut bench = NodeBench::new(PoseSource::open(params, &OpenCx::default()).unwrap());
        let mut found = Vec::new();
        loop {
            let (sent, _) = bench.poll(Timestamp::ZERO).map_err(|error| error.to_string())?;
            let Some((_, packet)) = sent.first() else { return Ok(found) };
            found.push((packet.header.at.0, packet.get::<Pose>().unwrap().clone()));
        }
    }

    #[test]
    fn both_layouts_give_the_same_pose() {
        let tum = "# made by hand\n10.5 1 2 3 0.5 0.5 0.5 -0.5\n10.75 4 5 6 0 0 0.999 0\n";
        let found = poses("tum", tum).unwrap();
        let pose = Pose {
            frame_id: "world".to_owned(),
            position_m: [1.0, 2.0, 3.0],
            orientation_xyzw: [0.5, 0.5, 0.5, -0.5],
        };
        assert_eq!(found[0], (0, pose.clone()));
        assert_eq!((found[1].0, found[1].1.orientation_xyzw), (250_000_000, [0.0, 0.0, 1.0, 0.0]));
        let euroc = "#timestamp, p_RS_R_x [m], ...\n7,1,2,3,-0.5,0.5,0.5,0.5,0,0,0,0,0,0,0,0,0\n";
        assert_eq!(poses("euroc", euroc).unwrap(), [(0, pose)]);
    }

    #[test]
    fn wrong_lines_are_named() {
        let check = |name: &str, text: &str, expected: &str| {
            let told = poses(name, text).unwrap_err();
            assert!(told.ends_with(expected), "{told}");
        };
        check("length", "0 1 2 3 0 0 0 2\n", "line 1: the quaternion does not have the length 1");
        let columns = "line 1: 2 columns; time_s, x, y, z, qx, qy, qz, qw; or time_ns, x, y, z, qw, qx, qy, qz \
            and nine others were expected";
        check("columns", "0 1\n", columns);
    }
}
