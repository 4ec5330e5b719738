//! State shared by the sources of a scenario and the observer of its run.
//!
//! On the virtual clock, time advances only when every thread is idle. A source that is called at a
//! given time therefore knows everything sent before that time, from any thread. It ignores packets
//! sent at exactly that time. Decisions depend on nothing else, so the order of calls has no
//! effect.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use afferent_engine::InterruptHandle;
use afferent_graph::{Packet, Timestamp};

use crate::{
    judge::{self, Verdict},
    spec::{Check, When},
    state::{Action, Event, Script, State},
};

/// State shared by the sources and the observer of a run. See the module documentation.
pub(crate) struct Stage {
    pub(crate) script: Script,
    state: Mutex<State>,
    /// Set as soon as the graph runs.
    pub(crate) interrupt: OnceLock<InterruptHandle>,
}

impl Stage {
    pub(crate) fn new(script: Script) -> Arc<Self> {
        let state = State {
            hits: vec![Vec::new(); script.patterns.len()],
            times: vec![None; script.turns.len()],
            ..State::default()
        };
        Arc::new(Self { script, state: Mutex::new(state), interrupt: OnceLock::new() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event, and keeps its packet if the stream is the echo.
    pub(crate) fn take(&self, event: Event, packet: &Packet) {
        let mut state = self.lock();
        if self.script.echo == Some(event.stream) && state.over.is_none() {
            state.echo_inbox.push((event.now, packet.clone()));
        }
        state.inbox.push(event);
    }

    /// Records an interrupt.
    pub(crate) fn note_interrupt(&self, now: Timestamp) {
        self.lock().note_interrupt(&self.script, now);
    }

    /// Processes everything sent before `now`: starts turns, and detects the end of the scenario.
    pub(crate) fn advance(&self, now: Timestamp) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.over.is_none() {
            state.drain(&self.script, Some(now));
            self.begin_turns(&mut state, now);
            let verdict = |check: &Check| judge::verdict(&self.script, &state, check, Some(now));
            let waits = |check: &Check| matches!(verdict(check).0, Verdict::Waiting);
            let ended = state.times.iter().all(|times| times.is_some_and(|(_, end)| end < now));
            let is_settled = ended && !self.script.checks.iter().any(waits);
            if is_settled {
                let since = *state.settled.get_or_insert(now);
                if now >= since + self.script.tail {
                    state.over = Some(now);
                }
            }
            if now >= Timestamp::ZERO + self.script.duration {
                state.over = Some(now);
            }
        }
        state
    }

    /// Processes the remaining events after the run has ended.
    pub(crate) fn close(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.over.is_none() {
            state.drain(&self.script, None);
        }
        state
    }

    /// All events, in order.
    pub(crate) fn events(&self) -> Vec<Event> {
        let state = self.lock();
        let mut all: Vec<_> = state.log.iter().chain(&state.inbox).cloned().collect();
        all.sort_by_key(Event::key);
        all
    }

    /// Sets start and end of the turns whose anchor is known.
    fn begin_turns(&self, state: &mut State, now: Timestamp) {
        // A sound can start within the block that is being produced. Other actions start at `now`
        // at the earliest.
        let heard = self.block_before(now);
        for (index, turn) in self.script.turns.iter().enumerate() {
            if state.times[index].is_some() {
                continue;
            }
            let begin = match turn.when {
                When::At(at) => Some(Timestamp::ZERO + at),
                When::After(anchor, delay) => state.time_of(anchor).map(|time| time + delay),
            };
            let Some(begin) = begin else { continue };
            let earliest = if matches!(turn.action, Action::Sound(_)) { heard } else { now };
            let begin = begin.max(earliest);
            state.times[index] = Some((begin, begin + turn.length));
        }
    }

    /// Start of the block that is produced at `now`, or that contains `now`.
    fn block_before(&self, now: Timestamp) -> Timestamp {
        let Script { rate, block, .. } = self.script;
        let samples = rate.samples(now.since(Timestamp(1)));
        Timestamp::ZERO + rate.duration(samples / block * block)
    }

    /// End of the first block that ends after `now`.
    pub(crate) fn block_after(&self, now: Timestamp) -> Timestamp {
        let Script { rate, block, .. } = self.script;
        let samples = rate.samples(now.since(Timestamp::ZERO));
        let end = |blocks: usize| Timestamp::ZERO + rate.duration(blocks * block);
        let blocks = samples / block + 1;
        if end(blocks) > now { end(blocks) } else { end(blocks + 1) }
    }
}
