//! One node of a running graph: its calls, what it sent, and its figures.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
    time::Duration,
};

use afferent_graph::{
    CallInfo, CallRequest, Cx, DynNode, Header, NodeContext, NodeError, Outbox, Packet, Resume,
    Timestamp,
};

use crate::{
    CallSpan, Failure, FailureKind, Handled, JoinCounts,
    clock::{
        Moment, Watch,
        generation::{self, Bound},
    },
    edge::{
        Inlet, Outlet,
        port::{Input, Output},
        queue::Taken,
        timeline::{Made, stamp_all},
    },
    metrics::{NodeStats, histogram::is_sampled},
    run::state::Shared,
    scheduler::opener::{Opener, panic_text},
    supervision::Restarts,
    sync::{Join, NEVER, Verdict},
};
use afferent_spec::{Degrade, OnError, OnTimeFault};

/// What every call and every look of another node needs stands together, so that a hop touches few
/// lines of the cache.
#[repr(C)]
pub(crate) struct Runner {
    pub(crate) phase: Phase,
    pub(crate) is_source: bool,
    /// Whether it may ask for calls without a packet: it is a source, or says so.
    pub(crate) is_timed: bool,
    /// Whether nobody receives what it sends.
    pub(crate) is_sink: bool,
    /// Whether a call concerns others than those who receive what it sends: who cancels it, who
    /// looks on, who wants to know how far it has come; or itself, because it degrades.
    pub(crate) is_watched: bool,
    /// Whether who joins its packets wants to know when there are none.
    pub(crate) tells: bool,
    /// Whether it has not told yet how far it has come.
    pub(crate) has_news: bool,
    /// Whether what it sends may go to another thread at once: there is nobody who could make it
    /// obsolete.
    pub(crate) sends_far: bool,
    /// It may take what it holds back, once.
    pub(crate) granted: bool,
    /// What becomes of packets that go back in time.
    pub(crate) on_time_fault: OnTimeFault,
    /// The last epoch that it has heard of; zero when it cannot be cancelled.
    pub(crate) epoch: u32,
    /// How often its streams began anew because of their times.
    pub(crate) rewinds: u32,
    /// In the nodes of the graph.
    pub(crate) node_index: usize,
    /// In its group: the only receiver, where what it sends reaches it by a lane.
    pub(crate) lane: Option<usize>,
    /// How many edges have taken the first packet of the outbox.
    pub(crate) taken_by: usize,
    /// `None` while it is down.
    pub(crate) node: Option<Box<dyn DynNode>>,
    /// What the last call sent and not everybody has yet.
    pub(crate) outbox: Outbox,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    /// Present when it joins its inputs.
    pub(crate) join: Option<Box<Join>>,
    /// When it is to be opened again.
    pub(crate) down: Option<Timestamp>,
    /// When it is called before it takes another packet.
    pub(crate) resume: Resume,
    /// When it is called while packets go on.
    pub(crate) wake: Option<Timestamp>,
    /// What is sure of what follows on outputs that are in step.
    pub(crate) bound: Bound,
    /// What its calls see; the origin is the header of the last packet, which what `finish` sends
    /// descends from.
    pub(crate) context: NodeContext,
    pub(crate) on_error: OnError,
    /// How long a call may take.
    pub(crate) deadline_ns: u64,
    pub(crate) stats: NodeStats,
    /// The earliest packet that waits for a companion, on the virtual clock.
    pub(crate) held: Option<Timestamp>,
    /// When a source was last called, counted in calls of sources.
    pub(crate) turn: u64,
    pub(crate) restarts: Restarts,
    pub(crate) name: String,
    pub(crate) opener: Opener,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// It is not called any more, but what it sent is not delivered yet.
    Finishing,
    Ended,
}

/// What a call is for.
pub(crate) enum Call<'p> {
    /// Because it is time.
    Due,
    /// For a packet, by the input at this place. Of the packet only the header is needed after it.
    Packet(usize, &'p mut Packet),
    Cancel,
    Finish,
}

/// What a node is called with.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    Process,
    Cancel,
    Finish,
}

/// How a call ended.
pub(crate) type Ended = Result<Option<Box<NodeError>>, Box<dyn Any + Send>>;

