//! Images of a camera of macOS or Windows, through the crate `nokhwa`.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, ports};
use afferent_messages::{Camera as Calibration, Image, PixelFormat};
use nokhwa::utils::{
    ApiBackend, CameraFormat as NokhwaFormat, CameraIndex, CameraInfo, ControlValueSetter,
    FrameFormat, KnownCameraControl, RequestedFormat, RequestedFormatType, frame_formats,
};

use crate::{
    CameraDevice, CameraMode,
    camera_params::{
        CameraParams, Form, MONO8, Wanted, choose, device_error, form, policy, read_calibration,
    },
    reconnect::Reconnect,
    warn_rarely,
};

/// Captures images from a camera (AVFoundation, Media Foundation).
///
/// `device` is the number of the camera, alone or at the end of a name such as `/dev/video0`, or the
/// name that the system gives it; `afferent devices` lists them. Images have the format of the camera;
/// JPEG images are decoded to `rgb8`. A format that does not exist on these systems is refused, and so
/// are `exposure` and another number of `buffers`, which the system does not offer.
///
/// The timestamp of an image is the time of its arrival plus `stamp_offset`. Images that this node has
/// no time for are counted and logged.
///
/// A camera that is unplugged, or gives no images for `timeout`, is lost. With `on_lost: restart`, the
/// node opens it again once it is back, and images go on.
///
/// Needs the feature `camera-nokhwa` and the real clock. It was compiled, but not run on these systems.
///
/// Latency: the exposure and transfer of an image.
pub struct Camera {
    params: CameraParams,
    calibration: Option<Arc<Calibration>>,
    device: Reconnect<Capture, Capture>,
    damaged: u64,
}

/// A thread that captures images, until this is dropped.
struct Capture {
    images: Receiver<Captured>,
    stops: Arc<AtomicBool>,
}

/// Image with the time of its arrival, or the reason why it is damaged; or the reason of the end.
type Captured = Result<(Instant, Result<Image, String>), String>;

/// Longest wait for an image in one call.
const WAIT: Duration = Duration::from_millis(20);

/// Longest wait for a camera to open.
const OPEN_LIMIT: Duration = Duration::from_secs(20);

/// Longest wait for the permission of the user.
const PERMISSION_LIMIT: Duration = Duration::from_secs(60);

/// Time between two attempts to open a lost camera.
const RETRY: Duration = Duration::from_secs(1);

/// Images that wait for the node.
const MAX_QUEUED: usize = 2;

/// Buffers of the driver, which cannot be chosen.
const DEFAULT_BUFFERS: u32 = 4;

ports! {
    impl Camera {
        /// Images of the camera, in its format.
        out IMAGES: Image;
    }
}

/// Four characters of a format.
fn fourcc(format: FrameFormat) -> [u8; 4] {
    match format {
        FrameFormat::MJPEG => *b"MJPG",
        FrameFormat::YUYV => *b"YUYV",
        FrameFormat::NV12 => *b"NV12",
        FrameFormat::GRAY => MONO8,
        FrameFormat::RAWRGB => *b"RGB3",
        FrameFormat::RAWBGR => *b"BGR3",
    }
}

fn mode_of(format: &NokhwaFormat) -> CameraMode {
    CameraMode {
        fourcc: fourcc(format.format()),
        width: format.width(),
        height: format.height(),
        fps: format.frame_rate().into(),
        is_limit: false,
    }
}

/// The format of a camera for these parameters: of the chosen kind, the rate that is closest.
///
/// # Errors
/// Formats that the camera offers, for an error message.
fn choose_format(offered: &[NokhwaFormat], params: &CameraParams) -> Result<NokhwaFormat, String> {
    let modes: Vec<CameraMode> = offered.iter().map(mode_of).collect();
    let CameraParams { width, height, fps, .. } = *params;
    let wanted = Wanted { form: params.format.form(), width, height, fps };
    let chosen = choose(&modes, &wanted)?;
    let distance = |format: &&NokhwaFormat| (f64::from(format.frame_rate()) - fps).abs();
    let fitting = offered.iter().filter(|format| {
        (format.width(), format.height()) == (width, height) && fourcc(format.format()) == chosen
    });
    let best = fitting.min_by(|one, other| distance(one).total_cmp(&distance(other)));
    best.copied().ok_or_else(|| format!("it has no images of {width}x{height}"))
}

