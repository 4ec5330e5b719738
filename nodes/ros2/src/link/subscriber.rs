//! Subscribers: callbacks that enqueue, and the queue that a node reads.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use afferent_graph::{NodeError, Services};
use zenoh::{
    Wait,
    bytes::ZBytes,
    pubsub::Subscriber as ZenohSubscriber,
    sample::{Sample, SampleKind},
};

use super::{
    close_aside,
    session::{Held, Session, Sessions, Tokens},
};
use crate::{
    Attachment,
    endpoint::Endpoint,
    faults::InboxFaults,
    key::{NO_TYPE_HASH, TopicKey},
    liveliness::{EndpointKind, Token, publishers_of},
};

/// A message as it arrived.
pub(crate) struct Received {
    payload: ZBytes,
    sent_unix_ns: i64,
}

impl Received {
    /// The encoded message.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        self.payload.to_bytes()
    }

    /// Time of sending, in nanoseconds of Unix time.
    pub(crate) fn sent_unix_ns(&self) -> i64 {
        self.sent_unix_ns
    }
}

/// A subscriber of a topic.
pub(crate) struct Subscriber {
    inbox: Arc<Inbox>,
    connection: Option<Connection>,
}

/// Declarations of a subscriber. They are dropped in their order, the session last.
struct Connection {
    _messages: ZenohSubscriber<()>,
    _publishers: ZenohSubscriber<()>,
    _tokens: Tokens,
    _session: Arc<Session>,
}

/// Messages between the callback and the node.
struct Inbox {
    key: TopicKey,
    depth: usize,
    state: Mutex<State>,
    /// Rung when a message arrives.
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Received>,
    faults: InboxFaults,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message from a callback.
    fn push(&self, sample: &Sample) {
        if sample.kind() != SampleKind::Put {
            return;
        }
        let hash = sample.key_expr().as_str().rsplit('/').next().unwrap_or_default();
        let attachment = sample.attachment().map(ZBytes::to_bytes);
        let attachment = attachment.and_then(|bytes| Attachment::from_bytes(&bytes).ok());
        let mut state = self.lock();
        if hash != self.key.type_hash && hash != NO_TYPE_HASH {
            let (count, last) = &mut state.faults.other_hashes;
            *count += 1;
            hash.clone_into(last);
            return;
        }
        let Some(attachment) = attachment else {
            state.faults.unattached += 1;
            return;
        };
        let overflow = state.messages.len() >= self.depth;
        // The memory of the dropped message is freed after the lock is.
        let dropped = if overflow { state.messages.pop_front() } else { None };
        state.faults.overflows += u64::from(overflow);
        let (payload, sent_unix_ns) = (sample.payload().clone(), attachment.source_timestamp_ns);
        state.messages.push_back(Received { payload, sent_unix_ns });
        drop(state);
        self.arrived.notify_one();
        drop(dropped);
    }

    /// Takes the token of a publisher of the topic from a callback.
    fn discover(&self, sample: &Sample) {
        let token = Token::parse(sample.key_expr().as_str());
        let (SampleKind::Put, Ok(Token::Endpoint(publisher))) = (sample.kind(), token) else {
            return;
        };
        if publisher.message != self.key.message {
            let mut state = self.lock();
            let (count, last) = &mut state.faults.other_types;
            *count += 1;
            *last = publisher.message;
        }
    }
}

impl Subscriber {
    /// Subscribes to the topic and announces the subscriber.
    pub(crate) fn open(endpoint: &Endpoint, services: &Services) -> Result<Self, NodeError> {
        let held = Held::new(Sessions::session(services, endpoint)?);
        let session = held.session();
        let inbox = Arc::new(Inbox {
            key: endpoint.key.clone(),
            depth: endpoint.depth,
            state: Mutex::default(),
            arrived: Condvar::new(),
        });
        let (push, discover) = (inbox.clone(), inbox.clone());
        let messages = session
            .zenoh
            .declare_subscriber(endpoint.key.subscribe())
            .callback(move |sample| push.push(&sample))
            .wait()
            .map_err(|error| session.error(error))?;
        let publishers = session
            .zenoh
            .liveliness()
            .declare_subscriber(publishers_of(endpoint.key.domain, &endpoint.key.topic))
            .history(true)
            .callback(move |sample| discover.discover(&sample))
            .wait()
            .map_err(|error| session.error(error))?;
        let tokens = session.announce(endpoint, EndpointKind::Subscriber)?;
        let connection = Connection {
            _messages: messages,
            _publishers: publishers,
            _tokens: tokens,
            _session: held.release(),
        };
        Ok(Self { inbox, connection: Some(connection) })
    }

    /// Waits for the next message, at most for `limit`.
    pub(crate) fn receive(&self, limit: Duration) -> Option<Received> {
        let state = self.inbox.lock();
        let wait =
            self.inbox.arrived.wait_timeout_while(state, limit, |state| state.messages.is_empty());
        let (mut state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        state.messages.pop_front()
    }

    /// Faults so far.
    pub(crate) fn faults(&self) -> InboxFaults {
        self.inbox.lock().faults.clone()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            close_aside(move || drop(connection));
        }
    }
}
