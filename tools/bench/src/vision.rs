//! Time of vision nodes for an image, compared with the libraries of their fields.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
use afferent_messages::{
    Image, PixelFormat,
    vision::{Hands, TextRegions},
};
use afferent_nodes_io::VideoSource;
use afferent_nodes_vision::{HandTrack, ImageView, Ocr};
use anyhow::{Context, Result, anyhow, ensure};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use crate::{
    bench_target::model_options,
    table::{Table, format_number},
    timing,
};

/// Time of vision nodes for an image, on one thread.
///
/// | row | image | peer |
/// |---|---|---|
/// | decode JPEG | 1280 x 720, 4:2:2, as of a camera, to RGB | OpenCV with libjpeg-turbo |
/// | follow a hand | 640 x 480, the sample video, after the palm is found | MediaPipe, landmark lite |
/// | read a page | 1280 x 720, ten lines | RapidOCR with ONNX Runtime |
///
/// The peers run in `tools/bench/vision_peers.py`, in the same rounds. They are pinned to the first
/// processor, as is this program.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Python with `numpy` and `opencv-python-headless`.
    #[arg(long, value_name = "PYTHON")]
    opencv: Option<PathBuf>,
    /// Python with `mediapipe` 0.10.21 too.
    #[arg(long, value_name = "PYTHON")]
    mediapipe: Option<PathBuf>,
    /// Python with `rapidocr`, `onnxruntime` and `pillow` too.
    #[arg(long, value_name = "PYTHON")]
    rapidocr: Option<PathBuf>,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vision_peers.py");
const PIPELINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines");
/// Images of the video with one hand: the other one comes after 4 s.
const HAND_IMAGES: usize = 45;

/// Times of a round in microseconds: of this program, and of the peer.
type Round = (f64, Option<f64>);

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    rustix::thread::sched_setaffinity(None, &first_processor())
        .context("cannot stay on the first processor")?;
    let folder = tempfile::tempdir()?;
    let title = format!("vision, one thread, {} rounds", options.rounds);
    let columns = ["task", "afferent us", "peer us", "afferent / peer", "afferent", "peer"];
    let mut table = Table::new(title, &columns);
    table.row(jpeg(options, folder.path())?);
    table.row(hands(options, folder.path())?);
    if let Some(row) = page(options, folder.path())? {
        table.row(row);
    }
    for (name, python) in [
        ("OpenCV: skipped (pass --opencv PYTHON)", &options.opencv),
        ("MediaPipe: skipped (pass --mediapipe PYTHON)", &options.mediapipe),
        ("the page and RapidOCR: skipped (pass --rapidocr PYTHON)", &options.rapidocr),
    ] {
        if python.is_none() {
            table.note(name);
        }
    }
    Ok(vec![table])
}

fn first_processor() -> rustix::thread::CpuSet {
    let mut set = rustix::thread::CpuSet::new();
    set.set(0);
    set
}

/// Runs a command of the peers and returns its JSON object.
fn run_peer(python: &Path, arguments: &[&str]) -> Result<serde_json::Value> {
    let output = Command::new(python).arg(PEERS).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {}", python.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {}: {}", PEERS, arguments.join(" "), errors.trim());
    // Libraries print lines of their own before.
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

/// Measures in rounds: `own` and the peer's `median_us` in microseconds.
fn rounds(
    options: &Options,
    peer: Option<(&Path, &[&str])>,
    mut own: impl FnMut() -> Result<f64>,
) -> Result<(Vec<Round>, Option<serde_json::Value>)> {
    let (mut times, mut last) = (Vec::new(), None);
    for _ in 0..options.rounds.max(1) {
        let time = own()?;
        if let Some((python, arguments)) = peer {
            last = Some(run_peer(python, arguments)?);
        }
        times.push((time, last.as_ref().and_then(|found| found["median_us"].as_f64())));
    }
    Ok((times, last))
}

