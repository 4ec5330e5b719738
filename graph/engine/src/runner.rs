//! One node of a running graph: its calls, what it sent, and its figures.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
    time::Duration,
};

use afferent_graph::{Cx, DynNode, Header, NodeError, Packet, Pool, Resume, Timestamp};

use crate::{
    CallSpan, Degrade, Failure, FailureKind, Handled, JoinCounts, OnError, OnTimeFault,
    budget::Mark,
    clock::Moment,
    edge::{Inlet, Outlet},
    join::{Join, NEVER, Verdict},
    metrics::NodeStats,
    queue::Taken,
    shared::Shared,
    stopwatch::Stopwatch,
    supervision::Restarts,
    wire::Opener,
};

/// What every call and every look of another node needs stands together, so that a hop touches few
/// lines of the cache.
#[repr(C)]
pub(crate) struct Runner {
    pub(crate) phase: Phase,
    pub(crate) is_source: bool,
    /// Whether nobody receives what it sends.
    pub(crate) is_sink: bool,
    /// Whether who joins its packets wants to know when there are none.
    pub(crate) tells: bool,
    /// It may take what it holds back, once.
    pub(crate) granted: bool,
    /// What becomes of packets that go back in time.
    pub(crate) on_time_fault: OnTimeFault,
    /// The last epoch that it has heard of; zero when it cannot be cancelled.
    pub(crate) epoch: u32,
    /// How often a stream of it began anew because of its times.
    pub(crate) rewinds: u32,
    /// In the nodes of the graph.
    pub(crate) place: usize,
    /// How many edges have taken the last packet of the outbox.
    pub(crate) taken_by: usize,
    /// `None` while it is down.
    pub(crate) node: Option<Box<dyn DynNode>>,
    /// What the last call sent and not everybody has yet: output and packet, the first one last.
    pub(crate) outbox: Vec<(usize, Packet)>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    /// For each output the memory of its values.
    pub(crate) pools: Vec<(&'static str, Pool)>,
    /// Present when it joins its inputs.
    pub(crate) join: Option<Box<Join>>,
    /// When it is to be opened again.
    pub(crate) down: Option<Timestamp>,
    /// What a source asked for.
    pub(crate) resume: Resume,
    /// Nothing earlier than this follows on outputs that are in step, and receivers know that
    /// nothing earlier than the other follows.
    pub(crate) bound: Timestamp,
    pub(crate) told: Timestamp,
    /// Header of the last packet, which what `finish` sends descends from.
    pub(crate) origin: Header,
    pub(crate) on_error: OnError,
    pub(crate) deadline: Option<Duration>,
    pub(crate) stats: NodeStats,
    /// The earliest packet that waits for a companion, on the virtual clock.
    pub(crate) held: Option<Timestamp>,
    /// When a source was last called, counted in calls of sources.
    pub(crate) turn: u64,
    pub(crate) restarts: Restarts,
    pub(crate) name: String,
    pub(crate) opener: Opener,
}

/// An input stream.
pub(crate) struct Input {
    pub(crate) port: &'static str,
    /// Name of the node that sends.
    pub(crate) from: String,
    /// Place in the edges of the graph.
    pub(crate) edge: usize,
    pub(crate) inlet: Inlet,
    /// Whether only so many of its packets may be under way behind it.
    pub(crate) limited: bool,
    /// How often the sender of the last packet had been restarted.
    pub(crate) restarts: u32,
    /// Budgets that are measured here.
    pub(crate) marks: Vec<Mark>,
}

/// An output stream.
pub(crate) struct Output {
    pub(crate) port: &'static str,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) next: u64,
    /// Time of the last packet. Nothing earlier may follow; several events may have one time.
    pub(crate) last_at: Timestamp,
    /// Whether its packets interrupt the graph.
    pub(crate) interrupts: bool,
    /// Whether receivers want to know when it has nothing to say.
    pub(crate) tells: bool,
    /// The last packet, when it stands in for results of a call that fails.
    pub(crate) last: Option<Packet>,
    /// Budgets that are measured here.
    pub(crate) marks: Vec<Mark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// It is not called any more, but what it sent is not delivered yet.
    Finishing,
    Ended,
}

/// What a call is for.
pub(crate) enum Call {
    Source,
    /// For a packet, by the input at this place.
    Packet(usize, Packet),
    Cancel,
    Finish,
}

impl Runner {
    /// Calls the node; afterwards what it sent is in the outbox, which was empty before.
    ///
    /// # Errors
    /// When the node returned an error, panicked, or was too slow; nothing is done about it yet.
    pub(crate) fn call(
        &mut self,
        shared: &Shared,
        group: usize,
        start: Moment,
        stopwatch: &mut Stopwatch,
        call: Call,
    ) -> Result<Moment, (Moment, Failure)> {
        let process = match call {
            Call::Source | Call::Packet(..) => DynNode::process,
            Call::Cancel => DynNode::cancel,
            Call::Finish => DynNode::finish,
        };
        let is_work = matches!(call, Call::Source | Call::Packet(..));
        let (mut source, mut restarted, mut is_packet) = ("", false, false);
        let input = match call {
            Call::Packet(input, packet) => {
                let input = &mut self.inputs[input];
                self.origin = packet.header;
                restarted =
                    mem::replace(&mut input.restarts, self.origin.restarts) != self.origin.restarts;
                let Header { trace, .. } = self.origin;
                input.marks.iter().for_each(|mark| mark.pass(trace, start.real_ns));
                source = &input.from;
                is_packet = true;
                Some((input.port, packet))
            }
            Call::Finish if !self.is_source && self.stats.packets_in > 0 => None,
            Call::Source | Call::Cancel | Call::Finish => {
                let (epoch, entered_ns) = (self.epoch, start.real_ns);
                self.origin = Header { at: start.now, epoch, entered_ns, ..Header::default() };
                None
            }
        };
        let port = input.as_ref().map(|(port, _)| *port);
        let Some(node) = self.node.as_deref_mut() else { return Ok(start) };
        shared.calling[group].store(self.place, Ordering::Relaxed);
        let mut cx = Cx::new(start.now, input, self.origin, &self.pools, &mut self.outbox)
            .with_source(source)
            .with_restarted(restarted)
            .with_joined(self.join.as_ref().filter(|_| is_packet).map_or(&[], |join| &join.joined))
            .with_real_ns(start.real_ns)
            .with_cancel(shared.interrupt.flag(self.place));
        let result = catch_unwind(AssertUnwindSafe(|| process(node, &mut cx)));
        let (resume, model_ns) = (cx.resume(), cx.model_ns());
        drop(cx);
        let end = shared.clock.read(stopwatch);
        self.resume = resume;
        let busy_ns = end.real_ns - start.real_ns;
        let latency_ns = is_packet.then(|| end.real_ns.saturating_sub(self.origin.entered_ns));
        self.stats.count_call(busy_ns, model_ns, latency_ns);
        if let (true, Some(latency_ns), Some(source)) =
            (self.is_sink, latency_ns, source_of(self.origin.trace))
        {
            self.stats.count_path(source, latency_ns);
        }
        let obsolete = self.is_behind(shared);
        let mut failure = self.judge(result, obsolete, busy_ns);
        if is_work && self.on_error != OnError::Stop {
            self.degrade(failure.is_some());
        }
        if obsolete {
            self.stats.cancelled += self.outbox.len() as u64;
            self.outbox.clear();
        }
        self.stamp(shared, end);
        if !shared.observers.is_empty() {
            let sent = self.outbox.last().filter(|_| self.is_source);
            let span = CallSpan {
                node: &self.name,
                thread: group,
                input: port,
                trace: sent.map_or(self.origin.trace, |(_, packet)| packet.header.trace),
                real_ns: (start.real_ns, end.real_ns),
                model_ns,
            };
            shared.observers.iter().for_each(|observer| observer.called(&span));
        }
        if self.tells && is_packet {
            self.bound = self.bound.max(Timestamp(self.origin.at.0.saturating_add(1)));
        }
        match failure.take() {
            None => Ok(end),
            Some(failure) => Err((end, failure)),
        }
    }

