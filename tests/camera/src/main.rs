//! Tests the node `camera` with the virtual camera `vivid` of the Linux kernel.
//!
//! `.ci/camera` boots a kernel in QEMU, loads the driver and runs this program, which prints a line
//! for each check. It takes the camera away and gives it back through the driver.

#![expect(clippy::print_stdout, reason = "prints the results")]

use std::{
    fs,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::{RunOptions, Session};
use afferent_graph::{
    Choice, Cx, In, Node, NodeDef, NodeError, OnFull, OpenCx, ParamValues, Params, Port, PortId,
    Service, Timestamp,
};
use afferent_messages::{Image, PixelFormat};
use afferent_nodes_device::{Camera, CameraFormat, CameraParams, cameras};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
use anyhow::{Context, Result, ensure};

const DEVICE: &str = "/dev/video0";
const DRIVER: &str = "/sys/bus/platform/drivers/vivid";
const CAMERA: &str = "vivid.0";

/// Longest time from the return of a camera to its first image.
const BACK_WITHIN: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let _ = tracing_subscriber::fmt().with_ansi(false).without_time().try_init();
    let mut failed = 0;
    let mut check = |name: &str, result: Result<String>| match result {
        Ok(found) => println!("ok: {name}: {found}"),
        Err(error) => {
            failed += 1;
            println!("FAILED: {name}: {error:#}");
        }
    };
    check("the camera is listed with its modes", listed());
    for format in FORMATS {
        check(&format!("images in {}", format.word()), images(format));
    }
    check("an unplugged camera comes back", unplugged());
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const FORMATS: [CameraFormat; 8] = [
    CameraFormat::Auto,
    CameraFormat::Yuyv,
    CameraFormat::Uyvy,
    CameraFormat::Nv12,
    CameraFormat::I420,
    CameraFormat::Rgb8,
    CameraFormat::Bgr8,
    CameraFormat::Mono8,
];

fn listed() -> Result<String> {
    let all = cameras();
    let camera = all.iter().find(|camera| camera.path.ends_with("video0"));
    let camera = camera.context("it is not listed")?;
    let modes = camera.modes.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    let yuyv = modes.iter().filter(|mode| mode.fourcc == *b"YUYV");
    let is_there = yuyv.clone().any(|mode| mode.width >= 640 && mode.fps >= 10.0);
    ensure!(is_there, "no YUYV mode: {:?}", yuyv.collect::<Vec<_>>());
    Ok(format!("{}, {} modes", camera.name, modes.len()))
}

/// What arrived: time, arrival, and size, format and a sum of each image.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<Seen>>>);

#[derive(Debug, Clone)]
struct Seen {
    at: Timestamp,
    arrived: Instant,
    format: PixelFormat,
    size: (usize, usize),
    /// Smallest and largest byte.
    range: (u8, u8),
}

impl Collected {
    fn all(&self) -> Vec<Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Service for Collected {
    const NAME: &'static str = "collected";
    const HINT: &'static str = "of this test";
}

struct Collect(Collected);

const IMAGES: In<Image> = In::at(0, "images");

impl Node for Collect {
    type Params = ();
    const NAME: &'static str = "collect";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[IMAGES.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), cx: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self(cx.services.need::<Collected>()?.clone()))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.at();
        let Some(image) = cx.get(IMAGES) else { return Ok(()) };
        let bytes = image.bytes();
        let range = (bytes.iter().min(), bytes.iter().max());
        let range = (range.0.copied().unwrap_or(0), range.1.copied().unwrap_or(0));
        let size = (image.width(), image.height());
        let seen = Seen { at, arrived: Instant::now(), format: image.format(), size, range };
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        Ok(())
    }
}

/// Starts `camera → collect`.
fn start(format: CameraFormat) -> Result<(Session, Collected)> {
    let mut params = CameraParams::from_values(&ParamValues::default())
        .map_err(|(name, error)| anyhow::anyhow!("{name}: {error}"))?;
    params.device = DEVICE.into();
    (params.width, params.height, params.fps) = (640, 360, 30.0);
    params.format = format;
    let camera = Mutex::new(Some(params));
    let open = move |cx: &OpenCx| {
        let params = camera.lock().unwrap_or_else(PoisonError::into_inner).take();
        let params = params.ok_or_else(|| NodeError::Payload("opened twice".to_owned()))?;
        Camera::open(params, cx).map(|camera| Box::new(camera) as Box<_>)
    };
    let camera = NodeDef::from_fn(afferent_graph::NodeSpec::new("camera", Camera::PORTS), open);
    let collected = Collected::default();
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 8, max_age: None };
    let graph = CheckedGraph {
        name: "camera".to_owned(),
        nodes: vec![
            CheckedNode::new("camera", camera),
            CheckedNode::new("collect", NodeDef::of::<Collect>()),
        ],
        edges: vec![Edge::new((0, PortId::at(0)), (1, PortId::at(0)), policy)],
        ..CheckedGraph::default()
    };
    let cx = OpenCx::with_service(collected.clone());
    let session = Session::start(&graph, &cx, RunOptions::default())?;
    Ok((session, collected))
}

/// Waits until `done`.
fn wait(limit: Duration, done: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + limit;
    while !done() {
        ensure!(Instant::now() < end, "nothing in {limit:?}");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn images(format: CameraFormat) -> Result<String> {
    let (session, collected) = start(format)?;
    let arrived = wait(Duration::from_secs(20), || collected.all().len() >= 15);
    session.stop_handle().stop();
    let report = session.wait()?;
    arrived.with_context(|| format!("{:?}", report.failures))?;
    let all = collected.all();
    let first = all.first().context("no image")?;
    let same = all.iter().all(|seen| (seen.format, seen.size) == (first.format, (640, 360)));
    ensure!(same, "other images: {first:?}");
    let is_asked = format == CameraFormat::Auto || first.format.name() == format.word();
    ensure!(is_asked, "the format is {}", first.format.name());
    ensure!(all.iter().all(|seen| seen.range.1 - seen.range.0 > 100), "one color: {first:?}");
    ensure!(all.is_sorted_by(|one, next| one.at < next.at), "timestamps do not grow");
    let span = all.last().context("no image")?.at.since(first.at);
    let period = span.as_secs_f64() * 1e3 / (all.len() - 1) as f64;
    ensure!((10.0..400.0).contains(&period), "{period:.1} ms between images");
    Ok(format!("{} images in {}, {period:.1} ms apart", all.len(), first.format.name()))
}

fn unplugged() -> Result<String> {
    let (session, collected) = start(CameraFormat::Yuyv)?;
    wait(Duration::from_secs(20), || collected.all().len() >= 5)?;
    fs::write(format!("{DRIVER}/unbind"), CAMERA)?;
    // Images that were on their way.
    thread::sleep(Duration::from_millis(500));
    let before = collected.all().len();
    thread::sleep(Duration::from_millis(500));
    ensure!(collected.all().len() == before, "images without a camera");
    fs::write(format!("{DRIVER}/bind"), CAMERA)?;
    let bound = Instant::now();
    let back = wait(Duration::from_secs(20), || collected.all().len() >= before + 5);
    session.stop_handle().stop();
    let report = session.wait()?;
    back.with_context(|| format!("{:?}", report.failures))?;
    let all = collected.all();
    let first = all.get(before).context("no image")?;
    let took = first.arrived.saturating_duration_since(bound);
    ensure!(took <= BACK_WITHIN, "back after {took:?}");
    ensure!(all.is_sorted_by(|one, next| one.at < next.at), "timestamps do not grow");
    Ok(format!("first image {} ms after its return", took.as_millis()))
}
