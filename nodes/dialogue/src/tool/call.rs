//! What tools do.

use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
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
    let until = Instant::now() + timeout;
    let told = loop {
        match answer.recv_timeout(Duration::from_millis(5)) {
            Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < until => {
                if cancelled.load(Ordering::Relaxed) {
                    break Err("it was interrupted".to_owned());
                }
            }
            Ok(told) if told.len() as u64 > MOST => {
                break Err(format!("{program} answered more than {MOST} bytes"));
            }
            Ok(told) => break Ok(told),
            Err(_) => break Err(format!("{program} took longer than {timeout:?}")),
        }
    };
    if told.is_err() {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|error| format!("{program}: {error}"))?;
    let told = told?;
    if !ended.success() {
        return Err(format!("{program} failed: {ended}"));
    }
    object(program, &told)
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

/// What a server answers.
pub(super) fn post(url: &str, arguments: &str, timeout: Duration) -> Result<Value, String> {
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
