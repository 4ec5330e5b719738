//! Synchronization of a camera and an inertial measurement unit (IMU).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use afferent_engine::{EdgeCounts, Report, RunOptions};
use afferent_graph::{In, OnFull, Out, Payload, Port, Timestamp};
use afferent_messages::Imu;
use afferent_spec::SyncPolicy;
use anyhow::{Context, Result};

use crate::{
    allocations,
    camera::{IMAGE_BYTES, IMAGE_PERIOD},
    closure_graph::{ClosureGraph, policy},
    metrics::{self, Metric, quantile},
    process,
};

/// Joins 60 images and 1000 IMU measurements per second by interpolation.
///
/// Every image must get a measurement interpolated for its timestamp. The join latency is the time
/// from sending the image to the call of the synchronizer. It includes the wait of at most 1 ms for
/// the measurement after the image. Resident memory is polled during the run.
///
/// Fails if a metric exceeds its limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Duration in seconds.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
}

const IMU_PERIOD: Duration = Duration::from_millis(1);

/// Time with measurements but without images, at the start and at the end.
const LEAD: Duration = Duration::from_millis(200);

/// Images before the measurement, until all memory is allocated.
const WARMUP_IMAGES: usize = 30;

#[derive(Debug, Clone, Default)]
struct Image {
    pixels: Vec<u8>,
    /// Time of sending, in nanoseconds since the start.
    sent_ns: u64,
}

impl Payload for Image {
    const TYPE: &'static str = "bench/Image";
}

const IMAGE: In<Image> = In::at(0, "image");
const MOTION: In<Imu> = In::at(1, "motion");
const OUT: Out<Image> = Out::at(0, "out");
const IMU: Out<Imu> = Out::at(0, "imu");

/// Results of the joining node.
#[derive(Default)]
struct Joined {
    /// Join latency of each image, in nanoseconds.
    latencies: Mutex<Vec<f64>>,
    /// Images without a measurement, or with one of another time.
    wrong: AtomicU64,
    /// Allocations of the program at the first measured image and at the last but one. A thread ends
    /// after the last one.
    allocations: [AtomicU64; 2],
}

/// Returns the metrics as text, and an error if a metric exceeds its limit.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let images = (options.seconds / IMAGE_PERIOD.as_secs_f64()).max(1.0) as usize + WARMUP_IMAGES;
    let joined = Arc::new(Joined::default());
    joined.latencies.lock().unwrap_or_else(PoisonError::into_inner).reserve(images);
    let session = graph(images, &joined).start(RunOptions::default())?;
    // Start the thread now, so that its allocations are not counted.
    let waiter = thread::spawn(move || session.wait());
    let growth = memory_growth(Duration::from_secs_f64(options.seconds))?;
    let report = waiter.join().ok().context("the thread that waits for the graph panicked")??;
    let metrics = metrics(images, &joined, &report, growth)?;
    let title = format!("60 images and 1000 measurements per second for {} s", options.seconds);
    Ok((metrics::text(title, &metrics, Vec::new(), json), metrics::verdict(&metrics)))
}

fn metrics(images: usize, joined: &Joined, report: &Report, growth: u64) -> Result<Vec<Metric>> {
    let mut latencies = joined.latencies.lock().unwrap_or_else(PoisonError::into_inner);
    let mut latencies = latencies.split_off(WARMUP_IMAGES);
    let primary = report.edges[0].join.context("the node is a synchronizer")?;
    let unmatched = images as u64 - primary.matched + joined.wrong.load(Ordering::SeqCst);
    // Exclude measurements that are dropped after the last image.
    let lost = |counts: &EdgeCounts| counts.dropped() - counts.dropped_closed;
    let dropped = report.edges.iter().map(|edge| lost(&edge.counts)).sum::<u64>();
    let [first, last] = [0, 1].map(|index| joined.allocations[index].load(Ordering::SeqCst));
    let peak = report.edges.iter().map(|edge| edge.counts.peak).max().unwrap_or(0);
    let micros = |latencies: &mut [f64], q| quantile(latencies, q) / 1e3;
    Ok(vec![
        Metric::new("flow_images", primary.matched as f64, "matched"),
        Metric::new("flow_unmatched", unmatched as f64, "images").at_most(0.0),
        Metric::new("flow_late", primary.late as f64, "images").at_most(0.0),
        Metric::new("flow_drops", dropped as f64, "packets").at_most(0.0),
        Metric::new("flow_join", micros(&mut latencies, 0.5), "us"),
        Metric::new("flow_join_p99", micros(&mut latencies, 0.99), "us").at_most(2000.0),
        Metric::new("flow_join_max", micros(&mut latencies, 1.0), "us"),
        Metric::new("flow_allocations", (last - first) as f64, "").at_most(0.0),
        Metric::new("flow_peak", peak as f64, "queued packets"),
        Metric::new("flow_growth", growth as f64 / 1024.0, "KiB").at_most(1024.0),
    ])
}