    /// Whether it may have something to do before something new comes: what it sent, or what waits.
    pub(crate) fn has_more(&self) -> bool {
        let idle = match self.inputs.as_slice() {
            [] => self.is_source && self.resume != Resume::Done,
            [Input { inlet: Inlet::Near { queue, .. }, .. }] => queue.is_idle(),
            _ => false,
        };
        !idle || !self.outbox.is_empty() || self.phase != Phase::Running || self.tells
    }

    /// Whether it can be called at once with a packet of its only input; if so, counts the packet.
    pub(crate) fn accepts(&mut self, now: Timestamp, packet: &Packet) -> bool {
        let [Input { inlet: Inlet::Near { queue, .. }, .. }] = self.inputs.as_mut_slice() else {
            return false;
        };
        self.phase == Phase::Running
            && self.outbox.is_empty()
            && self.down.is_none()
            && self.join.is_none()
            && queue.pass(now, packet)
    }

    /// What is wrong with a call that ended with `result` and took `busy_ns`.
    fn judge(
        &mut self,
        result: Result<Result<(), NodeError>, Box<dyn Any + Send>>,
        obsolete: bool,
        busy_ns: u64,
    ) -> Option<Failure> {
        let busy = Duration::from_nanos(busy_ns);
        let (kind, message) = match (result, self.deadline) {
            (Err(panic), _) => (FailureKind::Panic, panic_text(&*panic).to_owned()),
            (Ok(Err(error)), _) if obsolete && error.is_cancelled() => return None,
            (Ok(Err(error)), _) => (FailureKind::Error, error.to_string()),
            (Ok(Ok(())), Some(deadline)) if busy > deadline => {
                self.stats.overruns += 1;
                (FailureKind::Late, format!("a call took {busy:.1?}, its deadline is {deadline:?}"))
            }
            (Ok(Ok(())), _) => return None,
        };
        self.stats.errors += 1;
        self.stats.last_error = Some(message.clone());
        Some(Failure { node: self.name.clone(), kind, message, handled: Handled::Stopped })
    }

