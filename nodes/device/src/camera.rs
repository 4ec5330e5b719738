//! Images of a camera.

use std::{io, path::Path, sync::Arc, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, ports};
use afferent_messages::{
    Camera as Calibration, ColorMatrix, ColorRange, Colorimetry, Image, PixelFormat,
};

use crate::{
    CameraDevice,
    camera_params::{
        CameraParams, Form, Wanted, choose, device_error, form, policy, read_calibration,
    },
    reconnect::Reconnect,
    session_clock::{SessionClock, monotonic_ns},
    warn_rarely,
};

mod abi;
mod v4l2;

use v4l2::{Control, Device, Frame, Layout, Next, Stamp, Stream};

/// Captures images from a camera (Video4Linux).
///
/// Images have the format of the camera and are copied once, from the memory of the driver; nodes
/// convert them where they need other formats. JPEG images are decoded to `rgb8`.
///
/// The timestamp of an image is the middle of its exposure: that of the driver, which stamps the start
/// or the end of the exposure, corrected by half of the exposure time if the camera tells it. A driver
/// without timestamps on the monotonic clock gives the time of the arrival. Images that the driver had
/// no buffer for are counted and logged.
///
/// A camera that is unplugged, or gives no images for `timeout`, is lost. With `on_lost: restart`, the
/// node opens it again once it is back, and images go on.
///
/// Needs Linux and the real clock.
///
/// Latency: the exposure and transfer of an image.
///
/// ```
/// use afferent_graph::{Node, OpenCx, Params};
/// use afferent_nodes_device::{Camera, CameraParams};
///
/// let mut params = CameraParams::from_values(&Default::default())?;
/// params.device = "/dev/null".into();
/// let error = Camera::check(&params, &OpenCx::default()).unwrap_err().to_string();
/// assert!(error.contains("/dev/null") && error.contains("not a camera"), "{error}");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Camera {
    params: CameraParams,
    calibration: Option<Arc<Calibration>>,
    device: Reconnect<Opened, Source>,
    clock: SessionClock,
    counts: Counts,
}

/// A camera that was set up.
struct Opened {
    device: Device,
    layout: Layout,
    form: Form,
    /// Exposure time in nanoseconds; 0 if it is unknown.
    exposure_ns: i64,
}

/// A running camera.
struct Source {
    stream: Stream,
    layout: Layout,
    form: Form,
    exposure_ns: i64,
    /// Number of the last image.
    sequence: Option<u32>,
}

impl Opened {
    fn start(self, params: &CameraParams) -> Result<Source, NodeError> {
        let Self { device, layout, form, exposure_ns } = self;
        let stream = device.start(params.buffers);
        let stream = stream.map_err(|reason| device_error(&params.device, &reason))?;
        Ok(Source { stream, layout, form, exposure_ns, sequence: None })
    }
}

/// What was counted since the start.
#[derive(Debug, Default)]
struct Counts {
    /// Images that the driver had no buffer for.
    dropped_by_driver: u64,
    /// Images that the driver marked as damaged, or that could not be read.
    damaged: u64,
}

/// Longest wait for an image in one call.
const WAIT: Duration = Duration::from_millis(20);

/// Images between two readings of the exposure time, which takes a USB camera a millisecond.
const EXPOSURE_EVERY: u32 = 128;

/// Time between two attempts to open a lost camera.
const RETRY: Duration = Duration::from_millis(250);

ports! {
    impl Camera {
        /// Images of the camera, in its format.
        out IMAGES: Image;
    }
}

