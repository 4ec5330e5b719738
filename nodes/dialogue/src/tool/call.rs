//! Execution of tool calls.

use std::{
    io::{self, Read, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

/// Longest result of a tool, in bytes.
const MAX_RESULT_BYTES: u64 = 65536;
/// Longest wait for the output of a command that has exited.
const AFTER_EXIT: Duration = Duration::from_millis(100);

/// The local time and the weekday, `unix_ns` nanoseconds after the start of 1970. The time zone is
/// that of the environment variable `TZ`, or else of the system.
pub(super) fn local_time(unix_ns: u64) -> Value {
    let now = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    let now = now.to_zoned(jiff::tz::TimeZone::system());
    let day = now.strftime("%A").to_string().to_lowercase();
    json!({"time": now.strftime("%H:%M").to_string(), "day": day})
}

/// Duration of a timer: the sum of `hours`, `minutes`, and `seconds`.
pub(super) fn timer_duration(arguments: &Map<String, Value>) -> Result<Duration, String> {
    let mut seconds = 0.0;
    for (name, unit) in [("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0)] {
        seconds += arguments.get(name).and_then(Value::as_f64).unwrap_or(0.0) * unit;
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && seconds < 1e7 => Ok(duration),
        _ => Err(format!(
            "arguments {} give no positive hours, minutes, or seconds",
            Value::Object(arguments.clone())
        )),
    }
}

/// Runs a command with `arguments` on its standard input, and returns the JSON object that it
/// prints.
pub(super) fn run_command(
    command: &[String],
    folder: &Path,
    arguments: &str,
    timeout: Duration,
    cancel: &AtomicBool,
) -> Result<Value, String> {
    let Some((program, options)) = command.split_first() else {
        return Err("the command is empty".into());
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut command = Command::new(program);
    command.args(options).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let output = Output::collect(&mut child, arguments.to_owned());
    let wait = Wait::new(program, timeout, cancel);
    let status = wait.until(|slice| match output.is_too_long() {
        true => Some(Err(format!("{program} returned more than {MAX_RESULT_BYTES} bytes"))),
        false => exit_status_within(&mut child, slice)
            .map(|status| status.map_err(|error| format!("{program}: {error}"))),
    });
    match status.flatten() {
        Ok(status) if status.success() => {
            // Processes that the command has left running may keep the pipe open.
            output.wait_for_end(AFTER_EXIT);
            parse_object(program, &output.text())
        }
        Ok(status) => Err(format!("{program} failed: {status}")),
        Err(reason) => {
            kill_group(&mut child);
            Err(reason)
        }
    }
}

/// Kills `child` and the processes that it has started.
fn kill_group(child: &mut Child) {
    // Killing fails if the processes have exited.
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Wait for a tool, limited by a timeout and by cancellation.
struct Wait<'w> {
    tool: &'w str,
    start: Instant,
    timeout: Duration,
    cancel: &'w AtomicBool,
}

impl<'w> Wait<'w> {
    fn new(tool: &'w str, timeout: Duration, cancel: &'w AtomicBool) -> Self {
        Self { tool, start: Instant::now(), timeout, cancel }
    }

    /// Calls `get` until it returns a value. `get` waits for at most the given time.
    ///
    /// # Errors
    /// The timeout has passed, or the call was interrupted.
    fn until<T>(&self, mut get: impl FnMut(Duration) -> Option<T>) -> Result<T, String> {
        loop {
            if let Some(found) = get(Duration::from_millis(5)) {
                return Ok(found);
            }
            if self.cancel.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            if self.start.elapsed() >= self.timeout {
                return Err(format!("{} took longer than {:?}", self.tool, self.timeout));
            }
        }
    }
}

/// Exit status of `child`; `None` after `timeout` if it is still running.
fn exit_status_within(child: &mut Child, timeout: Duration) -> Option<io::Result<ExitStatus>> {
    let status = child.try_wait().transpose();
    if status.is_none() {
        thread::sleep(timeout);
    }
    status
}

/// Standard output of a command, as far as it was read.
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the pipe is closed.
    reader: mpsc::Receiver<()>,
}

impl Output {
    /// Writes `arguments` to the standard input of `child` and reads its standard output.
    fn collect(child: &mut Child, arguments: String) -> Self {
        let (sender, reader) = mpsc::channel();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut input) = child.stdin.take() {
            // The command may close its input without reading it.
            thread::spawn(move || input.write_all(arguments.as_bytes()));
        }
        if let Some(output) = child.stdout.take() {
            let bytes = bytes.clone();
            thread::spawn(move || {
                let mut output = output.take(MAX_RESULT_BYTES + 1);
                let mut block = [0; 4096];
                while let Ok(len @ 1..) = output.read(&mut block) {
                    lock(&bytes).extend_from_slice(&block[..len]);
                }
                drop(sender);
            });
        }
        Self { bytes, reader }
    }

    fn is_too_long(&self) -> bool {
        lock(&self.bytes).len() as u64 > MAX_RESULT_BYTES
    }

    /// Waits until the pipe is closed, at most for `limit`.
    fn wait_for_end(&self, limit: Duration) {
        // Nothing is sent.
        let _ = self.reader.recv_timeout(limit);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.bytes)).into_owned()
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Posts `arguments` to `url`, and returns the JSON object of the response. An interrupted request
/// ends in the background, at the latest after `timeout`.
pub(super) fn post(
    url: &str,
    arguments: &str,
    timeout: Duration,
    cancel: &AtomicBool,
) -> Result<Value, String> {
    let (sender, receiver) = mpsc::channel();
    let (to, arguments) = (url.to_owned(), arguments.to_owned());
    thread::spawn(move || {
        // The receiver is gone if the call was interrupted.
        let _ = sender.send(request(&to, &arguments, timeout));
    });
    // The timeout of the request passes first: its error says more.
    let limit = timeout + Duration::from_secs(1);
    Wait::new(url, limit, cancel).until(|slice| receiver.recv_timeout(slice).ok())?
}

fn request(url: &str, arguments: &str, timeout: Duration) -> Result<Value, String> {
    let failed = |error: ureq::Error| format!("{url}: {error}");
    let config = ureq::Agent::config_builder().timeout_global(Some(timeout)).build();
    let request = ureq::Agent::new_with_config(config).post(url);
    let mut response =
        request.header("Content-Type", "application/json").send(arguments).map_err(failed)?;
    let body = response.body_mut().with_config().limit(MAX_RESULT_BYTES).read_to_string();
    parse_object(url, &body.map_err(failed)?)
}

/// Parses `text`, returned by `tool`, as a JSON object.
fn parse_object(tool: &str, text: &str) -> Result<Value, String> {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let shown: String = text.trim().chars().take(80).collect();
    value
        .filter(Value::is_object)
        .ok_or_else(|| format!("{tool} returned {shown}, which is not a JSON object"))
}
