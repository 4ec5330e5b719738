//! One node of a running graph: its calls, its sent packets, and its figures.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use afferent_graph::{
    CallInfo, CallRequest, Cx, DynNode, Header, NodeContext, NodeError, Outbox, Packet, Resume,
    Timestamp,
};

use crate::{
    CallCause, CallSpan, Failure, FailureKind, Handled, JoinCounts,
    clock::{
        Moment, ThreadClock,
        generation::{self, Watermark},
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
    sync::{END_OF_STREAM, Synchronizer, Verdict},
};
use afferent_spec::{Degrade, OnError, OnTimeFault};

/// Fields that every call needs, and those that other nodes read, come first: a hop touches few
/// cache lines.
#[repr(C)]
pub(crate) struct Runner {
    pub(crate) phase: Phase,
    pub(crate) is_source: bool,
    /// True if it may ask for calls without a packet: a source, or a timed node.
    pub(crate) is_timed: bool,
    /// True if no edge leaves this node.
    pub(crate) is_sink: bool,
    /// True if a call has effects beyond the receivers of its packets: cancellation, observers,
    /// watermarks, or degradation.
    pub(crate) is_watched: bool,
    /// True if a downstream synchronizer needs this node's watermark.
    pub(crate) needs_watermark: bool,
    /// True if the watermark has changed and was not sent yet.
    pub(crate) watermark_changed: bool,
    /// True if an interrupt made the last watched call obsolete before its end.
    pub(crate) was_canceled: bool,
    /// True if its packets may go to another thread at once, because no interrupt can make them
    /// obsolete.
    pub(crate) sends_remote: bool,
    /// True once if it may take the packet that it holds back.
    pub(crate) granted: bool,
    /// Handling of packets that go back in time.
    pub(crate) on_time_fault: OnTimeFault,
    /// Last epoch that it has handled; zero if it cannot be canceled.
    pub(crate) epoch: u32,
    /// Number of restarts of time of its streams.
    pub(crate) rewinds: u32,
    /// Index in the graph.
    pub(crate) node_index: usize,
    /// Index in the worker of the only receiver, if a fused chain leads to it.
    pub(crate) chain_next: Option<usize>,
    /// Number of edges that have taken the first packet of the outbox.
    pub(crate) taken_by: usize,
    /// `None` while the node is down.
    pub(crate) node: Option<Box<dyn DynNode>>,
    /// Packets of the last call that are not delivered yet.
    pub(crate) outbox: Outbox,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    /// Present if the node joins its inputs.
    pub(crate) join: Option<Box<Synchronizer>>,
    /// Time of the next restart.
    pub(crate) down: Option<Timestamp>,
    /// Call before the next packet.
    pub(crate) resume: Resume,
    /// Call at a time, while packets continue.
    pub(crate) wake: Option<Timestamp>,
    /// Watermark of outputs that are in step.
    pub(crate) bound: Watermark,
    /// Context of its calls. The origin is the header of the last packet; packets sent in `finish`
    /// inherit it.
    pub(crate) context: NodeContext,
    pub(crate) on_error: OnError,
    /// Longest duration of a call.
    pub(crate) deadline_ns: u64,
    pub(crate) stats: NodeStats,
    /// Earliest packet that waits for a secondary input, on the virtual clock.
    pub(crate) held: Option<Timestamp>,
    /// Counter of source calls at the last call of this source.
    pub(crate) turn: u64,
    pub(crate) restarts: Restarts,
    pub(crate) name: String,
    pub(crate) opener: Opener,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// The node is not called any more, but its packets are not delivered yet.
    Finishing,
    Ended,
}

/// Reason of a call.
pub(crate) enum Call<'p> {
    /// A time has come.
    Due,
    /// A packet on the input with this index. After the call, only its header is needed.
    Packet(usize, &'p mut Packet),
    Cancel,
    Finish,
}

/// Method of the node to call.
#[derive(Clone, Copy)]
pub(crate) enum NodeMethod {
    Process,
    Cancel,
    Finish,
}

/// Result of a call.
pub(crate) type Ended = Result<Option<Box<NodeError>>, Box<dyn Any + Send>>;

/// Initial number of outbox slots of a node.
pub(crate) const SLOTS: usize = 16;

impl Runner {
    /// Calls the node. The outbox, which is empty before, holds the sent packets afterwards.
    ///
    /// # Errors
    /// If the node returned an error, panicked, or was too slow. The caller handles the failure.
    pub(crate) fn call(
        &mut self,
        shared: &Shared,
        watch: &mut ThreadClock,
        call: Call<'_>,
    ) -> Result<(), Box<Failure>> {
        let method = match call {
            Call::Packet(input, packet) => return self.call_with(shared, watch, input, packet),
            Call::Due => NodeMethod::Process,
            Call::Cancel => NodeMethod::Cancel,
            Call::Finish => NodeMethod::Finish,
        };
        let start = watch.moment;
        let follows = !self.is_source && self.stats.packets_in() > 0;
        if !follows || matches!(call, Call::Cancel) {
            let (epoch, entered_ns) = (self.epoch, start.real_ns);
            self.context.origin = Header { at: start.now, epoch, entered_ns, ..Header::default() };
        } else if matches!(call, Call::Due) && self.resume == Resume::Done {
            // Packets sent later for a packet have its timestamp; those of a time have that time.
            self.context.origin.at = self.context.origin.at.max(start.now);
        }
        self.invoke(shared, watch, method, None)
    }

    /// Calls the node with a packet on the input with this index.
    ///
    /// # Errors
    /// As [`Runner::call`].
    #[inline]
    pub(crate) fn call_with(
        &mut self,
        shared: &Shared,
        watch: &mut ThreadClock,
        input: usize,
        packet: &mut Packet,
    ) -> Result<(), Box<Failure>> {
        self.invoke(shared, watch, NodeMethod::Process, Some((input, packet)))
    }

    /// A single call: the protocol of every call, with clock, supervision and figures.
    #[inline(always)]
    fn invoke(
        &mut self,
        shared: &Shared,
        watch: &mut ThreadClock,
        method: NodeMethod,
        input: Option<(usize, &mut Packet)>,
    ) -> Result<(), Box<Failure>> {
        let (start, input_index) = (watch.moment, input.as_ref().map(|(index, _)| *index));
        let mut before = None;
        let mut cause = match method {
            NodeMethod::Process => CallCause::Due,
            NodeMethod::Cancel => CallCause::Cancel,
            NodeMethod::Finish => CallCause::Finish,
        };
        if let Some((index, packet)) = &input {
            let input = &self.inputs[*index];
            let Header { sequence, restarts, .. } = packet.header;
            cause = CallCause::Packet { edge: input.edge, sequence, restarts };
            // Packets that a node sends at a time do not derive from a feedback packet, unless it
            // is still handling that packet.
            before = input.feedback.then_some(self.context.origin);
            input.marks.iter().for_each(|mark| mark.pass(packet.header.trace, start.real_ns));
            if let Some(join) = self.join.as_deref_mut() {
                join.mark(&self.inputs, start.real_ns);
                mem::swap(&mut self.context.joined, &mut join.joined);
            }
        }
        let leads = self.join.is_some() || self.inputs.len() == 1;
        let (from, packet) = input.unzip();
        let Self { node, inputs, outputs, rewinds, context, outbox, node_index, .. } = self;
        let input = from.and_then(|from| inputs.get_mut(from));
        let node_index = *node_index;
        let done = node.as_deref_mut().map(|node| {
            let site = Site { node, input, outputs, rewinds, context, node_index };
            call(site, watch, packet, leads, outbox, |node, cx| {
                catch_unwind(AssertUnwindSafe(|| {
                    let result = match method {
                        NodeMethod::Process => node.process(cx),
                        NodeMethod::Cancel => node.cancel(cx),
                        NodeMethod::Finish => node.finish(cx),
                    };
                    result.map_err(Box::new).err()
                }))
            })
        });
        if let Some(join) = self.join.as_deref_mut().filter(|_| input_index.is_some()) {
            mem::swap(&mut self.context.joined, &mut join.joined);
        }
        let Some((ended, asked, model_ns)) = done else { return Ok(()) };
        if self.is_timed {
            self.resume = asked.resume.unwrap_or(self.first_resume());
            self.wake = asked.wake.or(self.wake);
            // Packets sent later for the same packet include this model time, too.
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
            self.show(shared, watch.thread, cause, (start, end), model_ns);
        }
        if self.sends_remote {
            self.send_remote();
        }
        self.stats.count_call(busy_ns, model_ns);
        if let Some(input_index) = input_index {
            let Header { at, trace, entered_ns, .. } = self.context.origin;
            let is_sampled = is_sampled(trace);
            self.inputs[input_index].count_age(start.now, at, is_sampled);
            if before.is_some() {
                // The loop through its receivers, such as a played sound, is not its latency.
                self.stats.count_feedback_packet();
            } else {
                self.count_packet(is_sampled, end.real_ns.saturating_sub(entered_ns));
            }
        }
        if let Some(origin) = before.filter(|_| self.resume == Resume::Done) {
            self.context.origin = origin;
        }
        match failure {
            None => Ok(()),
            Some(failure) => Err(failure),
        }
    }

    /// Call that a node asks for by default.
    pub(crate) fn first_resume(&self) -> Resume {
        if self.is_source { Resume::Now } else { Resume::Done }
    }

    /// Sends the only packet to another thread, which wakes while this one counts the call.
    pub(crate) fn send_remote(&mut self) {
        let Some((output, packet)) = self.outbox.only() else { return };
        let [Outlet::Remote(edge)] = self.outputs[output].outlets.as_slice() else { return };
        if edge.offer(packet) {
            self.outbox.drop_only();
        }
    }

    /// Counts the packet of a call that ended `latency_ns` after the start of its trace.
    #[inline]
    pub(crate) fn count_packet(&mut self, is_sampled: bool, latency_ns: u64) {
        self.stats.count_packet(is_sampled, latency_ns);
        self.count_path(latency_ns);
    }

    /// Records the latency from the source if this node is a sink.
    #[inline]
    pub(crate) fn count_path(&mut self, latency_ns: u64) {
        if self.is_sink
            && let Some(source) = generation::source_index(self.context.origin.trace)
        {
            self.stats.count_path(source, latency_ns);
        }
    }

    /// True if the node may have work ahead of new packets: unsent or waiting ones.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        let idle = match self.inputs.as_slice() {
            [] => self.is_source && self.resume != Resume::Done,
            [Input { inlet: Inlet::Local { queue, .. }, .. }] => queue.is_idle(),
            _ => false,
        };
        !idle || !self.outbox.is_empty() || self.phase != Phase::Running || self.needs_watermark
    }

    /// True if the node can be called at once with a packet on its only input; counts the packet.
    #[inline]
    pub(crate) fn accepts(&mut self) -> bool {
        let [Input { inlet: Inlet::Local { queue, .. }, .. }] = self.inputs.as_mut_slice() else {
            return false;
        };
        self.phase == Phase::Running
            && self.outbox.is_empty()
            && self.down.is_none()
            && self.join.is_none()
            && self.resume == Resume::Done
            && queue.pass()
    }

    /// Evaluates a call that `ended` and took `busy_ns`, and its effect on the sent packets.
    #[cold]
    pub(crate) fn judge(
        &mut self,
        shared: &Shared,
        method: NodeMethod,
        ended: Ended,
        busy_ns: u64,
    ) -> Option<Box<Failure>> {
        let obsolete = self.has_pending_interrupt(shared);
        self.was_canceled = obsolete;
        let failure = match ended {
            Err(panic) => Some((FailureKind::Panic, panic_text(&*panic).to_owned())),
            Ok(Some(error)) if obsolete && error.is_canceled() => None,
            Ok(Some(error)) if matches!(*error, NodeError::Closed) => {
                Some((FailureKind::Closed, error.to_string()))
            }
            Ok(Some(error)) => Some((FailureKind::Error, error.to_string())),
            Ok(None) if busy_ns > self.deadline_ns => {
                self.stats.overruns += 1;
                let [busy, deadline] = [busy_ns, self.deadline_ns].map(Duration::from_nanos);
                let text = format!("a call took {busy:.1?}, its deadline is {deadline:?}");
                Some((FailureKind::Late, text))
            }
            Ok(None) => None,
        };
        if self.on_error != OnError::Stop && matches!(method, NodeMethod::Process) {
            self.degrade(failure.is_some());
        }
        if obsolete {
            self.stats.canceled += self.outbox.len() as u64;
            self.outbox.clear();
        }
        let (kind, message) = failure?;
        if kind != FailureKind::Closed {
            self.stats.errors += 1;
            self.stats.last_error = Some(message.clone());
        }
        // The worker adds the time and the reaction.
        let (node, at_ns, handled) = (self.name.clone(), 0, Handled::Stopped);
        Some(Box::new(Failure { node, kind, at_ns, message, handled }))
    }

    /// Applies the degrade policy: replaces the packets of a call that `failed`, and keeps those of
    /// others for later.
    fn degrade(&mut self, failed: bool) {
        let OnError::Degrade(policy) = self.on_error else { return };
        // A source has no packet that gives the earlier value a timestamp.
        let keeps = policy == Degrade::Last && !self.is_source;
        if !failed {
            for (output, packet) in self.outbox.iter().filter(|_| keeps) {
                self.outputs[output].last = Some(packet.clone());
            }
            return;
        }
        self.stats.degraded += 1;
        self.outbox.clear();
        for (output_index, output) in self.outputs.iter().enumerate() {
            if let Some(mut packet) = output.last.clone() {
                packet.header = self.context.origin;
                self.outbox.push(output_index, packet);
            }
        }
    }

    /// Reaction to a failed call at `now`; `last` if no other call would follow.
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

    /// True if an interrupt affects the node that it has not handled yet.
    pub(crate) fn has_pending_interrupt(&self, shared: &Shared) -> bool {
        self.epoch != 0 && self.epoch != shared.interrupt.epoch()
    }

    /// Completes the headers of the sent packets and drops those with wrong timestamps.
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

    /// Starts a trace with each packet of a source that had sent `before` packets.
    fn enter(&mut self, before: u64, sent: Moment) {
        for ((_, packet), number) in self.outbox.iter_mut().zip(before..) {
            // Deterministic: threads share no counter.
            let life = packet.header.restarts.wrapping_sub(self.stats.restarts);
            packet.header.trace = generation::trace_id(self.node_index, life, number);
            packet.header.entered_ns = sent.real_ns;
            self.stats.count_media(packet.header.at);
        }
    }

    /// Reports a call and its packets to budgets, observers, synchronizers, and the nodes that it
    /// interrupts.
    #[cold]
    fn show(
        &mut self,
        shared: &Shared,
        thread: usize,
        cause: CallCause,
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
        let input = match cause {
            CallCause::Packet { edge, .. } => self.inputs.iter().find(|input| input.edge == edge),
            _ => None,
        };
        let is_called_with_input = input.is_some();
        let input = input.map(|input| &*input.inbound.name);
        let joined = self.join.as_deref().map_or(&[][..], |join| &join.joined);
        let (now, origin, canceled) = (start.now, &self.context.origin, self.was_canceled);
        let span = CallSpan {
            node,
            thread,
            input,
            trace,
            real_ns,
            model_ns,
            cause,
            now,
            origin,
            joined,
            canceled,
        };
        shared.observers.iter().for_each(|observer| observer.called(&span));
        if self.needs_watermark && is_called_with_input {
            self.advance(Watermark::after_packet(&self.context.origin));
        }
    }

    /// Advances the watermark and announces it to downstream synchronizers.
    pub(crate) fn advance(&mut self, bound: Watermark) {
        let bound = bound.with_restarts(self.stats.restarts.wrapping_add(self.rewinds));
        if bound.supersedes(&self.bound) {
            (self.bound, self.watermark_changed) = (bound, true);
        }
    }

    /// Moves the next packet to `slot` and returns its input: the one with the smallest timestamp.
    ///
    /// With `patient`, a packet is held back while another input that has not ended is empty.
    /// `freed` receives the senders in this worker that can continue.
    pub(crate) fn take_input(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
        slot: &mut Packet,
    ) -> Taken<usize> {
        let epoch = self.epoch;
        if self.is_source {
            return if self.resume == Resume::Done { Taken::Over } else { Taken::Empty };
        }
        if self.resume != Resume::Done {
            // A node that takes nothing uses up its grant.
            (self.held, self.granted) = (None, false);
            return Taken::Empty;
        }
        if self.join.is_some() {
            return self.take_joined(now, patient, freed, slot);
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
            let (taken, sender) = input.inlet.take(now, epoch, slot);
            sender.map(&mut freed);
            match taken {
                Taken::Next(()) => return Taken::Next(choice),
                Taken::Empty if self.inputs.len() == 1 => return Taken::Empty,
                Taken::Over if self.inputs.len() == 1 => return Taken::Over,
                // The packet was replaced in the meantime.
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
        // Inputs from upstream, and feedback inputs.
        let (mut earliest, mut missing, mut has_feedback) = ([None; 2], false, false);
        for (input_index, input) in self.inputs.iter_mut().enumerate() {
            let (head, sender) = input.inlet.head(now, epoch);
            sender.map(&mut freed);
            let earliest = &mut earliest[usize::from(input.feedback)];
            has_feedback |= input.feedback;
            match head {
                Taken::Next(at) if earliest.is_none_or(|(other, _)| at < other) => {
                    *earliest = Some((at, input_index));
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
            (_, Some((_, input_index))) if granted => Taken::Next(input_index),
            // Feedback packets wait until all threads rest, so they arrive at the same moment in
            // every run.
            (Some((_, input_index)), _) if !missing => Taken::Next(input_index),
            (_, Some((at, _))) => {
                self.held = Some(at);
                Taken::Empty
            }
            (_, None) if missing => Taken::Empty,
            // Packets in flight may still come back.
            (_, None) if has_feedback && !granted => {
                // Time has to pass first for a node that waits for a time.
                self.held = Some(END_OF_STREAM).filter(|_| self.wake.is_none());
                Taken::Empty
            }
            (_, None) => Taken::Over,
        }
    }

    /// Next primary packet that can go on; its matches are in the synchronizer.
    #[inline(never)]
    fn take_joined(
        &mut self,
        now: Timestamp,
        patient: bool,
        mut freed: impl FnMut(usize),
        slot: &mut Packet,
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
                            // A packet or watermark may have arrived since.
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
                    *slot = packet;
                    return Taken::Next(join.lead);
                }
                Verdict::Drop => {}
                verdict => {
                    let at = packet.header.at;
                    join.waiting.push_front((packet, since));
                    // The packets that they wait for may need the credit.
                    join.waiting.iter_mut().for_each(|(packet, _)| packet.credit = None);
                    // Time may pass for packets that need later timestamps, but not for those in
                    // flight.
                    join.stuck = patient && verdict == Verdict::Wait;
                    *held = (patient && verdict == Verdict::Settle).then_some(at);
                    return Taken::Empty;
                }
            }
        }
    }

    /// Packet that waits for its time. `None` for a node that has packets to deliver or that
    /// failed.
    pub(crate) fn held(&self) -> Option<(Timestamp, usize)> {
        let takes = self.phase == Phase::Running && self.down.is_none() && self.outbox.is_empty();
        self.held.filter(|_| takes).map(|at| (at, self.node_index))
    }

    /// Primary packet that waits for later timestamps.
    pub(crate) fn stuck(&self) -> Option<(Timestamp, usize)> {
        let join = self.join.as_ref().filter(|join| join.stuck)?;
        join.waiting.front().map(|(packet, _)| (packet.header.at, self.node_index))
    }

    /// Synchronizer counters of the stream of edge `edge`, if it is joined.
    pub(crate) fn join_counts(&self, edge: usize) -> Option<JoinCounts> {
        let join = self.join.as_ref()?;
        let input_index = self.inputs.iter().position(|input| input.edge == edge)?;
        let companion = join.companions.iter().find(|companion| companion.input == input_index);
        Some(companion.map_or(join.counts, |companion| companion.counts))
    }

    /// Time of the next call without a packet, of the end of a wait of the primary packet, or of a
    /// restart; `None` if there is none.
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

/// Parts of a node that one call uses.
pub(crate) struct Site<'r> {
    pub(crate) node: &'r mut dyn DynNode,
    pub(crate) input: Option<&'r mut Input>,
    pub(crate) outputs: &'r mut [Output],
    pub(crate) rewinds: &'r mut u32,
    pub(crate) context: &'r mut NodeContext,
    /// Index in the graph.
    pub(crate) node_index: usize,
}

