//! A memory of where things are.

use std::{collections::VecDeque, path::Path, time::Duration};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, OutputPath, Packet, Port, SessionStart, Timestamp, choices,
    params, ports,
};
use afferent_messages::{
    Image, PixelFormat, Pose, SceneUpdate, ToolMessage, Transforms,
    vision::{Detection3d, Detections3d, Embedding, Planes},
};

use crate::{
    camera_view::CameraView,
    frames::Rigid,
    memory::{
        Change, IMAGE_FORMATS, MemoryFile, MemoryFileError, ObserveSettings, SceneMemory, Snapshot,
        Viewer,
    },
};

mod drawing;
mod tools;

use drawing::Drawing;

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
        /// Least cosine between the vectors of an image and of a keyframe that looks alike.
        pub keyframe_similarity: f32 = "0.9", range -1.0..=1.0;
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
/// sightings. Other detections begin new objects, which count after `sightings` within `within`. An object
/// that must be visible (in the view, near, large enough, not occluded) and is not detected becomes less
/// likely, and is forgotten in the end. An object outside the view is kept.
///
/// A plane on the input `planes` extends the rectangle of the known one that it is part of. Answers then say
/// that a thing is on the table or on the floor.
///
/// With `path`, the memory lasts. The file is a snapshot and a log of changes: a crash of the program
/// loses at most the last second. `afferent memory FILE` lists it.
///
/// With `frame: session`, the objects of earlier sessions are stale until a pose is recognized: an
/// anchor on the input `anchors` that an earlier session has seen too, or keyframes: three images in a row whose
/// vectors on the input `keyframes` are like those of an earlier session. Then this session continues in the map
/// of that one. A keyframe gives its position within about a meter, an anchor as well as it is measured.
///
/// With the input `images`, the memory keeps what each thing looked like, at most 96 pixels wide and high. An
/// answer of `where_is` sends it on `last_image`.
///
/// Tool calls, each with a JSON object; calls of other tools are ignored, so that they can go to several
/// nodes:
///
/// | tool | arguments | result |
/// |---|---|---|
/// | `where_is` | `thing` | `found`, `phrase`, `thing`, `id`, `position_m`, `distance_m`, `bearing_deg` (positive to the right), `age_s`, `count`, `on`, `stale` |
/// | `what_is_here` | `distance_m` (3) | `phrase`, `things` |
/// | `remember_this` | `name` | names the object in the middle of the view, or this position: `id`, `phrase` |
/// | `forget` | `thing` | `forgotten`, `phrase` |
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::{
///     ToolMessage,
///     vision::{Detection3d, Detections3d},
/// };
/// use afferent_nodes_spatial::{SceneMemoryNode, SceneMemoryParams};
///
/// let params = SceneMemoryParams::from_values(&Default::default())?;
/// let mut bench = NodeBench::new(SceneMemoryNode::open(params, &OpenCx::default())?);
/// for image in 0..3 {
///     let cup = Detection3d {
///         label: "cup".into(),
///         score: 0.8,
///         position_m: [1.0, 2.0, 0.8],
///         covariance_m2: [[0.01, 0.0, 0.0], [0.0, 0.01, 0.0], [0.0, 0.0, 0.01]],
///         size_m: [0.1; 3],
///     };
///     let found = Detections3d { detections: vec![cup], ..Detections3d::default() };
///     bench.call(SceneMemoryNode::OBJECTS, Timestamp(image * 200_000_000), found)?;
/// }
/// let call = ToolMessage { turn: 1, tool: "where_is".into(), json: "{\"thing\": \"my mug\"}".into() };
/// let sent = bench.call(SceneMemoryNode::CALLS, Timestamp(1_000_000_000), call)?;
/// assert!(sent[0].1.get::<ToolMessage>().unwrap().json.contains("\"position_m\":[1.0,2.0,0.8]"));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct SceneMemoryNode {
    memory: SceneMemory,
    file: Option<MemoryFile>,
    params: SceneMemoryParams,
    start: SessionStart,
    /// The last poses of the camera.
    poses: VecDeque<(Timestamp, Rigid)>,
    /// Coordinate frame of the objects.
    frame_id: String,
    /// The last images, for what objects look like.
    images: VecDeque<Packet>,
    /// Objects whose image has not come yet: their packet, and what the memory knows of them.
    imageless: Option<(Packet, Vec<(u64, Detection3d)>)>,
    /// Time of the last write.
    published: Option<Timestamp>,
    /// True if viewers do not know all entities: at first, and after a map was found.
    draws_all: bool,
}

