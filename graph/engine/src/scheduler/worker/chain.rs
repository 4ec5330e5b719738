//! Fused chains: nodes called one after the other without a queue.
//!
//! The protocol of a single call handles several inputs, deadlines, budgets, observers and
//! interrupts. Between nodes that have none of these, a packet follows a chain of direct calls, and
//! each call records only the tick counter; the counters are updated after the last call. A failed
//! call leaves the chain.
//!
//! Reading the tick counter costs more than such a call. If a thread does not sleep between packets
//! and its bursts are short, only the first bursts and a sample of the later ones time each call;
//! the others are timed as a whole, and the time is divided among the nodes in the proportions of
//! the next fully timed burst with the same end. Calls and packets are counted one by one.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

use afferent_graph::{Header, NodeError, Timestamp};

use super::Worker;
use crate::{
    clock::Moment,
    edge::{
        Inlet,
        port::Input,
        timeline::{Made, stamp_all},
    },
    metrics::histogram::{is_one_of, is_sampled},
    scheduler::node::{Ended, NodeMethod, Phase, Runner, Site, call},
};

/// One call in the chain.
pub(super) struct ChainCall {
    /// Index in the worker.
    runner_index: usize,
    /// Ticks at the end of the call; nanoseconds of the call once it is counted.
    ticks: u64,
    /// Timestamp of its packet.
    at: Timestamp,
    model_ns: u64,
}

/// Largest number of calls that are counted together.
pub(super) const MAX_CHAIN_CALLS: usize = 32;

/// Bursts that take longer have every call timed: the overhead does not matter there.
const SHORT_BURST_NS: u64 = 2000;

/// One of this many short bursts has every call timed.
const ROWS: u64 = 256;

/// Bursts whose calls are not all timed.
pub(super) struct Bursts {
    /// True if the thread has slept since the last burst.
    pub(super) rested: bool,
    /// Duration of the last burst.
    last_ns: u64,
    /// For each node, the time of bursts that ended there and is not divided yet.
    untold_ns: Vec<u64>,
}

impl Bursts {
    pub(super) fn new(nodes: usize) -> Self {
        Self { rested: true, last_ns: 0, untold_ns: vec![0; nodes] }
    }

    /// True if the calls of the next burst, which starts with a packet of this trace, are timed.
    #[inline]
    fn times(&mut self, trace: u64) -> bool {
        mem::take(&mut self.rested) || self.last_ns > SHORT_BURST_NS || is_one_of(ROWS, trace)
    }
}

/// Sets the receivers that are reached by a chain.
pub(super) fn lay(runners: &mut [Runner], receivers: &[Option<usize>]) {
    for (sender, receiver) in receivers.iter().enumerate() {
        let receiver = receiver.filter(|receiver| is_plain(&runners[*receiver]));
        let sender = &mut runners[sender];
        sender.chain_next = receiver.filter(|_| sender.epoch == 0);
    }
}

/// True if a call affects only the node and its receivers.
fn is_plain(runner: &Runner) -> bool {
    let [Input { inlet: Inlet::Local { queue, .. }, marks, .. }] = runner.inputs.as_slice() else {
        return false;
    };
    let is_free = runner.deadline_ns == u64::MAX && !runner.is_watched;
    is_free && !runner.is_timed && runner.join.is_none() && marks.is_empty() && queue.is_plain()
}

impl Worker {
    /// Follows the packets of the node along the chain; returns the node that was called last.
    pub(super) fn follow_chain(&mut self, runner_index: usize) -> usize {
        if self.runners[runner_index].chain_next.is_none() {
            return runner_index;
        }
        self.receiver = runner_index;
        let trace =
            self.runners[runner_index].outbox.iter().next().map(|(_, packet)| packet.header.trace);
        let is_timed = self.bursts.times(trace.unwrap_or_default());
        let start = self.watch.moment.real_ns;
        let ended = catch_unwind(AssertUnwindSafe(|| match is_timed {
            true => self.call_chain_timed(),
            false => self.call_chain::<false>().map(|_| ()),
        }));
        match ended {
            Ok(Ok(())) => {
                let last = &mut self.runners[self.receiver];
                if last.sends_remote {
                    last.send_remote();
                }
                if is_timed {
                    self.count_chain_calls();
                } else if runner_index != self.receiver {
                    self.count_burst();
                }
                self.bursts.last_ns = self.watch.moment.real_ns - start;
            }
            Ok(Err(error)) => self.leave_chain(Ok(Some(error))),
            Err(panic) => self.leave_chain(Err(panic)),
        }
        // The nodes in between had no other work, or were ready before.
        if runner_index != self.receiver && self.runners[runner_index].has_more() {
            self.ready.insert(runner_index);
        }
        self.receiver
    }

    /// Calls one node after the other and counts each call.
    ///
    /// # Errors
    /// As [`Worker::call_chain`].
    fn call_chain_timed(&mut self) -> Result<(), Box<NodeError>> {
        while self.call_chain::<true>()? {
            self.count_chain_calls();
        }
        Ok(())
    }

