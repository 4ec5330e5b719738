//! Notification of the other end of an edge.

use std::sync::Arc;

use crate::sys::wake::Waker;

/// Wakes the other end of an edge.
pub(crate) enum Bell {
    /// A thread of this process.
    Thread(Arc<Waker>),
    /// A border, which carries packets to or from another process.
    Border(Box<dyn Fn() + Send + Sync>),
}

impl Bell {
    #[inline]
    pub(crate) fn ring(&self) {
        match self {
            Self::Thread(waker) => waker.ring(),
            Self::Border(tell) => tell(),
        }
    }
}

impl From<Arc<Waker>> for Bell {
    fn from(waker: Arc<Waker>) -> Self {
        Self::Thread(waker)
    }
}
