//! Hops between nodes that need nothing but a call.
//!
//! What a call costs beside the work of the node is there for what can happen: several inputs,
//! deadlines, budgets, observers, interrupts. Between two nodes that have none of these, a packet
//! goes along a lane: as many nodes as it passes are called in a row, and of each hop only the
//! ticks of the processor are taken down. What they mean is counted behind the last hop; nothing
//! that is measured is left out. What goes wrong leaves the lane.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};

use afferent_graph::{Caller, Cx, Header, NodeError, Timestamp};

use super::Group;
use crate::{
    clock::Moment,
    edge::Inlet,
    runner::{Input, Method, Phase, Runner},
    times::is_sampled,
};

/// A node that was called in the lane.
pub(super) struct Hop {
    /// In the group.
    place: usize,
    /// When the call had ended.
    ticks: u64,
    /// The time of its packet.
    at: Timestamp,
    model_ns: u64,
}

/// Hops that are counted together, at most.
pub(super) const HOPS: usize = 32;

/// How a call ended.
type Ended = Result<Option<Box<NodeError>>, Box<dyn Any + Send>>;

/// For each node the receiver that its packets reach by a lane.
pub(super) fn lanes(runners: &[Runner], receivers: &[Option<usize>]) -> Vec<Option<usize>> {
    let lane = |(sender, receiver): (&Runner, &Option<usize>)| {
        receiver.filter(|receiver| sender.epoch == 0 && is_plain(&runners[*receiver]))
    };
    runners.iter().zip(receivers).map(lane).collect()
}

/// Whether a call concerns nobody but the node and those that it sends to.
fn is_plain(runner: &Runner) -> bool {
    let [Input { inlet: Inlet::Near { queue, .. }, marks, .. }] = runner.inputs.as_slice() else {
        return false;
    };
    let is_free = runner.deadline_ns == u64::MAX && !runner.is_watched;
    is_free && !runner.is_timed && runner.join.is_none() && marks.is_empty() && queue.is_plain()
}

impl Group {
    /// Hands on what the node at `place` has just sent while there are lanes; the node that was
    /// called last.
    pub(super) fn run_lane(&mut self, place: usize) -> usize {
        if self.lanes[place].is_none() {
            return place;
        }
        (self.sender, self.receiver) = (place, place);
        match catch_unwind(AssertUnwindSafe(|| self.hop_on())) {
            Ok(Ok(())) => {
                let last = &mut self.runners[self.receiver];
                if last.sends_far {
                    last.send_far();
                }
                self.count_hops();
            }
            Ok(Err(error)) => self.leave_lane(Ok(Some(error))),
            Err(panic) => self.leave_lane(Err(panic)),
        }
        // Those on the way had nothing else to do, or were ready before.
        if place != self.receiver && self.runners[place].has_more() {
            self.ready.insert(place);
        }
        self.receiver
    }

    /// Calls one node after the other; `self.sender` and `self.receiver` say where it is.
    ///
    /// # Errors
    /// That of the node that was called last. It and what it sent are left as they are.
    #[inline]
    fn hop_on(&mut self) -> Result<(), Box<NodeError>> {
        let mut place = self.receiver;
        while let Some(receiver) = self.lanes[place] {
            let Ok([sender, runner]) = self.runners.get_disjoint_mut([place, receiver]) else {
                break;
            };
            let Some((_, packet)) = sender.outbox.only() else { break };
            let (Some(node), [input]) = (&mut runner.node, runner.inputs.as_mut_slice()) else {
                break;
            };
            let Header { at, restarts, .. } = packet.header;
            if runner.phase != Phase::Running
                || !runner.outbox.is_empty()
                || !input.inlet.is_clear()
            {
                break;
            }
            (self.sender, self.receiver) = (place, receiver);
            self.watch.calling.store(runner.place, Ordering::Relaxed);
            let caller = Caller {
                now: self.watch.moment.now,
                real_ns: self.watch.moment.real_ns,
                origin: &runner.origin,
                outputs: &runner.pools,
                restarted: input.restarts != restarts,
                joined: &[],
                cancel: &runner.cancel,
            };
            input.restarts = restarts;
            let mut cx = Cx::new(caller, Some((&input.inbound, packet)), &mut runner.outbox);
            node.process(&mut cx).map_err(Box::new)?;
            let model_ns = cx.model_ns();
            let (ticks, is_near) = self.watch.ticks();
            self.hops.push(Hop { place: receiver, ticks, at, model_ns });
            runner.origin = packet.header.handed_down();
            runner.stamp(self.watch.moment);
            sender.outbox.drop_only();
            place = receiver;
            if !is_near || self.hops.len() == HOPS {
                self.count_hops();
            }
        }
        Ok(())
    }

    /// What a call needs that went wrong in the lane.
    #[cold]
    fn leave_lane(&mut self, ended: Ended) {
        let (sender, receiver) = (self.sender, self.receiver);
        let (ticks, _) = self.watch.ticks();
        let Ok([sender_runner, runner]) = self.runners.get_disjoint_mut([sender, receiver]) else {
            return;
        };
        if let Some((_, packet)) = sender_runner.outbox.only() {
            runner.origin = packet.header.handed_down();
        }
        sender_runner.outbox.clear();
        let at = runner.origin.at;
        self.hops.push(Hop { place: receiver, ticks, at, model_ns: 0 });
        self.count_hops();
        let runner = &mut self.runners[receiver];
        let failure = runner.judge(&self.shared, Method::Process, ended, 0);
        runner.stamp(self.watch.moment);
        if let Some(failure) = failure {
            self.fail(receiver, *failure, false);
        }
    }

    /// Counts the hops that were made, as calls and edges are counted elsewhere.
    fn count_hops(&mut self) {
        let Self { hops, runners, watch, shared, receiver, .. } = self;
        // What is made of a packet keeps its trace.
        let Header { trace, entered_ns, .. } = runners[*receiver].origin;
        let is_sampled = is_sampled(trace);
        let mut start = watch.moment.real_ns;
        for hop in &*hops {
            let end = watch.ns_at(&shared.clock, hop.ticks);
            let runner = &mut runners[hop.place];
            runner.stats.count_call(end - start, hop.model_ns);
            runner.count_packet(trace, is_sampled, end.saturating_sub(entered_ns));
            if let [Input { inlet: Inlet::Near { queue, .. }, .. }] = runner.inputs.as_mut_slice() {
                queue.count_passed(Timestamp(start.cast_signed()), hop.at, is_sampled);
            }
            start = end;
        }
        hops.clear();
        watch.moment = Moment { now: Timestamp(start.cast_signed()), real_ns: start };
    }
}