/// Checks the parameters that only other systems have.
fn check_params(params: &CameraParams) -> Result<(), NodeError> {
    let invalid = |name: &'static str, reason: &str| {
        Err(NodeError::InvalidParam { name: name.into(), reason: reason.to_owned() })
    };
    if params.exposure.is_some() {
        return invalid("exposure", "it cannot be set on this system; leave it out");
    }
    if params.buffers != DEFAULT_BUFFERS {
        return invalid("buffers", "they cannot be chosen on this system; leave it out");
    }
    match params.format.form() {
        Some(Form::Pixels(PixelFormat::Uyvy | PixelFormat::I420 | PixelFormat::Depth16)) => {
            invalid("format", "cameras of this system have yuyv, nv12, rgb8, bgr8, mono8 and mjpeg")
        }
        _ => Ok(()),
    }
}

/// Number at the end of a device name such as `/dev/video0` or `0`.
fn number_of(device: &Path) -> Option<u32> {
    let name = device.to_str()?;
    let digits = name.strip_prefix("/dev/video").unwrap_or(name);
    digits.parse().ok()
}

/// Index of the camera with this number or name.
fn find(cameras: &[CameraInfo], device: &Path) -> Result<CameraIndex, String> {
    let index = |camera: &&CameraInfo| camera.index().as_index().ok();
    let number = number_of(device);
    let by_number = cameras.iter().find(|camera| number.is_some() && index(camera) == number);
    let by_name = || {
        let name = device.to_string_lossy();
        cameras.iter().find(|camera| camera.human_name() == name)
    };
    by_number.or_else(by_name).map(|camera| camera.index().clone()).ok_or_else(|| {
        let named = |camera: &CameraInfo| format!("{} ({})", camera.index(), camera.human_name());
        let known: Vec<String> = cameras.iter().map(named).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("there is no such camera; there are: {known}")
    })
}

fn query() -> Result<Vec<CameraInfo>, String> {
    nokhwa::query(ApiBackend::Auto).map_err(|error| error.to_string())
}

/// Asks the user for the permission to use cameras, where the system requires it.
fn ask_permission() -> Result<(), String> {
    if nokhwa::nokhwa_check() {
        return Ok(());
    }
    let (sender, answer) = sync_channel(1);
    nokhwa::nokhwa_initialize(move |is_granted| {
        // The wait may be over.
        let _ = sender.try_send(is_granted);
    });
    match answer.recv_timeout(PERMISSION_LIMIT) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the user does not permit this program to use cameras".to_owned()),
        Err(_) => Err("the user did not answer whether this program may use cameras".to_owned()),
    }
}

/// Opens the camera in one of its formats.
fn open_camera(index: CameraIndex) -> Result<nokhwa::Camera, String> {
    let any = RequestedFormat::with_formats(RequestedFormatType::None, frame_formats());
    nokhwa::Camera::new(index, any).map_err(|error| error.to_string())
}

/// Opens and starts the camera with the format of the parameters.
fn start_camera(params: &CameraParams) -> Result<(nokhwa::Camera, NokhwaFormat), String> {
    ask_permission()?;
    let mut camera = open_camera(find(&query()?, &params.device)?)?;
    let offered = camera.compatible_camera_formats().map_err(|error| error.to_string())?;
    let format = choose_format(&offered, params)?;
    let kinds = [format.format()];
    let request = RequestedFormat::with_formats(RequestedFormatType::Exact(format), &kinds);
    camera.set_camera_requset(request).map_err(|error| error.to_string())?;
    let controls = [
        ("gain", KnownCameraControl::Gain, params.gain),
        ("focus", KnownCameraControl::Focus, params.focus),
    ];
    for (name, control, value) in controls {
        if let Some(value) = value {
            let set = camera.set_camera_control(control, ControlValueSetter::Integer(value));
            set.map_err(|error| format!("{name}: {error}"))?;
        }
    }
    camera.open_stream().map_err(|error| error.to_string())?;
    Ok((camera, format))
}

/// Copies the pixels of an image, with the padding of its rows, or decodes it.
///
/// # Errors
/// The reason why it is damaged.
fn read(
    format: FrameFormat,
    size: [u32; 2],
    bytes: &[u8],
    image: &mut Image,
) -> Result<(), String> {
    let form = form(fourcc(format)).ok_or("its format is not supported")?;
    let Form::Pixels(format) = form else {
        let read = image.read_jpeg(Some(PixelFormat::Rgb8), bytes);
        return read.map_err(|error| error.to_string());
    };
    let [width, height] = size.map(|side| side as usize);
    let rows = format.stored_rows(height);
    let (row, found) = (width * format.pixel_bytes(), bytes.len());
    let stride = found.checked_div(rows).filter(|stride| stride * rows == found && *stride >= row);
    let stride = stride.ok_or_else(|| format!("it has {found} bytes of {}", row * rows))?;
    let to = image.reshape_padded(format, width, height, stride);
    to.map_err(|error| error.to_string())?.copy_from_slice(bytes);
    Ok(())
}

