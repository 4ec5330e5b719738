//! Publishers, which put from a thread of their own.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use afferent_graph::{NodeError, Services};
use zenoh::{
    Wait,
    qos::{CongestionControl, Reliability as ZenohReliability},
};

use super::{
    CLOSE_LIMIT,
    session::{Held, Session, Sessions, Tokens},
};
use crate::{
    Attachment, Reliability, endpoint::Endpoint, faults::Faults, liveliness::EndpointKind,
};

/// A publisher of a topic.
pub(crate) struct Publisher {
    queue: Arc<Queue>,
    topic: String,
    depth: usize,
    /// Number of the last message.
    sequence: i64,
    overflows: Faults,
}

/// Messages between a node and the thread that puts them.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Rung at every change of the state.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Outgoing>,
    /// True if no message follows.
    is_closed: bool,
    /// True if the thread has put every message and ended its part of the session.
    is_done: bool,
}

struct Outgoing {
    bytes: Vec<u8>,
    sequence: i64,
    sent_unix_ns: i64,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next message; `None` after the last one.
    fn next(&self) -> Option<Outgoing> {
        let mut state = self.lock();
        loop {
            match state.messages.pop_front() {
                None if !state.is_closed => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                next => return next,
            }
        }
    }
}

impl Publisher {
    /// Announces a publisher and starts its thread.
    pub(crate) fn open(endpoint: &Endpoint, services: &Services) -> Result<Self, NodeError> {
        let held = Held::new(Sessions::session(services, endpoint)?);
        let session = held.session();
        let is_reliable = endpoint.qos.reliability == Reliability::Reliable;
        let (reliability, congestion) = if is_reliable {
            (ZenohReliability::Reliable, CongestionControl::Block)
        } else {
            (ZenohReliability::BestEffort, CongestionControl::Drop)
        };
        let publisher = session
            .zenoh
            .declare_publisher(endpoint.key.publish())
            .reliability(reliability)
            .congestion_control(congestion)
            .express(true)
            .wait()
            .map_err(|error| session.error(error))?;
        let tokens = session.announce(endpoint, EndpointKind::Publisher)?;
        let (queue, topic) = (Arc::new(Queue::default()), endpoint.key.topic.clone());
        let put = Put {
            queue: queue.clone(),
            topic: topic.clone(),
            publisher,
            tokens,
            lost: Faults::default(),
            session: session.clone(),
        };
        let thread = thread::Builder::new().name(format!("ros2 {topic}")).spawn(|| put.run());
        thread.map_err(|error| session.error(error))?;
        drop(held.release());
        Ok(Self { queue, topic, depth: endpoint.depth, sequence: 0, overflows: Faults::default() })
    }

    /// Queues a message that is sent at `sent_unix_ns`. The oldest one is dropped if too many wait.
    pub(crate) fn send(&mut self, bytes: Vec<u8>, sent_unix_ns: i64) {
        self.sequence += 1;
        let message = Outgoing { bytes, sequence: self.sequence, sent_unix_ns };
        let mut state = self.queue.lock();
        let overflow = state.messages.len() >= self.depth;
        // The memory of the dropped message is freed after the lock is.
        let dropped = if overflow { state.messages.pop_front() } else { None };
        state.messages.push_back(message);
        drop(state);
        self.queue.changed.notify_all();
        if dropped.is_some() {
            let depth = self.depth;
            self.overflows.count(&self.topic, || {
                format!("a message was dropped, because {depth} wait for the zenoh router")
            });
        }
    }
}

impl Drop for Publisher {
    /// Waits for the queued messages, for a limited time.
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.is_closed = true;
        self.queue.changed.notify_all();
        let wait = |state| {
            self.queue
                .changed
                .wait_timeout_while(state, CLOSE_LIMIT, |state: &mut State| !state.is_done)
        };
        let (state, _) = wait(state).unwrap_or_else(PoisonError::into_inner);
        if !state.messages.is_empty() {
            let left = state.messages.len();
            tracing::warn!("{}: {left} messages were not sent before the end", self.topic);
        }
    }
}

/// Work of the thread of a publisher. Fields are dropped in their order, the session last.
struct Put {
    queue: Arc<Queue>,
    topic: String,
    publisher: zenoh::pubsub::Publisher<'static>,
    tokens: Tokens,
    lost: Faults,
    session: Arc<Session>,
}

impl Put {
    fn run(mut self) {
        let queue = self.queue.clone();
        let gid = self.tokens.endpoint.gid();
        while let Some(message) = queue.next() {
            self.put(message, gid);
        }
        drop(self);
        queue.lock().is_done = true;
        queue.changed.notify_all();
    }

    fn put(&mut self, message: Outgoing, gid: [u8; 16]) {
        if !self.session.is_connected() {
            self.lost.count(&self.topic, || {
                "a message was dropped, because the zenoh router is not connected".to_owned()
            });
            return;
        }
        let Outgoing { bytes, sequence, sent_unix_ns } = message;
        let attachment = Attachment { sequence, source_timestamp_ns: sent_unix_ns, gid };
        let put = self.publisher.put(bytes).attachment(attachment.to_bytes());
        if let Err(error) = put.wait() {
            self.lost.count(&self.topic, || format!("a message was not sent: {error}"));
        }
    }
}