fn graph(images: usize, joined: &Arc<Joined>) -> ClosureGraph {
    const CAMERA_PORTS: &[Port] = &[OUT.port()];
    const IMU_PORTS: &[Port] = &[IMU.port()];
    const JOIN_PORTS: &[Port] = &[IMAGE.port(), MOTION.port()];
    let start = Instant::now();
    let now = move || start.elapsed().as_nanos() as u64;
    let first = Timestamp::ZERO + LEAD;
    let due = move |number: usize| first + IMAGE_PERIOD * u32::try_from(number).unwrap_or(0);

    let mut graph = ClosureGraph::default();
    let mut sent = 0;
    let camera = graph.node("camera", "camera", CAMERA_PORTS, move |cx| {
        if cx.now() < first {
            return cx.resume_at(first);
        }
        let mut image = cx.loan(OUT);
        image.pixels.resize(IMAGE_BYTES, 0);
        image.pixels[..1920 * 3].fill(sent as u8);
        image.sent_ns = now();
        cx.send_at(OUT, cx.now(), image);
        sent += 1;
        cx.resume_at(due(sent));
        if sent == images {
            cx.end();
        }
    });
    let (mut measured, end) = (0, due(images) + LEAD);
    let motion = graph.node("motion", "motion", IMU_PORTS, move |cx| {
        let at = cx.now();
        // The value is the time, so interpolation returns the timestamp of the image.
        let seconds = at.as_secs_f64() as f32;
        cx.send_at(IMU, at, Imu { angular_velocity_rad_s: [seconds; 3], ..Imu::default() });
        measured += 1;
        cx.resume_at(Timestamp::ZERO + IMU_PERIOD * measured);
        if at > end {
            cx.end();
        }
    });
    let (joined, mut received) = (joined.clone(), 0);
    let join = graph.node("join", "join", JOIN_PORTS, move |cx| {
        let arrived_ns = now();
        let is_correct = cx.get(MOTION).is_some_and(|imu| {
            (imu.angular_velocity_rad_s[0] - cx.at().as_secs_f64() as f32).abs() < 0.01
        });
        joined.wrong.fetch_add(u64::from(!is_correct), Ordering::Relaxed);
        if let Some(image) = cx.get(IMAGE) {
            let mut latencies = joined.latencies.lock().unwrap_or_else(PoisonError::into_inner);
            latencies.push((arrived_ns - image.sent_ns) as f64);
        }
        received += 1;
        if received == WARMUP_IMAGES {
            joined.allocations[0].store(allocations::count(), Ordering::SeqCst);
        } else if received + 1 == images {
            joined.allocations[1].store(allocations::count(), Ordering::SeqCst);
        }
    });
    graph.edge((camera, "out"), (join, "image"), policy(OnFull::Block, 4));
    let edge = graph.edge((motion, "imu"), (join, "motion"), policy(OnFull::DropOldest, 64));
    edge.sync = Some(SyncPolicy::Interpolate);
    graph
}

/// Growth of the resident memory in bytes, from 10 % to 90 % of `run`.
fn memory_growth(run: Duration) -> Result<u64> {
    thread::sleep(LEAD + run / 10);
    let first = process::resident_bytes()?;
    let (begin, mut largest) = (Instant::now(), first);
    while begin.elapsed() < run * 8 / 10 {
        thread::sleep((run / 100).clamp(Duration::from_millis(10), Duration::from_secs(1)));
        largest = largest.max(process::resident_bytes()?);
    }
    Ok(largest - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_gets_its_measurement() {
        let joined = Arc::new(Joined::default());
        let session = graph(WARMUP_IMAGES + 10, &joined).start(RunOptions::default()).unwrap();
        let report = session.wait().unwrap();
        assert_eq!(report.edges[0].join.unwrap().matched, WARMUP_IMAGES as u64 + 10);
        assert_eq!(joined.wrong.load(Ordering::SeqCst), 0);
    }
}