/// The protocol of every call, alone or in a fused chain. `run` calls the node and catches panics,
/// or leaves that to the chain. An input that `leads` restarts the streams of the node.
///
/// Returns the result, the calls that the node asks for, and the model time in nanoseconds.
#[inline(always)]
pub(crate) fn call<R>(
    site: Site<'_>,
    watch: &ThreadClock,
    mut packet: Option<&mut Packet>,
    leads: bool,
    sent: &mut Outbox,
    run: impl FnOnce(&mut dyn DynNode, &mut Cx<'_>) -> R,
) -> (R, CallRequest, u64) {
    let Site { node, input, outputs, rewinds, context, node_index } = site;
    let Moment { now, real_ns } = watch.moment;
    watch.current_call.start(node_index, real_ns);
    let (mut inbound, mut restarted) = (None, false);
    if let (Some(input), Some(packet)) = (input, &packet) {
        let restarts_time;
        (restarted, restarts_time) = input.receive(&packet.header, &context.origin);
        if restarts_time && leads {
            restart_time(outputs, rewinds);
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

/// Restarts the output streams after the time of an input has restarted.
#[cold]
pub(crate) fn restart_time(outputs: &mut [Output], rewinds: &mut u32) {
    outputs.iter_mut().for_each(|output| output.timeline.restart_time());
    *rewinds += 1;
}
