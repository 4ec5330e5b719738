//! Requests to a server that speaks the protocol of OpenAI: a thread sends one and reads the answer as it
//! comes.

#[cfg(test)]
pub(crate) mod testing;

use std::{
    env,
    io::{self, BufRead, BufReader},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use afferent_graph::NodeError;
use serde_json::Value;

/// Time between two looks for parts of an answer.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// Longest text of an answer that is not streamed, and of a line, in bytes.
pub(crate) const MAX_TEXT: u64 = 1 << 20;

/// Longest text of an error that is shown.
const MAX_REASON: usize = 300;

/// Longest pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(20);

/// Address, key and limits of requests.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    key: Option<String>,
    /// Longest wait for the beginning of an answer.
    timeout: Duration,
    /// Further attempts after a failure.
    retries: u32,
}

impl Endpoint {
    /// The endpoint at `path` of the server `url`, with the key in the environment variable `key_env`.
    ///
    /// # Errors
    /// The parameter `url` or `key_env` is wrong.
    pub(crate) fn new(
        url: &str,
        path: &str,
        key_env: Option<&str>,
        timeout: Duration,
        retries: u32,
    ) -> Result<Self, NodeError> {
        let wrong = |name: &'static str, reason: String| NodeError::InvalidParam {
            name: name.into(),
            reason,
        };
        if !cfg!(feature = "tls") && url.starts_with("https:") {
            return Err(wrong("url", "https needs a build with the feature `tls`".to_owned()));
        }
        if !url.starts_with("http:") && !url.starts_with("https:") {
            let reason = format!("{url:?} is no address such as http://127.0.0.1:8000/v1");
            return Err(wrong("url", reason));
        }
        let key = key_env.map(|name| {
            let key = env::var(name).ok().filter(|key| !key.is_empty());
            key.ok_or_else(|| {
                wrong("key_env", format!("the environment variable {name} is not set"))
            })
        });
        let url = format!("{}{path}", url.trim_end_matches('/'));
        Ok(Self { url, key: key.transpose()?, timeout, retries })
    }

    /// Longest time from a request to the beginning of its answer, over all attempts.
    pub(crate) fn patience(&self) -> Duration {
        // Pauses between the attempts are as long as one of them.
        self.timeout * (self.retries + 2)
    }
}

/// Body of a request.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    /// Media type.
    pub(crate) kind: String,
    pub(crate) bytes: Vec<u8>,
}

impl Body {
    pub(crate) fn json(value: &Value) -> Self {
        Self { kind: "application/json".to_owned(), bytes: value.to_string().into_bytes() }
    }
}

/// Arrival from a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arrival<T> {
    /// Part of the answer.
    Part(T),
    /// The answer is complete.
    End,
    /// The request failed, for this reason.
    Failed(String),
}

/// Reads an answer, and passes its parts on until that returns false.
pub(crate) type ReadAnswer<T> = fn(&mut dyn BufRead, &mut dyn FnMut(T) -> bool) -> io::Result<()>;

/// A request in progress. Dropping it ends the reading.
pub(crate) struct Request<T> {
    pub(crate) arrivals: Receiver<Arrival<T>>,
    is_canceled: Arc<AtomicBool>,
}

impl<T: Send + 'static> Request<T> {
    /// Sends `body`, and reads the answer by `read` on a thread of its own.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(
        endpoint: Endpoint,
        body: Body,
        read: ReadAnswer<T>,
    ) -> Result<Self, NodeError> {
        let (sender, arrivals) = channel();
        let is_canceled = Arc::new(AtomicBool::new(false));
        let canceled = is_canceled.clone();
        thread::Builder::new()
            .name("request".to_owned())
            .spawn(move || run(&endpoint, &body, read, &sender, &canceled))
            .map_err(|error| NodeError::Payload(format!("no thread for a request: {error}")))?;
        Ok(Self { arrivals, is_canceled })
    }
}

impl<T> Drop for Request<T> {
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

fn run<T>(
    endpoint: &Endpoint,
    body: &Body,
    read: ReadAnswer<T>,
    sender: &Sender<Arrival<T>>,
    canceled: &AtomicBool,
) {
    let mut pause = Duration::from_millis(300);
    for attempt in 0..=endpoint.retries {
        match answer(endpoint, body, read, sender, canceled) {
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
fn answer<T>(
    endpoint: &Endpoint,
    body: &Body,
    read: ReadAnswer<T>,
    sender: &Sender<Arrival<T>>,
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
    let mut request =
        ureq::Agent::new_with_config(config).post(url).header("Content-Type", &body.kind);
    if let Some(key) = key {
        request = request.header("Authorization", format!("Bearer {key}"));
    }
    let mut response =
        request.send(&body.bytes).map_err(|error| failed(error.to_string(), true))?;
    let status = response.status();
    if !status.is_success() {
        let pause = response.headers().get("Retry-After").and_then(|value| value.to_str().ok());
        let pause = pause.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let text = response.body_mut().with_config().limit(MAX_TEXT).read_to_string();
        let reason = format!("{status}: {}", reason(&text.unwrap_or_default()));
        let is_temporary = status.is_server_error() || status.as_u16() == 429;
        return Err(Failure { pause, ..failed(reason, is_temporary) });
    }
    let mut reader = BufReader::new(response.body_mut().as_reader());
    let read = read(&mut reader, &mut |part| {
        !canceled.load(Ordering::Acquire) && sender.send(Arrival::Part(part)).is_ok()
    });
    let end = match read {
        Ok(()) => Arrival::End,
        // The parts before the error belong to the answer.
        Err(error) => Arrival::Failed(format!("{url}: {error}")),
    };
    // A node does not wait for it after a cancellation.
    let _ = sender.send(end);
    Ok(())
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
