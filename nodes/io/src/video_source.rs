//! Images of a video file, a folder, or a pipe.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::{Camera, Image, PixelFormat};

use crate::{
    Pace,
    output::file_error,
    video_file::{self, RawLayout, ReadOptions},
};

choices! {
    /// Program that reads a video file.
    pub enum VideoDecoder {
        /// This one, and ffmpeg for files that it does not read.
        Auto = "auto",
        /// This one.
        Builtin = "builtin",
        /// ffmpeg.
        Ffmpeg = "ffmpeg",
    }
}

params! {
    /// Settings of [`VideoSource`].
    pub struct VideoSourceParams {
        /// Path of a video file, a folder of images, or a named pipe; `-` is standard input.
        pub path: PathBuf;
        /// Pace of reading.
        pub pace: Pace = "realtime";
        /// Restart the file at its end; timestamps keep increasing.
        pub repeat: bool = "false";
        /// Program that reads the file.
        pub decoder: VideoDecoder = "auto";
        /// Images per second of a folder, or of pixels without a header.
        pub fps: f64 = "30", range 0.01..=1000.0, unit "Hz";
        /// Pixel format of images without a header. Default: the file has a header.
        pub format: Option<PixelFormat>;
        /// Width of images without a header.
        pub width: Option<usize>, range 1.0..=16384.0, unit "px";
        /// Height of images without a header.
        pub height: Option<usize>, range 1.0..=16384.0, unit "px";
        /// Topic of the images of an MCAP file. Default: the first one that has some.
        pub topic: Option<String>;
        /// Calibration of the camera, a YAML file of `camera_calibration` of ROS.
        pub calibration: Option<PathBuf>;
        /// Coordinate frame of the images.
        pub frame_id: String = "camera";
    }
}

/// Reads a video file, a folder of images, or a pipe.
///
/// Supported are AVI files with JPEG images, Y4M files with 8 bits, folders of PNG and JPEG images in
/// the order of the numbers in their names, MCAP files with a topic of `sensor_msgs/msg/Image` or
/// `sensor_msgs/msg/CompressedImage` (ROS 2), and, with `format`, pixels without a header. A build
/// with the feature `h264` also reads MP4 files with H.264 of 8 bits and 4:2:0. The kind is recognized
/// by the content. Other files are read by the program `ffmpeg` if it is installed. A
/// reader thread decodes a few images ahead.
///
/// The timestamp of an image is its time in the file after the start of the session; files with a
/// varying rate keep their times. At pace `realtime`, an image is sent at its timestamp. If the graph
/// is slow, images are sent late; none is dropped.
///
/// If the file is truncated or damaged, the images before that are sent, and then the node fails.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat};
/// use afferent_nodes_io::{VideoSource, VideoSourceParams};
///
/// let folder = std::env::temp_dir().join(format!("afferent-video-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// let image = Image::new(PixelFormat::Mono8, 2, 1, 2, &[7, 9])?;
/// std::fs::write(folder.join("0.png"), image.to_png()?).unwrap();
/// let values = [("path".to_owned(), ParamValue::Path(folder.clone()))].into();
/// let params = VideoSourceParams::from_values(&values)?;
/// let mut bench = NodeBench::new(VideoSource::open(params, &OpenCx::default())?);
/// let (sent, _) = bench.poll(Timestamp::ZERO)?;
/// assert_eq!(sent[0].1.get::<Image>().unwrap().bytes(), [7, 9]);
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct VideoSource {
    params: VideoSourceParams,
    calibration: Option<Arc<Camera>>,
    images: Receiver<Item>,
    /// Image that was received too early.
    early: Option<(Duration, Image)>,
}

/// Image with its time, or the reason of the end.
type Item = Result<(Duration, Image), NodeError>;

/// Time for which a call waits for the next image.
const WAIT: Duration = Duration::from_millis(20);

/// Images that are read ahead.
const MAX_QUEUED: usize = 2;

ports! {
    impl VideoSource {
        /// Images of the file. Those of Y4M files are `i420`, `yuyv`, `rgb8` or `mono8` by their
        /// chroma, JPEG images of AVI files `rgb8`, and others as their file has them.
        out IMAGES: Image;
    }
}

impl VideoSourceParams {
    fn options(&self) -> Result<ReadOptions, NodeError> {
        let invalid = |name: &str, reason: &str| NodeError::InvalidParam {
            name: name.to_owned().into(),
            reason: reason.to_owned(),
        };
        let raw = match (self.format, self.width, self.height) {
            (None, None, None) => None,
            (Some(format), Some(width), Some(height)) => Some(RawLayout { format, width, height }),
            (None, ..) => {
                let reason = "is required with `width` and `height`, for images without a header";
                return Err(invalid("format", reason));
            }
            (_, None, _) => return Err(invalid("width", "is required with `format`")),
            _ => return Err(invalid("height", "is required with `format`")),
        };
        let ffmpeg = match self.decoder {
            VideoDecoder::Auto => None,
            VideoDecoder::Builtin => Some(false),
            VideoDecoder::Ffmpeg => Some(true),
        };
        Ok(ReadOptions { fps: self.fps, raw, topic: self.topic.clone(), ffmpeg })
    }

