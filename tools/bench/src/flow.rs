//! A camera and an inertial measurement unit, joined in time.

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
    figures::{self, Figure, quantile},
    process,
    scripted::{Scripted, policy},
};

/// 60 pictures and 1000 measurements of motion a second, joined by interpolation.
///
/// Every picture has to get a measurement made for its time. The time of the join is from when the
/// picture leaves its source until the node has both; it contains the wait for the measurement
/// after the picture, which is a millisecond at most. Memory is looked at all the time.
///
/// Fails when a figure is above its limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How long pictures come.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
}

/// A picture of 1920 by 1080 points in three colours.
const BYTES: usize = 1920 * 1080 * 3;

const PICTURE_PERIOD: Duration = Duration::from_nanos(16_666_667);
const IMU_PERIOD: Duration = Duration::from_millis(1);

/// Measurements come so much earlier and later than pictures.
const LEAD: Duration = Duration::from_millis(200);

/// Pictures that are not measured: until all memory is there.
const WARMUP: usize = 30;

#[derive(Debug, Clone, Default)]
struct Picture {
    pixels: Vec<u8>,
    /// When it left, in nanoseconds since the start.
    left: u64,
}

impl Payload for Picture {
    const TYPE: &'static str = "bench/Picture";
}

const PICTURE: In<Picture> = In::at(0, "picture");
const MOTION: In<Imu> = In::at(1, "motion");
const OUT: Out<Picture> = Out::at(0, "out");
const IMU: Out<Imu> = Out::at(0, "imu");

/// What the joining node has seen.
#[derive(Default)]
struct Seen {
    times: Mutex<Vec<f64>>,
    /// Pictures without a measurement, or with one of another time.
    wrong: AtomicU64,
    /// Allocations of the program when the first picture came that is measured, and the last but
    /// one, after which a thread ends.
    allocations: [AtomicU64; 2],
}

/// The figures as text, and whether they are as they should be.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let pictures = (options.seconds / PICTURE_PERIOD.as_secs_f64()).max(1.0) as usize + WARMUP;
    let seen = Arc::new(Seen::default());
    seen.times.lock().unwrap_or_else(PoisonError::into_inner).reserve(pictures);
    let session = graph(pictures, &seen).start(RunOptions::default())?;
    // What waiting allocates, it allocates before anything is counted.
    let waits = thread::spawn(move || session.wait());
    let growth = growth(Duration::from_secs_f64(options.seconds))?;
    let report = waits.join().ok().context("the wait for the graph panicked")??;
    let figures = figures(pictures, &seen, &report, growth)?;
    let title = format!("60 pictures and 1000 measurements a second for {} s", options.seconds);
    Ok((figures::text(title, &figures, Vec::new(), json), figures::verdict(&figures)))
}

fn figures(pictures: usize, seen: &Seen, report: &Report, growth: u64) -> Result<Vec<Figure>> {
    let mut times = seen.times.lock().unwrap_or_else(PoisonError::into_inner).split_off(WARMUP);
    let lead = report.edges[0].join.context("the node joins")?;
    let unmatched = pictures as u64 - lead.matched + seen.wrong.load(Ordering::SeqCst);
    // Measurements that come when there are no more pictures are dropped too.
    let lost = |counts: &EdgeCounts| counts.dropped() - counts.dropped_closed;
    let dropped = report.edges.iter().map(|edge| lost(&edge.counts)).sum::<u64>();
    let [began, ended] = [0, 1].map(|place| seen.allocations[place].load(Ordering::SeqCst));
    let peak = report.edges.iter().map(|edge| edge.counts.peak).max().unwrap_or(0);
    let micros = |times: &mut [f64], share| quantile(times, share) / 1e3;
    Ok(vec![
        Figure::new("flow_pictures", lead.matched as f64, "matched"),
        Figure::new("flow_unmatched", unmatched as f64, "pictures").at_most(0.0),
        Figure::new("flow_late", lead.late as f64, "pictures").at_most(0.0),
        Figure::new("flow_drops", dropped as f64, "packets").at_most(0.0),
        Figure::new("flow_join", micros(&mut times, 0.5), "us"),
        Figure::new("flow_join_p99", micros(&mut times, 0.99), "us").at_most(2000.0),
        Figure::new("flow_join_max", micros(&mut times, 1.0), "us"),
        Figure::new("flow_allocations", (ended - began) as f64, "").at_most(0.0),
        Figure::new("flow_peak", peak as f64, "packets waiting"),
        Figure::new("flow_growth", growth as f64 / 1024.0, "KiB").at_most(1024.0),
    ])
}

