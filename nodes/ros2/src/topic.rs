//! Topics as nodes use them: messages with session time.

use std::{borrow::Cow, time::Duration};

use afferent_graph::{Cx, NodeError, OpenCx, SessionStart, Timestamp};
use serde::Serialize;

use crate::{
    Error, TimeOf, cdr,
    endpoint::Endpoint,
    faults::{Faults, InboxFaults},
    link::{Publisher, Received, Subscriber},
    msg::{RosMessage, builtin_interfaces::Time, std_msgs::Header},
};

/// Time for which a call waits for the next message.
const WAIT: Duration = Duration::from_millis(20);

/// Session time of a time of ROS, which is Unix time.
fn timestamp(start: SessionStart, unix_ns: i64) -> Timestamp {
    let at = i128::from(unix_ns) - i128::from(start.unix_ns);
    let limited = at.clamp(i64::MIN.into(), i64::MAX.into());
    Timestamp(i64::try_from(limited).unwrap_or_default())
}

/// Unix time of a session time, in nanoseconds.
fn unix_ns(start: SessionStart, at: Timestamp) -> i64 {
    let nanos = i128::from(start.unix_ns) + i128::from(at.0);
    let limited = nanos.clamp(i64::MIN.into(), i64::MAX.into());
    i64::try_from(limited).unwrap_or_default()
}

/// Checks that the graph runs on the real clock, as other programs do.
fn check_clock(endpoint: &Endpoint) -> Result<(), NodeError> {
    if endpoint.start == SessionStart::VIRTUAL {
        return Err(NodeError::Device {
            name: endpoint.router.clone(),
            reason: "ROS 2 needs the real clock; run the graph without `--virtual`".to_owned(),
        });
    }
    Ok(())
}

/// A subscribed topic.
pub(crate) struct TopicIn {
    subscriber: Subscriber,
    topic: String,
    message: String,
    start: SessionStart,
    time: TimeOf,
    seen: InboxFaults,
    faults: SourceFaults,
    /// Latest timestamp.
    last: Timestamp,
}

/// Faults that a source counts and logs.
#[derive(Default)]
struct SourceFaults {
    overflows: Faults,
    unattached: Faults,
    other_hashes: Faults,
    other_types: Faults,
    undecoded: Faults,
    backwards: Faults,
}

impl TopicIn {
    /// Subscribes to the topic of `endpoint`.
    pub(crate) fn open(endpoint: &Endpoint, time: TimeOf, cx: &OpenCx) -> Result<Self, NodeError> {
        check_clock(endpoint)?;
        Ok(Self {
            subscriber: Subscriber::open(endpoint, &cx.services)?,
            topic: endpoint.key.topic.clone(),
            message: endpoint.key.message.clone(),
            start: endpoint.start,
            time,
            seen: InboxFaults::default(),
            faults: SourceFaults::default(),
            last: Timestamp(i64::MIN),
        })
    }

