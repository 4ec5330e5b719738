//! Cameras of Video4Linux: what they offer, and their images.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::Path,
    time::Duration,
};

use memmap2::{Mmap, MmapOptions};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::abi;
use crate::CameraMode;

/// A camera.
pub(crate) struct Device {
    file: OwnedFd,
}

/// Name and address of a camera.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Driver in the kernel.
    pub(crate) driver: String,
    /// Name of the camera.
    pub(crate) card: String,
    /// Its bus address, such as `usb-0000:00:14.0-3`.
    pub(crate) bus: String,
}

/// Format that a camera was set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) fourcc: [u8; 4],
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Distance of two rows in bytes; 0 for compressed images.
    pub(crate) row_stride: u32,
    pub(crate) colorspace: u32,
    pub(crate) encoding: u32,
    pub(crate) quantization: u32,
}

/// Control of a camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    Gain,
    ExposureAuto,
    /// In 100 µs.
    Exposure,
    FocusAuto,
    Focus,
}

impl Control {
    fn id(self) -> u32 {
        match self {
            Self::Gain => abi::GAIN,
            Self::ExposureAuto => abi::EXPOSURE_AUTO,
            Self::Exposure => abi::EXPOSURE_ABSOLUTE,
            Self::FocusAuto => abi::FOCUS_AUTO,
            Self::Focus => abi::FOCUS_ABSOLUTE,
        }
    }
}

/// Value of [`Control::ExposureAuto`] for a fixed exposure.
pub(crate) const EXPOSURE_MANUAL: i32 = abi::EXPOSURE_MANUAL;

