//! Measurements of running sensors.

use std::{io::Read, time::Duration};

use afferent_graph::NodeError;
use afferent_messages::Imu;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    device::{Quantity, Root, choose, devices},
    pair::Pair,
    setup::{ENABLE, Scan, Sensor, Triple},
};
use crate::{ImuParams, offset::Offset, session_clock::monotonic_ns, warn_rarely};

const UNPLUGGED: &str = "it was unplugged";

/// Most bytes of one reading.
const MAX_READ: usize = 1 << 16;

/// Largest difference between a stamp and the time of its arrival, for the first one, in nanoseconds: a
/// larger one means that the driver stamps by another clock.
const MAX_AGE_NS: i64 = 1_000_000_000;

/// Sensors that were set up: one with both quantities, or an accelerometer and a gyroscope.
pub(crate) struct Opened(Vec<Sensor>);

impl Opened {
    /// Sets up the sensors that the parameters ask for.
    ///
    /// # Errors
    /// The file or parameter, and its fault.
    pub(crate) fn open(root: &Root, params: &ImuParams) -> Result<Self, NodeError> {
        let (acceleration, velocity) = (Quantity::Acceleration, Quantity::AngularVelocity);
        let chosen = choose(&devices(root), params)?;
        let shares: &[&[Quantity]] = match chosen.len() {
            1 => &[&[acceleration, velocity]],
            _ => &[&[acceleration], &[velocity]],
        };
        let sensors = chosen.into_iter().zip(shares);
        let sensors = sensors.map(|(device, share)| Sensor::open(root, device, share, params));
        sensors.collect::<Result<_, _>>().map(Self)
    }

    /// Names of the devices.
    pub(crate) fn name(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|sensor| sensor.device.to_string()).collect();
        names.join(" and ")
    }

    /// Enables the buffers.
    ///
    /// # Errors
    /// The file, and the error of the system.
    pub(crate) fn start(self) -> Result<Stream, NodeError> {
        let sources = self.0.into_iter().map(Source::start).collect::<Result<_, _>>()?;
        Ok(Stream { sources, pair: Pair::default() })
    }
}

/// Running sensors.
pub(crate) struct Stream {
    sources: Vec<Source>,
    pair: Pair,
}

impl Stream {
    /// Waits for measurements and adds them to `to`, with their times by the monotonic clock in
    /// nanoseconds.
    ///
    /// # Errors
    /// The sensor that is gone.
    pub(crate) fn next(&mut self, limit: Duration, to: &mut Vec<(i64, Imu)>) -> Result<(), String> {
        let files = self.sources.iter().map(|source| &source.sensor.file);
        let mut files: Vec<PollFd<'_>> =
            files.map(|file| PollFd::new(file, PollFlags::IN)).collect();
        let limit = Timespec::try_from(limit).map_err(|error| error.to_string())?;
        match poll(&mut files, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        let events: Vec<PollFlags> = files.iter().map(PollFd::revents).collect();
        for (source, events) in self.sources.iter_mut().zip(events) {
            if !events.contains(PollFlags::IN) {
                source.check(events)?;
                continue;
            }
            source.read(|ns, acceleration, velocity| match (acceleration, velocity) {
                (Some(acceleration_m_s2), Some(angular_velocity_rad_s)) => {
                    to.push((ns, Imu { angular_velocity_rad_s, acceleration_m_s2 }));
                }
                (Some(axes), None) => self.pair.acceleration(ns, axes),
                (None, Some(axes)) => self.pair.velocity(ns, axes),
                (None, None) => {}
            })?;
        }
        let dropped = self.pair.dropped();
        self.pair.take(to);
        if self.pair.dropped() > dropped {
            let event = "a measurement of a gyroscope had no acceleration at its time";
            warn_rarely(self.pair.dropped(), event);
        }
        Ok(())
    }
}

/// A running sensor. Its buffer is disabled on drop.
struct Source {
    sensor: Sensor,
    bytes: Vec<u8>,
    /// Start of `bytes` that holds an incomplete scan.
    kept: usize,
    stamps: Stamps,
    /// Number of times that the buffer was full.
    full: u64,
}

impl Source {
    fn start(sensor: Sensor) -> Result<Self, NodeError> {
        let written = sensor.device.folder.write(ENABLE, "1");
        written.map_err(|error| {
            let hint = "; a sensor without a data-ready interrupt needs a trigger, such as hrtimer";
            sensor.device.error(&format!("its buffer does not start: {error}{hint}"))
        })?;
        let bytes = sensor.scan.bytes;
        let bytes = bytes * sensor.capacity.clamp(1, (MAX_READ / bytes.max(1)).max(1));
        Ok(Self { sensor, bytes: vec![0; bytes], kept: 0, stamps: Stamps::New, full: 0 })
    }

