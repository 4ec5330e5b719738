//! Start of the session in civil time.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Service, Timestamp};

/// Service with the time at which the session clock is zero. Nodes that need the civil time of a
/// packet or a call use it, so that a run on the virtual clock gives the same results every time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionStart {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub unix_ns: u64,
}

impl Service for SessionStart {
    const NAME: &'static str = "the start of the session";
    const HINT: &'static str = "add `SessionStart` with `OpenCx::with_service`";
}

impl SessionStart {
    /// Start of a session on the virtual clock: 2000-01-01 12:00 UTC.
    pub const VIRTUAL: Self = Self { unix_ns: 946_728_000_000_000_000 };

    /// The current time.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// Nanoseconds since 1970 at session time `at`.
    pub fn unix_ns(&self, at: Timestamp) -> u64 {
        self.unix_ns.saturating_add_signed(at.0)
    }
}
