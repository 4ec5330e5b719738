//! Loop of one thread: selects the node to call next.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use afferent_graph::{Outbox, Packet, Resume, Timestamp};

use crate::{
    Failure, FailureKind, Handled, RunError,
    clock::{ThreadClock, lockstep::Sleep},
    edge::{
        Inlet, Outlet,
        port::Input,
        queue::{Queue, Taken},
    },
    run::{board::Board, state::Shared},
    scheduler::{
        export,
        node::{Call, Phase, Runner, SLOTS},
        ready::Ready,
    },
    sys::wake::Waker,
};
use afferent_spec::OnError;

mod chain;

use chain::{Bursts, ChainCall, MAX_CHAIN_CALLS};

/// Nodes of one thread, senders first.
///
/// The ready node nearest to the sinks is called first, one packet at a time. A packet is followed
/// to its end before its source sends more, without recursion, and queues within the thread stay
/// short. Sources are called when nothing else is ready. A node with a full receiver is skipped;
/// the thread waits only when no node can continue.
pub(crate) struct Worker {
    runners: Vec<Runner>,
    /// Nodes that may have work.
    ready: Ready,
    /// Nodes that other threads can give work.
    far: Ready,
    /// Nodes with calls at a time.
    timed: Vec<usize>,
    /// Only receiver of each node, if it is in this thread.
    receivers: Vec<Option<usize>>,
    /// Calls of the fused chain that are not counted yet.
    chain_calls: Vec<ChainCall>,
    /// Bursts of chain calls that were timed as a whole.
    bursts: Bursts,
    /// Node that was called last in the chain.
    receiver: usize,
    /// The packet of the current chain call, and the packets that it sends.
    outboxes: [Outbox; 2],
    /// Index of the outbox that holds the packet.
    near: usize,
    waker: Arc<Waker>,
    pub(crate) shared: Arc<Shared>,
    board: Arc<Board>,
    /// Read after each call and sleep, which is the start of the next call.
    pub(crate) watch: ThreadClock,
    /// Number of source calls.
    turns: u64,
    /// Next call at a time, as far as known.
    due: Option<Timestamp>,
    /// Time to spin before sleeping.
    spin: Option<Duration>,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        mut runners: Vec<Runner>,
        waker: Arc<Waker>,
        (shared, board): (Arc<Shared>, Arc<Board>),
        spin: Option<Duration>,
    ) -> Self {
        let (mut ready, mut far) = (Ready::new(runners.len()), Ready::new(runners.len()));
        for (runner_index, runner) in runners.iter_mut().enumerate() {
            ready.insert(runner_index);
            let mut outlets = runner.outputs.iter().flat_map(|output| &output.outlets);
            let sends_remote = outlets.any(|outlet| matches!(outlet, Outlet::Remote(_)));
            runner.sends_remote =
                sends_remote && runner.epoch == 0 && shared.clock.lockstep.is_none();
            // An interrupt and the end of draining can come from any thread.
            if runner.epoch != 0
                || sends_remote
                || runner.inputs.iter().any(|input| input.inlet.is_remote() || input.limited)
            {
                far.insert(runner_index);
            }
        }
        let is_timed = |runner: &Runner| {
            let restarts = matches!(runner.on_error, OnError::Restart(_));
            runner.is_timed || runner.join.is_some() || restarts
        };
        let timed =
            (0..runners.len()).filter(|runner_index| is_timed(&runners[*runner_index])).collect();
        let receivers: Vec<_> = runners.iter().map(only_receiver).collect();
        // The virtual clock gains nothing from it.
        if shared.clock.lockstep.is_none() {
            chain::lay(&mut runners, &receivers);
        }
        let watch = ThreadClock::new(&shared.clock, index, shared.current_calls[index].clone());
        let bursts = Bursts::new(runners.len());
        Self {
            runners,
            ready,
            far,
            timed,
            receivers,
            chain_calls: Vec::with_capacity(MAX_CHAIN_CALLS),
            bursts,
            receiver: 0,
            outboxes: [(); 2].map(|()| Outbox::new(SLOTS)),
            near: 0,
            waker,
            shared,
            board,
            watch,
            turns: 0,
            due: None,
            spin,
        }
    }

    /// Runs until every node has ended; returns them, still open.
    pub(crate) fn run(mut self) -> Vec<Runner> {
        self.watch.read(&self.shared.clock);
        loop {
            self.run_until_idle();
            if self.runners.iter().all(|runner| runner.phase == Phase::Ended) {
                break;
            }
            if self.is_cut() {
                self.cut();
            } else {
                self.sleep();
            }
        }
        if let Some(lockstep) = &self.shared.clock.lockstep {
            lockstep.leave(self.watch.thread);
        }
        self.share_rest();
        self.tell_figures(true);
        self.runners
    }

    /// True if the run stops and the time limit for draining has passed.
    fn is_cut(&self) -> bool {
        self.waker.stops() && self.shared.stop.is_cut()
    }

    fn tell_figures(&self, last: bool) {
        let figures = export::figures(&self.shared.graph, self.watch.thread, &self.runners, last);
        self.board.tell(self.watch.thread, figures);
    }

    fn run_until_idle(&mut self) {
        loop {
            if self.waker.answer() {
                self.ready.insert_all(&self.far);
                if self.waker.is_asked() {
                    self.tell_figures(false);
                }
            }
            match self.ready.last() {
                _ if self.is_cut() => return,
                Some(runner_index) => self.step(runner_index),
                None if self.call_due() => {}
                None => return,
            }
        }
    }

    /// Performs the next step of a node.
    fn step(&mut self, runner_index: usize) {
        let runner = &mut self.runners[runner_index];
        if runner.has_pending_interrupt(&self.shared) {
            self.cancel(runner_index);
            return;
        }
        if !runner.outbox.is_empty() {
            if !self.deliver(runner_index) {
                self.ready.remove(runner_index);
            }
            return;
        }
        if runner.watermark_changed {
            self.tell(runner_index);
        }
        let runner = &mut self.runners[runner_index];
        match runner.phase {
            // Its inputs wait until it is reopened.
            Phase::Running if runner.down.is_some() => self.ready.remove(runner_index),
            Phase::Running => {
                let now = self.watch.moment.now;
                let patient = self.watch.is_virtual;
                let ready = &mut self.ready;
                let mut packet = Packet::default();
                match runner.take_input(now, patient, |sender| ready.insert(sender), &mut packet) {
                    Taken::Next(input) => {
                        self.call(runner_index, Call::Packet(input, &mut packet));
                    }
                    // The node has to handle the epoch of the waiting packet first.
                    Taken::Empty if runner.has_pending_interrupt(&self.shared) => {}
                    Taken::Empty => {
                        self.ready.remove(runner_index);
                        self.forward_watermark(runner_index);
                    }
                    // The node waits for a time that it asked for.
                    Taken::Over if runner.wake.is_some() => self.ready.remove(runner_index),
                    Taken::Over => {
                        // A synchronizer does not wait for the end of its secondary inputs, and no
                        // node for the end of a feedback edge.
                        let open = |input: &Input| input.feedback;
                        if runner.join.is_some() || runner.inputs.iter().any(open) {
                            self.close_inputs(runner_index);
                        }
                        self.call(runner_index, Call::Finish);
                        self.runners[runner_index].phase = Phase::Finishing;
                        self.ready.insert(runner_index);
                    }
                }
            }
            Phase::Finishing => self.end(runner_index),
            Phase::Ended => self.ready.remove(runner_index),
        }
    }

    /// Calls the node, then the receivers of its packets that can be called at once.
    fn call(&mut self, runner_index: usize, call: Call<'_>) {
        let last = matches!(call, Call::Finish);
        let called = self.runners[runner_index].call(&self.shared, &mut self.watch, call);
        if let Err(failure) = called {
            self.fail(runner_index, *failure, last);
        }
        self.follow_packets(runner_index);
    }

    /// Follows the packets of the node from call to call: as long as a call sent one packet, whose
    /// only receiver is in this thread, idle, and ready for it. The packet needs no queue and stays
    /// in the slot of its sender.
    fn follow_packets(&mut self, runner_index: usize) {
        let mut runner_index = self.follow_chain(runner_index);
        while let Some(receiver) = self.receivers[runner_index] {
            let runners = self.runners.get_disjoint_mut([runner_index, receiver]);
            let Ok([sender, runner]) = runners else { break };
            let Some((_, packet)) = sender.outbox.only() else { break };
            if sender.epoch != 0 || !runner.accepts() {
                break;
            }
            let called = runner.call_with(&self.shared, &mut self.watch, 0, packet);
            sender.outbox.clear();
            if sender.has_more() {
                self.ready.insert(runner_index);
            }
            if let Err(failure) = called {
                self.fail(receiver, *failure, false);
            }
            runner_index = self.follow_chain(receiver);
        }
        if self.runners[runner_index].has_more() {
            self.ready.insert(runner_index);
        }
    }

    /// Handles an interrupt that made the work of the node obsolete.
    #[cold]
    fn cancel(&mut self, runner_index: usize) {
        let runner = &mut self.runners[runner_index];
        runner.epoch = self.shared.interrupt.answer(runner.node_index);
        runner.context.origin.epoch = runner.epoch;
        runner.stats.interrupts += 1;
        // Its streams may restart in time: audio that was produced ahead is not played. The packet
        // of the degrade policy is obsolete, too.
        for output in &mut runner.outputs {
            output.timeline.forgive();
            output.last = None;
        }
        let epoch = runner.epoch;
        self.discard_outbox(runner_index, epoch, Queue::count_canceled);
        for input in &mut self.runners[runner_index].inputs {
            if let Some(sender) = input.inlet.purge(epoch) {
                self.ready.insert(sender);
            }
        }
        if let Some(join) = &mut self.runners[runner_index].join {
            join.clear();
        }
        let runner = &mut self.runners[runner_index];
        if runner.phase == Phase::Running {
            runner.wake = None;
            self.call(runner_index, Call::Cancel);
        }
        self.ready.insert(runner_index);
    }

    /// Calls the node that has been due for longest, or reopens one; returns true if anything
    /// changed.
    ///
    /// The clock was read after the last call or sleep.
    fn call_due(&mut self) -> bool {
        let now = self.watch.moment.now;
        if self.shared.end.is_some_and(|end| now >= end) {
            self.shared.stop.stop();
        }
        let completes = self.waker.completes();
        let due = |&runner_index: &usize| {
            let runner = &self.runners[runner_index];
            let due = runner.due(now)?;
            // A source that is to end does not wait for its time.
            Some((
                if completes && runner.is_source { now.min(due) } else { due },
                runner.turn,
                runner_index,
            ))
        };
        let next = self.timed.iter().filter_map(due).min();
        self.due = next.map(|(due, ..)| due);
        let Some((due, _, runner_index)) = next else { return false };
        let runner = &mut self.runners[runner_index];
        // A node may finish the packets that it is still sending.
        let has_more = !runner.is_source && runner.resume == Resume::Now;
        let is_over = self.waker.stops() || (completes && runner.is_source);
        if is_over && !has_more {
            (runner.resume, runner.wake) = (Resume::Done, None);
            if let Some(join) = &mut runner.join {
                join.due = None;
                runner.granted = true;
            }
            if runner.down.take().is_some() {
                self.give_up(runner_index);
            }
            self.ready.insert(runner_index);
            return true;
        }
        if due > now {
            return false;
        }
        if runner.down.is_some() {
            self.reopen(runner_index);
            return true;
        }
        if let Some(join) = runner.join.as_mut().filter(|join| join.due == Some(due)) {
            // The wait of the primary packet is over.
            join.due = None;
            self.ready.insert(runner_index);
            return true;
        }
        self.turns += 1;
        runner.turn = self.turns;
        if runner.resume == Resume::Done {
            runner.wake = None;
        }
        self.call(runner_index, Call::Due);
        true
    }

    /// Offers the first packet of the outbox to the edges of its output; true if all of them took
    /// it.
    fn deliver(&mut self, runner_index: usize) -> bool {
        let runner = &mut self.runners[runner_index];
        let Some((output, packet)) = runner.outbox.pop() else { return true };
        let outlets = runner.outputs[output].outlets.len();
        let mut packet = Some(packet);
        for outlet in runner.taken_by..outlets {
            // The last edge gets the packet itself, so that a single receiver can modify it.
            let last = outlet + 1 == outlets;
            let offered = if last { packet.take() } else { packet.as_ref().map(Packet::share) };
            let Some(mut offered) = offered else { break };
            if !self.offer(runner_index, output, outlet, &mut offered) {
                let runner = &mut self.runners[runner_index];
                runner.outbox.put_back(output, packet.unwrap_or(offered));
                runner.taken_by = outlet;
                return false;
            }
        }
        self.runners[runner_index].taken_by = 0;
        true
    }

    fn offer(
        &mut self,
        runner_index: usize,
        output: usize,
        outlet: usize,
        packet: &mut Packet,
    ) -> bool {
        match &self.runners[runner_index].outputs[output].outlets[outlet] {
            Outlet::Remote(edge) => edge.offer(packet),
            &Outlet::Local { receiver, input } => {
                let Inlet::Local { queue, .. } = &mut self.runners[receiver].inputs[input].inlet
                else {
                    return true;
                };
                let taken = queue.offer(packet);
                if taken {
                    self.ready.insert(receiver);
                }
                taken
            }
        }
    }

    /// Applies the policy of the node to `failure`. Packets that it has sent are still delivered.
    #[cold]
    fn fail(&mut self, runner_index: usize, mut failure: Failure, last: bool) {
        if failure.kind == FailureKind::Closed {
            self.give_up(runner_index);
            return;
        }
        let runner = &mut self.runners[runner_index];
        failure.at_ns = self.watch.moment.session_ns();
        failure.handled = runner.handle(self.watch.moment.now, last);
        let handled = failure.handled;
        self.shared.fail(failure);
        match handled {
            Handled::Degraded => {}
            Handled::Restarted => {
                let node = runner.node.take();
                // A node that panics while it is closed is gone all the same.
                drop(catch_unwind(AssertUnwindSafe(|| drop(node))));
            }
            Handled::Stopped => self.give_up(runner_index),
        }
    }

    /// Reopens a node that is down.
    #[cold]
    fn reopen(&mut self, runner_index: usize) {
        let runner = &mut self.runners[runner_index];
        runner.down = None;
        let opened = runner.opener.open();
        self.watch.read(&self.shared.clock);
        self.ready.insert(runner_index);
        match opened {
            Ok(node) => {
                runner.node = Some(node);
                runner.resume = runner.first_resume();
                runner.wake = None;
                runner.stats.restarts += 1;
            }
            Err(error) => {
                let (kind, message) = match error {
                    RunError::Open { error, .. } => (FailureKind::Error, error.to_string()),
                    error => (FailureKind::Panic, error.to_string()),
                };
                runner.stats.errors += 1;
                runner.stats.last_error = Some(message.clone());
                let (node, at_ns, handled) = (runner.name.clone(), 0, Handled::Stopped);
                let failure = Failure { node, kind, at_ns, message, handled };
                self.fail(runner_index, failure, false);
            }
        }
    }

    /// The node is not called again.
    fn give_up(&mut self, runner_index: usize) {
        self.runners[runner_index].phase = Phase::Finishing;
        self.close_inputs(runner_index);
    }

    /// Sends the watermark of a node to downstream synchronizers.
    fn tell(&mut self, runner_index: usize) {
        let bound = self.runners[runner_index].bound;
        self.runners[runner_index].watermark_changed = false;
        for output in 0..self.runners[runner_index].outputs.len() {
            if self.runners[runner_index].outputs[output].needs_watermark {
                for outlet in 0..self.runners[runner_index].outputs[output].outlets.len() {
                    self.at_outlet(runner_index, output, outlet, |queue| queue.advance(bound));
                }
            }
        }
    }

    /// Forwards the watermark of the senders of an idle node whose outputs are in step.
    fn forward_watermark(&mut self, runner_index: usize) {
        let runner = &mut self.runners[runner_index];
        if let ([input], true) = (runner.inputs.as_slice(), runner.needs_watermark) {
            let Some(bound) = input.inlet.outlook() else { return };
            runner.advance(bound);
            if runner.watermark_changed {
                self.tell(runner_index);
            }
        }
    }

    fn close_inputs(&mut self, runner_index: usize) {
        if let Some(join) = &mut self.runners[runner_index].join {
            join.clear();
        }
        for input in &mut self.runners[runner_index].inputs {
            if let Some(sender) = input.inlet.close() {
                self.ready.insert(sender);
            }
        }
    }

    /// Ends the output streams of the node.
    #[cold]
    fn end(&mut self, runner_index: usize) {
        self.runners[runner_index].phase = Phase::Ended;
        let is_sink = self.runners[runner_index].is_sink;
        for output in 0..self.runners[runner_index].outputs.len() {
            for outlet in 0..self.runners[runner_index].outputs[output].outlets.len() {
                self.at_outlet(runner_index, output, outlet, Queue::end);
            }
        }
        if is_sink {
            self.shared.sink_ended();
        }
    }

    fn at_outlet(
        &mut self,
        runner_index: usize,
        output: usize,
        outlet: usize,
        change: impl FnOnce(&mut Queue),
    ) {
        match &self.runners[runner_index].outputs[output].outlets[outlet] {
            Outlet::Remote(edge) => edge.send(change),
            &Outlet::Local { receiver, input } => {
                if let Inlet::Local { queue, .. } = &mut self.runners[receiver].inputs[input].inlet
                {
                    change(queue);
                    self.ready.insert(receiver);
                }
            }
        }
    }

    /// Ends every node now: packets in flight are dropped and counted.
    #[cold]
    fn cut(&mut self) {
        for runner_index in 0..self.runners.len() {
            if self.runners[runner_index].phase == Phase::Ended {
                continue;
            }
            self.shared.cut.store(true, Ordering::Relaxed);
            self.discard_outbox(runner_index, u32::MAX, Queue::count_unsent);
            self.close_inputs(runner_index);
            if self.runners[runner_index].phase == Phase::Running {
                self.call(runner_index, Call::Finish);
                self.discard_outbox(runner_index, u32::MAX, Queue::count_unsent);
            }
            self.end(runner_index);
        }
    }

    /// Drops packets in the outbox of an epoch earlier than `epoch`.
    fn discard_outbox(&mut self, runner_index: usize, epoch: u32, count: fn(&mut Queue)) {
        // Packets are in the order of their calls, so earlier epochs come first.
        while let Some((output, packet)) = self.runners[runner_index].outbox.pop() {
            if packet.header.epoch >= epoch {
                self.runners[runner_index].outbox.put_back(output, packet);
                return;
            }
            let first = std::mem::take(&mut self.runners[runner_index].taken_by);
            for outlet in first..self.runners[runner_index].outputs[output].outlets.len() {
                self.at_outlet(runner_index, output, outlet, count);
            }
        }
    }

    /// Sleeps until another thread, a due source, or the end of the run gives work.
    fn sleep(&mut self) {
        self.bursts.rested = true;
        let (now, due) = (self.watch.moment.now, self.due);
        let deadline = if self.waker.stops() { self.shared.stop.deadline() } else { None };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if let Some(lockstep) = &self.shared.clock.lockstep {
            let held = self.runners.iter().filter_map(Runner::held).min();
            let stuck = self.runners.iter().filter_map(Runner::stuck).min();
            let sleep = Sleep { due, held, stuck };
            let granted = lockstep.sleep(self.watch.thread, sleep, left);
            let granted = self.runners.iter().position(|runner| Some(runner.node_index) == granted);
            if let Some(runner_index) = granted {
                self.runners[runner_index].granted = true;
                self.ready.insert(runner_index);
            }
        } else {
            let end = self.shared.end.filter(|_| deadline.is_none());
            let until = due.into_iter().chain(end).min().map(|until| until.since(now));
            let at_most = until.into_iter().chain(left).min();
            match self.spin {
                Some(spin) => self.waker.spin(spin, at_most),
                None => self.waker.sleep(at_most),
            }
        }
        self.watch.read(&self.shared.clock);
    }
}

/// Index of the only receiver of a node, if it is in the same thread and needs no watermark.
fn only_receiver(runner: &Runner) -> Option<usize> {
    match runner.outputs.as_slice() {
        [output] if !runner.needs_watermark => match output.outlets.as_slice() {
            [Outlet::Local { receiver, .. }] => Some(*receiver),
            _ => None,
        },
        _ => None,
    }
}