/// Packets of one call for which a node has room from the start.
pub(crate) const SLOTS: usize = 16;

impl Runner {
    /// Calls the node; afterwards what it sent is in the outbox, which was empty before.
    ///
    /// # Errors
    /// When the node returned an error, panicked, or was too slow; nothing is done about it yet.
    pub(crate) fn call(
        &mut self,
        shared: &Shared,
        watch: &mut Watch,
        call: Call<'_>,
    ) -> Result<(), Box<Failure>> {
        let method = match call {
            Call::Packet(input, packet) => return self.call_with(shared, watch, input, packet),
            Call::Due => Method::Process,
            Call::Cancel => Method::Cancel,
            Call::Finish => Method::Finish,
        };
        let start = watch.moment;
        let follows = !self.is_source && self.stats.packets_in() > 0;
        if !follows || matches!(call, Call::Cancel) {
            let (epoch, entered_ns) = (self.epoch, start.real_ns);
            self.context.origin = Header { at: start.now, epoch, entered_ns, ..Header::default() };
        } else if matches!(call, Call::Due) && self.resume == Resume::Done {
            // What is said of a packet by and by has its time, what waited for a time has that.
            self.context.origin.at = self.context.origin.at.max(start.now);
        }
        self.invoke(shared, watch, method, None)
    }

    /// Calls the node with a packet that came by the input at this place.
    ///
    /// # Errors
    /// As [`Runner::call`].
    #[inline]
    pub(crate) fn call_with(
        &mut self,
        shared: &Shared,
        watch: &mut Watch,
        input: usize,
        packet: &mut Packet,
    ) -> Result<(), Box<Failure>> {
        self.invoke(shared, watch, Method::Process, Some((input, packet)))
    }

    /// A call on its own: the protocol of every call, with clock, supervision and figures around it.
    #[inline(always)]
    fn invoke(
        &mut self,
        shared: &Shared,
        watch: &mut Watch,
        method: Method,
        input: Option<(usize, &mut Packet)>,
    ) -> Result<(), Box<Failure>> {
        let (start, node_index) = (watch.moment, input.as_ref().map(|(node_index, _)| *node_index));
        let mut before = None;
        if let Some((node_index, packet)) = &input {
            let input = &self.inputs[*node_index];
            // What a node says when it is time does not descend from what came back, unless it still
            // has something to say of that.
            before = input.feedback.then_some(self.context.origin);
            input.marks.iter().for_each(|mark| mark.pass(packet.header.trace, start.real_ns));
            if let Some(join) = self.join.as_deref_mut() {
                join.mark(&self.inputs, start.real_ns);
                mem::swap(&mut self.context.joined, &mut join.joined);
            }
        }
        let leads = self.join.is_some() || self.inputs.len() == 1;
        let (from, packet) = input.unzip();
        let Self { node, inputs, outputs, rewinds, context, outbox, node_index: number, .. } = self;
        let input = from.and_then(|from| inputs.get_mut(from));
        let number = *number;
        let done = node.as_deref_mut().map(|node| {
            let site = Site { node, input, outputs, rewinds, context, number };
            call(site, watch, packet, leads, outbox, |node, cx| {
                catch_unwind(AssertUnwindSafe(|| {
                    let result = match method {
                        Method::Process => node.process(cx),
                        Method::Cancel => node.cancel(cx),
                        Method::Finish => node.finish(cx),
                    };
                    result.map_err(Box::new).err()
                }))
            })
        });
        if let Some(join) = self.join.as_deref_mut().filter(|_| node_index.is_some()) {
            mem::swap(&mut self.context.joined, &mut join.joined);
        }
        let Some((ended, asked, model_ns)) = done else { return Ok(()) };
        if self.is_timed {
            self.resume = asked.resume.unwrap_or(self.first_resume());
            self.wake = asked.wake.or(self.wake);
            // What it says next of the same packet has had that, too.
            self.context.origin.model_ns += model_ns;
        }
        let end = watch.read(&shared.clock);
        let busy_ns = end.real_ns - start.real_ns;
        let mut failure = None;
        if self.is_watched || busy_ns > self.deadline_ns || !matches!(ended, Ok(None)) {
            failure = self.judge(shared, method, ended, busy_ns);
        }
        self.stamp(end, watch.is_virtual);
        if self.is_watched {
            self.show(shared, watch.thread, node_index, (start, end), model_ns);
        }
        if self.sends_far {
            self.send_far();
        }
        self.stats.count_call(busy_ns, model_ns);
        if let Some(node_index) = node_index {
            let Header { at, trace, entered_ns, .. } = self.context.origin;
            let is_sampled = is_sampled(trace);
            self.inputs[node_index].count_age(start.now, at, is_sampled);
            self.count_packet(is_sampled, end.real_ns.saturating_sub(entered_ns));
        }
        if let Some(origin) = before.filter(|_| self.resume == Resume::Done) {
            self.context.origin = origin;
        }
        match failure {
            None => Ok(()),
            Some(failure) => Err(failure),
        }
    }