    /// Of a node that degrades: replaces what a call that `failed` has sent; keeps what others
    /// sent, where it is to stand in later.
    fn degrade(&mut self, failed: bool) {
        let OnError::Degrade(policy) = self.on_error else { return };
        // A source has no packet whose time the value before could take.
        let keeps = policy == Degrade::Last && !self.is_source;
        if !failed {
            for (output, packet) in self.outbox.iter().filter(|_| keeps) {
                let mut last = packet.clone();
                last.flight = None;
                self.outputs[*output].last = Some(last);
            }
            return;
        }
        self.stats.degraded += 1;
        self.outbox.clear();
        for (place, output) in self.outputs.iter().enumerate() {
            if let Some(mut packet) = output.last.clone() {
                packet.header = self.origin;
                self.outbox.push((place, packet));
            }
        }
    }

    /// What is done about a failure of a call at `now`; `last` when no other call would follow.
    pub(crate) fn handle(&mut self, now: Timestamp, last: bool) -> Handled {
        match self.on_error {
            OnError::Degrade(_) => Handled::Degraded,
            OnError::Restart(policy) if !last => match self.restarts.next(policy, now) {
                Some(at) => {
                    self.down = Some(at);
                    Handled::Restarted
                }
                None => Handled::Stopped,
            },
            OnError::Restart(_) | OnError::Stop => Handled::Stopped,
        }
    }

    /// Whether there was an interrupt that concerns the node and that it has not heard of.
    pub(crate) fn is_behind(&self, shared: &Shared) -> bool {
        self.epoch != 0 && self.epoch != shared.interrupt.epoch()
    }

