//! Start of the session over processes and machines, and its clock.

use std::{
    collections::BTreeMap,
    sync::MutexGuard,
    time::{Duration, Instant},
};

use super::{Progress, Transport};
use crate::{
    clock::{instant, monotonic_ns},
    control::Control,
    remote::{ClockOffset, SessionInfo},
    shape,
};

/// Time that the processes and machines of a graph have to open their nodes.
const OPEN_TIMEOUT: Duration = Duration::from_secs(120);

/// Time that a machine that cannot start waits until the others know.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time after which a process says what it waits for.
const SAY_AFTER: Duration = Duration::from_secs(1);

impl Transport {
    /// Waits until the other machines can be reached, and agrees with them on the session; `unix_ns`
    /// is the civil time of a session that starts now. Returns the start of the session, in
    /// nanoseconds since the UNIX epoch. To be called after the links to other machines were added,
    /// and before the session is opened.
    ///
    /// # Errors
    /// The machines that cannot be reached.
    pub fn agree(&self, unix_ns: u64) -> Result<u64, String> {
        let machines = self.machines();
        if machines.is_empty() || !self.is_main() {
            return Ok(unix_ns);
        }
        let missing = |progress: &Progress| -> Vec<usize> {
            machines.iter().copied().filter(|one| !progress.greeted.contains_key(one)).collect()
        };
        let is_agreed = |progress: &Progress| {
            progress.failed.is_some()
                || running(&progress.greeted).is_some()
                || match self.here {
                    0 => missing(progress).is_empty(),
                    _ => progress.greeted.get(&0).is_some_and(Option::is_some),
                }
        };
        let waits = |progress: &Progress| match missing(progress).as_slice() {
            [] => format!("machine {}", self.name(0)),
            missing => self.names("machine", missing),
        };
        let progress = self.wait_aloud(&is_agreed, &waits)?;
        let found = running(&progress.greeted);
        let found = found.or(progress.greeted.get(&0).copied().flatten());
        let has_started = false;
        let session = found.filter(|session| self.here != 0 || session.has_started);
        let unix_ns = session.map_or(unix_ns, |session| session.unix_ns);
        drop(progress);
        self.progress().session = Some(SessionInfo { unix_ns, has_started });
        self.announce();
        Ok(unix_ns)
    }

    /// Tells the other machines of the session.
    pub(super) fn announce(&self) {
        let session = self.progress().session;
        let Some(session) = session else { return };
        for machine in self.machines() {
            if let Some(found) = self.connection_to(machine) {
                found.link.announce(session);
            }
        }
    }

    /// Starts the session together with the other processes and machines; returns its start.
    pub(super) fn begin_together(&self) -> Result<Instant, String> {
        let own = if self.is_main() { self.own_partitions() } else { Vec::new() };
        self.await_open(&own)?;
        self.tell(|progress| progress.is_open = true);
        let machines = self.machines();
        let told = if self.is_main() { machines.clone() } else { self.own_partitions() };
        told.iter().for_each(|other| self.send_open(*other));
        if self.here == 0 {
            self.await_open(&machines)?;
        }
        // A machine that comes late joins a session that another one has started.
        let is_first = self.here == 0 && self.progress().go.is_none();
        let start_ns = if is_first { monotonic_ns() } else { self.await_go()? };
        let epoch = {
            let mut progress = self.progress();
            (progress.start_ns, progress.epoch) = (Some(start_ns), progress.epoch.max(1));
            if let Some(session) = &mut progress.session {
                session.has_started = true;
            }
            progress.epoch
        };
        self.changed.notify_all();
        self.announce();
        own.iter().for_each(|partition| self.start(*partition, start_ns, epoch));
        if is_first {
            let go = Control::Go { start_ns, epoch };
            machines.iter().for_each(|machine| self.send_control(*machine, &go));
        }
        Ok(instant(start_ns))
    }

    /// Tells the other machines that this one cannot take part, and waits until they know.
    pub fn abort(&self, reason: &str) {
        if !self.is_main() {
            return;
        }
        let machines = self.machines();
        let reason = format!("machine {} cannot start: {reason}", self.name(self.here));
        for machine in &machines {
            let refused = Control::Refused { reason: reason.clone() };
            self.send_control(*machine, &refused);
        }
        let found = machines.iter().filter_map(|machine| self.connection_to(*machine));
        for found in found {
            found.link.drain(ABORT_TIMEOUT);
        }
    }

    /// Waits until the nodes of `partitions` are open, or the session runs already.
    pub(super) fn await_open(&self, partitions: &[usize]) -> Result<(), String> {
        let missing = |progress: &Progress| -> Vec<usize> {
            partitions.iter().copied().filter(|one| !progress.open.contains(one)).collect()
        };
        let is_open = |progress: &Progress| {
            progress.failed.is_some() || progress.go.is_some() || missing(progress).is_empty()
        };
        let waits = |progress: &Progress| {
            format!("the nodes of {}", self.names("process", &missing(progress)))
        };
        drop(self.wait_aloud(&is_open, &waits)?);
        Ok(())
    }