impl Camera {
    fn open_device(params: &CameraParams) -> Result<Opened, NodeError> {
        let fault = |reason: io::Error| device_error(&params.device, &reason);
        let (device, _) = Device::open(&params.device).map_err(fault)?;
        let modes = device.modes().map_err(fault)?;
        let CameraParams { width, height, fps, .. } = *params;
        let wanted = Wanted { form: params.format.form(), width, height, fps };
        let refused = |reason: String| device_error(&params.device, &reason);
        let fourcc = choose(&modes, &wanted).map_err(refused)?;
        let layout = device.set_format(fourcc, width, height).map_err(fault)?;
        if (layout.fourcc, layout.width, layout.height) != (fourcc, width, height) {
            let Layout { width: w, height: h, .. } = layout;
            return Err(refused(format!("it gives {w}x{h} instead of {width}x{height}")));
        }
        if let Some(found) = device.set_rate(fps).map_err(fault)?
            && (found - fps).abs() > fps * 0.05
        {
            tracing::info!("{}: {found:.2} images per second", params.device.display());
        }
        set_controls(&device, params).map_err(|reason| device_error(&params.device, &reason))?;
        let exposure_ns = exposure_ns(&device);
        let form = form(layout.fourcc)
            .ok_or_else(|| device_error(&params.device, &"it gives another format"))?;
        Ok(Opened { device, layout, form, exposure_ns })
    }

    /// Waits for an image and sends it.
    fn capture(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.clock.compare(cx.now());
        let (open, start) =
            (|| Self::open_device(&self.params), |opened: Opened| opened.start(&self.params));
        let Some(source) = self.device.running(cx, open, start)? else { return Ok(()) };
        let mut image = cx.loan(Self::IMAGES);
        let (layout, form) = (source.layout, source.form);
        let taken = source.stream.next(WAIT, |frame| {
            let read = read(&frame, &layout, form, &mut image);
            (frame.sequence, frame.is_damaged, frame.stamp, read)
        });
        let (sequence, is_damaged, stamp, read) = match taken {
            Ok(Next::Image(taken)) => taken,
            Ok(Next::Nothing) => return self.device.check_timeout(cx),
            Err(error) => return self.device.lose(cx, &error.to_string()),
        };
        let expected = source.sequence.replace(sequence).map(|last| last.wrapping_add(1));
        let missed = expected.map_or(0, |expected| sequence.wrapping_sub(expected));
        // A driver that starts to count again has missed nothing.
        if missed > 0 && missed < u32::MAX / 2 {
            self.counts.dropped_by_driver += u64::from(missed);
            let count = self.counts.dropped_by_driver;
            warn_rarely(count, "the driver of a camera had no buffer for an image");
        }
        if let (true, _) | (_, Err(_)) = (is_damaged, &read) {
            self.counts.damaged += 1;
            let reason = read.err().unwrap_or_else(|| "the driver says so".to_owned());
            warn_rarely(self.counts.damaged, &format!("a damaged image of a camera: {reason}"));
            return Ok(());
        }
        if sequence.is_multiple_of(EXPOSURE_EVERY) {
            source.exposure_ns = exposure_ns(source.stream.device());
        }
        let exposed_ns = exposed_ns(monotonic_ns(), stamp, source.exposure_ns);
        let offset = (self.params.stamp_offset * 1e6) as i64;
        let at = self.clock.session_time(exposed_ns.saturating_add(offset));
        let at = self.device.stamp(cx.now(), at);
        image.frame_id.clone_from(&self.params.frame_id);
        image.camera.clone_from(&self.calibration);
        cx.send_at(Self::IMAGES, at, image);
        Ok(())
    }
}

impl Node for Camera {
    type Params = CameraParams;

    const NAME: &'static str = "camera";
    const SUMMARY: &'static str = "Captures images from a camera (Video4Linux).";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "the exposure and transfer of an image";

    fn check(params: &CameraParams, _: &OpenCx) -> Result<(), NodeError> {
        read_calibration(params)?;
        let found = Device::open(&params.device);
        found.map(drop).map_err(|reason| device_error(&params.device, &reason))
    }

    fn open(params: CameraParams, _: &OpenCx) -> Result<Self, NodeError> {
        let calibration = read_calibration(&params)?;
        let opened = Self::open_device(&params)?;
        let device = Reconnect::new(opened, policy(&params, RETRY));
        let (calibration, counts) = (calibration.map(Arc::new), Counts::default());
        Ok(Self { params, calibration, device, clock: SessionClock::default(), counts })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.capture(cx)
    }
}

