//! Video files.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, OutputPath, Packet, Port, Timestamp, Weight, choices, params,
    ports,
};
use afferent_messages::{Image, PixelFormat};

use crate::output::{self, file_error};

mod avi;
mod ffmpeg;
mod rate;
mod y4m;

use rate::{Rate, Slot, Timeline};

choices! {
    /// Policy for an image of another size or pixel format than the first one.
    pub enum OnSizeChange {
        /// The node fails.
        Error = "error",
        /// The image is left out.
        Skip = "skip",
    }
}

params! {
    /// Settings of [`VideoWriter`].
    pub struct VideoWriterParams {
        /// Path of the video file. Its extension selects the kind.
        pub path: OutputPath;
        /// Images per second of the file. Default: that of the timestamps of the first images.
        pub fps: Option<f64>, range 0.01..=1000.0, unit "Hz";
        /// Quality of the JPEG images of an AVI file.
        pub quality: u32 = "90", range 1.0..=100.0;
        /// Policy for an image of another size or pixel format than the first one.
        pub on_size_change: OnSizeChange = "error";
    }
}

/// Writes images to a video file.
///
/// | extension | file | pixel formats |
/// |---|---|---|
/// | `.avi` | JPEG images with an index (MJPEG), up to 128 GiB | all but `mono16`, `16UC1`, `32FC1` |
/// | `.y4m` | not compressed, 4:2:0, 4:2:2 or 4:4:4 as the images have it, or gray | as `.avi` |
/// | other | as the program `ffmpeg` writes it, which must be installed, such as `.mp4` | all but `32FC1` |
///
/// An `.mp4`, `.mov`, `.mkv` or `.webm` file has chroma of 4:2:0, and needs images with an even width
/// and height.
///
/// The file has a constant rate and begins at the first image. Without `fps`, the rate is that of the
/// timestamps of the first 8 images, or a common rate within 2 % of it, such as 30 or 30000/1001; it is
/// 30 if there is one image. Each image keeps its time within one period: where
/// images are missing, the last one is repeated, and an image whose slot is taken is left out, which
/// is logged at the end. A pause of more than a minute is left out. In an AVI file a repetition takes 8
/// bytes, and `video_source` does not send it again.
///
/// The file and its parent folders are created when the graph starts; an existing file is overwritten.
/// The file is completed when the stream ends or the node is dropped; it is empty if no image came. Empty
/// images are skipped.
///
/// Latency: none. Without `fps`, the first images are held until there are 8 of them.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat};
/// use afferent_nodes_io::{VideoWriter, VideoWriterParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-video-{}.y4m", std::process::id()));
/// let values = [("path".to_owned(), ParamValue::Path(path.clone()))].into();
/// let params = VideoWriterParams::from_values(&values)?;
/// let mut bench = NodeBench::new(VideoWriter::open(params, &OpenCx::default())?);
/// for (time, value) in [(0, 7), (40_000_000, 9)] {
///     let image = Image::new(PixelFormat::Mono8, 2, 1, 2, &[value; 2])?;
///     bench.call(VideoWriter::IMAGES, Timestamp(time), image)?;
/// }
/// bench.finish(Timestamp::ZERO)?;
/// let file = std::fs::read(&path).unwrap();
/// assert_eq!(file, b"YUV4MPEG2 W2 H1 F25:1 Ip A1:1 Cmono\nFRAME\n\x07\x07FRAME\n\x09\x09");
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct VideoWriter {
    params: VideoWriterParams,
    kind: Kind,
    /// The created file, until the first image sets its header.
    created: Option<File>,
    /// First images, until the rate is known.
    first: Vec<Packet>,
    writing: Option<Writing>,
    /// True if the file was started, perhaps in vain.
    is_started: bool,
    /// Images that were left out, because their slot was taken or of their size.
    left_out: u64,
}

/// Kind of a file, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Avi,
    Y4m,
    Ffmpeg,
}

