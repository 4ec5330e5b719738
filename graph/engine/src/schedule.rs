//! How the operating system runs the thread of a node.

use std::time::Duration;

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// On which thread a node runs, and how that thread is scheduled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Nodes with the same word share a thread. Without one the planner decides; a node with one
    /// of the settings below gets a thread of its own.
    pub thread: Option<String>,
    /// The processor that the thread stays on, from zero.
    pub cpu: Option<usize>,
    /// Real-time priority, 1 to 99: the thread runs before all that have a lower one or none, until
    /// it sleeps.
    pub priority: Option<u8>,
    /// How long the thread looks for work before it sleeps. Waking it takes tens of microseconds;
    /// looking takes all of a processor.
    pub spin: Option<Duration>,
}

impl Schedule {
    /// Whether the node needs a thread of its own.
    pub(crate) fn is_special(&self) -> bool {
        let Self { thread, cpu, priority, spin } = self;
        thread.is_none() && (cpu.is_some() || priority.is_some() || spin.is_some())
    }

    /// The settings of a thread with nodes of these.
    pub(crate) fn merged<'s>(schedules: impl Iterator<Item = &'s Self>) -> Self {
        schedules.fold(Self::default(), |merged, other| Self {
            thread: merged.thread.or_else(|| other.thread.clone()),
            cpu: merged.cpu.or(other.cpu),
            priority: merged.priority.or(other.priority),
            spin: merged.spin.or(other.spin),
        })
    }

    /// The first setting that a node of the same thread wants otherwise.
    pub(crate) fn conflict(&self, other: &Self) -> Option<&'static str> {
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

    /// Schedules the calling thread, which is that of the node `name`, so. Says what this machine
    /// does not allow; the thread then runs as others do.
    pub(crate) fn apply(&self, name: &str) -> Vec<String> {
        let mut refused = Vec::new();
        if let Some(cpu) = self.cpu {
            let known = core_affinity::get_core_ids().unwrap_or_default();
            match known.iter().find(|core| core.id == cpu) {
                Some(core) if core_affinity::set_for_current(*core) => {}
                Some(_) => refused.push(format!("node {name}: the system refuses \"cpu: {cpu}\"")),
                None => {
                    let ids: Vec<_> = known.iter().map(|core| core.id.to_string()).collect();
                    let ids = ids.join(", ");
                    refused.push(format!(
                        "node {name}: there is no processor {cpu} for \"cpu\"; this machine lets \
                         the process use {ids}"
                    ));
                }
            }
        }
        if let Some(priority) = self.priority
            && let Err(error) = set_priority(priority)
        {
            refused.push(format!(
                "node {name}: \"priority: {priority}\" is not allowed ({error}); the thread runs \
                 without. On Linux, `ulimit -r {priority}` or CAP_SYS_NICE allows it"
            ));
        }
        refused
    }
}

fn set_priority(priority: u8) -> Result<(), String> {
    let value = ThreadPriorityValue::try_from(priority)?;
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let set = set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Crossplatform(value),
        policy,
    );
    set.map_err(|error| format!("{error:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_lacks_is_named() {
        let schedule = Schedule { cpu: Some(4096), ..Schedule::default() };
        let refused = schedule.apply("eye");
        assert!(refused[0].starts_with("node eye: there is no processor 4096"), "{refused:?}");
        assert!(Schedule::default().apply("eye").is_empty());
    }

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