    /// Completes the headers of what was sent, and drops what is older than its stream.
    #[inline]
    fn stamp(&mut self, shared: &Shared, sent: Moment) {
        let mut outbox = mem::take(&mut self.outbox);
        let mut interrupts = false;
        match outbox.as_mut_slice() {
            [] => {}
            [(output, packet)] => {
                if !self.stamp_one(shared, sent, *output, packet, &mut interrupts) {
                    outbox.clear();
                }
            }
            _ => {
                outbox.retain_mut(|(output, packet)| {
                    self.stamp_one(shared, sent, *output, packet, &mut interrupts)
                });
                outbox.reverse();
            }
        }
        self.outbox = outbox;
        if interrupts {
            shared.interrupt.interrupt();
        }
    }

    /// Completes the header of one packet; whether it can be sent.
    #[inline]
    fn stamp_one(
        &mut self,
        shared: &Shared,
        sent: Moment,
        output: usize,
        packet: &mut Packet,
        interrupts: &mut bool,
    ) -> bool {
        let (output, stats) = (&mut self.outputs[output], &mut self.stats);
        let header = &mut packet.header;
        if header.at < output.last_at {
            stats.timestamp_faults += 1;
            match self.on_time_fault {
                OnTimeFault::Drop => return false,
                OnTimeFault::Clamp => header.at = output.last_at,
                OnTimeFault::Restart => self.rewinds += 1,
            }
        }
        output.last_at = header.at;
        header.sequence = output.next;
        let restarts = u32::try_from(stats.restarts).unwrap_or(u32::MAX);
        header.restarts = restarts.wrapping_add(self.rewinds);
        output.next += 1;
        if self.is_source {
            // The same in every run: no counter is shared between threads.
            header.trace = trace(self.place, stats.packets_out);
            header.entered_ns = sent.real_ns;
            stats.count_media(header.at);
        }
        stats.packets_out += 1;
        *interrupts |= output.interrupts;
        output.marks.iter().for_each(|mark| mark.pass(header.trace, sent.real_ns));
        for observer in &shared.observers {
            observer.sent(&self.name, output.port, sent.now, packet);
        }
        true
    }

    /// The next packet, and the input that it came in by: the one with the smallest time stamp.
    ///
    /// With `patient`, a packet is held back while an input is empty that has not ended.
    /// `freed` gets the senders in this group that can go on.
    pub(crate) fn take_input(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
    ) -> Taken<(usize, Packet)> {
        let epoch = self.epoch;
        if self.is_source {
            return if self.resume == Resume::Done { Taken::Over } else { Taken::Empty };
        }
        if self.join.is_some() {
            return self.take_joined(now, patient, freed);
        }
        loop {
            let choice = match self.inputs.len() {
                1 => Taken::Next(0),
                _ => self.choose_input(now, patient, &mut freed),
            };
            let choice = match choice {
                Taken::Next(choice) => choice,
                Taken::Empty => return Taken::Empty,
                Taken::Over => return Taken::Over,
            };
            let input = &mut self.inputs[choice];
            let (taken, sender) = input.inlet.take(now, epoch);
            sender.map(&mut freed);
            match taken {
                Taken::Next(packet) => return Taken::Next((choice, packet)),
                Taken::Empty if self.inputs.len() == 1 => return Taken::Empty,
                Taken::Over if self.inputs.len() == 1 => return Taken::Over,
                // The packet was replaced meanwhile.
                Taken::Empty | Taken::Over => {}
            }
        }
    }

    fn choose_input(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
    ) -> Taken<usize> {
        let epoch = self.epoch;
        let (mut earliest, mut missing) = (None, false);
        for (place, input) in self.inputs.iter_mut().enumerate() {
            let (head, sender) = input.inlet.head(now, epoch);
            sender.map(&mut freed);
            match head {
                Taken::Next(at) if earliest.is_none_or(|(other, _)| at < other) => {
                    earliest = Some((at, place));
                }
                Taken::Empty => missing = true,
                Taken::Next(_) | Taken::Over => {}
            }
        }
        self.held = None;
        match earliest {
            Some((at, _)) if patient && missing && !mem::take(&mut self.granted) => {
                self.held = Some(at);
                Taken::Empty
            }
            Some((_, place)) => {
                self.granted = false;
                Taken::Next(place)
            }
            None if missing => Taken::Empty,
            None => Taken::Over,
        }
    }