/// Started file.
struct Writing {
    file: Box<dyn VideoFile>,
    timeline: Timeline,
    size: [usize; 2],
    format: PixelFormat,
}

/// File that images of one size and format are written to, at a constant rate.
trait VideoFile: Send {
    fn write(&mut self, image: &Image) -> Result<(), String>;

    /// Shows the last image again.
    fn repeat(&mut self) -> Result<(), String>;

    /// Completes the file. Called once.
    fn finish(&mut self) -> Result<(), String>;
}

/// Images that the rate is measured with.
const MEASURED: usize = 8;

ports! {
    impl VideoWriter {
        /// Images of one size and pixel format.
        in IMAGES: Image;
    }
}

impl Kind {
    fn of(path: &Path) -> Result<Self, NodeError> {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        match end.to_ascii_lowercase().as_str() {
            "avi" => Ok(Self::Avi),
            "y4m" => Ok(Self::Y4m),
            "" => Err(file_error(
                path,
                "its name has no extension, which selects the kind: .avi, .y4m, or one that ffmpeg \
                 writes, such as .mp4",
            )),
            _ => Ok(Self::Ffmpeg),
        }
    }
}

impl VideoWriter {
    fn path(&self) -> PathBuf {
        self.params.path.0.clone()
    }

    /// Starts the file with the first images.
    fn start(&mut self) -> Result<(), NodeError> {
        let first = std::mem::take(&mut self.first);
        let times: Vec<Timestamp> = first.iter().map(|packet| packet.header.at).collect();
        let Some((start, image)) =
            first.first().and_then(|packet| Some((packet.header.at, packet.get::<Image>()?)))
        else {
            return Ok(());
        };
        if std::mem::replace(&mut self.is_started, true) {
            return Err(file_error(&self.params.path, "closed after an earlier error"));
        }
        let rate = self.params.fps.map_or_else(|| Rate::of_times(&times), Rate::of);
        let quality = self.params.quality as u8;
        let path = self.path();
        let fault = |reason| file_error(&path, reason);
        let file: Box<dyn VideoFile> = match (self.kind, self.created.take()) {
            (Kind::Avi, Some(file)) => {
                Box::new(avi::AviFile::new(file, image, rate, quality).map_err(fault)?)
            }
            (Kind::Y4m, Some(file)) => {
                Box::new(y4m::Y4mFile::new(file, image, rate).map_err(fault)?)
            }
            _ => Box::new(ffmpeg::FfmpegFile::start(&path, image, rate).map_err(fault)?),
        };
        let (size, format) = ([image.width(), image.height()], image.format());
        let timeline = Timeline::new(rate, start);
        self.writing = Some(Writing { file, timeline, size, format });
        for packet in &first {
            if let Some(image) = packet.get::<Image>() {
                self.write(packet.header.at, image)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, at: Timestamp, image: &Image) -> Result<(), NodeError> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let size = [image.width(), image.height()];
        if (size, image.format()) != (writing.size, writing.format) {
            if self.params.on_size_change == OnSizeChange::Skip {
                self.left_out += 1;
                return Ok(());
            }
            let ([width, height], [had_width, had_height]) = (size, writing.size);
            return Err(NodeError::InvalidInput {
                port: Self::IMAGES.name().into(),
                reason: format!(
                    "an image of {width} × {height} pixels of {} for a file of {had_width} × \
                     {had_height} pixels of {}; scale it, or set on_size_change: skip",
                    image.format().name(),
                    writing.format.name()
                ),
            });
        }
        let repeated = match writing.timeline.slot(at) {
            Slot::After(repeated) => repeated,
            Slot::Taken => {
                self.left_out += 1;
                return Ok(());
            }
        };
        let file = &mut writing.file;
        let written = (0..repeated).try_for_each(|_| file.repeat());
        written.and_then(|()| file.write(image)).map_err(|reason| {
            // The rest cannot be written either.
            self.writing = None;
            file_error(&self.params.path, format!("cannot write it: {reason}"))
        })
    }

    /// Completes the file.
    fn close(&mut self) -> Result<(), NodeError> {
        self.start()?;
        if self.left_out > 0 {
            let (path, count) = (self.path(), std::mem::take(&mut self.left_out));
            tracing::info!("{}: {count} images were left out", path.display());
        }
        let Some(mut writing) = self.writing.take() else { return Ok(()) };
        let finished = writing.file.finish();
        finished.map_err(|reason| file_error(&self.params.path, format!("cannot end it: {reason}")))
    }
}

impl Node for VideoWriter {
    type Params = VideoWriterParams;