/// Copies an image out of the memory of the driver, or decodes it.
///
/// # Errors
/// The reason why it is damaged.
fn read(frame: &Frame<'_>, layout: &Layout, form: Form, image: &mut Image) -> Result<(), String> {
    let Form::Pixels(format) = form else {
        return image
            .read_jpeg(Some(PixelFormat::Rgb8), frame.bytes)
            .map_err(|error| error.to_string());
    };
    let size = |value: u32| value as usize;
    let (width, height, stride) =
        (size(layout.width), size(layout.height), size(layout.row_stride));
    let to = image.reshape_padded(format, width, height, stride);
    let to = to.map_err(|error| error.to_string())?;
    let (needed, found) = (to.len(), frame.bytes.len());
    // Some drivers leave out the padding of the last row.
    let row = width * format.pixel_bytes();
    let least = needed - stride.saturating_sub(row).min(needed);
    if found < least {
        return Err(format!("it has {found} bytes of {needed}"));
    }
    let copied = needed.min(found);
    to[..copied].copy_from_slice(&frame.bytes[..copied]);
    image.colorimetry = colorimetry(layout);
    Ok(())
}

/// Meaning of YUV values, by the rules of V4L2 for what the driver leaves open.
fn colorimetry(layout: &Layout) -> Colorimetry {
    const REC709: u32 = 3;
    const JPEG: u32 = 7;
    const BT2020: u32 = 10;
    let matrix = match (layout.encoding, layout.colorspace) {
        (2, _) | (0, REC709) => ColorMatrix::Bt709,
        (6 | 7, _) | (0, BT2020) => ColorMatrix::Bt2020,
        _ => ColorMatrix::Bt601,
    };
    let range = match (layout.quantization, layout.colorspace) {
        (1, _) | (0, JPEG) => ColorRange::Full,
        _ => ColorRange::Limited,
    };
    Colorimetry { matrix, range }
}

/// Sets the controls that the parameters name.
///
/// # Errors
/// The parameter, and what the camera accepts.
fn set_controls(device: &Device, params: &CameraParams) -> Result<(), String> {
    let set = |name: &str, control, value| {
        device.set_control(control, value).map_err(|error| format!("{name}: {error}"))
    };
    if let Some(exposure) = params.exposure {
        // A camera without an automatic exposure has no such switch.
        let _ = device.set_control(Control::ExposureAuto, v4l2::EXPOSURE_MANUAL);
        let units = (exposure.as_micros() / 100).try_into().unwrap_or(i32::MAX);
        set("exposure", Control::Exposure, units)?;
    }
    if let Some(gain) = params.gain {
        set("gain", Control::Gain, gain as i32)?;
    }
    if let Some(focus) = params.focus {
        let _ = device.set_control(Control::FocusAuto, 0);
        set("focus", Control::Focus, focus as i32)?;
    }
    Ok(())
}

/// Exposure time in nanoseconds; 0 if the camera does not tell it.
fn exposure_ns(device: &Device) -> i64 {
    device.control(Control::Exposure).map_or(0, |value| i64::from(value).saturating_mul(100_000))
}

/// Monotonic time of the middle of an exposure, of an image that arrived at `arrived_ns`.
fn exposed_ns(arrived_ns: i64, stamp: Stamp, exposure_ns: i64) -> i64 {
    let Some(stamp_ns) = stamp.monotonic_ns else { return arrived_ns };
    let half = if stamp.is_start { exposure_ns / 2 } else { -(exposure_ns / 2) };
    stamp_ns.saturating_add(half)
}

/// Cameras of this machine, sorted by path.
pub(crate) fn list() -> Vec<CameraDevice> {
    cameras_in(Path::new("/sys/class/video4linux"))
}