    /// What it asks for before it was called, and when it does not say.
    pub(crate) fn first_resume(&self) -> Resume {
        if self.is_source { Resume::Now } else { Resume::Done }
    }

    /// Hands the only packet that was sent to another thread, which wakes while this one counts
    /// the call.
    pub(crate) fn send_far(&mut self) {
        let Some((output, packet)) = self.outbox.only() else { return };
        let [Outlet::Far(edge)] = self.outputs[output].outlets.as_slice() else { return };
        if edge.offer(packet) {
            self.outbox.drop_only();
        }
    }

    /// Counts the packet of a call that ended `latency_ns` after its trace began.
    #[inline]
    pub(crate) fn count_packet(&mut self, is_sampled: bool, latency_ns: u64) {
        self.stats.count_packet(is_sampled, latency_ns);
        self.count_path(latency_ns);
    }

    /// The same for the way of the packet, if it ends here.
    #[inline]
    pub(crate) fn count_path(&mut self, latency_ns: u64) {
        if self.is_sink
            && let Some(source) = generation::source_of(self.context.origin.trace)
        {
            self.stats.count_path(source, latency_ns);
        }
    }

    /// Whether it may have something to do before something new comes: what it sent, or what waits.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        let idle = match self.inputs.as_slice() {
            [] => self.is_source && self.resume != Resume::Done,
            [Input { inlet: Inlet::Near { queue, .. }, .. }] => queue.is_idle(),
            _ => false,
        };
        !idle || !self.outbox.is_empty() || self.phase != Phase::Running || self.tells
    }

    /// Whether it can be called at once with a packet of its only input; if so, counts the packet.
    #[inline]
    pub(crate) fn accepts(&mut self) -> bool {
        let [Input { inlet: Inlet::Near { queue, .. }, .. }] = self.inputs.as_mut_slice() else {
            return false;
        };
        self.phase == Phase::Running
            && self.outbox.is_empty()
            && self.down.is_none()
            && self.join.is_none()
            && self.resume == Resume::Done
            && queue.pass()
    }

    /// What is wrong with a call that `ended` so and took `busy_ns`, and what that means for what
    /// it sent.
    #[cold]
    pub(crate) fn judge(
        &mut self,
        shared: &Shared,
        method: Method,
        ended: Ended,
        busy_ns: u64,
    ) -> Option<Box<Failure>> {
        let obsolete = self.is_behind(shared);
        let failure = match ended {
            Err(panic) => Some((FailureKind::Panic, panic_text(&*panic).to_owned())),
            Ok(Some(error)) if obsolete && error.is_cancelled() => None,
            Ok(Some(error)) => Some((FailureKind::Error, error.to_string())),
            Ok(None) if busy_ns > self.deadline_ns => {
                self.stats.overruns += 1;
                let [busy, deadline] = [busy_ns, self.deadline_ns].map(Duration::from_nanos);
                let text = format!("a call took {busy:.1?}, its deadline is {deadline:?}");
                Some((FailureKind::Late, text))
            }
            Ok(None) => None,
        };
        if self.on_error != OnError::Stop && matches!(method, Method::Process) {
            self.degrade(failure.is_some());
        }
        if obsolete {
            self.stats.cancelled += self.outbox.len() as u64;
            self.outbox.clear();
        }
        let (kind, message) = failure?;
        self.stats.errors += 1;
        self.stats.last_error = Some(message.clone());
        let (node, handled) = (self.name.clone(), Handled::Stopped);
        Some(Box::new(Failure { node, kind, message, handled }))
    }

    /// Of a node that degrades: replaces what a call that `failed` has sent; keeps what others
    /// sent, where it is to stand in later.
    fn degrade(&mut self, failed: bool) {
        let OnError::Degrade(policy) = self.on_error else { return };
        // A source has no packet whose time the value before could take.
        let keeps = policy == Degrade::Last && !self.is_source;
        if !failed {
            for (output, packet) in self.outbox.iter().filter(|_| keeps) {
                self.outputs[output].last = Some(packet.clone());
            }
            return;
        }
        self.stats.degraded += 1;
        self.outbox.clear();
        for (node_index, output) in self.outputs.iter().enumerate() {
            if let Some(mut packet) = output.last.clone() {
                packet.header = self.context.origin;
                self.outbox.push(node_index, packet);
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
    #[inline(always)]
    pub(crate) fn stamp(&mut self, sent: Moment, is_virtual: bool) {
        let Self { outbox, outputs, stats, rewinds, on_time_fault, context, is_source, .. } = self;
        let first = stats.packets_out;
        stamp_all(outbox, outputs, stats, rewinds, on_time_fault, || Made {
            now: (!is_virtual).then_some(sent.now),
            of: context.origin.at,
            by_source: *is_source,
        });
        if self.is_source {
            self.enter(first, sent);
        }
    }

    /// Begins a trace with each packet of a source, which had sent as many before.
    fn enter(&mut self, before: u64, sent: Moment) {
        for ((_, packet), number) in self.outbox.iter_mut().zip(before..) {
            // The same in every run: no counter is shared between threads.
            let life = packet.header.restarts.wrapping_sub(self.stats.restarts);
            packet.header.trace = generation::trace(self.node_index, life, number);
            packet.header.entered_ns = sent.real_ns;
            self.stats.count_media(packet.header.at);
        }
    }

    /// Shows a call and what it sent to those who look: budgets, observers, those who want to know
    /// how far the node has come, and those whom it interrupts.
    #[cold]
    fn show(
        &mut self,
        shared: &Shared,
        thread: usize,
        input: Option<usize>,
        (start, end): (Moment, Moment),
        model_ns: u64,
    ) {
        let mut interrupts = false;
        for (output, packet) in self.outbox.iter() {
            let output = &self.outputs[output];
            interrupts |= output.interrupts;
            output.marks.iter().for_each(|mark| mark.pass(packet.header.trace, end.real_ns));
            for observer in &shared.observers {
                observer.sent(&self.name, &output.port, end.now, packet);
            }
        }
        if interrupts {
            shared.interrupt.interrupt();
        }
        let sent = self.outbox.iter().next().filter(|_| self.is_source);
        let trace = sent.map_or(self.context.origin.trace, |(_, packet)| packet.header.trace);
        let (node, real_ns) = (self.name.as_str(), (start.real_ns, end.real_ns));
        let is_called_with_input = input.is_some();
        let input = input.map(|node_index| &*self.inputs[node_index].inbound.name);
        let span = CallSpan { node, thread, input, trace, real_ns, model_ns };
        shared.observers.iter().for_each(|observer| observer.called(&span));
        if self.tells && is_called_with_input {
            self.advance(Bound::behind(&self.context.origin));
        }
    }

    /// It has come as far as `bound`, which it tells those who join its packets.
    pub(crate) fn advance(&mut self, bound: Bound) {
        let bound = bound.after(self.stats.restarts.wrapping_add(self.rewinds));
        if bound.follows(&self.bound) {
            (self.bound, self.has_news) = (bound, true);
        }
    }

    /// The next packet, and the input that it came in by: the one with the smallest time stamp.
    ///
    /// With `patient`, a packet is held back while an input is empty that has not ended.
    /// `freed` gets the senders in this group that can go on. The packet is moved to `place`.
    pub(crate) fn take_input(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
        node_index: &mut Packet,
    ) -> Taken<usize> {
        let epoch = self.epoch;
        if self.is_source {
            return if self.resume == Resume::Done { Taken::Over } else { Taken::Empty };
        }
        if self.resume != Resume::Done {
            // It takes nothing, even if it may.
            (self.held, self.granted) = (None, false);
            return Taken::Empty;
        }
        if self.join.is_some() {
            return self.take_joined(now, patient, freed, node_index);
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
            let (taken, sender) = input.inlet.take(now, epoch, node_index);
            sender.map(&mut freed);
            match taken {
                Taken::Next(()) => return Taken::Next(choice),
                Taken::Empty if self.inputs.len() == 1 => return Taken::Empty,
                Taken::Over if self.inputs.len() == 1 => return Taken::Over,
                // The packet was replaced meanwhile.
                Taken::Empty | Taken::Over => {}
            }
        }
    }

    #[inline(never)]
    fn choose_input(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
    ) -> Taken<usize> {
        let epoch = self.epoch;
        // Of the streams that come from before, and of those that come back.
        let (mut earliest, mut missing, mut circles) = ([None; 2], false, false);
        for (node_index, input) in self.inputs.iter_mut().enumerate() {
            let (head, sender) = input.inlet.head(now, epoch);
            sender.map(&mut freed);
            let earliest = &mut earliest[usize::from(input.feedback)];
            circles |= input.feedback;
            match head {
                Taken::Next(at) if earliest.is_none_or(|(other, _)| at < other) => {
                    *earliest = Some((at, node_index));
                }
                Taken::Empty => missing |= !input.feedback,
                Taken::Next(_) | Taken::Over => {}
            }
        }
        self.held = None;
        let [forth, back] = earliest;
        let first = [forth, back].into_iter().flatten().min();
        let granted = mem::take(&mut self.granted) || !patient;
        match (forth, first) {
            (_, Some((_, node_index))) if granted => Taken::Next(node_index),
            // What comes back waits until everything rests, so that it comes at the same moment in
            // every run.
            (Some((_, node_index)), _) if !missing => Taken::Next(node_index),
            (_, Some((at, _))) => {
                self.held = Some(at);
                Taken::Empty
            }
            (_, None) if missing => Taken::Empty,
            // More may come back of what is under way.
            (_, None) if circles && !granted => {
                // Time has to pass first for a node that waits for one.
                self.held = Some(NEVER).filter(|_| self.wake.is_none());
                Taken::Empty
            }
            (_, None) => Taken::Over,
        }
    }

    /// The next packet of the leading stream that can go on; what accompanies it is in the join.
    #[inline(never)]
    fn take_joined(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
        node_index: &mut Packet,
    ) -> Taken<usize> {
        let Self { join, inputs, epoch, granted, held, .. } = self;
        let Some(join) = join.as_deref_mut() else { return Taken::Empty };
        *held = None;
        join.stuck = false;
        loop {
            for companion in &mut join.companions {
                let input = &mut inputs[companion.input];
                loop {
                    let mut packet = Packet::default();
                    let (taken, sender) = input.inlet.take(now, *epoch, &mut packet);
                    sender.map(&mut freed);
                    match taken {
                        Taken::Next(()) => {
                            let Header { at, trace, .. } = packet.header;
                            input.count_age(now, at, is_sampled(trace));
                            packet.credit = None;
                            companion.push(packet);
                        }
                        Taken::Empty => {
                            // Something may have come since.
                            let told = input.inlet.outlook();
                            break companion.told = told.unwrap_or(companion.told);
                        }
                        Taken::Over => break companion.is_over = true,
                    }
                }
            }
            let inlet = &mut inputs[join.lead].inlet;
            let mut over = false;
            while join.waiting.len() < join.room && !over {
                let mut packet = Packet::default();
                let (taken, sender) = inlet.take(now, *epoch, &mut packet);
                sender.map(&mut freed);
                match taken {
                    Taken::Next(()) => join.waiting.push_back((packet, now)),
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
                Verdict::Call => {
                    *node_index = packet;
                    return Taken::Next(join.lead);
                }
                Verdict::Drop => {}
                verdict => {
                    let at = packet.header.at;
                    join.waiting.push_front((packet, since));
                    // What they wait for may have to be let in first.
                    join.waiting.iter_mut().for_each(|(packet, _)| packet.credit = None);
                    // Time may pass for what needs later packets, and not for what is on its way.
                    join.stuck = patient && verdict == Verdict::Wait;
                    *held = (patient && verdict == Verdict::Settle).then_some(at);
                    return Taken::Empty;
                }
            }
        }
    }

    /// The packet that waits for its time: not of who still has something to hand on, nor of who
    /// failed meanwhile.
    pub(crate) fn held(&self) -> Option<(Timestamp, usize)> {
        let takes = self.phase == Phase::Running && self.down.is_none() && self.outbox.is_empty();
        self.held.filter(|_| takes).map(|at| (at, self.node_index))
    }

    /// The leading packet that waits for packets of later times.
    pub(crate) fn stuck(&self) -> Option<(Timestamp, usize)> {
        let join = self.join.as_ref().filter(|join| join.stuck)?;
        join.waiting.front().map(|(packet, _)| (packet.header.at, self.node_index))
    }

    /// What became of the packets of the stream at `edge` of the graph, if it is joined.
    pub(crate) fn join_counts(&self, edge: usize) -> Option<JoinCounts> {
        let join = self.join.as_ref()?;
        let node_index = self.inputs.iter().position(|input| input.edge == edge)?;
        let companion = join.companions.iter().find(|companion| companion.input == node_index);
        Some(companion.map_or(join.counts, |companion| companion.counts))
    }

    /// When it wants to be called without a packet, the wait of its leading packet is over, or it is
    /// to be opened again; `None` while it cannot be.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        if self.down.is_some() && self.phase == Phase::Running {
            return self.down;
        }
        if self.phase != Phase::Running || !self.outbox.is_empty() {
            return None;
        }
        let asked = match self.resume {
            _ if !self.is_timed => None,
            Resume::Now => Some(now),
            Resume::At(at) => Some(at),
            Resume::Done => self.wake,
        };
        let join = self.join.as_ref().and_then(|join| join.due);
        asked.into_iter().chain(join).min()
    }
}

/// What one call touches of a node.
pub(crate) struct Site<'r> {
    pub(crate) node: &'r mut dyn DynNode,
    pub(crate) input: Option<&'r mut Input>,
    pub(crate) outputs: &'r mut [Output],
    pub(crate) rewinds: &'r mut u32,
    pub(crate) context: &'r mut NodeContext,
    /// In the nodes of the graph.
    pub(crate) number: usize,
}