    const NAME: &'static str = "video_writer";
    const SUMMARY: &'static str = "Writes images to a video file.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "none; without fps, that of the first 8 images";

    fn check(params: &VideoWriterParams, _: &OpenCx) -> Result<(), NodeError> {
        output::check_file(&params.path)?;
        match Kind::of(&params.path)? {
            Kind::Ffmpeg => ffmpeg::check().map_err(|reason| file_error(&params.path, reason)),
            _ => Ok(()),
        }
    }

    fn open(params: VideoWriterParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Self::check(&params, cx)?;
        let kind = Kind::of(&params.path)?;
        let file = output::create_file(&params.path)?;
        let created = (kind != Kind::Ffmpeg).then_some(file);
        let (first, writing, is_started, left_out) = (Vec::new(), None, false, 0);
        Ok(Self { params, kind, created, first, writing, is_started, left_out })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let (Some(image), Some(packet)) = (cx.get(Self::IMAGES), cx.packet()) else {
            return Ok(());
        };
        image.pixels().fetch()?;
        if image.bytes().is_empty() {
            return Ok(());
        }
        if self.writing.is_some() {
            return self.write(packet.header.at, image);
        }
        self.first.push(packet.clone());
        let needed = if self.params.fps.is_some() { 1 } else { MEASURED };
        if self.first.len() < needed { Ok(()) } else { self.start() }
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.close()
    }
}

impl Drop for VideoWriter {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use afferent_graph::{Choice, NodeBench, ParamValue, Params};

    use super::*;
    use crate::{
        testing::TempFolder,
        video_file::{self, ReadOptions},
    };

    fn open(path: &Path, more: &[(&str, ParamValue)]) -> Result<NodeBench<VideoWriter>, NodeError> {
        let mut values = afferent_graph::ParamValues::default();
        values.insert("path".to_owned(), ParamValue::Path(path.to_owned()));
        values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let params = VideoWriterParams::from_values(&values).unwrap();
        VideoWriter::open(params, &OpenCx::default()).map(NodeBench::new)
    }

    /// A color gradient, different for each number.
    fn image(format: PixelFormat, [width, height]: [usize; 2], number: usize) -> Image {
        let mut image = Image::default();
        let row = width * format.pixel_bytes();
        let bytes = image.reshape(format, width, height).unwrap();
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (60 + number * 3 + (at % row) / 2 + (at / row) / 2) as u8;
        }
        image
    }

    /// Timestamp, width and height of the images that `video_source` reads.
    fn read(path: &Path) -> Vec<(i64, [usize; 2], Image)> {
        let options = ReadOptions { fps: 30.0, raw: None, topic: None, ffmpeg: None };
        let mut frames = video_file::open(path, &options).unwrap();
        let (mut found, mut image) = (Vec::new(), Image::default());
        while let Some(at) = frames.next(&mut image).unwrap() {
            let size = [image.width(), image.height()];
            found.push((at.as_nanos() as i64, size, image.clone()));
        }
        found
    }

    const PERIOD_NS: i64 = 40_000_000;

    /// Times of 20 images with jitter; one is missing, and the clock starts at 5 s.
    fn times() -> Vec<i64> {
        let jitter = |number: i64| (number * 7 % 5 - 2) * 1_000_000;
        let numbers = (0..21).filter(|number| *number != 11);
        numbers.map(|number| 5_000_000_000 + number * PERIOD_NS + jitter(number)).collect()
    }

