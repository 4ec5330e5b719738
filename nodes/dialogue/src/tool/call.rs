//! What tools do.

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

/// Bytes of an answer, at most.
const MOST: u64 = 65536;

/// The local time and the weekday.
pub(super) fn time() -> Value {
    let now = jiff::Zoned::now();
    let day = now.strftime("%A").to_string().to_lowercase();
    json!({"time": now.strftime("%H:%M").to_string(), "day": day})
}

/// How long a timer runs, from `hours`, `minutes` and `seconds`.
pub(super) fn length(arguments: &Map<String, Value>) -> Result<Duration, String> {
    let mut seconds = 0.0;
    for (name, unit) in [("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0)] {
        seconds += arguments.get(name).and_then(Value::as_f64).unwrap_or(0.0) * unit;
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(length) if !length.is_zero() && seconds < 1e7 => Ok(length),
        _ => Err(format!("{} are no hours, minutes or seconds", Value::Object(arguments.clone()))),
    }
}

/// What a command answers that gets `arguments` on its standard input.
pub(super) fn command(
    command: &[String],
    folder: &Path,
    arguments: &str,
    timeout: Duration,
    cancelled: &AtomicBool,
) -> Result<Value, String> {
    let Some((program, options)) = command.split_first() else {
        return Err("the command is empty".into());
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut started = Command::new(program);
    started.args(options).current_dir(folder);
    started.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = started.spawn().map_err(|error| format!("{program}: {error}"))?;
    let answer = answer_of(&mut child, arguments.to_owned());
    let wait = Wait::new(program, timeout, cancelled);
    let told = wait.until(|most| answer.recv_timeout(most).ok());
    let told = told.and_then(|told| match told.len() as u64 > MOST {
        true => Err(format!("{program} answered more than {MOST} bytes")),
        // It may go on with something else.
        false => wait
            .until(|most| ended_within(&mut child, most))?
            .map(|status| (told, status))
            .map_err(|error| format!("{program}: {error}")),
    });
    if told.is_err() {
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
    match told? {
        (told, status) if status.success() => object(program, &told),
        (_, status) => Err(format!("{program} failed: {status}")),
    }
}

/// How long somebody is waited for.
struct Wait<'w> {
    who: &'w str,
    start: Instant,
    timeout: Duration,
    cancelled: &'w AtomicBool,
}

impl<'w> Wait<'w> {
    fn new(who: &'w str, timeout: Duration, cancelled: &'w AtomicBool) -> Self {
        Self { who, start: Instant::now(), timeout, cancelled }
    }

    /// What `get` gives at last, which waits for as long as it is told each time.
    ///
    /// # Errors
    /// It took too long, or was interrupted.
    fn until<T>(&self, mut get: impl FnMut(Duration) -> Option<T>) -> Result<T, String> {
        loop {
            if let Some(found) = get(Duration::from_millis(5)) {
                return Ok(found);
            }
            if self.cancelled.load(Ordering::Relaxed) {
                return Err("it was interrupted".to_owned());
            }
            if self.start.elapsed() >= self.timeout {
                return Err(format!("{} took longer than {:?}", self.who, self.timeout));
            }
        }
    }
}

/// How `child` ended, if it does within `most`.
fn ended_within(child: &mut Child, most: Duration) -> Option<io::Result<ExitStatus>> {
    let ended = child.try_wait().transpose();
    if ended.is_none() {
        thread::sleep(most);
    }
    ended
}

/// Sends what `child` writes to its standard output, when that ends.
fn answer_of(child: &mut Child, arguments: String) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let (input, output) = (child.stdin.take(), child.stdout.take());
    thread::spawn(move || {
        if let Some(mut input) = input {
            // A command that does not read its arguments does not need them.
            let _ = input.write_all(arguments.as_bytes());
        }
        let mut told = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MOST + 1).read_to_end(&mut told);
        }
        let _ = sender.send(String::from_utf8_lossy(&told).into_owned());
    });
    receiver
}

/// What a server answers. A request that was interrupted ends by itself, at the latest after
/// `timeout`.
pub(super) fn post(
    url: &str,
    arguments: &str,
    timeout: Duration,
    cancelled: &AtomicBool,
) -> Result<Value, String> {
    let (sender, answer) = mpsc::channel();
    let (to, arguments) = (url.to_owned(), arguments.to_owned());
    thread::spawn(move || {
        // Whoever was interrupted no longer waits.
        let _ = sender.send(request(&to, &arguments, timeout));
    });
    // The request ends in time by itself, and says more of what is wrong.
    let most = timeout + Duration::from_secs(1);
    Wait::new(url, most, cancelled).until(|most| answer.recv_timeout(most).ok())?
}

fn request(url: &str, arguments: &str, timeout: Duration) -> Result<Value, String> {
    let failed = |error: ureq::Error| format!("{url}: {error}");
    let config = ureq::Agent::config_builder().timeout_global(Some(timeout)).build();
    let request = ureq::Agent::new_with_config(config).post(url);
    let mut response =
        request.header("Content-Type", "application/json").send(arguments).map_err(failed)?;
    let body = response.body_mut().with_config().limit(MOST).read_to_string();
    object(url, &body.map_err(failed)?)
}

fn object(who: &str, text: &str) -> Result<Value, String> {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let shown: String = text.trim().chars().take(80).collect();
    value
        .filter(Value::is_object)
        .ok_or_else(|| format!("{who} answered {shown}, which is no JSON object"))
}