impl Device {
    /// Opens the camera at `path`, such as `/dev/video0`.
    ///
    /// # Errors
    /// The error of the system, or the reason why the device gives no images.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Identity)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let file: File = options.custom_flags(flags.bits().cast_signed()).open(path)?;
        let device = Self { file: file.into() };
        let mut found = abi::Capability::default();
        abi::query_capability(&device.file, &mut found).map_err(|error| match error {
            Errno::NOTTY => io::Error::other("it is not a camera"),
            error => error.into(),
        })?;
        let other = |reason: &str| Err(io::Error::other(reason));
        match found.device_caps {
            caps if caps & abi::CAN_CAPTURE_PLANES != 0 => {
                other("it gives images in several planes (multi-planar), which is not supported")
            }
            caps if caps & abi::CAN_CAPTURE == 0 => other(
                "it gives no images; a camera may have several devices, so try another number",
            ),
            caps if caps & abi::CAN_STREAM == 0 => other("it gives no stream of images"),
            _ => {
                let [driver, card, bus] = [&found.driver[..], &found.card, &found.bus_info];
                let [driver, card, bus] = [driver, card, bus].map(abi::text);
                Ok((device, Identity { driver, card, bus }))
            }
        }
    }

    /// Formats, sizes and rates that the camera offers, in the order of the driver.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn modes(&self) -> io::Result<Vec<CameraMode>> {
        let mut modes = Vec::new();
        for fourcc in self.formats()? {
            for (width, height, is_limit) in self.sizes(fourcc)? {
                let fps = self.greatest_rate(fourcc, width, height)?;
                modes.push(CameraMode { fourcc, width, height, fps, is_limit });
            }
        }
        Ok(modes)
    }

    fn formats(&self) -> io::Result<Vec<[u8; 4]>> {
        list(|index| {
            let mut format = abi::FormatDescription::default();
            (format.index, format.kind) = (index, abi::CAPTURE);
            abi::enumerate_format(&self.file, &mut format).map(|()| format.fourcc)
        })
    }

    /// Width, height, and whether smaller ones are offered, too.
    fn sizes(&self, fourcc: [u8; 4]) -> io::Result<Vec<(u32, u32, bool)>> {
        list(|index| {
            let mut size = abi::FrameSize::default();
            (size.index, size.fourcc) = (index, fourcc);
            abi::enumerate_size(&self.file, &mut size)?;
            Ok(match size.kind {
                abi::DISCRETE => (size.size[0], size.size[1], false),
                _ => (size.size[1], size.size[4], true),
            })
        })
    }

    fn greatest_rate(&self, fourcc: [u8; 4], width: u32, height: u32) -> io::Result<f64> {
        let rates = list(|index| {
            let mut interval = abi::FrameInterval::default();
            (interval.index, interval.fourcc) = (index, fourcc);
            (interval.width, interval.height) = (width, height);
            abi::enumerate_interval(&self.file, &mut interval)?;
            Ok(rate(interval.interval[0]))
        })?;
        Ok(rates.into_iter().fold(0.0, f64::max))
    }

    /// Sets format and size; the driver may choose others.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn set_format(
        &self,
        fourcc: [u8; 4],
        width: u32,
        height: u32,
    ) -> io::Result<Layout> {
        let mut format = abi::Format { kind: abi::CAPTURE, fourcc, width, height, ..default() };
        format.field = abi::PROGRESSIVE;
        abi::set_format(&self.file, &mut format)?;
        Ok(Layout {
            fourcc: format.fourcc,
            width: format.width,
            height: format.height,
            row_stride: format.bytes_per_line,
            colorspace: format.colorspace,
            encoding: format.encoding,
            quantization: format.quantization,
        })
    }

    /// Sets the rate; returns the one that the driver chose, or `None` if it has none to set.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn set_rate(&self, fps: f64) -> io::Result<Option<f64>> {
        let interval = [1000, (fps * 1000.0).round() as u32];
        let mut parameters = abi::StreamParameters { kind: abi::CAPTURE, interval, ..default() };
        match abi::set_parameters(&self.file, &mut parameters) {
            Ok(()) => Ok(Some(rate(parameters.interval)).filter(|fps| *fps > 0.0)),
            Err(error) if abi::is_end(error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Value of a control; `None` if the camera does not have it.
    pub(crate) fn control(&self, control: Control) -> Option<i32> {
        let mut value = abi::Control { id: control.id(), value: 0 };
        abi::get_control(&self.file, &mut value).ok().map(|()| value.value)
    }

    /// Sets a control.
    ///
    /// # Errors
    /// The range of the values, or that the camera does not have the control.
    pub(crate) fn set_control(&self, control: Control, value: i32) -> io::Result<()> {
        let mut query = abi::ControlQuery { id: control.id(), ..default() };
        if abi::query_control(&self.file, &mut query).is_err() {
            return Err(io::Error::other("the camera has no such control"));
        }
        let (least, greatest) = (query.minimum, query.maximum);
        if !(least..=greatest).contains(&value) {
            let reason = format!("{value} is not from {least} to {greatest}");
            return Err(io::Error::other(reason));
        }
        let mut value = abi::Control { id: control.id(), value };
        Ok(abi::set_control(&self.file, &mut value)?)
    }

    /// Starts the stream with `count` buffers in the memory of the driver, for images of `layout`.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn start(self, count: u32) -> io::Result<Stream> {
        let mut request =
            abi::BufferRequest { count, kind: abi::CAPTURE, memory: abi::MMAP, ..default() };
        abi::request_buffers(&self.file, &mut request)?;
        let mut maps = Vec::new();
        for index in 0..request.count {
            let mut buffer = buffer(index);
            abi::query_buffer(&self.file, &mut buffer)?;
            // Its upper half is padding.
            let offset = buffer.offset & 0xffff_ffff;
            maps.push(map(&self.file, offset, buffer.length)?);
            abi::queue(&self.file, &mut buffer)?;
        }
        if maps.is_empty() {
            return Err(io::Error::other("the driver gives no buffers"));
        }
        abi::start(&self.file, &mut abi::CAPTURE.cast_signed())?;
        Ok(Stream { device: self, maps })
    }
}