    fn write(path: &Path, format: PixelFormat, size: [usize; 2], is_finished: bool) {
        let mut bench = open(path, &[]).unwrap();
        for (number, at) in times().into_iter().enumerate() {
            let image = image(format, size, number);
            bench.call(VideoWriter::IMAGES, Timestamp(at), image).unwrap();
        }
        // A graph that is interrupted drops its nodes.
        if is_finished {
            bench.finish(Timestamp::ZERO).unwrap();
        }
    }

    #[test]
    fn files_are_read_back() {
        let folder = TempFolder::new();
        for &format in PixelFormat::VALUES {
            if matches!(format.name(), "mono16" | "16UC1" | "32FC1") {
                continue;
            }
            let size = if format.is_yuv() { [32, 18] } else { [33, 17] };
            for (end, is_finished) in [("avi", true), ("y4m", true), ("avi", false)] {
                let path = folder.path("new").join(format!("{}.{end}", format.name()));
                write(&path, format, size, is_finished);
                let mut found = read(&path);
                if end == "y4m" {
                    // The missing image is there as the one before it.
                    assert_eq!(found[10].2, found[11].2);
                    found.remove(11);
                }
                let times = times();
                assert_eq!(found.len(), times.len(), "{path:?}");
                for ((at, found_size, _), time) in found.iter().zip(&times) {
                    assert_eq!(*found_size, size);
                    assert!((time - times[0] - at).abs() < PERIOD_NS, "{path:?}: {time} at {at}");
                }
            }
        }
    }

    #[test]
    fn colors_are_kept() {
        let folder = TempFolder::new();
        let check = |format: PixelFormat, end: &str, expected: PixelFormat, tolerance: u8| {
            let path = folder.path(format!("{}.{end}", format.name()));
            write(&path, format, [32, 18], true);
            let (found, written) = (&read(&path)[3].2, image(format, [32, 18], 3));
            assert_eq!(found.format(), expected);
            if found.format() == format {
                let bytes = found.bytes().iter().zip(written.bytes());
                let largest = bytes.map(|(a, b)| a.abs_diff(*b)).max().unwrap();
                assert!(largest <= tolerance, "{path:?}: {largest}");
            }
        };
        check(PixelFormat::Mono8, "y4m", PixelFormat::Mono8, 0);
        check(PixelFormat::I420, "y4m", PixelFormat::I420, 0);
        check(PixelFormat::Nv12, "y4m", PixelFormat::I420, 0);
        check(PixelFormat::Yuyv, "y4m", PixelFormat::Yuyv, 0);
        check(PixelFormat::Uyvy, "y4m", PixelFormat::Yuyv, 0);
        check(PixelFormat::Rgb8, "y4m", PixelFormat::Rgb8, 2);
        check(PixelFormat::Rgb8, "avi", PixelFormat::Rgb8, 12);
    }

    #[test]
    fn other_sizes_and_faster_images_are_handled() {
        let folder = TempFolder::new();
        let fps = ("fps", ParamValue::Float(25.0));
        let call = |bench: &mut NodeBench<VideoWriter>, at: i64, size| {
            let image = image(PixelFormat::Mono8, size, 0);
            bench.call(VideoWriter::IMAGES, Timestamp(at * PERIOD_NS / 4), image).map(drop)
        };
        let mut bench = open(&folder.path("a.avi"), std::slice::from_ref(&fps)).unwrap();
        call(&mut bench, 0, [16, 8]).unwrap();
        let told = call(&mut bench, 4, [16, 16]).unwrap_err().to_string();
        assert!(told.contains("16 × 16 pixels of mono8 for a file of 16 × 8"), "{told}");
        let skip = ("on_size_change", ParamValue::Text("skip".into()));
        let path = folder.path("b.y4m");
        let mut bench = open(&path, &[fps, skip]).unwrap();
        for (at, size) in [(0, [16, 8]), (1, [8, 8]), (2, [16, 8]), (3, [16, 8]), (4, [16, 8])] {
            call(&mut bench, at, size).unwrap();
        }
        bench.finish(Timestamp::ZERO).unwrap();
        assert_eq!(read(&path).len(), 2, "the images of two periods");
    }