    /// Waits until another process has started the session; returns its start by the monotonic clock
    /// of this machine.
    pub(super) fn await_go(&self) -> Result<i64, String> {
        let start = |progress: &Progress| {
            let (from, start_ns) = progress.go?;
            if self.main_of(from) == self.main_of(self.here) {
                return Some(start_ns);
            }
            let clock = progress.clocks.get(&from)?;
            Some(start_ns.saturating_sub(clock.offset_ns))
        };
        let has_started =
            |progress: &Progress| progress.failed.is_some() || start(progress).is_some();
        let waits = |_: &Progress| format!("the start of the session by {}", self.name(0));
        let progress = self.wait_aloud(&has_started, &waits)?;
        start(&progress).ok_or_else(|| "the session did not start".to_owned())
    }

    /// Waits until `done`, at most for [`OPEN_TIMEOUT`]; says what it waits for, by `waits`.
    fn wait_aloud(
        &self,
        done: &dyn Fn(&Progress) -> bool,
        waits: &dyn Fn(&Progress) -> String,
    ) -> Result<MutexGuard<'_, Progress>, String> {
        let start = Instant::now();
        let mut progress = self.wait(start + SAY_AFTER, done);
        if !done(&progress) {
            tracing::info!("waiting for {}", waits(&progress));
            drop(progress);
            progress = self.wait(start + OPEN_TIMEOUT, done);
        }
        if let Some(reason) = &progress.failed {
            return Err(reason.clone());
        }
        match done(&progress) {
            true => Ok(progress),
            false => Err(format!("waited {OPEN_TIMEOUT:?} for {}", waits(&progress))),
        }
    }

    fn names(&self, kind: &str, partitions: &[usize]) -> String {
        let names: Vec<_> = partitions.iter().map(|one| self.name(*one)).collect();
        format!("{kind} {}", names.join(", "))
    }

    pub(super) fn send_open(&self, to: usize) {
        self.send_control(to, &Control::Open { shape: shape::of(&self.graph) });
    }

    /// The nodes of a process are open, or all those of another machine.
    pub(super) fn opened(&self, partition: usize, found: &[String]) {
        let own = shape::of(&self.graph);
        let (start_ns, epoch) = {
            let progress = self.progress();
            (progress.start_ns, progress.epoch)
        };
        if let Some(difference) = shape::difference(&own, found) {
            let name = self.name(partition);
            let reason = format!("{name} runs another graph: {difference}");
            let here = self.name(self.here);
            let told = shape::difference(found, &own).unwrap_or_default();
            let refused = format!("{here} runs another graph: {told}");
            self.send_control(partition, &Control::Refused { reason: refused });
            match start_ns {
                Some(_) => tracing::error!("{reason}; it cannot take part"),
                None => self.tell(|progress| {
                    progress.failed.get_or_insert(reason);
                }),
            }
            return;
        }
        self.tell(|progress| {
            progress.open.insert(partition);
            progress.ended.remove(&partition);
        });
        // A process or a machine that was started again joins the session.
        let Some(start_ns) = self.session_start().or(start_ns) else { return };
        let epoch = self.edges.get().map_or(epoch, |edges| edges.interrupt.epoch());
        if self.main_of(partition) == self.main_of(self.here) {
            return self.start(partition, start_ns, epoch);
        }
        self.send_control(partition, &Control::Go { start_ns, epoch });
        if self.edges.get().is_some() {
            self.send_control(partition, &Control::Ready);
        }
    }

    /// Start of the session by the monotonic clock of this machine.
    pub(super) fn session_start(&self) -> Option<i64> {
        let edges = self.edges.get()?;
        let now = edges.clock.now();
        Some(monotonic_ns() - now.0)
    }

    /// A reading of the clock of another machine, with the start of its session by that clock. The
    /// session clock of a machine follows that of the first one.
    pub(super) fn clock_read(&self, machine: usize, clock: ClockOffset, start_ns: Option<i64>) {
        self.tell(|progress| {
            progress.clocks.insert(machine, clock);
        });
        let Some(start_ns) = start_ns.filter(|_| machine == 0) else { return };
        let start_ns = start_ns.saturating_sub(clock.offset_ns);
        if let Some(own) = self.session_start() {
            self.tell(|progress| progress.clock_lag_ns = own.abs_diff(start_ns));
        }
        self.follow(start_ns);
        if let Some(start_ns) = self.session_start() {
            self.tell_processes(&Control::Clock { start_ns });
        }
    }

    /// Last reading of the clock of another machine.
    pub fn clock_of(&self, machine: usize) -> Option<ClockOffset> {
        self.progress().clocks.get(&machine).copied()
    }

    /// Largest difference of the session clock of this machine from that of the first one, in
    /// nanoseconds, once it is known.
    pub(super) fn clock_bound(&self) -> Option<u64> {
        let progress = self.progress();
        let clock = progress.clocks.get(&0).filter(|_| self.is_main())?;
        Some(clock.bound_ns.saturating_add(progress.clock_lag_ns))
    }

    /// The session clock is to agree with one that started at `start_ns` of the monotonic clock.
    pub(super) fn follow(&self, start_ns: i64) {
        if let (Some(edges), Some(own)) = (self.edges.get(), self.session_start()) {
            edges.clock.slew(own.saturating_sub(start_ns));
        }
    }
}

/// Session of a machine where it has started.
fn running(greeted: &BTreeMap<usize, Option<SessionInfo>>) -> Option<SessionInfo> {
    greeted.values().flatten().copied().find(|session| session.has_started)
}