impl Capture {
    /// Starts a thread with the camera, which stays in it.
    fn start(params: &CameraParams) -> Result<Self, NodeError> {
        let fault = |reason: &dyn ToString| device_error(&params.device, reason);
        let (sender, images) = sync_channel(MAX_QUEUED);
        let (opened, is_open) = sync_channel(1);
        let stops = Arc::new(AtomicBool::new(false));
        let capture = {
            let (params, stops) = (params.clone(), stops.clone());
            move || match start_camera(&params) {
                Ok((camera, format)) => {
                    drop(opened.send(Ok(())));
                    capture(camera, format, &sender, &stops);
                }
                Err(reason) => drop(opened.send(Err(reason))),
            }
        };
        let thread = thread::Builder::new().name("camera".to_owned()).spawn(capture);
        thread.map_err(|error| fault(&error))?;
        let limit = OPEN_LIMIT + PERMISSION_LIMIT;
        match is_open.recv_timeout(limit) {
            Ok(Ok(())) => Ok(Self { images, stops }),
            Ok(Err(reason)) => Err(fault(&reason)),
            Err(_) => {
                stops.store(true, Ordering::Release);
                Err(fault(&format!("it does not open within {limit:?}")))
            }
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // The thread may wait for an image, so it is not joined.
        self.stops.store(true, Ordering::Release);
    }
}

/// Captures images until `stops` is set.
fn capture(
    mut camera: nokhwa::Camera,
    format: NokhwaFormat,
    sender: &SyncSender<Captured>,
    stops: &AtomicBool,
) {
    let mut dropped = 0;
    while !stops.load(Ordering::Acquire) {
        let captured = match camera.frame() {
            Ok(frame) => {
                let arrived = Instant::now();
                let mut image = Image::default();
                let size = [frame.resolution().width(), frame.resolution().height()];
                let is_wanted = size == [format.width(), format.height()];
                let read = match is_wanted {
                    true => read(frame.source_frame_format(), size, frame.buffer(), &mut image),
                    false => Err(format!("it has {}x{} pixels", size[0], size[1])),
                };
                Ok((arrived, read.map(|()| image)))
            }
            Err(error) => Err(error.to_string()),
        };
        let is_lost = captured.is_err();
        match sender.try_send(captured) {
            Err(TrySendError::Full(Err(reason))) => drop(sender.send(Err(reason))),
            Err(TrySendError::Full(Ok(_))) => {
                dropped += 1;
                warn_rarely(dropped, "the node had no time for an image of a camera");
            }
            Err(TrySendError::Disconnected(_)) => break,
            Ok(()) => {}
        }
        if is_lost {
            break;
        }
    }
    // The camera may be gone.
    drop(camera.stop_stream());
}

impl Camera {
    fn receive(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // The session time of a call is that of its begin.
        let called = Instant::now();
        let start = |capture: Capture| {
            // Images from before the first call are old.
            while capture.images.try_recv().is_ok_and(|captured| captured.is_ok()) {}
            Ok(capture)
        };
        let open = || Capture::start(&self.params);
        let Some(capture) = self.device.running(cx, open, start)? else { return Ok(()) };
        let (arrived, image) = match capture.images.recv_timeout(WAIT) {
            Ok(Ok(captured)) => captured,
            Ok(Err(reason)) => return self.device.lose(cx, &reason),
            Err(RecvTimeoutError::Disconnected) => {
                return self.device.lose(cx, "its thread ended");
            }
            Err(RecvTimeoutError::Timeout) => return self.device.check_timeout(cx),
        };
        let mut image = match image {
            Ok(image) => image,
            Err(reason) => {
                self.damaged += 1;
                warn_rarely(self.damaged, &format!("a damaged image of a camera: {reason}"));
                return Ok(());
            }
        };
        let offset = (self.params.stamp_offset * 1e6) as i64;
        let at = session_time(cx.now(), called, arrived);
        let at = self.device.stamp(cx.now(), Timestamp(at.0.saturating_add(offset)));
        image.frame_id.clone_from(&self.params.frame_id);
        image.camera.clone_from(&self.calibration);
        cx.send_at(Self::IMAGES, at, image);
        Ok(())
    }
}

/// Session time of `instant`; it was `now` at `called`.
fn session_time(now: Timestamp, called: Instant, instant: Instant) -> Timestamp {
    let before = called.saturating_duration_since(instant);
    now - before + instant.saturating_duration_since(called)
}

impl Node for Camera {
    type Params = CameraParams;

    const NAME: &'static str = "camera";
    const SUMMARY: &'static str = "Captures images from a camera.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "the exposure and transfer of an image";

