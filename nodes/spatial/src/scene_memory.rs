//! A memory of where things are.

use std::{path::Path, time::Duration};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, OutputPath, Port, SessionStart, Timestamp, choices, params, ports,
};
use afferent_messages::{Pose, SceneUpdate, ToolMessage, Transforms, vision::Detections3d};

use crate::{
    camera_view::CameraView,
    frames::Rigid,
    memory::{Change, MemoryFile, MemoryFileError, ObserveSettings, SceneMemory, Viewer},
};

mod drawing;
mod tools;

choices! {
    /// Meaning of the frame of the poses from session to session.
    pub enum MapFrame {
        /// Poses are in the same frame in every session, such as that of a map or of motion capture.
        Fixed = "fixed",
        /// Each session begins a new frame.
        Session = "session",
    }
}

params! {
    /// Settings of [`SceneMemory`](crate::SceneMemoryNode).
    pub struct SceneMemoryParams {
        /// Path of the file that keeps the memory; it is created if there is none. Default: the memory
        /// ends with the run.
        pub path: Option<OutputPath>;
        /// Meaning of the frame of the poses.
        pub frame: MapFrame = "fixed";
        /// Sightings after which an object is remembered.
        pub sightings: u32 = "3", range 1.0..=1000.0;
        /// Time within which they must come.
        pub within: Duration = "2s", range 0.01..=3600.0;
        /// Distance up to which an object that is not seen where it should be counts as gone.
        pub visible_distance: f64 = "3", range 0.1..=1000.0, unit "m";
        /// Most objects; the one that was not seen for the longest time is forgotten.
        pub max_objects: usize = "10000", range 1.0..=1000000.0;
        /// Days after which an object that was not seen again is forgotten, unless it has a name.
        pub max_age: f64 = "90", range 0.0..=36500.0, unit "days";
    }
}

/// Remembers where things are, and answers where they are.
///
/// Objects come from `lift`, with their positions in the world. A detection near a known object of the
/// same class is a sighting of it (Mahalanobis distance below 3); its position is filtered over all
/// sightings. Other detections begin new objects, which count after `sightings` within `within`. An object that
/// is not seen where it must be visible (in the view, near, large enough, nothing before it) loses
/// its credit and is forgotten; one that is not looked at is kept.
///
/// With `path`, the memory lasts. The file is a snapshot and a log of changes: a crash of the program
/// loses at most the last second. `afferent memory FILE` lists it.
///
/// With `frame: session`, the objects of earlier sessions are stale until a place is recognized: an
/// anchor on the input `anchors` that an earlier session has seen too. Then this session continues in
/// the map of that one.
///
/// Tool calls, each with a JSON object; calls of other tools are ignored, so that they can go to several
/// nodes:
///
/// | tool | arguments | result |
/// |---|---|---|
/// | `where_is` | `thing` | `found`, `phrase`, `distance_m`, `bearing_deg` (positive to the right), `age_s`, `count`, `on`, `stale` |
/// | `what_is_here` | `distance_m` (3) | `phrase`, `things` |
/// | `remember_this` | `name` | names the object in the middle of the view, or this place: `phrase` |
/// | `forget` | `thing` | `forgotten`, `phrase` |
///
/// Latency: none.
pub struct SceneMemoryNode {
    memory: SceneMemory,
    file: Option<MemoryFile>,
    params: SceneMemoryParams,
    start: SessionStart,
    viewer: Option<Rigid>,
    /// Coordinate frame of the objects.
    frame_id: String,
    /// Time of the last write.
    published: Option<Timestamp>,
}

/// Time between writes to the file, and between updates of viewers.
const PUBLISH_EVERY: Duration = Duration::from_millis(500);

ports! {
    impl SceneMemoryNode {
        /// Objects in space, from `lift`.
        in OBJECTS: Detections3d;
        /// Pose of the camera, for answers that say where a thing is from here. Default: that of the
        /// last objects.
        in POSE: Pose, optional;
        /// Places that are recognized in every session: child frames with the name of the place, in the
        /// frame of the poses.
        in ANCHORS: Transforms, optional;
        /// Tool calls.
        in CALLS: ToolMessage, optional;
        /// One result per call.
        out RESULTS: ToolMessage, optional;
        /// What has changed, at most twice a second, for viewers such as Foxglove.
        out SCENE: SceneUpdate, optional;
    }
}

impl SceneMemoryNode {
    fn observe(&mut self, found: &Detections3d, at_ns: u64) -> Result<(), NodeError> {
        let view = found.view.as_ref().map(|view| CameraView::new(&view.pose, &view.depth));
        let view = view.transpose().map_err(|error| NodeError::InvalidInput {
            port: "objects".into(),
            reason: error.to_string(),
        })?;
        if let Some(view) = &view {
            self.viewer = Some(view.world_from_camera);
        }
        self.frame_id.clone_from(&found.frame_id);
        self.memory.observe(at_ns, &found.detections, view.as_ref());
        Ok(())
    }