    fn calibration(&self) -> Result<Option<Camera>, NodeError> {
        self.calibration.as_deref().map(Camera::read).transpose()
    }

    /// Checks that the images can be read.
    fn check_input(&self) -> Result<(), NodeError> {
        let options = self.options()?;
        if !is_pipe(&self.path) {
            return video_file::open(&self.path, &options).map(drop);
        }
        let refused = match (self.repeat, self.decoder) {
            (true, _) => Some(("repeat", "a pipe cannot be read again")),
            (_, VideoDecoder::Ffmpeg) => Some(("decoder", "ffmpeg cannot read a pipe here")),
            _ => None,
        };
        refused.map_or(Ok(()), |(name, reason)| {
            Err(NodeError::InvalidParam { name: name.into(), reason: reason.to_owned() })
        })
    }
}

/// True for standard input and named pipes, which can be read once.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if path.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
            return true;
        }
    }
    path.as_os_str() == "-"
}

/// Reads the file and sends its images.
fn read(path: &Path, options: &ReadOptions, repeat: bool, sender: &SyncSender<Item>) {
    let mut start = Duration::ZERO;
    loop {
        let mut frames = match video_file::open(path, options) {
            Ok(frames) => frames,
            Err(error) => return drop(sender.send(Err(error))),
        };
        let mut last = None;
        loop {
            let mut image = Image::default();
            match frames.next(&mut image) {
                Ok(Some(at)) => {
                    last = Some(at);
                    if sender.send(Ok((start.saturating_add(at), image))).is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(reason) => return drop(sender.send(Err(file_error(path, reason)))),
            }
        }
        // A file without images would be read for ever.
        let Some(last) = last.filter(|_| repeat) else { return };
        let period = frames.period().unwrap_or(Duration::from_millis(40));
        start = start.saturating_add(last).saturating_add(period);
    }
}

impl VideoSource {
    fn send(&self, cx: &mut Cx<'_>, at: Timestamp, mut image: Image) -> Result<(), NodeError> {
        image.frame_id.clone_from(&self.params.frame_id);
        if let (Some(camera), Some(path)) = (&self.calibration, &self.params.calibration) {
            let size = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
            let checked = camera.check_size(size(image.width()), size(image.height()));
            checked.map_err(|reason| file_error(path, reason))?;
            image.camera = Some(camera.clone());
        }
        cx.send_at(Self::IMAGES, at, image);
        Ok(())
    }
}

impl Node for VideoSource {
    type Params = VideoSourceParams;

    const NAME: &'static str = "video_source";
    const SUMMARY: &'static str = "Reads a video file, a folder of images, or a pipe.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn check(params: &VideoSourceParams, _: &OpenCx) -> Result<(), NodeError> {
        params.calibration()?;
        params.check_input()
    }

    fn open(params: VideoSourceParams, _: &OpenCx) -> Result<Self, NodeError> {
        params.check_input()?;
        let calibration = params.calibration()?.map(Arc::new);
        let (sender, images) = sync_channel(MAX_QUEUED);
        let (path, options, repeat) = (params.path.clone(), params.options()?, params.repeat);
        let read = move || read(&path, &options, repeat, &sender);
        let thread = thread::Builder::new().name("video_source".to_owned()).spawn(read);
        thread.map_err(|error| file_error(&params.path, format!("no thread: {error}")))?;
        Ok(Self { params, calibration, images, early: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let next = match self.early.take() {
            Some(early) => Ok(early),
            None => match self.images.recv_timeout(WAIT) {
                Ok(item) => item,
                // The engine gets a chance to stop the run.
                Err(RecvTimeoutError::Timeout) => {
                    cx.resume();
                    return Ok(());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    cx.end();
                    return Ok(());
                }
            },
        };
        let (time, image) = next?;
        let at = Timestamp::ZERO + time;
        if self.params.pace == Pace::Realtime && cx.now() < at {
            self.early = Some((time, image));
            cx.resume_at(at);
            return Ok(());
        }
        self.send(cx, at, image)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params, Resume};

    use super::*;
    use crate::testing::TempFolder;

    fn values(path: &Path, more: &[(&str, ParamValue)]) -> ParamValues {
        let mut values = ParamValues::default();
        values.insert("path".to_owned(), ParamValue::Path(path.to_owned()));
        values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        values
    }

    fn open(path: &Path, more: &[(&str, ParamValue)]) -> Result<NodeBench<VideoSource>, NodeError> {
        let params = VideoSourceParams::from_values(&values(path, more)).unwrap();
        VideoSource::open(params, &OpenCx::default()).map(NodeBench::new)
    }

    /// Polls at the times that the node asks for; returns the time, the timestamp and the first
    /// byte of each image.
    fn all(
        bench: &mut NodeBench<VideoSource>,
        most: usize,
    ) -> Result<Vec<(i64, i64, u8)>, NodeError> {
        let (mut found, mut now) = (Vec::new(), Timestamp::ZERO);
        while found.len() < most {
            let (sent, resume) = bench.poll(now)?;
            found.extend(sent.iter().map(|(_, packet)| {
                let image = packet.get::<Image>().unwrap();
                (now.0, packet.header.at.0, image.bytes()[0])
            }));
            match resume {
                Resume::Done => break,
                Resume::At(at) => now = at,
                Resume::Now => {}
            }
        }
        Ok(found)
    }

    fn folder(values: &[u8]) -> TempFolder {
        let folder = TempFolder::new();
        for (number, value) in values.iter().enumerate() {
            let image = Image::new(PixelFormat::Mono8, 1, 1, 1, &[*value]).unwrap();
            let file = folder.path(format!("{number}.png"));
            fs::write(file, image.to_png().unwrap()).unwrap();
        }
        folder
    }

    #[test]
    fn images_are_sent_at_their_times_and_repeated() {
        let folder = folder(&[5, 6]);
        let fps = ("fps", ParamValue::Float(10.0));
        let mut bench = open(&folder.path(""), std::slice::from_ref(&fps)).unwrap();
        let ms = |ms: i64| ms * 1_000_000;
        assert_eq!(all(&mut bench, 9).unwrap(), [(0, 0, 5), (ms(100), ms(100), 6)]);
        let repeat = ("repeat", ParamValue::Bool(true));
        let mut bench = open(&folder.path(""), &[fps, repeat]).unwrap();
        let times = [(0, 5), (100, 6), (200, 5), (300, 6), (400, 5)];
        let expected = times.map(|(at, value)| (ms(at), ms(at), value));
        assert_eq!(all(&mut bench, 5).unwrap(), expected);
    }

    #[test]
    fn pixels_without_a_header_are_read() {
        let folder = TempFolder::new();
        let path = folder.path("pixels");
        fs::write(&path, [1, 2, 3, 4, 5, 6, 7]).unwrap();
        let number = |name, value| (name, ParamValue::Int(value));
        let layout = [
            ("format", ParamValue::Text("rgb8".into())),
            number("width", 1),
            number("height", 1),
            ("pace", ParamValue::Text("max".into())),
        ];
        let mut bench = open(&path, &layout).unwrap();
        let (sent, _) = bench.poll(Timestamp::ZERO).unwrap();
        assert_eq!(sent[0].1.get::<Image>().unwrap().bytes(), [1, 2, 3]);
        assert!(bench.poll(Timestamp::ZERO).is_ok());
        let error = all(&mut bench, 9).unwrap_err().to_string();
        assert!(error.contains("the last image has 1 bytes of 3"), "{error}");
        let error = open(&path, &layout[..2]).err().unwrap().to_string();
        assert!(error.contains("height"), "{error}");
    }

    #[test]
    fn other_files_are_left_to_ffmpeg() {
        let folder = TempFolder::new();
        let path = folder.path("film.mkv");
        fs::write(&path, b"\x1a\x45\xdf\xa3").unwrap();
        let builtin = ("decoder", ParamValue::Text("builtin".into()));
        let error = open(&path, &[builtin]).err().unwrap().to_string();
        assert!(error.contains("film.mkv") && error.contains("Y4M"), "{error}");
        let error = open(&path, &[]).err().unwrap().to_string();
        assert!(error.contains("ffmpeg"), "{error}");
        if Command::new("ffmpeg").arg("-version").output().is_err() {
            eprintln!("skipped: ffmpeg is not installed");
            return;
        }
        // Varying time between images.
        let made = Command::new("ffmpeg")
            .args(["-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=1"])
            .args(["-vf", "select='not(eq(n,3))'", "-fps_mode", "vfr", "-y"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        let mut bench = open(&path, &[]).unwrap();
        let times: Vec<_> = all(&mut bench, 99).unwrap().iter().map(|(_, at, _)| *at).collect();
        let expected = [0, 1, 2, 4, 5, 6, 7, 8, 9].map(|tenths| tenths * 100_000_000);
        assert_eq!(times, expected);
    }
}
