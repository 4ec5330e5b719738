//! Any other file, read by the program `ffmpeg` with the times of its images.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, ErrorKind, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use afferent_messages::Image;

use super::{Frames, y4m::Y4m};

pub(super) struct Ffmpeg {
    child: Child,
    frames: Y4m,
    log: Receiver<Line>,
    /// Time of the first image, which may not be 0.
    first: Option<Duration>,
    last_errors: VecDeque<String>,
}

/// Line of the log of ffmpeg.
enum Line {
    /// Time of an image.
    Time(Duration),
    Other(String),
}

/// Longest wait for the time of an image that has arrived.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Lines of the log that an error message repeats.
const ERROR_LINES: usize = 3;

impl Ffmpeg {
    /// Starts the program for the file `path`.
    pub(super) fn start(path: &Path) -> Result<Self, String> {
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-hide_banner", "-nostats", "-loglevel", "info", "-i"]);
        command.arg(path).args(["-an", "-sn", "-dn", "-fps_mode", "passthrough"]);
        // `showinfo` logs the time of each image, which the pipe does not carry.
        command.args(["-vf", "showinfo", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                "it is not a Y4M file, an AVI file with JPEG images, or a folder of images; ffmpeg \
                 reads others, but is not installed"
                    .to_owned()
            }
            _ => format!("ffmpeg cannot be started: {error}"),
        })?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("ffmpeg has no output".to_owned());
        };
        let log = read_log(errors);
        let boxed: Box<dyn Read + Send> = Box::new(output);
        let frames = Y4m::open(BufReader::with_capacity(256 * 1024, boxed));
        let frames = frames.map_err(|reason| {
            let _ = child.kill();
            let _ = child.wait();
            let lines = log.iter().filter_map(|line| match line {
                Line::Other(text) => Some(text),
                Line::Time(_) => None,
            });
            lines.last().map_or(reason, |line| format!("ffmpeg: {line}"))
        })?;
        Ok(Self { child, frames, log, first: None, last_errors: VecDeque::new() })
    }

    /// Time of the next image.
    fn time(&mut self) -> Result<Duration, String> {
        loop {
            match self.log.recv_timeout(TIME_LIMIT) {
                Ok(Line::Time(time)) => return Ok(time),
                Ok(Line::Other(line)) => self.keep(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err("ffmpeg gives no times of the images".to_owned());
                }
            }
        }
    }

    fn keep(&mut self, line: String) {
        if self.last_errors.len() == ERROR_LINES {
            self.last_errors.pop_front();
        }
        self.last_errors.push_back(line);
    }
}

/// Reads the log on a thread.
fn read_log(errors: impl Read + Send + 'static) -> Receiver<Line> {
    let (sender, log) = mpsc::channel();
    let read = move || {
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            let line = time(&line).map_or(Line::Other(line), Line::Time);
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    drop(thread::Builder::new().name("ffmpeg log".to_owned()).spawn(read));
    log
}

/// Time in a line of `showinfo`: `[Parsed_showinfo_0 @ 0x...] n: 0 pts: 0 pts_time:0.04 ...`.
fn time(line: &str) -> Option<Duration> {
    let rest = line.contains("showinfo").then_some(line)?.split_once("pts_time:")?.1;
    let seconds: f64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO))
}

impl Frames for Ffmpeg {
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String> {
        if self.frames.next(image)?.is_none() {
            let status = self.child.wait().map_err(|error| error.to_string())?;
            let rest: Vec<_> = self.log.try_iter().collect();
            for line in rest {
                if let Line::Other(line) = line {
                    self.keep(line);
                }
            }
            return match status.success() {
                true => Ok(None),
                false => {
                    let lines: Vec<_> = self.last_errors.iter().map(String::as_str).collect();
                    Err(format!("ffmpeg failed ({status}): {}", lines.join("; ")))
                }
            };
        }
        let at = self.time()?;
        let first = *self.first.get_or_insert(at);
        Ok(Some(at.saturating_sub(first)))
    }

    fn period(&self) -> Option<Duration> {
        self.frames.period()
    }
}

impl Drop for Ffmpeg {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_the_log() {
        let line = "[Parsed_showinfo_0 @ 0x55] n:   3 pts:   1536 pts_time:0.12    duration: 512";
        assert_eq!(time(line), Some(Duration::from_millis(120)));
        assert_eq!(time("[Parsed_showinfo_0 @ 0x55] config in time_base: 1/12800"), None);
        assert_eq!(time("Input #0, mov, from 'pts_time:3'"), None);
    }
}
