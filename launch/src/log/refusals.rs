//! Programs that tried to connect and were refused. zenoh logs each attempt, in its own words.

use std::{
    collections::HashMap,
    fmt::{Debug, Write},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{filter::Targets, layer::Context};

/// Module of zenoh that accepts connections over QUIC.
pub(super) const TARGET: &str = "zenoh_link_commons::quic";

/// Shortest time between two lines with the same reason.
const PERIOD: Duration = Duration::from_secs(30);

/// Prints a line for refused connections.
#[derive(Default)]
pub(super) struct Refusals {
    /// Time of the last line with each reason.
    told: Mutex<HashMap<String, Instant>>,
}

impl Refusals {
    /// Events that this layer reads.
    pub(super) fn targets() -> Targets {
        Targets::new().with_target(TARGET, Level::WARN)
    }

    /// True if `reason` was not told for [`PERIOD`].
    fn is_news(&self, reason: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| at.elapsed() < PERIOD);
        told.insert(reason.to_owned(), Instant::now()).is_none()
    }
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Refusals {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        if let Some(reason) = reason(&message.0)
            && self.is_news(reason)
        {
            super::warning(format_args!(
                "a program tried to connect and was refused: {reason}; machines of the graph need \
                 certificates of the same `afferent keys`"
            ));
        }
    }
}

/// Reason in the words of TLS, if zenoh's `message` says that it refused a connection.
fn reason(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("QUIC acceptor failed: ")?;
    let quoted = rest.split_once("reason: b\"").and_then(|(_, rest)| rest.split_once('"'));
    let whole = rest.split(" at /").next().unwrap_or(rest);
    Some(quoted.map_or(whole, |(reason, _)| reason))
}

/// Message of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_once_in_a_while() {
        let message = "QUIC acceptor failed: ConnectionClosed(ConnectionClose { error_code: \
                       Code::crypto(33), reason: b\"invalid peer certificate: BadSignature\" }) at \
                       /a.rs:1.";
        assert_eq!(reason(message), Some("invalid peer certificate: BadSignature"));
        assert_eq!(reason("QUIC acceptor failed: TimedOut at /a.rs:1."), Some("TimedOut"));
        assert_eq!(reason("Skipping name verification of QUIC server"), None);
        let refusals = Refusals::default();
        assert!(refusals.is_news("a") && refusals.is_news("b") && !refusals.is_news("a"));
    }
}
