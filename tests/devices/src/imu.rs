//! The node `imu` with an accelerometer and a gyroscope of `hid.rs`, which the kernel shows as two devices
//! of Industrial I/O.

use std::{
    fs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use afferent_graph::{ParamValues, Params};
use afferent_messages::Imu as Measurement;
use afferent_nodes_device::{Imu, ImuParams, OnLost, motion_sensors};
use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    hid::{Kind, Sensor},
    run::{self, Arrived, Seen, wait},
};

/// Longest time from the return of a sensor to its first measurement.
const BACK_WITHIN: Duration = Duration::from_secs(2);

/// Time between two reports of one sensor.
const PERIOD: Duration = Duration::from_millis(10);

/// Values of one count, as the kernel gives them: 0.001 g, and 0.1 degrees per second.
const COUNT_M_S2: f64 = 0.009_806_65;
const COUNT_RAD_S: f64 = 0.001_745_329;

/// Counts of the accelerometer about y and z, and of the gyroscope. The one about x is the number of the
/// report.
const ACCELERATION: [i16; 2] = [-500, 1000];
const VELOCITY: [i16; 2] = [321, -32_000];

pub(crate) fn check(check: &mut impl FnMut(&str, Result<String>)) {
    check("motion sensors are listed", listed());
    for watermark in [1, 8] {
        let name = format!("measurements of two sensors, {watermark} at a time");
        check(&name, measurements(watermark));
    }
    check("a rate is set", rate());
    check("an accelerometer needs a gyroscope", alone());
    for kind in [Kind::Accelerometer, Kind::Gyroscope] {
        check(&format!("an unplugged {kind:?} comes back"), unplugged(kind));
    }
    check("the loss of a sensor is reported", lost());
}

impl Seen for Measurement {
    type Of = Measurement;

    fn of(value: &Measurement) -> Self {
        *value
    }
}

fn params() -> Result<ImuParams> {
    let params = ImuParams::from_values(&ParamValues::default());
    params.map_err(|(name, error)| anyhow::anyhow!("{name}: {error}"))
}

/// Plugs a sensor and waits until its driver has it.
fn plug(kind: Kind) -> Result<Sensor> {
    let sensor = Sensor::plug(kind)?;
    let is_there = || motion_sensors().iter().any(|sensor| sensor.name == kind.name());
    wait(Duration::from_secs(20), is_there).with_context(|| format!("no {}", kind.name()))?;
    Ok(sensor)
}

/// Waits until the driver of a sensor is gone.
fn wait_for_loss(kind: Kind) -> Result<()> {
    let is_gone = || motion_sensors().iter().all(|sensor| sensor.name != kind.name());
    wait(Duration::from_secs(20), is_gone)
}

fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Accelerometer and gyroscope that send reports.
struct Body {
    sensors: Arc<Mutex<[Option<Sensor>; 2]>>,
    /// Times of the reports of each.
    sent: Arc<Mutex<[Vec<i64>; 2]>>,
    stops: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

const KINDS: [Kind; 2] = [Kind::Accelerometer, Kind::Gyroscope];

impl Body {
    fn new() -> Result<Self> {
        let sensors = [Some(plug(KINDS[0])?), Some(plug(KINDS[1])?)];
        let sensors = Arc::new(Mutex::new(sensors));
        let (sent, stops) = (Arc::<Mutex<[Vec<i64>; 2]>>::default(), Arc::<AtomicBool>::default());
        let sender = {
            let (sensors, sent, stops) = (sensors.clone(), sent.clone(), stops.clone());
            move || {
                while !stops.load(Ordering::Acquire) {
                    for at in 0..2 {
                        send(at, &sensors, &sent);
                        thread::sleep(PERIOD / 2);
                    }
                }
            }
        };
        let sender = Some(thread::spawn(sender));
        Ok(Self { sensors, sent, stops, sender })
    }

    fn unplug(&self, kind: Kind) -> Result<()> {
        let at = usize::from(kind == Kind::Gyroscope);
        self.sensors.lock().unwrap_or_else(PoisonError::into_inner)[at] = None;
        wait_for_loss(kind)
    }

    fn plug(&self, kind: Kind) -> Result<()> {
        let at = usize::from(kind == Kind::Gyroscope);
        let sensor = plug(kind)?;
        self.sensors.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(sensor);
        Ok(())
    }

