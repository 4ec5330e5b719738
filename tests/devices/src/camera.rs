//! The node `camera` with the virtual camera `vivid`.
//!
//! The camera is taken away and given back through its driver.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use afferent_engine::Session;
use afferent_graph::{Choice, ParamValues, Params};
use afferent_messages::{Image, PixelFormat};
use afferent_nodes_device::{Camera, CameraFormat, CameraParams, cameras};
use anyhow::{Context, Result, ensure};

use crate::run::{self, Collected, wait};

const DEVICE: &str = "/dev/video0";
const DRIVER: &str = "/sys/bus/platform/drivers/vivid";
const CAMERA: &str = "vivid.0";

/// Longest time from the return of a camera to its first image.
const BACK_WITHIN: Duration = Duration::from_secs(2);

pub(crate) fn check(check: &mut impl FnMut(&str, Result<String>)) {
    check("the camera is listed with its modes", listed());
    for format in FORMATS {
        check(&format!("images in {}", format.word()), images(format));
    }
    check("an unplugged camera comes back", unplugged());
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

/// Size, format and range of the bytes of an image.
#[derive(Debug, Clone)]
struct Seen {
    format: PixelFormat,
    size: (usize, usize),
    /// Smallest and largest byte.
    range: (u8, u8),
}

impl run::Seen for Seen {
    type Of = Image;

    fn of(image: &Image) -> Self {
        let bytes = image.bytes();
        let range = (bytes.iter().min(), bytes.iter().max());
        let range = (range.0.copied().unwrap_or(0), range.1.copied().unwrap_or(0));
        Self { format: image.format(), size: (image.width(), image.height()), range }
    }
}

fn start(format: CameraFormat) -> Result<(Session, Collected<Seen>)> {
    let mut params = CameraParams::from_values(&ParamValues::default())
        .map_err(|(name, error)| anyhow::anyhow!("{name}: {error}"))?;
    params.device = DEVICE.into();
    (params.width, params.height, params.fps) = (640, 360, 30.0);
    params.format = format;
    run::start::<Camera, Seen>(params)
}

fn images(format: CameraFormat) -> Result<String> {
    let (session, collected) = start(format)?;
    let arrived = wait(Duration::from_secs(20), || collected.len() >= 15);
    session.stop_handle().stop();
    let report = session.wait()?;
    arrived.with_context(|| format!("{:?}", report.failures))?;
    let all = collected.all();
    let first = all.first().context("no image")?;
    let same =
        all.iter().all(|one| (one.seen.format, one.seen.size) == (first.seen.format, (640, 360)));
    ensure!(same, "other images: {first:?}");
    let is_asked = format == CameraFormat::Auto || first.seen.format.name() == format.word();
    ensure!(is_asked, "the format is {}", first.seen.format.name());
    ensure!(
        all.iter().all(|one| one.seen.range.1 - one.seen.range.0 > 100),
        "one color: {first:?}"
    );
    ensure!(all.is_sorted_by(|one, next| one.at < next.at), "timestamps do not grow");
    let span = all.last().context("no image")?.at.since(first.at);
    let period = span.as_secs_f64() * 1e3 / (all.len() - 1) as f64;
    ensure!((10.0..400.0).contains(&period), "{period:.1} ms between images");
    Ok(format!("{} images in {}, {period:.1} ms apart", all.len(), first.seen.format.name()))
}

fn unplugged() -> Result<String> {
    let (session, collected) = start(CameraFormat::Yuyv)?;
    wait(Duration::from_secs(20), || collected.len() >= 5)?;
    fs::write(format!("{DRIVER}/unbind"), CAMERA)?;
    // Images that were on their way.
    thread::sleep(Duration::from_millis(500));
    let before = collected.len();
    thread::sleep(Duration::from_millis(500));
    ensure!(collected.len() == before, "images without a camera");
    fs::write(format!("{DRIVER}/bind"), CAMERA)?;
    let bound = Instant::now();
    let back = wait(Duration::from_secs(20), || collected.len() >= before + 5);
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