    /// Calls one node after the other; `self.receiver` is the current one. Calls that are not
    /// `TIMED` are counted here. Returns true if the others have to be counted before the chain
    /// continues.
    ///
    /// # Errors
    /// The error of the node that was called last. Its packet and the sent packets stay in
    /// `self.outboxes`.
    #[inline]
    fn call_chain<const TIMED: bool>(&mut self) -> Result<bool, Box<NodeError>> {
        let Self { runners, chain_calls, watch, receiver: called, near: at_hand, .. } = self;
        let [mut near, mut next] = self.outboxes.each_mut();
        let (mut runner_index, mut chain_next, mut is_full) =
            (*called, runners[*called].chain_next, false);
        *at_hand = 0;
        mem::swap(near, &mut runners[runner_index].outbox);
        while let Some(receiver) = chain_next {
            let runner = &mut runners[receiver];
            let Some((_, packet)) = near.only() else { break };
            let (Some(node), [input]) = (&mut runner.node, runner.inputs.as_mut_slice()) else {
                break;
            };
            let Inlet::Local { queue, .. } = &mut input.inlet else { break };
            if runner.phase != Phase::Running || !runner.outbox.is_empty() || !queue.is_clear() {
                break;
            }
            // A panic leaves the chain, which has to know the node.
            *called = receiver;
            let at = packet.header.at;
            let Runner { outputs, rewinds, context, node_index, .. } = runner;
            let (node, input) = (&mut **node, Some(input));
            let site = Site { node, input, outputs, rewinds, context, node_index: *node_index };
            let (result, _, model_ns) =
                call(site, watch, Some(&mut *packet), true, next, |node, cx| {
                    node.process(cx).map_err(Box::new)
                });
            result?;
            packet.empty();
            near.reuse();
            let Runner { outputs, stats, rewinds, on_time_fault, .. } = runner;
            stamp_all(next, outputs, stats, rewinds, on_time_fault, || Made {
                now: Some(watch.moment.now),
                of: at,
                by_source: false,
            });
            mem::swap(&mut near, &mut next);
            *at_hand ^= 1;
            (runner_index, chain_next) = (receiver, runner.chain_next);
            if TIMED {
                let (ticks, is_near) = watch.ticks();
                chain_calls.push(ChainCall { runner_index, ticks, at, model_ns });
                is_full = !is_near || chain_calls.len() == MAX_CHAIN_CALLS;
                if is_full {
                    break;
                }
            } else {
                runner.stats.count_untimed(model_ns);
            }
        }
        mem::swap(near, &mut runners[runner_index].outbox);
        Ok(is_full)
    }

    /// Counts the time of a burst whose calls were not timed.
    #[inline]
    fn count_burst(&mut self) {
        let start = self.watch.moment.real_ns;
        let end = self.watch.read(&self.shared.clock).real_ns;
        self.bursts.untold_ns[self.receiver] += end - start;
        let last = &mut self.runners[self.receiver];
        last.count_path(end.saturating_sub(last.context.origin.entered_ns));
    }

    /// Handles a failed call of the chain. If its calls were not timed, it gets the time of the
    /// burst.
    #[cold]
    fn leave_chain(&mut self, ended: Ended) {
        let (ticks, _) = self.watch.ticks();
        let receiver = self.receiver;
        let (runner, [packet, sent]) = (&mut self.runners[receiver], &mut self.outboxes);
        if self.near == 1 {
            mem::swap(packet, sent);
        }
        if let Some((_, packet)) = packet.only() {
            runner.context.origin = packet.header.inherited();
        }
        packet.clear();
        mem::swap(sent, &mut runner.outbox);
        let at = runner.context.origin.at;
        self.chain_calls.push(ChainCall { runner_index: receiver, ticks, at, model_ns: 0 });
        self.count_chain_calls();
        let runner = &mut self.runners[receiver];
        let failure = runner.judge(&self.shared, NodeMethod::Process, ended, 0);
        runner.stamp(self.watch.moment, false);
        if let Some(failure) = failure {
            self.fail(receiver, *failure, false);
        }
    }

    /// Counts the calls of the chain, as single calls and edges are counted.
    fn count_chain_calls(&mut self) {
        let Self { chain_calls, bursts, runners, watch, shared, receiver, .. } = self;
        // Derived packets keep the trace.
        let Header { trace, entered_ns, .. } = runners[*receiver].context.origin;
        let is_sampled = is_sampled(trace);
        let mut start = watch.moment.real_ns;
        let row = start;
        for chain_call in chain_calls.iter_mut() {
            let end = watch.ns_at(&shared.clock, chain_call.ticks);
            let runner = &mut runners[chain_call.runner_index];
            runner.stats.count_call(end - start, chain_call.model_ns);
            runner.count_packet(is_sampled, end.saturating_sub(entered_ns));
            if let [input] = runner.inputs.as_mut_slice() {
                input.count_age(Timestamp(start.cast_signed()), chain_call.at, is_sampled);
                if let Inlet::Local { queue, .. } = &mut input.inlet {
                    queue.count_passed();
                }
            }
            chain_call.ticks = end - start;
            start = end;
        }
        let untold_ns = mem::take(&mut bursts.untold_ns[*receiver]);
        if untold_ns > 0 {
            for chain_call in &*chain_calls {
                runners[chain_call.runner_index].stats.busy_ns +=
                    share(untold_ns, chain_call.ticks, start - row);
            }
        }
        chain_calls.clear();
        watch.moment = Moment { now: Timestamp(start.cast_signed()), real_ns: start };
    }

    /// At the end, time that was not divided goes to the nodes where the bursts ended.
    pub(super) fn share_rest(&mut self) {
        for (runner, rest) in self.runners.iter_mut().zip(&mut self.bursts.untold_ns) {
            runner.stats.busy_ns += mem::take(rest);
        }
    }
}

/// Returns `all * part / whole`.
fn share(all: u64, part: u64, whole: u64) -> u64 {
    // A part is not larger than the whole.
    (u128::from(all) * u128::from(part) / u128::from(whole.max(1))) as u64
}