fn graph(pictures: usize, seen: &Arc<Seen>) -> Scripted {
    const CAMERA: &[Port] = &[OUT.port()];
    const MOTIONS: &[Port] = &[IMU.port()];
    const JOIN: &[Port] = &[PICTURE.port(), MOTION.port()];
    let start = Instant::now();
    let now = move || start.elapsed().as_nanos() as u64;
    let first = Timestamp::ZERO + LEAD;
    let due = move |number: usize| first + PICTURE_PERIOD * u32::try_from(number).unwrap_or(0);

    let mut graph = Scripted::default();
    let mut sent = 0;
    let camera = graph.node("camera", "camera", CAMERA, move |cx| {
        if cx.now() < first {
            return cx.resume_at(first);
        }
        let mut picture = cx.loan(OUT);
        picture.pixels.resize(BYTES, 0);
        picture.pixels[..1920 * 3].fill(sent as u8);
        picture.left = now();
        cx.send_at(OUT, cx.now(), picture);
        sent += 1;
        cx.resume_at(due(sent));
        if sent == pictures {
            cx.end();
        }
    });
    let (mut measured, end) = (0, due(pictures) + LEAD);
    let motion = graph.node("motion", "motion", MOTIONS, move |cx| {
        let at = cx.now();
        // Interpolation of a value that grows with time gives the time.
        let seconds = at.as_secs_f64() as f32;
        cx.send_at(IMU, at, Imu { angular_velocity_rad_s: [seconds; 3], ..Imu::default() });
        measured += 1;
        cx.resume_at(Timestamp::ZERO + IMU_PERIOD * measured);
        if at > end {
            cx.end();
        }
    });
    let (seen, mut received) = (seen.clone(), 0);
    let join = graph.node("join", "join", JOIN, move |cx| {
        let arrived = now();
        let is_right = cx.get(MOTION).is_some_and(|imu| {
            (imu.angular_velocity_rad_s[0] - cx.at().as_secs_f64() as f32).abs() < 0.01
        });
        seen.wrong.fetch_add(u64::from(!is_right), Ordering::Relaxed);
        if let Some(picture) = cx.get(PICTURE) {
            let mut times = seen.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.push((arrived - picture.left) as f64);
        }
        received += 1;
        if received == WARMUP {
            seen.allocations[0].store(allocations::count(), Ordering::SeqCst);
        } else if received + 1 == pictures {
            seen.allocations[1].store(allocations::count(), Ordering::SeqCst);
        }
    });
    graph.edge((camera, "out"), (join, "picture"), policy(OnFull::Block, 4));
    let edge = graph.edge((motion, "imu"), (join, "motion"), policy(OnFull::DropOldest, 64));
    edge.sync = Some(SyncPolicy::Interpolate);
    graph
}

/// How much the resident memory grows during most of this time, in bytes.
fn growth(run: Duration) -> Result<u64> {
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
    fn every_picture_gets_its_measurement() {
        let seen = Arc::new(Seen::default());
        let session = graph(WARMUP + 10, &seen).start(RunOptions::default()).unwrap();
        let report = session.wait().unwrap();
        assert_eq!(report.edges[0].join.unwrap().matched, WARMUP as u64 + 10);
        assert_eq!(seen.wrong.load(Ordering::SeqCst), 0);
    }
}