    /// The next packet of the leading stream that can go on; what accompanies it is in the join.
    fn take_joined(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
    ) -> Taken<(usize, Packet)> {
        let Self { join, inputs, epoch, granted, held, .. } = self;
        let Some(join) = join.as_deref_mut() else { return Taken::Empty };
        *held = None;
        join.stuck = false;
        loop {
            for companion in &mut join.companions {
                let inlet = &mut inputs[companion.input].inlet;
                loop {
                    let (taken, sender) = inlet.take(now, *epoch);
                    sender.map(&mut freed);
                    match taken {
                        Taken::Next(mut packet) => {
                            packet.flight = None;
                            companion.push(packet);
                        }
                        Taken::Empty => break companion.bound = inlet.outlook().0,
                        Taken::Over => break companion.bound = NEVER,
                    }
                }
            }
            let inlet = &mut inputs[join.lead].inlet;
            let mut over = false;
            while join.waiting.len() < join.room && !over {
                let (taken, sender) = inlet.take(now, *epoch);
                sender.map(&mut freed);
                match taken {
                    Taken::Next(packet) => join.waiting.push_back((packet, now)),
                    Taken::Empty => break,
                    Taken::Over => over = true,
                }
            }
            let is_full = join.waiting.len() >= join.room;
            let Some((packet, since)) = join.waiting.pop_front() else {
                return if over { Taken::Over } else { Taken::Empty };
            };
            let forced = mem::take(granted) || (!patient && is_full);
            match join.judge(&packet.header, now, since, forced, !patient) {
                Verdict::Call => return Taken::Next((join.lead, packet)),
                Verdict::Drop => {}
                verdict => {
                    let at = packet.header.at;
                    join.waiting.push_front((packet, since));
                    // What they wait for may have to be let in first.
                    join.waiting.iter_mut().for_each(|(packet, _)| packet.flight = None);
                    // Time may pass for what needs later packets, and not for what is on its way.
                    join.stuck = patient && verdict == Verdict::Wait;
                    *held = (patient && verdict == Verdict::Settle).then_some(at);
                    return Taken::Empty;
                }
            }
        }
    }

    /// The leading packet that waits for packets of later times.
    pub(crate) fn stuck(&self) -> Option<(Timestamp, usize)> {
        let join = self.join.as_ref().filter(|join| join.stuck)?;
        join.waiting.front().map(|(packet, _)| (packet.header.at, self.place))
    }

    /// What became of the packets of the stream at `edge` of the graph, if it is joined.
    pub(crate) fn join_counts(&self, edge: usize) -> Option<JoinCounts> {
        let join = self.join.as_ref()?;
        let place = self.inputs.iter().position(|input| input.edge == edge)?;
        let companion = join.companions.iter().find(|companion| companion.input == place);
        Some(companion.map_or(join.counts, |companion| companion.counts))
    }

    /// When a source wants to be called, or a node that is down is to be opened again; `None`
    /// while it cannot be.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        if self.down.is_some() && self.phase == Phase::Running {
            return self.down;
        }
        if let Some(due) = self.join.as_ref().and_then(|join| join.due) {
            return Some(due).filter(|_| self.phase == Phase::Running && self.outbox.is_empty());
        }
        let callable = self.is_source && self.phase == Phase::Running && self.outbox.is_empty();
        match self.resume {
            _ if !callable => None,
            Resume::Now => Some(now),
            Resume::At(at) => Some(at),
            Resume::Done => None,
        }
    }
}

/// The trace of the packet `number` of the source at `place`: in the upper 16 bits which source.
fn trace(place: usize, number: u64) -> u64 {
    (place as u64 + 1) << 48 | number
}

/// The place of the source that a trace begins at.
fn source_of(trace: u64) -> Option<usize> {
    usize::try_from(trace >> 48).ok()?.checked_sub(1)
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