/// Most poses that are kept, and the most time between that of an image and its own.
const MAX_POSES: usize = 256;
const MAX_POSE_AGE: Duration = Duration::from_millis(200);

/// Most images that wait for their objects.
const MAX_IMAGES: usize = 8;

/// Time between writes to the file, and between updates of viewers.
const PUBLISH_EVERY: Duration = Duration::from_millis(500);

ports! {
    impl SceneMemoryNode {
        /// Objects in space, from `lift`.
        in OBJECTS: Detections3d;
        /// Floors, walls and table tops, from `planes`.
        in PLANES: Planes, optional;
        /// Images of the camera, `rgb8`, `bgr8` or `mono8`, for what things look like; the node
        /// `image_view` converts others.
        in IMAGES: Image, optional;
        /// Pose of the camera, for answers that say where a thing is from here. Default: that of the
        /// last objects.
        in POSE: Pose, optional;
        /// Poses that are recognized in every session: child frames with the name of the anchor, in the
        /// frame of the poses.
        in ANCHORS: Transforms, optional;
        /// Vectors of images, from `embed_image`, by which a session with `frame: session` finds its map.
        in KEYFRAMES: Embedding, optional;
        /// Tool calls.
        in CALLS: ToolMessage, optional;
        /// One result per call.
        out RESULTS: ToolMessage, optional;
        /// Last image of the thing that a `where_is` has found.
        out LAST_IMAGE: Image, optional;
        /// Changes of the entities, at most twice a second, for viewers such as Foxglove.
        out SCENE: SceneUpdate, optional;
    }
}

impl SceneMemoryNode {
    fn observe(&mut self, packet: &Packet) -> Result<(), NodeError> {
        let (at, Some(found)) = (packet.header.at, packet.get::<Detections3d>()) else {
            return Ok(());
        };
        let at_ns = self.start.unix_ns(at);
        if let Some(view) = &found.view {
            self.keep_pose(at, Rigid::from(&view.pose));
        }
        let view = found.view.as_ref().map(|view| CameraView::new(&view.pose, &view.depth));
        let view = view.transpose().map_err(|error| error.at("objects"))?;
        self.frame_id.clone_from(&found.frame_id);
        let seen = self.memory.observe(at_ns, &found.detections, view.as_ref());
        self.imageless = Some((packet.clone(), seen));
        self.show_objects();
        Ok(())
    }

    fn keep_pose(&mut self, at: Timestamp, pose: Rigid) {
        if self.poses.len() == MAX_POSES {
            self.poses.pop_front();
        }
        self.poses.push_back((at, pose));
    }

    /// Keeps an image as a keyframe, or finds the map by it, if its pose is known.
    fn observe_keyframe(&mut self, found: &Embedding, at: Timestamp) {
        let apart = |pose: &Timestamp| at.since(*pose).max(pose.since(at));
        let pose = self.poses.iter().min_by_key(|(pose, _)| apart(pose));
        let pose = pose.filter(|(pose, _)| apart(pose) <= MAX_POSE_AGE).map(|(_, pose)| *pose);
        let (Some(pose), Some(vector)) = (pose, found.first()) else { return };
        if self.params.frame == MapFrame::Fixed {
            return;
        }
        let image = (found.space.as_str(), vector);
        let similarity = self.params.keyframe_similarity;
        if self.memory.observe_keyframe(self.start.unix_ns(at), image, &pose, similarity) {
            self.draws_all = true;
            tracing::info!("a keyframe was recognized; this is the map of an earlier session");
        }
    }