    fn check(params: &CameraParams, _: &OpenCx) -> Result<(), NodeError> {
        check_params(params)?;
        read_calibration(params)?;
        let found = query().and_then(|cameras| find(&cameras, &params.device));
        found.map(drop).map_err(|reason| device_error(&params.device, &reason))
    }

    fn open(params: CameraParams, _: &OpenCx) -> Result<Self, NodeError> {
        check_params(&params)?;
        let calibration = read_calibration(&params)?;
        let device = Reconnect::new(Capture::start(&params)?, policy(&params, RETRY));
        Ok(Self { params, calibration: calibration.map(Arc::new), device, damaged: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.receive(cx)
    }
}

/// Cameras of this machine, by number.
pub(crate) fn list() -> Vec<CameraDevice> {
    let cameras = query().unwrap_or_default();
    let device = |camera: &CameraInfo| {
        let modes = open_camera(camera.index().clone()).and_then(|mut camera| {
            let formats = camera.compatible_camera_formats();
            let mut modes: Vec<CameraMode> =
                formats.map_err(|error| error.to_string())?.iter().map(mode_of).collect();
            modes.sort_by_key(|mode| (mode.fourcc, mode.width, mode.height));
            Ok(modes)
        });
        let path = PathBuf::from(camera.index().as_string());
        CameraDevice { path, name: camera.human_name(), modes }
    };
    cameras.iter().map(device).collect()
}

#[cfg(test)]
mod tests {
    use afferent_graph::{ParamValue, Params};

    use super::*;

    fn params(more: &[(&str, ParamValue)]) -> CameraParams {
        let values = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        CameraParams::from_values(&values.collect()).unwrap()
    }

    #[test]
    fn parameters_of_other_systems_are_refused() {
        let text = |text: &str| ParamValue::Text(text.into());
        let check = |name: &'static str, value| {
            let told = check_params(&params(&[(name, value)])).unwrap_err().to_string();
            assert!(told.contains(&format!("parameter {name}: ")), "{told}");
        };
        check("exposure", ParamValue::Duration(Duration::from_millis(10)));
        check("buffers", ParamValue::Int(8));
        check("format", text("uyvy"));
        check("format", text("16UC1"));
        assert_eq!(check_params(&params(&[("format", text("nv12"))])), Ok(()));
    }

    #[test]
    fn images_have_the_time_of_their_arrival() {
        let (called, now) = (Instant::now(), Timestamp(9_000_000));
        let check = |instant| session_time(now, called, instant).0;
        assert_eq!(check(called - Duration::from_millis(2)), 7_000_000);
        assert_eq!(check(called + Duration::from_millis(2)), 11_000_000);
    }

    #[test]
    fn cameras_are_found_by_number_and_name() {
        let camera = |number, name| CameraInfo::new(name, "", "", CameraIndex::Index(number));
        let cameras = [camera(0, "FaceTime HD"), camera(1, "USB Camera")];
        let find = |device: &str| find(&cameras, Path::new(device));
        assert_eq!(find("1"), Ok(CameraIndex::Index(1)));
        assert_eq!(find("/dev/video0"), Ok(CameraIndex::Index(0)));
        assert_eq!(find("USB Camera"), Ok(CameraIndex::Index(1)));
        let told = find("/dev/video7").unwrap_err();
        assert!(told.contains("0 (FaceTime HD), 1 (USB Camera)"), "{told}");
    }

    #[test]
    fn the_closest_rate_of_the_cheapest_format_is_chosen() {
        let format = |kind, fps| NokhwaFormat::new_from(1280, 720, kind, fps);
        let offered = [
            format(FrameFormat::MJPEG, 30),
            format(FrameFormat::NV12, 15),
            format(FrameFormat::NV12, 60),
            format(FrameFormat::NV12, 30),
            format(FrameFormat::YUYV, 30),
        ];
        let chosen = choose_format(&offered, &params(&[])).unwrap();
        assert_eq!((chosen.format(), chosen.frame_rate()), (FrameFormat::NV12, 30));
        let other = params(&[("width", ParamValue::Int(640))]);
        assert!(choose_format(&offered, &other).unwrap_err().contains("NV12 1280x720"));
    }

    #[test]
    fn images_are_copied_with_their_padding() {
        let mut image = Image::default();
        let bytes: Vec<u8> = (0..18).collect();
        read(FrameFormat::NV12, [4, 2], &bytes, &mut image).unwrap();
        let rows: Vec<_> = image.rows().map(<[u8]>::to_vec).collect();
        assert_eq!(rows, [[0, 1, 2, 3], [6, 7, 8, 9], [12, 13, 14, 15]]);
        let told = read(FrameFormat::YUYV, [4, 2], &bytes[..15], &mut image).unwrap_err();
        assert_eq!(told, "it has 15 bytes of 16");
    }
}
