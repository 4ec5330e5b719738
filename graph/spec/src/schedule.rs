//! Thread of a node, and its scheduling by the operating system.

use std::time::Duration;

/// Thread of a node, and its scheduling by the operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Nodes with the same word share a thread. Without one the planner decides; a node with one of
    /// the settings below gets its own thread.
    pub thread: Option<String>,
    /// Processor that the thread is pinned to, from zero.
    pub cpu: Option<usize>,
    /// Real-time priority (SCHED_FIFO), 1 to 99: the thread runs ahead of threads with a lower
    /// priority or none, until it sleeps.
    pub priority: Option<u8>,
    /// Time to spin for work before sleeping. Waking takes tens of microseconds; spinning occupies
    /// a processor.
    pub spin: Option<Duration>,
}

impl Schedule {
    /// True if the node needs its own thread.
    pub fn is_special(&self) -> bool {
        let Self { thread, cpu, priority, spin } = self;
        thread.is_none() && (cpu.is_some() || priority.is_some() || spin.is_some())
    }

    /// Settings of a thread that runs nodes with these schedules.
    pub fn merged<'s>(schedules: impl Iterator<Item = &'s Self>) -> Self {
        schedules.fold(Self::default(), |merged, other| Self {
            thread: merged.thread.or_else(|| other.thread.clone()),
            cpu: merged.cpu.or(other.cpu),
            priority: merged.priority.or(other.priority),
            spin: merged.spin.or(other.spin),
        })
    }

    /// First setting in which a node of the same thread differs.
    pub fn conflict(&self, other: &Self) -> Option<&'static str> {
        fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            one.is_some() && other.is_some() && one != other
        }
        let conflicts = [
            ("cpu", differ(&self.cpu, &other.cpu)),
            ("priority", differ(&self.priority, &other.priority)),
            ("spin", differ(&self.spin, &other.spin)),
        ];
        conflicts.into_iter().find(|(_, differ)| *differ).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_one_thread_agree_or_not() {
        let cpu = |cpu| Schedule { cpu: Some(cpu), ..Schedule::default() };
        let spin = Schedule { spin: Some(Duration::from_micros(50)), ..Schedule::default() };
        assert_eq!(cpu(0).conflict(&cpu(1)), Some("cpu"));
        assert_eq!(cpu(0).conflict(&spin), None);
        let merged = Schedule::merged([&cpu(1), &spin].into_iter());
        assert_eq!((merged.cpu, merged.spin), (Some(1), spin.spin));
    }
}
