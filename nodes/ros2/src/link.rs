//! Connections to a zenoh router: publishers and subscribers of `rmw_zenoh`.
//!
//! A callback of zenoh only enqueues. A publisher puts from a thread of its own, so that a router
//! that is slow or away holds up no node. Closing can block, so it happens beside the thread of the
//! node, which waits for a limited time.

use std::{sync::mpsc, thread, time::Duration};

mod publisher;
mod session;
mod subscriber;

pub(crate) use publisher::Publisher;
pub use session::Sessions;
pub(crate) use subscriber::{Received, Subscriber};

use afferent_graph::NodeError;

use crate::endpoint::Endpoint;

/// Checks that this build has connections.
pub(crate) fn check(_: &Endpoint) -> Result<(), NodeError> {
    Ok(())
}

/// Time that a node waits for the end of its connection.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Runs `close` in a thread of its own and waits for its end, at most [`CLOSE_LIMIT`].
fn close_aside(close: impl FnOnce() + Send + 'static) {
    let (done, closed) = mpsc::channel::<()>();
    let run = move || {
        close();
        drop(done);
    };
    if thread::Builder::new().name("ros2 close".to_owned()).spawn(run).is_ok() {
        // An error is the end of the thread or of the time.
        let _ = closed.recv_timeout(CLOSE_LIMIT);
    }
}

/// An error of the connection to `router`.
fn link_error(router: &str, reason: impl ToString) -> NodeError {
    NodeError::Device { name: router.to_owned(), reason: reason.to_string() }
}
