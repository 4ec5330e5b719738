//! Counted faults, logged with a limited rate.

/// Faults of one kind.
#[derive(Debug, Default)]
pub(crate) struct Faults(u64);

impl Faults {
    /// Counts a fault and logs it as a warning the first time, the second, the fourth, and so on.
    pub(crate) fn count(&mut self, topic: &str, event: impl FnOnce() -> String) {
        self.add(1, topic, event);
    }

    /// Counts `new` faults.
    pub(crate) fn add(&mut self, new: u64, topic: &str, event: impl FnOnce() -> String) {
        if self.is_due(new) {
            tracing::warn!("{topic}: {} ({} times so far)", event(), self.0);
        }
    }

    /// Counts `new` faults; true if the number has more binary digits than before.
    fn is_due(&mut self, new: u64) -> bool {
        let before = self.0;
        self.0 += new;
        self.0.checked_ilog2() != before.checked_ilog2()
    }
}

/// Messages that a subscriber refused so far, by reason, and publishers of other types.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct InboxFaults {
    /// Messages that were dropped because the queue was full.
    pub(crate) overflows: u64,
    /// Messages without a valid attachment.
    pub(crate) unattached: u64,
    /// Messages with another version of the type, and the hash of the last one.
    pub(crate) other_hashes: (u64, String),
    /// Publishers of the topic with another type, and the type of the last one.
    pub(crate) other_types: (u64, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_logged_at_powers_of_two() {
        let mut faults = Faults::default();
        let logged: Vec<u64> = (1..=9).filter(|_| faults.is_due(1)).collect();
        assert_eq!(logged, [1, 2, 4, 8]);
        assert!(faults.is_due(20) && !faults.is_due(0));
        assert_eq!(faults.0, 29);
    }
}
