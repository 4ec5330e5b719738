//! Execution of tool calls.

use std::{
    io::{self, Read, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

/// Longest result of a tool, in bytes.
const MAX_RESULT_BYTES: u64 = 65536;

/// The local time and the weekday.
pub(super) fn local_time() -> Value {
    let now = jiff::Zoned::now();
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
    let mut started = Command::new(program);
    started.args(options).current_dir(folder);
    started.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = started.spawn().map_err(|error| format!("{program}: {error}"))?;
    let receiver = collect_output(&mut child, arguments.to_owned());
    let wait = Wait::new(program, timeout, cancel);
    let output = wait.until(|slice| receiver.recv_timeout(slice).ok());
    let result = output.and_then(|output| match output.len() as u64 > MAX_RESULT_BYTES {
        true => Err(format!("{program} returned more than {MAX_RESULT_BYTES} bytes")),
        // The command may keep running after it has closed its output.
        false => wait
            .until(|slice| exit_status_within(&mut child, slice))?
            .map(|status| (output, status))
            .map_err(|error| format!("{program}: {error}")),
    });
    if result.is_err() {
        // Both fail if the command has exited.
        let _ = child.kill();
        let _ = child.wait();
    }
    match result? {
        (output, status) if status.success() => parse_object(program, &output),
        (_, status) => Err(format!("{program} failed: {status}")),
    }
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

/// Receiver of the standard output of `child`, complete when it is closed.
fn collect_output(child: &mut Child, arguments: String) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let (input, output) = (child.stdin.take(), child.stdout.take());
    thread::spawn(move || {
        if let Some(mut input) = input {
            // The command may close its input without reading it.
            let _ = input.write_all(arguments.as_bytes());
        }
        let mut bytes = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MAX_RESULT_BYTES + 1).read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
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
