//! Scheduling of a thread by the operating system.

use afferent_spec::Schedule;
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Schedules the calling thread, which runs the node `name`. Returns the settings that this machine
/// refuses; the thread then runs without them.
pub(crate) fn apply(schedule: &Schedule, name: &str) -> Vec<String> {
    let mut refused = Vec::new();
    if let Some(cpu) = schedule.cpu {
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
    if let Some(priority) = schedule.priority
        && let Err(error) = set_priority(priority)
    {
        refused.push(format!(
            "node {name}: \"priority: {priority}\" is not allowed ({error}); the thread runs \
             without. On Linux, `ulimit -r {priority}` or CAP_SYS_NICE allows it"
        ));
    }
    refused
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

/// Priority of threads beside the graph, from 0 to 99; others have about 50. On Linux, it is a niceness of 9.
const LOW: u8 = 25;

/// Lets other threads run before the calling one when the processors are busy: for work beside the graph,
/// such as showing it.
pub fn lower_priority() {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    if let Ok(value) = ThreadPriorityValue::try_from(LOW) {
        let low = ThreadPriority::Crossplatform(value);
        // A system that refuses shares its processors evenly.
        let _ = set_thread_priority_and_policy(thread_native_id(), low, policy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_lacks_is_named() {
        let schedule = Schedule { cpu: Some(4096), ..Schedule::default() };
        let refused = apply(&schedule, "eye");
        assert!(refused[0].starts_with("node eye: there is no processor 4096"), "{refused:?}");
        assert!(apply(&Schedule::default(), "eye").is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn work_beside_the_graph_is_nice() {
        let nice = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Fields after the name of the thread begin with the third.
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            fields.split(' ').nth(16).unwrap().parse::<i32>().unwrap()
        };
        let thread = std::thread::spawn(move || {
            let before = nice();
            lower_priority();
            nice() - before
        });
        assert_eq!(thread.join().unwrap(), 9);
    }
}