    /// Writes and sends what has changed, at most twice a second, or `now`.
    fn publish(&mut self, cx: &mut Cx<'_>, now: bool) -> Result<(), NodeError> {
        let at = cx.at();
        if !now && self.published.is_some_and(|last| at.since(last) < PUBLISH_EVERY) {
            return Ok(());
        }
        let is_first = self.published.replace(at).is_none();
        let changes = self.memory.take_changes();
        if is_first {
            // Viewers know nothing of what the file has.
            let records = self.memory.records().into_iter();
            let all: Vec<_> = records.map(|record| Change::Put(Box::new(record))).collect();
            cx.send(Self::SCENE, drawing::scene_update(&all, &self.frame_id));
        } else if !changes.is_empty() {
            cx.send(Self::SCENE, drawing::scene_update(&changes, &self.frame_id));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let Some(file) = &self.file else { return Ok(()) };
        let mut done = file.append(changes);
        if file.needs_snapshot() {
            done = done.and(file.replace(self.memory.snapshot()));
        }
        done.map_err(|error| file_error(&self.params, &error))
    }
}

fn file_error(params: &SceneMemoryParams, error: &MemoryFileError) -> NodeError {
    let path = params.path.as_deref().map(Path::to_owned).unwrap_or_default();
    NodeError::File { path, reason: error.to_string() }
}

impl Node for SceneMemoryNode {
    type Params = SceneMemoryParams;

    const NAME: &'static str = "scene_memory";
    const SUMMARY: &'static str = "Remembers where things are, and answers where they are.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn check(params: &SceneMemoryParams, _: &OpenCx) -> Result<(), NodeError> {
        match params.path.as_deref() {
            Some(path) if path.exists() => {
                crate::memory::read(path).map(drop).map_err(|error| file_error(params, &error))
            }
            _ => Ok(()),
        }
    }

    fn open(params: SceneMemoryParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let start = cx.services.need().copied().unwrap_or_else(|_| SessionStart::now());
        let settings = ObserveSettings {
            confirm_count: params.sightings,
            confirm_within: params.within,
            visible_distance_m: params.visible_distance,
            max_objects: params.max_objects,
            max_age: Duration::from_secs_f64(params.max_age * 86_400.0),
        };
        let map = match params.frame {
            MapFrame::Fixed => 0,
            MapFrame::Session => start.unix_ns,
        };
        let mut memory = SceneMemory::new(settings, map);
        let mut file = None;
        if let Some(path) = params.path.as_deref() {
            let opened = MemoryFile::open(path).map_err(|error| file_error(&params, &error))?;
            let content = opened.1;
            if content.cut_bytes > 0 && content.valid_bytes > 0 {
                tracing::warn!(
                    "{}: the last {} bytes were cut off by a crash and are dropped",
                    path.display(),
                    content.cut_bytes
                );
            }
            memory.restore(content.snapshot);
            file = Some(opened.0);
        }
        Ok(Self {
            memory,
            file,
            params,
            start,
            viewer: None,
            frame_id: String::new(),
            published: None,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.at();
        let at_ns = self.start.unix_ns(at);
        if let Some(found) = cx.get(Self::OBJECTS) {
            self.observe(found, at_ns)?;
        } else if let Some(pose) = cx.get(Self::POSE) {
            self.viewer = Some(Rigid::from(pose));
            return Ok(());
        } else if let Some(anchors) = cx.get(Self::ANCHORS) {
            for anchor in &anchors.transforms {
                let pose = Rigid {
                    translation_m: anchor.translation_m,
                    rotation_xyzw: anchor.rotation_xyzw,
                };
                if self.memory.observe_anchor(&anchor.child_frame_id, &pose, at_ns) {
                    tracing::info!(
                        "{}: recognized; this is the map of an earlier session",
                        anchor.child_frame_id
                    );
                }
            }
        } else if let Some(call) = cx.get(Self::CALLS).cloned() {
            if !tools::TOOLS.contains(&call.tool.as_str()) {
                return Ok(());
            }
            let viewer = self.viewer.map(|world_from_camera| Viewer { world_from_camera });
            let result = tools::run(&mut self.memory, &call, viewer.as_ref(), at_ns);
            let json = result.unwrap_or_else(|reason| serde_json::json!({"error": reason}));
            cx.send(Self::RESULTS, ToolMessage { json: json.to_string(), ..call });
        }
        self.publish(cx, false)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.publish(cx, true)
    }
}