    #[test]
    fn files_that_cannot_be_written_are_refused() {
        let folder = TempFolder::new();
        let told = |name: &str| open(&folder.path(name), &[]).err().unwrap().to_string();
        assert!(told("video").contains("no extension"), "{}", told("video"));
        assert!(told("").contains("is a folder"));
        let mut bench = open(&folder.path("a.avi"), &[("fps", ParamValue::Float(1.0))]).unwrap();
        let depth = image(PixelFormat::Depth16, [4, 2], 0);
        let mut told = || {
            let error = bench.call(VideoWriter::IMAGES, Timestamp::ZERO, depth.clone());
            error.unwrap_err().to_string()
        };
        let first = told();
        assert!(first.contains("images in 16UC1 are not supported"), "{first}");
        assert!(told().contains("closed after an earlier error"));
        #[cfg(target_os = "linux")]
        {
            std::os::unix::fs::symlink("/dev/full", folder.path("full.y4m")).unwrap();
            let fps = ("fps", ParamValue::Float(1.0));
            let mut bench = open(&folder.path("full.y4m"), &[fps]).unwrap();
            let large = image(PixelFormat::Rgb8, [400, 300], 0);
            let error = bench.call(VideoWriter::IMAGES, Timestamp::ZERO, large).unwrap_err();
            assert!(error.to_string().contains("full.y4m: cannot write it: No space"), "{error}");
        }
    }

    #[test]
    fn other_kinds_are_left_to_ffmpeg() {
        let folder = TempFolder::new();
        if Command::new("ffmpeg").arg("-version").output().is_err() {
            eprintln!("skipped: ffmpeg is not installed");
            let told = open(&folder.path("a.mkv"), &[]).err().unwrap().to_string();
            assert!(told.contains("not installed") && told.contains(".avi"), "{told}");
            return;
        }
        for format in [PixelFormat::Rgb8, PixelFormat::Nv12] {
            let path = folder.path(format!("{}.mkv", format.name()));
            write(&path, format, [32, 18], true);
            let found = read(&path);
            assert_eq!(found.len(), 21, "one is repeated");
            assert!(found.iter().all(|(_, size, _)| *size == [32, 18]));
            assert_eq!(found[20].0, 20 * PERIOD_NS);
        }
        // Players read the files of the built-in writers too.
        for (name, format) in [("a.avi", PixelFormat::Rgb8), ("a.y4m", PixelFormat::Yuyv)] {
            let path = folder.path(name);
            write(&path, format, [32, 18], true);
            let output = Command::new("ffmpeg")
                .args(["-v", "error", "-i"])
                .arg(&path)
                .args(["-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "gray", "-"])
                .output()
                .unwrap();
            let log = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && log.is_empty(), "{name}: {log}");
            let images = if name == "a.avi" { 20 } else { 21 };
            assert_eq!(output.stdout.len(), images * 32 * 18, "{name}");
        }
        let unknown = folder.path("a.unknown");
        let mut bench = open(&unknown, &[("fps", ParamValue::Float(1.0))]).unwrap();
        let call = |bench: &mut NodeBench<VideoWriter>| {
            let image = image(PixelFormat::Rgb8, [320, 240], 0);
            bench.call(VideoWriter::IMAGES, Timestamp::ZERO, image).map(drop)
        };
        let error = call(&mut bench).and_then(|()| bench.finish(Timestamp::ZERO).map(drop));
        let told = error.unwrap_err().to_string();
        assert!(told.contains("a.unknown") && told.contains("ffmpeg failed"), "{told}");
        assert!(fs::metadata(unknown).is_ok());
    }
}