/// Cameras in the folder `class`. A camera may have several devices; only the first gives images.
fn cameras_in(class: &Path) -> Vec<CameraDevice> {
    let entries = std::fs::read_dir(class).into_iter().flatten().flatten();
    let cameras = entries.filter_map(|entry| {
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).ok();
        // Further devices of a camera, such as metadata, have a higher index.
        let is_first = read("index").is_none_or(|index| index.trim() == "0");
        let name = read("name")?.trim().to_owned();
        let path = Path::new("/dev").join(entry.file_name());
        let modes = Device::open(&path).and_then(|(device, _)| device.modes());
        let modes = modes.map_err(|error| error.to_string());
        is_first.then_some(CameraDevice { path, name, modes })
    });
    let mut cameras: Vec<_> = cameras.collect();
    cameras.sort_by(|one, other| one.path.cmp(&other.path));
    cameras
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn timestamps_are_the_middle_of_the_exposure() {
        let stamp = |monotonic_ns, is_start| Stamp { monotonic_ns, is_start };
        // 5 ms ago, with an exposure of 8 ms.
        let check = |stamp| exposed_ns(70_000_000_000, stamp, 8_000_000);
        assert_eq!(check(stamp(Some(69_995_000_000), true)), 69_999_000_000);
        assert_eq!(check(stamp(Some(69_995_000_000), false)), 69_991_000_000);
        assert_eq!(check(stamp(None, true)), 70_000_000_000, "another clock");
    }

    #[test]
    fn colors_that_the_driver_leaves_open_follow_the_rules_of_v4l2() {
        let check = |colorspace, encoding, quantization, expected| {
            let layout = Layout { colorspace, encoding, quantization, ..LAYOUT };
            let Colorimetry { matrix, range } = colorimetry(&layout);
            assert_eq!((matrix, range), expected, "{colorspace} {encoding} {quantization}");
        };
        use ColorMatrix::{Bt601, Bt709, Bt2020};
        use ColorRange::{Full, Limited};
        check(8, 0, 0, (Bt601, Limited));
        check(3, 0, 0, (Bt709, Limited));
        check(7, 0, 0, (Bt601, Full));
        check(8, 2, 1, (Bt709, Full));
        check(10, 0, 2, (Bt2020, Limited));
    }

    const LAYOUT: Layout = Layout {
        fourcc: *b"YUYV",
        width: 4,
        height: 2,
        row_stride: 16,
        colorspace: 0,
        encoding: 0,
        quantization: 0,
    };

    #[test]
    fn images_are_copied_with_their_padding_and_short_ones_are_damaged() {
        let layout = LAYOUT;
        let read_all = |bytes: &[u8]| {
            let stamp = Stamp { monotonic_ns: None, is_start: false };
            let frame = Frame { bytes, sequence: 0, is_damaged: false, stamp };
            let mut image = Image::default();
            read(&frame, &layout, Form::Pixels(PixelFormat::Yuyv), &mut image)?;
            Ok::<_, String>(image.rows().map(<[u8]>::to_vec).collect::<Vec<_>>())
        };
        let bytes: Vec<u8> = (0..32).collect();
        let rows = [(0..8).collect::<Vec<u8>>(), (16..24).collect()];
        assert_eq!(read_all(&bytes).unwrap(), rows);
        assert_eq!(read_all(&bytes[..24]).unwrap(), rows, "without the padding of the last row");
        assert_eq!(read_all(&bytes[..23]).unwrap_err(), "it has 23 bytes of 32");
    }

    #[test]
    fn cameras_are_listed_once() {
        let class = tempfile::tempdir().unwrap();
        for (video, index, name) in
            [("video2", "0", "Depth"), ("video0", "0", "Webcam"), ("video1", "1", "Webcam")]
        {
            let folder = class.path().join(video);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("index"), format!("{index}\n")).unwrap();
            std::fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        }
        let found = cameras_in(class.path()).into_iter().map(|one| (one.path, one.name));
        let expected = [("/dev/video0", "Webcam"), ("/dev/video2", "Depth")];
        let expected = expected.map(|(path, name)| (path.into(), name.to_owned()));
        assert_eq!(found.collect::<Vec<(PathBuf, String)>>(), expected);
        assert!(cameras_in(&class.path().join("none")).is_empty());
    }
}