    fn sent(&self) -> [Vec<i64>; 2] {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
        *self.sensors.lock().unwrap_or_else(PoisonError::into_inner) = [None, None];
        for kind in KINDS {
            let _ = wait_for_loss(kind);
        }
    }
}

/// Sends a report of a sensor, and notes its time; reports of an unplugged one are lost.
fn send(at: usize, sensors: &Mutex<[Option<Sensor>; 2]>, sent: &Mutex<[Vec<i64>; 2]>) {
    let number = sent.lock().unwrap_or_else(PoisonError::into_inner)[at].len() as i16;
    let [y, z] = [ACCELERATION, VELOCITY][at];
    let sensors = sensors.lock().unwrap_or_else(PoisonError::into_inner);
    let ns = monotonic_ns();
    if let Some(sensor) = &sensors[at] {
        let _ = sensor.send([number, y, z]);
    }
    sent.lock().unwrap_or_else(PoisonError::into_inner)[at].push(ns);
}

fn listed() -> Result<String> {
    let _sensors = [plug(Kind::Accelerometer)?, plug(Kind::Gyroscope)?];
    let all = motion_sensors();
    let found: Vec<_> =
        all.iter().map(|one| (&*one.name, one.has_accelerometer, one.has_gyroscope)).collect();
    let mut sorted = found.clone();
    sorted.sort_unstable();
    ensure!(sorted == [("accel_3d", true, false), ("gyro_3d", false, true)], "{found:?}");
    let ids: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
    Ok(ids.join(" and "))
}

/// Measurements per check.
const COUNT: usize = 200;

fn measurements(watermark: u32) -> Result<String> {
    let body = Body::new()?;
    let params = ImuParams { watermark, ..params()? };
    let (session, collected) = run::start::<Imu, Measurement>(params)?;
    let arrived = wait(Duration::from_secs(40), || collected.len() >= COUNT);
    session.stop_handle().stop();
    let report = session.wait()?;
    arrived.with_context(|| format!("{:?}", report.failures))?;
    compare(&collected.all()[..COUNT], &body.sent())
}

/// Compares measurements with the reports.
fn compare(all: &[Arrived<Measurement>], sent: &[Vec<i64>; 2]) -> Result<String> {
    let counts = |value: f32, count: f64| f64::from(value) / count;
    let number = |one: &Arrived<Measurement>| {
        counts(one.seen.angular_velocity_rad_s[0], COUNT_RAD_S).round() as usize
    };
    let first = all.first().map(number).context("no measurement")?;
    let (mut spacing, mut age, mut acceleration) = (Vec::new(), Vec::new(), Vec::new());
    for (at, one) in all.iter().enumerate() {
        let index = first + at;
        let velocity = one.seen.angular_velocity_rad_s.map(|axis| counts(axis, COUNT_RAD_S));
        let expected = [index as f64, VELOCITY[0].into(), VELOCITY[1].into()];
        let is_sent = velocity.iter().zip(expected).all(|(axis, sent)| (axis - sent).abs() < 0.01);
        ensure!(is_sent, "measurement {at} is {velocity:.2?}, not {expected:?}: {one:?}");
        let [x, y, z] = one.seen.acceleration_m_s2.map(|axis| counts(axis, COUNT_M_S2));
        let [wanted_y, wanted_z] = ACCELERATION.map(f64::from);
        let is_sent = (y - wanted_y).abs() < 0.01 && (z - wanted_z).abs() < 0.01;
        ensure!(is_sent, "measurement {at} has the acceleration {x:.2} {y:.2} {z:.2}");
        acceleration.push((x - interpolated(&sent[0], sent[1][index])?).abs());
        age.push((one.at.0 - sent[1][index]) as f64 * 1e-6);
        if let Some(next) = all.get(at + 1) {
            let found = next.at.0 - one.at.0;
            ensure!(found > 0, "timestamps do not grow: {one:?} {next:?}");
            let wanted = sent[1][index + 1] - sent[1][index];
            spacing.push((found - wanted).abs() as f64 * 1e-6);
        }
    }
    // A guest without a processor of its own stalls at times, so only medians are compared.
    let spacing = median(&mut spacing);
    let middle = median(&mut age.clone());
    let mut spread: Vec<f64> = age.iter().map(|age| (age - middle).abs()).collect();
    let spread = median(&mut spread);
    let acceleration = median(&mut acceleration);
    ensure!(spacing < 1.0, "the spacing differs by {spacing:.3} ms");
    ensure!(spread < 1.0, "the times differ by {spread:.3} ms");
    ensure!(acceleration < 0.5, "the acceleration differs by {acceleration:.2} counts");
    Ok(format!(
        "{} without a loss; medians of differences: spacing {spacing:.3} ms, time {spread:.3} ms, \
         interpolated acceleration {acceleration:.3} counts",
        all.len()
    ))
}

/// Count of the accelerometer at a time, by the times of its reports.
fn interpolated(sent: &[i64], ns: i64) -> Result<f64> {
    let after = sent.partition_point(|time| *time < ns);
    ensure!(after > 0 && after < sent.len(), "no acceleration at this time");
    let (from, to) = (sent[after - 1], sent[after]);
    Ok((after - 1) as f64 + (ns - from) as f64 / (to - from) as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn rate() -> Result<String> {
    let _body = Body::new()?;
    let params = ImuParams { rate: Some(50.0), ..params()? };
    let (session, collected) = run::start::<Imu, Measurement>(params)?;
    let arrived = wait(Duration::from_secs(20), || collected.len() >= 5);
    let sensors = motion_sensors();
    let rates = sensors.iter().map(|sensor| {
        let quantity = if sensor.has_gyroscope { "anglvel" } else { "accel" };
        let file = format!("in_{quantity}_sampling_frequency");
        let path = format!("/sys/bus/iio/devices/{}/{file}", sensor.id);
        Ok(fs::read_to_string(path)?.trim().parse::<f64>()?)
    });
    let rates: Result<Vec<f64>> = rates.collect();
    session.stop_handle().stop();
    let report = session.wait()?;
    arrived.with_context(|| format!("{:?}", report.failures))?;
    let rates = rates?;
    ensure!(rates == [50.0, 50.0], "the sensors have {rates:?} Hz");
    Ok("50 Hz".to_owned())
}

fn alone() -> Result<String> {
    let _sensor = plug(Kind::Accelerometer)?;
    let error = run::start::<Imu, Measurement>(params()?).err().context("it starts")?;
    let told = format!("{error:#}");
    let is_clear = told.contains("parameter gyroscope") && told.contains("accel_3d");
    ensure!(is_clear, "{told}");
    Ok(told)
}

fn unplugged(kind: Kind) -> Result<String> {
    let body = Body::new()?;
    let (session, collected) = run::start::<Imu, Measurement>(params()?)?;
    wait(Duration::from_secs(20), || collected.len() >= 20)?;
    body.unplug(kind)?;
    // Measurements that were on their way.
    thread::sleep(Duration::from_millis(300));
    let before = collected.len();
    thread::sleep(Duration::from_millis(500));
    ensure!(collected.len() == before, "measurements without a sensor");
    body.plug(kind)?;
    let plugged = Instant::now();
    let back = wait(Duration::from_secs(20), || collected.len() >= before + 20);
    session.stop_handle().stop();
    let report = session.wait()?;
    back.with_context(|| format!("{:?}", report.failures))?;
    let all = collected.all();
    let first = all.get(before).context("no measurement")?;
    let took = first.arrived.saturating_duration_since(plugged);
    ensure!(took <= BACK_WITHIN, "back after {took:?}");
    ensure!(all.is_sorted_by(|one, next| one.at <= next.at), "timestamps go back");
    Ok(format!("first measurement {} ms after its return", took.as_millis()))
}

fn lost() -> Result<String> {
    let body = Body::new()?;
    let params = ImuParams { on_lost: OnLost::Fail, ..params()? };
    let (session, collected) = run::start::<Imu, Measurement>(params)?;
    wait(Duration::from_secs(20), || collected.len() >= 5)?;
    body.unplug(Kind::Gyroscope)?;
    let error = session.wait().err().context("the graph does not fail")?;
    let told = format!("{error:#}");
    ensure!(told.contains("gyro_3d") && told.contains("unplugged"), "{told}");
    Ok(told)
}