    /// Checks that the sensor, which has no measurement, is still there.
    fn check(&self, events: PollFlags) -> Result<(), String> {
        let is_there = self.sensor.device.folder.has(ENABLE);
        let is_gone = events.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        match is_there && !is_gone {
            true => Ok(()),
            false => Err(self.gone(UNPLUGGED)),
        }
    }

    fn gone(&self, reason: &str) -> String {
        format!("{}: {reason}", self.sensor.device)
    }

    /// Reads what is there, and calls `each` with time, acceleration and angular velocity.
    fn read(
        &mut self,
        mut each: impl FnMut(i64, Option<[f32; 3]>, Option<[f32; 3]>),
    ) -> Result<(), String> {
        let read = match (&self.sensor.file).read(&mut self.bytes[self.kept..]) {
            Ok(0) => return Err(self.gone("its stream ended")),
            Ok(read) => self.kept + read,
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Some(Errno::NODEV) => return Err(self.gone(UNPLUGGED)),
                _ => return Err(self.gone(&error.to_string())),
            },
        };
        let Scan { bytes: size, stamp, acceleration, angular_velocity } = &self.sensor.scan;
        let stamp = |scan: &[u8]| i64::try_from(stamp.value(scan)).unwrap_or(i64::MAX);
        let (whole, rest) = self.bytes[..read].split_at(read - read % size);
        let kept = rest.len();
        if let Some(last) = whole.chunks_exact(*size).next_back() {
            self.stamps.arrive(stamp(last), monotonic_ns());
        }
        for scan in whole.chunks_exact(*size) {
            let triple = |triple: &Option<Triple>| triple.as_ref().map(|one| one.read(scan));
            each(
                self.stamps.monotonic_ns(stamp(scan)),
                triple(acceleration),
                triple(angular_velocity),
            );
        }
        let (scans, whole) = (whole.len() / size, whole.len());
        self.bytes.copy_within(whole..whole + kept, 0);
        self.kept = kept;
        if scans >= self.sensor.capacity {
            self.full += 1;
            let device = &self.sensor.device;
            warn_rarely(
                self.full,
                &format!("the buffer of {device} was full: measurements may be lost"),
            );
        }
        Ok(())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // The sensor may be gone.
        let _ = self.sensor.device.folder.write(ENABLE, "0");
    }
}

/// Clock of the stamps of a driver.
#[derive(Debug)]
enum Stamps {
    /// There are none yet.
    New,
    Monotonic,
    /// Difference to the monotonic clock.
    Other(Offset, i64),
}

impl Stamps {
    /// Takes the newest stamp of a reading, at `now_ns` of the monotonic clock.
    fn arrive(&mut self, stamp: i64, now_ns: i64) {
        let age = now_ns.saturating_sub(stamp);
        if matches!(self, Self::New) {
            *self = match age.saturating_abs() <= MAX_AGE_NS {
                true => Self::Monotonic,
                false => Self::Other(Offset::default(), 0),
            };
        }
        if let Self::Other(offset, best) = self {
            *best = offset.update(age);
        }
    }

    fn monotonic_ns(&self, stamp: i64) -> i64 {
        match self {
            Self::New | Self::Monotonic => stamp,
            Self::Other(_, offset) => stamp.saturating_add(*offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_another_clock_are_converted() {
        let mut stamps = Stamps::New;
        stamps.arrive(70_000_000_000, 70_005_000_000);
        assert_eq!(stamps.monotonic_ns(69_990_000_000), 69_990_000_000);
        // After a pause of the node, its stamps are still monotonic.
        stamps.arrive(70_100_000_000, 75_000_000_000);
        assert_eq!(stamps.monotonic_ns(70_100_000_000), 70_100_000_000);

        let mut stamps = Stamps::New;
        stamps.arrive(1_000_000, 70_005_000_000);
        assert_eq!(stamps.monotonic_ns(500_000), 70_004_500_000);
        // Arrives sooner, then later.
        stamps.arrive(6_000_000, 70_009_000_000);
        assert_eq!(stamps.monotonic_ns(6_000_000), 70_009_000_000);
        stamps.arrive(11_000_000, 70_014_016_000);
        assert_eq!(stamps.monotonic_ns(11_000_000), 70_014_001_000);
    }
}