fn row(task: &str, times: &[Round], results: [String; 2]) -> [String; 6] {
    let own = timing::median(times.iter().map(|(own, _)| *own).collect());
    let peers = timing::median(times.iter().filter_map(|(_, peer)| *peer).collect());
    let ratios = times.iter().filter_map(|(own, peer)| Some(own / (*peer)?));
    let ratio = timing::median(ratios.collect());
    let [own, peers, ratio] = [own, peers, ratio].map(format_number);
    let [found, peer_found] = results;
    [task.to_owned(), own, peers, ratio, found, peer_found]
}

/// A node with the default parameters and these paths.
fn open<N: Node>(paths: &[(&str, &str)], more: &[(&str, ParamValue)]) -> Result<NodeBench<N>> {
    let mut values: BTreeMap<String, ParamValue> = BTreeMap::new();
    for (name, path) in paths {
        values.insert((*name).to_owned(), ParamValue::Path(Path::new(PIPELINES).join(path)));
    }
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let cx = OpenCx::with_service(model_options());
    let params = N::Params::from_values(&values);
    let params = params.map_err(|(name, error)| anyhow!("{name}: {error}"))?;
    Ok(NodeBench::new(N::open(params, &cx)?))
}

/// Waves with a little noise, as a camera has.
fn camera_image(width: usize, height: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(3);
    let pixel = |index: usize| {
        let (x, y) = ((index % width) as f32, (index / width) as f32);
        let waves = [(17.0, 29.0), (41.0, -23.0), (-13.0, 19.0)];
        waves.map(|(a, b)| (x / a + y / b).sin() * 90.0 + 128.0)
    };
    let pixels = (0..width * height).flat_map(pixel);
    pixels.map(|value| (value + random.f32() * 12.0 - 6.0) as u8).collect()
}

fn jpeg(options: &Options, folder: &Path) -> Result<[String; 6]> {
    let (width, height, mut file) = (1280, 720, Vec::new());
    let mut encoder = Encoder::new(&mut file, 85);
    encoder.set_sampling_factor(SamplingFactor::F_2_1);
    encoder.encode(&camera_image(width, height), 1280, 720, ColorType::Rgb)?;
    let path = folder.join("camera.jpg");
    fs::write(&path, &file)?;
    let path = path.display().to_string();
    let mut image = Image::default();
    let arguments = ["jpeg", &path, "60"];
    let peer = options.opencv.as_deref().map(|python| (python, &arguments[..]));
    let (times, found) = rounds(options, peer, || {
        let decode = || image.read_jpeg(Some(PixelFormat::Rgb8), &file);
        Ok(timing::median(timing::each(60, decode)?))
    })?;
    let sum: u64 = image.bytes().iter().map(|byte| u64::from(*byte)).sum();
    let mean = sum as f64 / image.bytes().len() as f64;
    let peer_mean = found.and_then(|found| found["mean"].as_f64());
    if let Some(peer) = peer_mean {
        ensure!((mean - peer).abs() < 1.0, "the mean is {mean}, that of OpenCV {peer}");
    }
    let results = [Some(mean), peer_mean]
        .map(|mean| mean.map_or(String::new(), |mean| format!("mean {mean:.2}")));
    let kilobytes = file.len() / 1000;
    Ok(row(&format!("decode JPEG of {kilobytes} kB"), &times, results))
}

/// Images of the sample video at 640 x 480, also as files in `folder`.
fn hand_images(folder: &Path) -> Result<Vec<Image>> {
    let pace = ("pace", ParamValue::Text("max".to_owned()));
    let mut video = open::<VideoSource>(&[("path", "assets/hands.avi")], &[pace])?;
    let size = [("width", ParamValue::Int(640)), ("height", ParamValue::Int(480))];
    let mut view = open::<ImageView>(&[], &size)?;
    let mut images = Vec::new();
    while images.len() < HAND_IMAGES {
        let (sent, _) = video.poll(Timestamp::ZERO)?;
        for (_, packet) in sent {
            let image = packet.get::<Image>().context("no image")?.clone();
            let sent = view.call(ImageView::IMAGES, Timestamp::ZERO, image)?;
            let image = sent[0].1.get::<Image>().context("no image")?.clone();
            fs::write(folder.join(format!("{:04}.png", images.len())), image.to_png()?)?;
            images.push(image);
        }
    }
    images.truncate(HAND_IMAGES);
    Ok(images)
}