    /// Last image of the thing of a result.
    fn last_image(&mut self, result: &serde_json::Value) -> Option<Image> {
        let png = self.memory.image(result.get("distance_m").and(result["id"].as_u64())?)?;
        let mut image = Image::default();
        image.read_file(&png).ok()?;
        Some(image)
    }

    /// Keeps the images of the last objects, once the image of the camera is there.
    fn show_objects(&mut self) {
        let Some((packet, seen)) = &self.imageless else { return };
        let image = self.images.iter().find(|image| image.header.at == packet.header.at);
        let image = image.and_then(|image| image.get::<Image>());
        let view = packet.get::<Detections3d>().and_then(|found| found.view.as_ref());
        let view = view.and_then(|view| CameraView::new(&view.pose, &view.depth).ok());
        if let (Some(image), Some(view)) = (image, view) {
            let at_ns = self.start.unix_ns(packet.header.at);
            self.memory.keep_images(at_ns, seen, &view, image);
            self.imageless = None;
        }
    }

    /// Keeps an image until the objects in it are known.
    fn keep_image(&mut self, packet: &Packet) -> Result<(), NodeError> {
        let Some(image) = packet.get::<Image>() else { return Ok(()) };
        if !IMAGE_FORMATS.contains(&image.format()) {
            let (found, formats) = (image.format().name(), IMAGE_FORMATS.map(PixelFormat::name));
            let reason = format!(
                "the format is {found}; it must be one of {}: convert the images with `image_view`",
                formats.join(", ")
            );
            return Err(NodeError::InvalidInput { port: "images".into(), reason });
        }
        if self.images.len() == MAX_IMAGES {
            self.images.pop_front();
        }
        self.images.push_back(packet.clone());
        self.show_objects();
        Ok(())
    }

    /// Writes and sends what has changed, at most twice a second, or `now`.
    fn publish(&mut self, cx: &mut Cx<'_>, now: bool) -> Result<(), NodeError> {
        let at = cx.at();
        // The clock of a source may restart.
        let is_due =
            |last: Timestamp| at.since(last) >= PUBLISH_EVERY || last.since(at) >= PUBLISH_EVERY;
        if !now && !self.published.is_none_or(is_due) {
            return Ok(());
        }
        self.published = Some(at);
        let changes = self.memory.take_changes();
        self.send_scene(cx, &changes);
        let Some(file) = &self.file else { return Ok(()) };
        let mut done = Ok(());
        if !changes.is_empty() {
            done = file.append(changes);
        }
        if file.needs_snapshot() {
            done = done.and(file.replace(self.memory.snapshot()));
        }
        done.map_err(|error| file_error(&self.params, &error))
    }