    /// Waits a short time for the next message.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        let received = self.subscriber.receive(WAIT);
        let now = self.subscriber.faults();
        if now != self.seen {
            self.log(&now);
            self.seen = now;
        }
        Some(Message { received: received? })
    }

    /// Logs the faults since the last call.
    fn log(&mut self, now: &InboxFaults) {
        let Self { topic, message, seen, faults, .. } = self;
        faults.overflows.add(now.overflows - seen.overflows, topic, || {
            "a message was dropped, because the graph is slower than the topic; `depth` is the \
             number of messages that wait"
                .to_owned()
        });
        faults.unattached.add(now.unattached - seen.unattached, topic, || {
            "a message without a valid attachment was dropped; publish with `rmw_zenoh`".to_owned()
        });
        let ((new, hash), (before, _)) = (&now.other_hashes, &seen.other_hashes);
        faults.other_hashes.add(new - before, topic, || {
            format!("a message of another version of {message} was dropped: its hash is {hash}")
        });
        let ((new, ty), (before, _)) = (&now.other_types, &seen.other_types);
        faults.other_types.add(new - before, topic, || {
            format!("a publisher sends {ty}, which does not arrive: the node receives {message}")
        });
    }

    /// Session time of a time of the sender.
    pub(crate) fn session_time(&self, time: Time) -> Timestamp {
        timestamp(self.start, time.nanos())
    }

    /// Timestamp of a message that was decoded with the stamp `decoded`; `None` stands for a message
    /// without one. A message that could not be decoded is counted.
    pub(crate) fn accept(
        &mut self,
        cx: &Cx<'_>,
        message: &Message,
        decoded: Result<Option<Time>, Error>,
    ) -> Option<Timestamp> {
        let stamp = match decoded {
            // A stamp of zero was not set.
            Ok(stamp) => stamp.filter(|stamp| *stamp != Time::default()),
            Err(error) => {
                self.faults.undecoded.count(&self.topic, || format!("{error}; it was dropped"));
                return None;
            }
        };
        let at = match (self.time, stamp) {
            (TimeOf::Arrival, _) => cx.now(),
            (TimeOf::Sender, Some(stamp)) => timestamp(self.start, stamp.nanos()),
            (TimeOf::Sender, None) => timestamp(self.start, message.received.sent_unix_ns()),
        };
        if at < self.last {
            let by = self.last.since(at);
            self.faults.backwards.count(&self.topic, || {
                format!(
                    "a stamp goes back by {by:?}; `on_time_fault` of the node decides about it, and \
                     `time: arrival` ignores stamps"
                )
            });
        }
        self.last = at;
        Some(at)
    }
}

/// A message of a topic.
pub(crate) struct Message {
    received: Received,
}

impl Message {
    /// The encoded message.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        self.received.bytes()
    }
}

/// A published topic.
pub(crate) struct TopicOut {
    publisher: Publisher,
    start: SessionStart,
}

impl TopicOut {
    /// Announces a publisher of the topic of `endpoint`.
    pub(crate) fn open(endpoint: &Endpoint, cx: &OpenCx) -> Result<Self, NodeError> {
        check_clock(endpoint)?;
        let publisher = Publisher::open(endpoint, &cx.services)?;
        Ok(Self { publisher, start: endpoint.start })
    }

    /// Stamp of a session time.
    ///
    /// # Errors
    /// If the message has no such time.
    pub(crate) fn stamp(&self, at: Timestamp) -> Result<Time, NodeError> {
        Time::from_nanos(unix_ns(self.start, at)).ok_or_else(|| {
            NodeError::Payload(format!("the timestamp {at} is beyond the times of ROS 2"))
        })
    }

    /// Header with the timestamp of the packet of the call.
    ///
    /// # Errors
    /// As [`TopicOut::stamp`].
    pub(crate) fn header(&self, cx: &Cx<'_>, frame_id: &str) -> Result<Header, NodeError> {
        Ok(Header { stamp: self.stamp(cx.at())?, frame_id: frame_id.to_owned() })
    }

    /// Publishes `message`.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub(crate) fn publish<M: RosMessage + Serialize>(
        &mut self,
        cx: &Cx<'_>,
        message: &M,
    ) -> Result<(), NodeError> {
        let mut bytes = Vec::new();
        cdr::encode(message, &mut bytes).map_err(|error| NodeError::Payload(error.to_string()))?;
        self.publisher.send(bytes, unix_ns(self.start, cx.now()));
        Ok(())
    }
}

/// An error of a packet of the input `port`.
pub(crate) fn input_error(port: &'static str, error: impl ToString) -> NodeError {
    NodeError::InvalidInput { port: port.into(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_time_converts_to_unix_time_and_back() {
        let start = SessionStart { unix_ns: 1_700_000_000_000_000_000 };
        for (unix, at) in [
            (1_700_000_000_000_000_000, 0),
            (1_700_000_000_000_000_001, 1),
            (1_699_999_999_999_999_999, -1),
            (0, -1_700_000_000_000_000_000),
        ] {
            assert_eq!(timestamp(start, unix), Timestamp(at));
            assert_eq!(unix_ns(start, Timestamp(at)), unix);
        }
        assert_eq!(timestamp(start, i64::MIN), Timestamp(i64::MIN));
        assert_eq!(unix_ns(start, Timestamp(i64::MAX)), i64::MAX);
        assert_eq!(timestamp(SessionStart { unix_ns: u64::MAX }, 0), Timestamp(i64::MIN));
    }
}