/// Running camera.
pub(crate) struct Stream {
    device: Device,
    maps: Vec<Mmap>,
}

/// Image in the memory of the driver.
pub(crate) struct Frame<'s> {
    pub(crate) bytes: &'s [u8],
    /// Number of the image since the start of the stream; images that the driver had no buffer for
    /// count, too.
    pub(crate) sequence: u32,
    /// The driver marks it as damaged.
    pub(crate) is_damaged: bool,
    pub(crate) stamp: Stamp,
}

/// Time of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Monotonic clock, in nanoseconds; `None` if the driver uses another clock.
    pub(crate) monotonic_ns: Option<i64>,
    /// True if it is the start of the exposure, otherwise its end.
    pub(crate) is_start: bool,
}

/// Result of waiting for an image.
pub(crate) enum Next<T> {
    /// An image, and what was made of it.
    Image(T),
    /// None so far.
    Nothing,
}

impl Stream {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Waits for the next image and calls `read` with it, before the driver gets its memory back.
    ///
    /// # Errors
    /// The camera is gone.
    pub(crate) fn next<T>(
        &mut self,
        limit: Duration,
        read: impl FnOnce(Frame<'_>) -> T,
    ) -> io::Result<Next<T>> {
        let mut fds = [PollFd::new(&self.device.file, PollFlags::IN)];
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Next::Nothing),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return Err(io::Error::other("the camera is gone"));
        }
        let mut taken = buffer(0);
        match abi::dequeue(&self.device.file, &mut taken) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Ok(Next::Nothing),
            Err(error) => return Err(error.into()),
        }
        let map = self.maps.get(taken.index as usize);
        let bytes = map.and_then(|map| map.get(..taken.bytes_used as usize));
        let stamp = taken.seconds.saturating_mul(1_000_000_000);
        let stamp = stamp.saturating_add(taken.microseconds.saturating_mul(1000));
        let frame = Frame {
            bytes: bytes.unwrap_or_default(),
            sequence: taken.sequence,
            is_damaged: taken.flags & abi::DAMAGED != 0 || bytes.is_none(),
            stamp: Stamp {
                monotonic_ns: (taken.flags & abi::CLOCK == abi::CLOCK_MONOTONIC).then_some(stamp),
                is_start: taken.flags & abi::STAMP_SOURCE == abi::STAMP_START_OF_EXPOSURE,
            },
        };
        let made = read(frame);
        // Damaged ones, too: a driver without buffers stops.
        abi::queue(&self.device.file, &mut taken)?;
        Ok(Next::Image(made))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = abi::stop(&self.device.file, &mut abi::CAPTURE.cast_signed());
    }
}

fn default<T: Default>() -> T {
    T::default()
}

fn buffer(index: u32) -> abi::Buffer {
    abi::Buffer { index, kind: abi::CAPTURE, memory: abi::MMAP, ..default() }
}

#[expect(unsafe_code, reason = "maps memory of the driver")]
fn map(file: &OwnedFd, offset: u64, length: u32) -> io::Result<Mmap> {
    // SAFETY: the driver does not write to a buffer between `dequeue` and `queue`, and only then is
    // it read. The mapping keeps the memory after the device is gone.
    unsafe { MmapOptions::new().offset(offset).len(length as usize).map(file) }
}

/// Images per second for the time between two, as a fraction of a second.
fn rate([numerator, denominator]: [u32; 2]) -> f64 {
    if numerator == 0 { 0.0 } else { f64::from(denominator) / f64::from(numerator) }
}

/// Entries of an enumeration of the driver; at most a thousand.
fn list<T>(entry: impl Fn(u32) -> rustix::io::Result<T>) -> io::Result<Vec<T>> {
    let mut found = Vec::new();
    for index in 0..1000 {
        match entry(index) {
            Ok(next) => found.push(next),
            Err(error) if abi::is_end(error) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}