    /// Sends the changes to viewers, or all entities if they know nothing yet.
    fn send_scene(&mut self, cx: &mut Cx<'_>, changes: &[Change]) {
        if self.frame_id.is_empty() {
            return;
        }
        let drawing = Drawing {
            frame_id: &self.frame_id,
            map: self.memory.map(),
            world_from_map: self.memory.map_from_world().inverse(),
        };
        let update = if std::mem::take(&mut self.draws_all) {
            let records = self.memory.records().into_iter();
            let all: Vec<_> = records.map(|record| Change::Put(Box::new(record))).collect();
            drawing.update(&all)
        } else {
            drawing.update(changes)
        };
        if update != SceneUpdate::default() {
            cx.send(Self::SCENE, update);
        }
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
        let (mut file, mut snapshot) = (None, Snapshot::default());
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
            snapshot = content.snapshot;
            file = Some(opened.0);
        }
        let last_map = snapshot.records.iter().map(|record| record.provenance.map).max();
        let map = match params.frame {
            MapFrame::Fixed => 0,
            MapFrame::Session => last_map.unwrap_or(0) + 1,
        };
        let mut memory = SceneMemory::new(settings, map);
        memory.restore(snapshot);
        Ok(Self {
            memory,
            file,
            params,
            start,
            poses: VecDeque::new(),
            images: VecDeque::new(),
            imageless: None,
            frame_id: String::new(),
            published: None,
            draws_all: true,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.at();
        let at_ns = self.start.unix_ns(at);
        if let Some(packet) = cx.packet().filter(|_| cx.get(Self::OBJECTS).is_some()) {
            self.observe(packet)?;
        } else if let Some(found) = cx.get(Self::PLANES) {
            self.memory.observe_planes(at_ns, &found.planes);
        } else if let Some(packet) = cx.packet().filter(|_| cx.get(Self::IMAGES).is_some()) {
            return self.keep_image(packet);
        } else if let Some(pose) = cx.get(Self::POSE) {
            self.keep_pose(at, Rigid::from(pose));
            return Ok(());
        } else if let Some(anchors) = cx.get(Self::ANCHORS) {
            for anchor in &anchors.transforms {
                if !self.frame_id.is_empty() && anchor.frame_id != self.frame_id {
                    let (name, found) = (&anchor.child_frame_id, &anchor.frame_id);
                    let reason = format!(
                        "{name}: its parent is {found:?}; it must be {:?}, the frame of the poses",
                        self.frame_id
                    );
                    return Err(NodeError::InvalidInput { port: "anchors".into(), reason });
                }
                let pose = Rigid {
                    translation_m: anchor.translation_m,
                    rotation_xyzw: anchor.rotation_xyzw,
                };
                if self.memory.observe_anchor(&anchor.child_frame_id, &pose, at_ns) {
                    self.draws_all = true;
                    tracing::info!(
                        "{}: recognized; this is the map of an earlier session",
                        anchor.child_frame_id
                    );
                }
            }
        } else if let Some(found) = cx.get(Self::KEYFRAMES) {
            self.observe_keyframe(found, at);
        } else if let Some(call) = cx.get(Self::CALLS).cloned() {
            let viewer = self.poses.back().map(|(_, pose)| Viewer { world_from_camera: *pose });
            if let Some(result) = tools::run(&mut self.memory, &call, viewer.as_ref(), at_ns) {
                if let Some(image) = result.as_ref().ok().and_then(|result| self.last_image(result))
                {
                    cx.send(Self::LAST_IMAGE, image);
                }
                let json = result.unwrap_or_else(|reason| serde_json::json!({"error": reason}));
                cx.send(Self::RESULTS, ToolMessage { json: json.to_string(), ..call });
            }
        }
        self.publish(cx, false)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.publish(cx, true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params};
    use afferent_messages::vision::Detection3d;

    use super::*;

    fn open(path: Option<PathBuf>, frame: &str) -> Result<NodeBench<SceneMemoryNode>, NodeError> {
        let mut values: ParamValues =
            [("frame".to_owned(), ParamValue::Text(frame.to_owned()))].into();
        values.extend(path.map(|path| ("path".to_owned(), ParamValue::Path(path))));
        let params = SceneMemoryParams::from_values(&values).unwrap();
        let cx = OpenCx::with_service(SessionStart::VIRTUAL);
        SceneMemoryNode::open(params, &cx).map(NodeBench::new)
    }

    /// Sees a cup at `x` in four images from `start_s`; returns the updates of the scene.
    fn see(bench: &mut NodeBench<SceneMemoryNode>, start_s: i64, x: f64) -> Vec<SceneUpdate> {
        let mut updates = Vec::new();
        for image in 0..4 {
            let cup = Detection3d {
                label: "cup".into(),
                score: 0.8,
                position_m: [x, 0.0, 1.0],
                covariance_m2: [[0.01, 0.0, 0.0], [0.0, 0.01, 0.0], [0.0, 0.0, 0.01]],
                size_m: [0.1; 3],
            };
            let frame_id = "world".to_owned();
            let found = Detections3d { frame_id, detections: vec![cup], view: None };
            let at = Timestamp(start_s * 1_000_000_000 + image * 300_000_000);
            let sent = bench.call(SceneMemoryNode::OBJECTS, at, found).unwrap();
            updates.extend(sent.iter().filter_map(|(_, packet)| packet.get().cloned()));
        }
        updates
    }

    fn ask(bench: &mut NodeBench<SceneMemoryNode>, at_s: i64, tool: &str, json: &str) -> String {
        let call = ToolMessage { turn: 1, tool: tool.into(), json: json.into() };
        let sent = bench.call(SceneMemoryNode::CALLS, Timestamp(at_s * 1_000_000_000), call);
        let sent = sent.unwrap();
        sent.first().map_or_else(String::new, |(_, packet)| {
            packet.get::<ToolMessage>().unwrap().json.clone()
        })
    }

    const CUP: &str = "{\"thing\": \"the cup\"}";

    #[test]
    fn tools_answer_from_what_was_seen() {
        let mut bench = open(None, "fixed").unwrap();
        assert!(ask(&mut bench, 0, "where_is", CUP).contains("I have not seen the cup."));
        see(&mut bench, 1, 3.0);
        let pose = Pose { orientation_xyzw: [-0.5, 0.5, -0.5, 0.5], ..Pose::default() };
        bench.call(SceneMemoryNode::POSE, Timestamp(3_000_000_000), pose).unwrap();
        let found = ask(&mut bench, 4, "where_is", CUP);
        assert!(found.contains("The cup is about three meters straight ahead."), "{found}");
        assert!(found.contains("\"distance_m\":3.0") && found.contains("\"age_s\":2"), "{found}");
        let here = ask(&mut bench, 4, "what_is_here", "{\"distance_m\": 5}");
        assert!(here.contains("I know a cup here."), "{here}");
        let named = ask(&mut bench, 4, "remember_this", "{\"name\": \"the entrance\"}");
        assert!(named.contains("I will remember this position as the entrance."), "{named}");
        let forgotten = ask(&mut bench, 5, "forget", CUP);
        assert!(forgotten.contains("\"forgotten\":1"), "{forgotten}");
        assert!(ask(&mut bench, 5, "where_is", CUP).contains("\"found\":false"));
        assert!(ask(&mut bench, 5, "where_is", "{}").contains("argument thing is missing"));
        assert_eq!(ask(&mut bench, 5, "set_timer", "{}"), "", "a tool of another node");
    }

    #[test]
    fn a_file_lasts_and_other_sessions_are_stale() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.memory");
        let mut bench = open(Some(path.clone()), "session").unwrap();
        see(&mut bench, 1, 3.0);
        bench.finish(Timestamp(3_000_000_000)).unwrap();
        drop(bench);
        let mut bench = open(Some(path.clone()), "session").unwrap();
        let found = ask(&mut bench, 60, "where_is", CUP);
        assert!(found.contains("\"stale\":true"), "{found}");
        drop(bench);
        let mut bench = open(Some(path.clone()), "fixed").unwrap();
        assert!(ask(&mut bench, 60, "where_is", CUP).contains("\"stale\":true"));
        drop(bench);
        std::fs::write(&path, "something else").unwrap();
        let told = open(Some(path), "fixed").err().unwrap().to_string();
        assert!(told.contains("scene.memory: it is not a file of a scene memory"), "{told}");
    }

    #[test]
    fn an_answer_shows_the_thing() {
        let (red, blue) = ([255, 0, 0], [0, 0, 255]);
        let image = |color: [u8; 3]| {
            let mut image = Image::default();
            let pixels = image.reshape(PixelFormat::Rgb8, 80, 60).unwrap();
            pixels.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&color));
            image
        };
        // Images before their objects, and after them.
        for is_first in [true, false] {
            let mut bench = open(None, "fixed").unwrap();
            for step in 0..4 {
                let at = Timestamp(step * 300_000_000);
                let depth = crate::camera_view::tests::depth(|_, _| 2.0);
                let pose = crate::camera_view::tests::pose();
                let cup = Detection3d {
                    label: "cup".into(),
                    score: 0.8,
                    position_m: [3.0, 2.0, 1.5],
                    covariance_m2: [[0.01, 0.0, 0.0], [0.0, 0.01, 0.0], [0.0, 0.0, 0.01]],
                    size_m: [0.2; 3],
                };
                let view = Some(afferent_messages::vision::View { pose, depth });
                let found =
                    Detections3d { frame_id: "world".to_owned(), detections: vec![cup], view };
                let color = if step == 0 { red } else { blue };
                if is_first {
                    bench.call(SceneMemoryNode::IMAGES, at, image(color)).unwrap();
                }
                bench.call(SceneMemoryNode::OBJECTS, at, found).unwrap();
                if !is_first {
                    bench.call(SceneMemoryNode::IMAGES, at, image(color)).unwrap();
                }
            }
            let call = ToolMessage { turn: 1, tool: "where_is".into(), json: CUP.into() };
            let at = Timestamp(2_000_000_000);
            let sent = bench.call(SceneMemoryNode::CALLS, at, call).unwrap();
            let shown = sent.iter().find_map(|(_, packet)| packet.get::<Image>()).unwrap();
            // The image of the first sighting is less than a second older than the last one.
            assert_eq!((shown.width(), shown.bytes()[0]), (7, 255));
        }
        let mut bench = open(None, "fixed").unwrap();
        let mut wrong = Image::default();
        wrong.reshape(PixelFormat::Yuyv, 80, 60).unwrap();
        let told = bench.call(SceneMemoryNode::IMAGES, Timestamp(0), wrong).unwrap_err();
        assert!(told.to_string().contains("convert the images with `image_view`"), "{told}");
    }

    #[test]
    fn a_session_continues_in_the_map_of_its_keyframes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.memory");
        let walk = |bench: &mut NodeBench<SceneMemoryNode>, start_s: i64| {
            for step in 0..4_usize {
                let at = Timestamp(start_s * 1_000_000_000 + step as i64 * 500_000_000);
                let position_m = [step as f64 * 2.0, start_s as f64, 1.5];
                let pose = Pose { position_m, ..Pose::default() };
                bench.call(SceneMemoryNode::POSE, at, pose).unwrap();
                let mut found = Embedding { space: "clip".to_owned(), ..Embedding::default() };
                found.vectors =
                    afferent_core::Tensor::zeros(afferent_core::ScalarType::Float, &[1, 4]);
                found.vectors.data_mut::<f32>().unwrap()[step] = 1.0;
                bench.call(SceneMemoryNode::KEYFRAMES, at, found).unwrap();
            }
        };
        let mut first = open(Some(path.clone()), "session").unwrap();
        see(&mut first, 1, 3.0);
        walk(&mut first, 5);
        first.finish(Timestamp(9_000_000_000)).unwrap();
        drop(first);
        let mut second = open(Some(path), "session").unwrap();
        assert!(ask(&mut second, 20, "where_is", CUP).contains("\"stale\":true"));
        walk(&mut second, 30);
        let found = ask(&mut second, 33, "where_is", CUP);
        assert!(found.contains("\"stale\":false"), "{found}");
    }

    #[test]
    fn viewers_get_changes_also_after_the_clock_has_restarted() {
        let mut bench = open(None, "fixed").unwrap();
        assert!(ask(&mut bench, 0, "what_is_here", "{}").contains("where I am"));
        let labels = |updates: &[SceneUpdate]| -> Vec<String> {
            let entities = updates.iter().flat_map(|update| &update.entities);
            entities.map(|entity| format!("{} {}", entity.id, entity.label)).collect()
        };
        let first = see(&mut bench, 100, 3.0);
        assert!(labels(&first).contains(&"1 cup".to_owned()), "{first:?}");
        let again = see(&mut bench, 10, 9.0);
        assert!(labels(&again).iter().any(|label| label.ends_with("cup")), "{again:?}");
    }
}
