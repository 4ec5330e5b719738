//! Virtual time. It advances only when every thread sleeps, so none passes while work is left.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use afferent_graph::Timestamp;

use crate::{
    InterruptHandle,
    sys::{
        threading::{AtomicI64, Mutex, MutexGuard},
        wake::Waker,
    },
};

/// Threads of a run on the virtual clock, and their common time.
///
/// When all threads sleep and no wake is pending, the state of the run is the same whatever order
/// the threads ran in. Then one thing happens: an interrupt takes effect; or the node that holds
/// back the earliest packet may take it; or time advances to the next source.
pub(crate) struct Lockstep {
    now: AtomicI64,
    /// Time does not advance past this.
    end: Option<Timestamp>,
    groups: Mutex<Vec<State>>,
    wakers: Vec<Arc<Waker>>,
    interrupt: InterruptHandle,
}

/// State of a sleeping thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sleep {
    /// Time at which its next source is due.
    pub(crate) due: Option<Timestamp>,
    /// Earliest packet that waits for a secondary input: its timestamp, and the index of the node.
    pub(crate) held: Option<(Timestamp, usize)>,
    /// Earliest packet that waits for packets of later timestamps.
    pub(crate) stuck: Option<(Timestamp, usize)>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Runs,
    Sleeps(Sleep),
    /// The node may take the packet that it holds back.
    Granted(usize),
    Left,
}

impl Lockstep {
    pub(crate) fn new(
        wakers: Vec<Arc<Waker>>,
        interrupt: InterruptHandle,
        end: Option<Timestamp>,
    ) -> Self {
        let groups = Mutex::new(vec![State::Runs; wakers.len()]);
        Self { now: AtomicI64::new(0), end, groups, wakers, interrupt }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Acquire))
    }

    /// Sleeps until there is work, at most for `at_most`. Returns the node that may take the packet
    /// it holds back.
    pub(crate) fn sleep(
        &self,
        group: usize,
        why: Sleep,
        at_most: Option<Duration>,
    ) -> Option<usize> {
        self.set(group, State::Sleeps(why));
        self.wakers[group].sleep(at_most);
        // The wake is still pending here, so no other thread considers this one asleep.
        let mut groups = self.lock();
        let granted = match groups[group] {
            State::Granted(node) => Some(node),
            _ => None,
        };
        groups[group] = State::Runs;
        granted
    }

    /// The thread has no nodes left.
    pub(crate) fn leave(&self, group: usize) {
        self.set(group, State::Left);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, group: usize, state: State) {
        let mut groups = self.lock();
        groups[group] = state;
        let busy = |state: &State| matches!(state, State::Runs | State::Granted(_));
        // A thread wakes others before it falls asleep itself, so every pending wake is visible
        // here.
        if !groups.iter().any(busy) && !groups.iter().zip(&self.wakers).any(rings) {
            self.go_on(&mut groups);
        }
    }

    fn go_on(&self, groups: &mut [State]) {
        if self.interrupt.begin_pending() && groups.iter().zip(&self.wakers).any(rings) {
            return;
        }
        let asleep = |(group, state): (usize, &State)| match state {
            State::Sleeps(sleep) => Some((group, *sleep)),
            _ => None,
        };
        let asleep = || groups.iter().enumerate().filter_map(asleep);
        let held = asleep().filter_map(|(group, sleep)| Some((sleep.held?, group))).min();
        let due = asleep().filter_map(|(_, sleep)| sleep.due).min();
        let stuck = || asleep().filter_map(|(group, sleep)| Some((sleep.stuck?, group))).min();
        // A packet that needs later timestamps waits as long as time can advance.
        let grant = held.or_else(|| if due.is_none() { stuck() } else { None });
        if let Some(((_, node), group)) = grant {
            groups[group] = State::Granted(node);
            self.wakers[group].ring();
            return;
        }
        let Some(due) = due else { return };
        let now = self.end.map_or(due, |end| due.min(end));
        self.now.store(now.0, Ordering::Release);
        for (group, sleep) in asleep() {
            // At the end of time, every source is called once more.
            if sleep.due.is_some_and(|due| due <= now || self.end == Some(now)) {
                self.wakers[group].ring();
            }
        }
    }
}

/// True if a thread that has not left has work.
fn rings((state, waker): (&State, &Arc<Waker>)) -> bool {
    !matches!(state, State::Left) && waker.rings()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (Lockstep, Vec<Arc<Waker>>) {
        let wakers = vec![Arc::new(Waker::default()), Arc::new(Waker::default())];
        let interrupt = InterruptHandle::default();
        (Lockstep::new(wakers.clone(), interrupt, Some(Timestamp(100))), wakers)
    }

    fn due(at: i64) -> State {
        State::Sleeps(Sleep { due: Some(Timestamp(at)), ..Sleep::default() })
    }

    fn rings(wakers: &[Arc<Waker>]) -> [bool; 2] {
        [wakers[0].rings(), wakers[1].rings()]
    }

    #[test]
    fn time_jumps_to_the_earliest_source_when_all_sleep() {
        let (lockstep, wakers) = two();
        lockstep.set(0, due(30));
        assert_eq!(lockstep.now(), Timestamp(0), "the other still runs");
        lockstep.set(1, due(20));
        assert_eq!((lockstep.now(), rings(&wakers)), (Timestamp(20), [false, true]));
    }

    #[test]
    fn a_ringing_alarm_holds_time() {
        let (lockstep, wakers) = two();
        lockstep.set(0, due(30));
        wakers[0].ring();
        lockstep.set(1, due(20));
        assert_eq!(lockstep.now(), Timestamp(0));
    }

    #[test]
    fn a_held_packet_goes_before_time() {
        let (lockstep, wakers) = two();
        let held = Some((Timestamp(5), 7));
        lockstep.set(0, State::Sleeps(Sleep { held, ..Sleep::default() }));
        lockstep.set(1, due(20));
        assert_eq!((lockstep.now(), rings(&wakers)), (Timestamp(0), [true, false]));
        assert!(matches!(lockstep.lock()[0], State::Granted(7)));
    }

    #[test]
    fn a_wait_for_later_times_ends_when_there_are_none() {
        let (lockstep, wakers) = two();
        let waits = State::Sleeps(Sleep { stuck: Some((Timestamp(5), 7)), ..Sleep::default() });
        lockstep.set(0, waits);
        lockstep.set(1, due(20));
        assert_eq!((lockstep.now(), rings(&wakers)), (Timestamp(20), [false, true]));
        assert!(wakers[1].answer());
        lockstep.set(1, State::Left);
        assert!(matches!(lockstep.lock()[0], State::Granted(7)));
    }

    #[test]
    fn time_stops_at_its_end_and_every_source_hears_of_it() {
        let (lockstep, wakers) = two();
        lockstep.set(0, due(300));
        lockstep.set(1, due(200));
        assert_eq!((lockstep.now(), rings(&wakers)), (Timestamp(100), [true, true]));
    }
}
