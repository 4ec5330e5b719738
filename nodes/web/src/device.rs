//! A device in a browser: the connection between a node and the client that offers it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use afferent_web::{Received, Socket};
use serde_json::{Value, json};

/// Messages that may wait in a direction.
const CAPACITY: usize = 256;

/// Time between two looks for what is to be sent to a client.
const POLL: Duration = Duration::from_millis(5);

/// Kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Camera,
    Microphone,
    Speaker,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Camera => "camera",
            Self::Microphone => "microphone",
            Self::Speaker => "speaker",
        }
    }
}

/// A device that a page may offer.
pub(crate) struct Device {
    kind: Kind,
    /// Settings for the page.
    settings: Value,
    /// Queue of the messages of the client.
    inbox: SyncSender<Vec<u8>>,
    lost: AtomicU64,
    client: Mutex<Client>,
}

/// The present client.
#[derive(Default)]
struct Client {
    /// Number of clients so far; a later one takes the device over.
    number: u64,
    outbox: Option<SyncSender<Vec<u8>>>,
}

impl Device {
    /// A device, and what its client will send.
    pub(crate) fn new(kind: Kind, settings: Value) -> (Arc<Self>, Receiver<Vec<u8>>) {
        let (inbox, arrivals) = sync_channel(CAPACITY);
        let (lost, client) = (AtomicU64::new(0), Mutex::default());
        (Arc::new(Self { kind, settings, inbox, lost, client }), arrivals)
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Description for the page.
    pub(crate) fn describe(&self, name: &str) -> Value {
        json!({"name": name, "kind": self.kind.name(), "settings": self.settings})
    }

    /// True if a page offers the device.
    pub(crate) fn is_connected(&self) -> bool {
        self.client().outbox.is_some()
    }

    /// Messages of the client that the node did not take in time.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sends `bytes` to the client. Returns false if there is none, or if it does not read.
    pub(crate) fn send(&self, bytes: Vec<u8>) -> bool {
        self.client().outbox.as_ref().is_some_and(|outbox| outbox.try_send(bytes).is_ok())
    }

    /// Serves a client, which takes the device over, until it leaves.
    pub(crate) fn talk(&self, mut socket: Socket, stops: &AtomicBool) {
        let (outbox, waiting) = sync_channel(CAPACITY);
        let number = {
            let mut client = self.client();
            client.number += 1;
            client.outbox = Some(outbox);
            client.number
        };
        let reason = loop {
            if stops.load(Ordering::Acquire) {
                break "the graph has ended";
            }
            if self.client().number != number {
                break "another page has taken the device over";
            }
            if self.send_waiting(&waiting, &mut socket).is_err() {
                break "the page has gone";
            }
            match socket.receive(POLL) {
                Ok(Some(Received::Bytes(bytes))) => match self.inbox.try_send(bytes) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_)) => {
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(TrySendError::Disconnected(_)) => break "the node has ended",
                },
                Ok(_) => {}
                Err(_) => break "the page has gone",
            }
        };
        let mut client = self.client();
        if client.number == number {
            client.outbox = None;
        }
        drop(client);
        socket.close(reason);
    }

    fn send_waiting(&self, waiting: &Receiver<Vec<u8>>, socket: &mut Socket) -> Result<(), ()> {
        loop {
            match waiting.recv_timeout(Duration::ZERO) {
                Ok(bytes) => socket.send_bytes(bytes).map_err(drop)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}