fn hands(options: &Options, folder: &Path) -> Result<[String; 6]> {
    let folder = folder.join("hands");
    fs::create_dir(&folder)?;
    let images = hand_images(&folder)?;
    let path = folder.display().to_string();
    let arguments = ["hands", &path, "4"];
    let peer = options.mediapipe.as_deref().map(|python| (python, &arguments[..]));
    let models = [("detector", "models/palm"), ("landmarks", "models/hand")];
    let mut tracked = 0;
    let (times, found) = rounds(options, peer, || {
        let mut node = open::<HandTrack>(&models, &[("hands", ParamValue::Int(1))])?;
        let (mut times, mut previous) = (Vec::new(), false);
        tracked = 0;
        for (index, image) in images.iter().enumerate() {
            // A copy that the node does not pay for.
            let image = image.clone();
            let at = Timestamp(index as i64 * 33_333_333);
            let mut is_found = false;
            let time = timing::each(1, || {
                let sent = node.call(HandTrack::IMAGES, at, image.clone())?;
                let hands = sent[0].1.get::<Hands>();
                is_found = hands.is_some_and(|hands| !hands.hands.is_empty());
                Ok::<_, afferent_graph::NodeError>(())
            })?;
            if is_found && previous {
                times.extend(time);
            }
            tracked += usize::from(is_found);
            previous = is_found;
        }
        Ok(timing::median(times))
    })?;
    let share = |found: f64| format!("a hand in {:.0} %", found * 100.0);
    let own = share(tracked as f64 / images.len() as f64);
    let peer = found.and_then(|found| found["found"].as_f64()).map_or(String::new(), share);
    Ok(row("follow a hand", &times, [own, peer]))
}

fn page(options: &Options, folder: &Path) -> Result<Option<[String; 6]>> {
    let Some(python) = options.rapidocr.as_deref() else { return Ok(None) };
    let path = folder.join("page.png");
    let name = path.display().to_string();
    let truth = run_peer(python, &["page", &name])?;
    let lines = truth["lines"].as_array().context("no lines")?.iter();
    let expected: Vec<&str> = lines.filter_map(|line| line.as_str()).collect();
    let mut image = Image::default();
    image.read_file(&fs::read(&path)?)?;
    let models = [("detector", "models/text_detector"), ("recognizer", "models/text_recognizer")];
    let mut node = open::<Ocr>(&models, &[])?;
    let mut read = String::new();
    let arguments = ["ocr", &name, "3"];
    let (times, found) = rounds(options, Some((python, &arguments)), || {
        let times = timing::each(3, || {
            let sent = node.call(Ocr::IMAGES, Timestamp::ZERO, image.clone())?;
            let regions = sent[0].1.get::<TextRegions>();
            let lines = regions.iter().flat_map(|found| &found.regions);
            read = lines.map(|region| region.text.as_str()).collect::<Vec<_>>().join("\n");
            Ok::<_, afferent_graph::NodeError>(())
        })?;
        Ok(timing::median(times))
    })?;
    let expected = expected.join("\n");
    let edits = strsim::levenshtein(&read, &expected);
    let rate = |rate: f64| format!("CER {:.2} %", rate * 100.0);
    let own = rate(edits as f64 / expected.chars().count() as f64);
    let peer = found.and_then(|found| found["cer"].as_f64()).map_or(String::new(), rate);
    Ok(Some(row("read a page", &times, [own, peer])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_measured_without_the_peers() {
        let options = Options { opencv: None, mediapipe: None, rapidocr: None, rounds: 1 };
        let text = run(&options).unwrap()[0].to_string();
        assert!(text.contains("follow a hand") && text.contains("skipped"), "{text}");
    }
}
