//! Any other file, written by the program `ffmpeg`.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread::{self, JoinHandle},
};

use afferent_messages::{ColorMatrix, ColorRange, Image, PixelFormat};

use super::{VideoFile, rate::Rate};

/// Lines of the log that an error message repeats.
const ERROR_LINES: usize = 3;

/// Kinds of files for players; most players read no other chroma than 4:2:0.
const FOR_PLAYERS: [&str; 5] = ["mp4", "m4v", "mov", "mkv", "webm"];

pub(super) struct FfmpegFile {
    child: Child,
    /// Closed to end the file.
    input: Option<ChildStdin>,
    log: Option<JoinHandle<String>>,
    /// Bytes of the last image.
    pixels: Vec<u8>,
}

/// Checks that the program is installed.
pub(super) fn check() -> Result<(), String> {
    let mut command = Command::new("ffmpeg");
    command.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| started(&error))?;
    if status.success() { Ok(()) } else { Err(format!("ffmpeg does not run: {status}")) }
}

fn started(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => {
            "the program ffmpeg writes this kind of file, but is not installed; \
                                without it, .avi and .y4m files are written"
                .to_owned()
        }
        _ => format!("ffmpeg cannot be started: {error}"),
    }
}

/// Name of a pixel format in ffmpeg.
fn pixel_format(format: PixelFormat) -> Result<&'static str, String> {
    Ok(match format {
        PixelFormat::Mono8 => "gray",
        PixelFormat::Rgb8 => "rgb24",
        PixelFormat::Bgr8 => "bgr24",
        PixelFormat::Rgba8 => "rgba",
        PixelFormat::Mono16 | PixelFormat::Depth16 if cfg!(target_endian = "big") => "gray16be",
        PixelFormat::Mono16 | PixelFormat::Depth16 => "gray16le",
        PixelFormat::Yuyv => "yuyv422",
        PixelFormat::Uyvy => "uyvy422",
        PixelFormat::Nv12 => "nv12",
        PixelFormat::I420 => "yuv420p",
        PixelFormat::Depth32 => {
            return Err("images in 32FC1 are not supported; image_writer writes them".to_owned());
        }
    })
}

impl FfmpegFile {
    /// Starts the program for images like this one.
    pub(super) fn start(path: &Path, image: &Image, rate: Rate) -> Result<Self, String> {
        let format = pixel_format(image.format())?;
        let mut command = Command::new("ffmpeg");
        command.args(["-hide_banner", "-nostats", "-loglevel", "error", "-y"]);
        command.args(["-f", "rawvideo", "-pixel_format", format]);
        command.args(["-video_size", &format!("{}x{}", image.width(), image.height())]);
        command.args(["-framerate", &format!("{}/{}", rate.numerator, rate.denominator)]);
        if image.format().is_yuv() {
            let matrix = match image.colorimetry.matrix {
                ColorMatrix::Bt601 => "smpte170m",
                ColorMatrix::Bt709 => "bt709",
                ColorMatrix::Bt2020 => "bt2020nc",
            };
            let is_full = image.colorimetry.range == ColorRange::Full;
            let range = if is_full { "pc" } else { "tv" };
            command.args(["-color_range", range, "-colorspace", matrix]);
        }
        command.args(["-i", "-", "-an"]);
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if FOR_PLAYERS.iter().any(|known| end.eq_ignore_ascii_case(known)) {
            command.args(["-pix_fmt", "yuv420p"]);
        }
        // A path may look like an option or an address.
        let mut file = std::ffi::OsString::from("file:");
        file.push(path);
        command.arg(file).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            // A key that stops the graph does not stop the program, which has images to write.
            command.process_group(0);
        }
        let mut child = command.spawn().map_err(|error| started(&error))?;
        let (input, errors) = (child.stdin.take(), child.stderr.take());
        let log = errors.and_then(|errors| {
            let read = move || last_lines(errors);
            thread::Builder::new().name("ffmpeg log".to_owned()).spawn(read).ok()
        });
        Ok(Self { child, input, log, pixels: Vec::new() })
    }

    /// Waits for the end of the program.
    fn wait(&mut self) -> Result<(), String> {
        drop(self.input.take());
        let status = self.child.wait().map_err(|error| error.to_string())?;
        let log = self.log.take().and_then(|log| log.join().ok()).unwrap_or_default();
        if status.success() { Ok(()) } else { Err(format!("ffmpeg failed ({status}): {log}")) }
    }
}

/// Reads the log to its end; returns its last lines.
fn last_lines(log: impl Read) -> String {
    let mut last = Vec::new();
    for line in BufReader::new(log).lines().map_while(Result::ok) {
        if last.len() == ERROR_LINES {
            last.remove(0);
        }
        last.push(line);
    }
    last.join("; ")
}

impl VideoFile for FfmpegFile {
    fn write(&mut self, image: &Image) -> Result<(), String> {
        self.pixels.clear();
        image.rows().for_each(|row| self.pixels.extend(row));
        self.repeat()
    }

    fn repeat(&mut self) -> Result<(), String> {
        let written = self.input.as_mut().map_or(Ok(()), |input| input.write_all(&self.pixels));
        // The reason is in the log of the program.
        written.or_else(|error| self.wait().and(Err(error.to_string())))
    }

    fn finish(&mut self) -> Result<(), String> {
        self.wait()
    }
}

impl Drop for FfmpegFile {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}