/// The protocol of every call, alone or in a fused chain: `run` calls the node, and guards it against
/// panics or leaves that to the chain. Streams begin anew with an input that `leads`.
///
/// Gives how the call ended, the calls that the node asks for, and how long models ran.
#[inline(always)]
pub(crate) fn call<R>(
    site: Site<'_>,
    watch: &Watch,
    mut packet: Option<&mut Packet>,
    leads: bool,
    sent: &mut Outbox,
    run: impl FnOnce(&mut dyn DynNode, &mut Cx<'_>) -> R,
) -> (R, CallRequest, u64) {
    let Site { node, input, outputs, rewinds, context, number } = site;
    watch.calling.store(number, Ordering::Relaxed);
    let Moment { now, real_ns } = watch.moment;
    let (mut inbound, mut restarted) = (None, false);
    if let (Some(input), Some(packet)) = (input, &packet) {
        let begins_anew;
        (restarted, begins_anew) = input.receive(&packet.header, &context.origin);
        if begins_anew && leads {
            begin_anew(outputs, rewinds);
        }
        inbound = Some(&input.inbound);
    }
    let caller = CallInfo { now, real_ns, restarted, context };
    let mut cx = Cx::new(caller, inbound.zip(packet.as_deref_mut()), sent);
    let result = run(node, &mut cx);
    let (asked, model_ns) = (cx.request(), cx.model_ns());
    if let Some(packet) = packet {
        context.origin = packet.header.inherited();
    }
    (result, asked, model_ns)
}

/// A stream that a node works on has begun anew at an earlier time, so what it makes of it does, too.
#[cold]
pub(crate) fn begin_anew(outputs: &mut [Output], rewinds: &mut u32) {
    outputs.iter_mut().for_each(|output| output.timeline.begin_anew());
    *rewinds += 1;
}
