//! One request to a chat server: a thread sends it and reads the streamed answer.

use std::{
    io::{BufRead, BufReader},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use super::events::{Event, read_line};

/// Longest line of a stream, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// Longest text of an error that is shown.
const MAX_REASON: usize = 300;

/// Longest pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(20);

/// Address, key and limits of requests.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) key: Option<String>,
    /// Longest wait for the beginning of an answer.
    pub(super) timeout: Duration,
    /// Further attempts after a failure.
    pub(super) retries: u32,
}

/// Part of the answer to a request, or its failure.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arrival {
    /// Part of the answer.
    Event(Event),
    /// The request failed, for this reason.
    Failed(String),
}

/// A request in progress. Dropping it ends the reading.
pub(super) struct Request {
    pub(super) arrivals: Receiver<Arrival>,
    is_canceled: Arc<AtomicBool>,
}

impl Request {
    /// Sends `body`, and reads the answer on a thread of its own.
    pub(super) fn start(endpoint: Endpoint, body: String) -> std::io::Result<Self> {
        let (sender, arrivals) = channel();
        let is_canceled = Arc::new(AtomicBool::new(false));
        let canceled = is_canceled.clone();
        thread::Builder::new()
            .name("chat".to_owned())
            .spawn(move || run(&endpoint, &body, &sender, &canceled))?;
        Ok(Self { arrivals, is_canceled })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.is_canceled.store(true, Ordering::Release);
    }
}

/// A failed attempt.
struct Failure {
    reason: String,
    /// True if another attempt may succeed.
    is_temporary: bool,
    /// Pause that the server asks for.
    pause: Option<Duration>,
}

fn run(endpoint: &Endpoint, body: &str, sender: &Sender<Arrival>, canceled: &AtomicBool) {
    let mut pause = Duration::from_millis(300);
    for attempt in 0..=endpoint.retries {
        match answer(endpoint, body, sender, canceled) {
            Ok(()) => return,
            Err(failure) => {
                let is_last = attempt == endpoint.retries || !failure.is_temporary;
                if is_last || canceled.load(Ordering::Acquire) {
                    // A node does not wait for it after a cancellation.
                    let _ = sender.send(Arrival::Failed(failure.reason));
                    return;
                }
                tracing::info!("{}; trying again", failure.reason);
                thread::sleep(failure.pause.unwrap_or(pause).min(MAX_PAUSE));
                pause *= 2;
            }
        }
    }
}

/// Sends the request and passes the answer on. Fails only before the first part of the answer.
fn answer(
    endpoint: &Endpoint,
    body: &str,
    sender: &Sender<Arrival>,
    canceled: &AtomicBool,
) -> Result<(), Failure> {
    let Endpoint { url, key, timeout, .. } = endpoint;
    let failed = |reason: String, is_temporary| Failure {
        reason: format!("{url}: {reason}"),
        is_temporary,
        pause: None,
    };
    let config = ureq::Agent::config_builder()
        .timeout_connect(Some(*timeout))
        .timeout_recv_response(Some(*timeout))
        .http_status_as_error(false)
        .build();
    let mut request = ureq::Agent::new_with_config(config)
        .post(url)
        .header("Content-Type", "application/json")
        .header("Accept", "text/event-stream");
    if let Some(key) = key {
        request = request.header("Authorization", format!("Bearer {key}"));
    }
    let mut response = request.send(body).map_err(|error| failed(error.to_string(), true))?;
    let status = response.status();
    if !status.is_success() {
        let pause = response.headers().get("Retry-After").and_then(|value| value.to_str().ok());
        let pause = pause.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let text = response.body_mut().with_config().limit(MAX_LINE).read_to_string();
        let reason = format!("{status}: {}", reason(&text.unwrap_or_default()));
        let is_temporary = status.is_server_error() || status.as_u16() == 429;
        return Err(Failure { pause, ..failed(reason, is_temporary) });
    }
    let mut reader = BufReader::new(response.body_mut().as_reader());
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut part = std::io::Read::take(&mut reader, MAX_LINE);
        let read = part.read_until(b'\n', &mut line);
        if canceled.load(Ordering::Acquire) {
            return Ok(());
        }
        let event = match read {
            Ok(0) => Some(Event::End),
            Ok(_) => read_line(&String::from_utf8_lossy(&line)),
            Err(error) => {
                // The parts before the error belong to the answer.
                let _ = sender.send(Arrival::Failed(format!("{url}: {error}")));
                return Ok(());
            }
        };
        let Some(event) = event else { continue };
        let is_end = event == Event::End;
        if sender.send(Arrival::Event(event)).is_err() || is_end {
            return Ok(());
        }
    }
}

/// The message in the body of an error.
fn reason(body: &str) -> String {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|json| {
        let error = json.get("error")?;
        error.get("message").unwrap_or(error).as_str()
    });
    message.unwrap_or(body.trim()).chars().take(MAX_REASON).collect()
}
