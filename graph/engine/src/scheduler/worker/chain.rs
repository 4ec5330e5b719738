//! Hops between nodes that need nothing but a call.
//!
//! What a call costs beside the work of the node is there for what can happen: several inputs,
//! deadlines, budgets, observers, interrupts. Between two nodes that have none of these, a packet
//! goes along a lane: as many nodes as it passes are called in a row, and of each hop only the
//! ticks of the processor are taken down. What they mean is counted behind the last hop. What goes
//! wrong leaves the lane.
//!
//! Reading the ticks costs more than such a hop. So a thread that does not come to rest between
//! packets, and whose rows are short, times each hop of the first packets and of a few that follow,
//! and of the others the row as a whole: that time is shared out among the nodes as the next timed
//! row that ends where it ended tells. Calls and packets are counted one by one.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

use afferent_graph::{Header, NodeError, Timestamp};

use super::Group;
use crate::{
    clock::Moment,
    edge::{
        Inlet,
        port::Input,
        timeline::{Made, stamp_all},
    },
    metrics::histogram::{is_one_of, is_sampled},
    scheduler::node::{Ended, Method, Phase, Runner, Site, call},
};

/// A node that was called in the lane.
pub(super) struct Hop {
    /// In the group.
    node_index: usize,
    /// When the call had ended; once it is counted, the nanoseconds that it took.
    ticks: u64,
    /// The time of its packet.
    at: Timestamp,
    model_ns: u64,
}

/// Hops that are counted together, at most.
pub(super) const HOPS: usize = 32;

/// The hops of a row that takes longer are all timed: what that costs does not matter there.
const SHORT_ROW_NS: u64 = 2000;

/// Of so many short rows one has its hops timed.
const ROWS: u64 = 256;

/// Rows of calls whose hops are not all timed.
pub(super) struct Rows {
    /// Whether the thread has slept since the last row.
    pub(super) rested: bool,
    /// How long the last row took.
    last_ns: u64,
    /// For each node the time of rows that ended there which is not shared out yet.
    untold_ns: Vec<u64>,
}

impl Rows {
    pub(super) fn new(nodes: usize) -> Self {
        Self { rested: true, last_ns: 0, untold_ns: vec![0; nodes] }
    }

    /// Whether the hops of the next row are timed, which begins with a packet of this trace.
    #[inline]
    fn times(&mut self, trace: u64) -> bool {
        mem::take(&mut self.rested) || self.last_ns > SHORT_ROW_NS || is_one_of(ROWS, trace)
    }
}

/// Tells the nodes of which receivers are reached by a lane.
pub(super) fn lay(runners: &mut [Runner], receivers: &[Option<usize>]) {
    for (sender, receiver) in receivers.iter().enumerate() {
        let receiver = receiver.filter(|receiver| is_plain(&runners[*receiver]));
        let sender = &mut runners[sender];
        sender.lane = receiver.filter(|_| sender.epoch == 0);
    }
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
    pub(super) fn run_lane(&mut self, node_index: usize) -> usize {
        if self.runners[node_index].lane.is_none() {
            return node_index;
        }
        self.receiver = node_index;
        let trace =
            self.runners[node_index].outbox.iter().next().map(|(_, packet)| packet.header.trace);
        let is_timed = self.rows.times(trace.unwrap_or_default());
        let start = self.watch.moment.real_ns;
        let ended = catch_unwind(AssertUnwindSafe(|| match is_timed {
            true => self.timed_hops(),
            false => self.hop_on::<false>().map(|_| ()),
        }));
        match ended {
            Ok(Ok(())) => {
                let last = &mut self.runners[self.receiver];
                if last.sends_far {
                    last.send_far();
                }
                if is_timed {
                    self.count_hops();
                } else if node_index != self.receiver {
                    self.count_row();
                }
                self.rows.last_ns = self.watch.moment.real_ns - start;
            }
            Ok(Err(error)) => self.leave_lane(Ok(Some(error))),
            Err(panic) => self.leave_lane(Err(panic)),
        }
        // Those on the way had nothing else to do, or were ready before.
        if node_index != self.receiver && self.runners[node_index].has_more() {
            self.ready.insert(node_index);
        }
        self.receiver
    }

    /// Calls one node after the other, and counts each.
    ///
    /// # Errors
    /// As [`Group::hop_on`].
    fn timed_hops(&mut self) -> Result<(), Box<NodeError>> {
        while self.hop_on::<true>()? {
            self.count_hops();
        }
        Ok(())
    }

    /// Calls one node after the other; `self.receiver` says where it is. Hops that are not `TIMED`
    /// are counted here; whether the others have to be counted before more are made.
    ///
    /// # Errors
    /// That of the node that was called last. It is left as it is, and what it sent with the packet
    /// in `self.hands`.
    #[inline]
    fn hop_on<const TIMED: bool>(&mut self) -> Result<bool, Box<NodeError>> {
        let Self { runners, hops, watch, receiver: called, near: at_hand, .. } = self;
        let [mut near, mut next] = self.hands.each_mut();
        let (mut node_index, mut lane, mut is_full) = (*called, runners[*called].lane, false);
        *at_hand = 0;
        mem::swap(near, &mut runners[node_index].outbox);
        while let Some(receiver) = lane {
            let runner = &mut runners[receiver];
            let Some((_, packet)) = near.only() else { break };
            let (Some(node), [input]) = (&mut runner.node, runner.inputs.as_mut_slice()) else {
                break;
            };
            let Inlet::Near { queue, .. } = &mut input.inlet else { break };
            if runner.phase != Phase::Running || !runner.outbox.is_empty() || !queue.is_clear() {
                break;
            }
            // A panic leaves the chain: it has to know whose it was.
            *called = receiver;
            let at = packet.header.at;
            let Runner { outputs, rewinds, context, node_index: number, .. } = runner;
            let (node, input) = (&mut **node, Some(input));
            let site = Site { node, input, outputs, rewinds, context, number: *number };
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
            (node_index, lane) = (receiver, runner.lane);
            if TIMED {
                let (ticks, is_near) = watch.ticks();
                hops.push(Hop { node_index, ticks, at, model_ns });
                is_full = !is_near || hops.len() == HOPS;
                if is_full {
                    break;
                }
            } else {
                runner.stats.count_untimed(model_ns);
            }
        }
        mem::swap(near, &mut runners[node_index].outbox);
        Ok(is_full)
    }

    /// Counts the time of a row whose hops were not timed.
    #[inline]
    fn count_row(&mut self) {
        let start = self.watch.moment.real_ns;
        let end = self.watch.read(&self.shared.clock).real_ns;
        self.rows.untold_ns[self.receiver] += end - start;
        let last = &mut self.runners[self.receiver];
        last.count_path(end.saturating_sub(last.context.origin.entered_ns));
    }

    /// What a call needs that went wrong in the lane. Where hops were not timed, it gets the time of
    /// its row.
    #[cold]
    fn leave_lane(&mut self, ended: Ended) {
        let (ticks, _) = self.watch.ticks();
        let receiver = self.receiver;
        let (runner, [packet, sent]) = (&mut self.runners[receiver], &mut self.hands);
        if self.near == 1 {
            mem::swap(packet, sent);
        }
        if let Some((_, packet)) = packet.only() {
            runner.context.origin = packet.header.inherited();
        }
        packet.clear();
        mem::swap(sent, &mut runner.outbox);
        let at = runner.context.origin.at;
        self.hops.push(Hop { node_index: receiver, ticks, at, model_ns: 0 });
        self.count_hops();
        let runner = &mut self.runners[receiver];
        let failure = runner.judge(&self.shared, Method::Process, ended, 0);
        runner.stamp(self.watch.moment, false);
        if let Some(failure) = failure {
            self.fail(receiver, *failure, false);
        }
    }

    /// Counts the hops that were made, as calls and edges are counted elsewhere.
    fn count_hops(&mut self) {
        let Self { hops, rows, runners, watch, shared, receiver, .. } = self;
        // What is made of a packet keeps its trace.
        let Header { trace, entered_ns, .. } = runners[*receiver].context.origin;
        let is_sampled = is_sampled(trace);
        let mut start = watch.moment.real_ns;
        let row = start;
        for hop in hops.iter_mut() {
            let end = watch.ns_at(&shared.clock, hop.ticks);
            let runner = &mut runners[hop.node_index];
            runner.stats.count_call(end - start, hop.model_ns);
            runner.count_packet(is_sampled, end.saturating_sub(entered_ns));
            if let [input] = runner.inputs.as_mut_slice() {
                input.count_age(Timestamp(start.cast_signed()), hop.at, is_sampled);
                if let Inlet::Near { queue, .. } = &mut input.inlet {
                    queue.count_passed();
                }
            }
            hop.ticks = end - start;
            start = end;
        }
        let untold_ns = mem::take(&mut rows.untold_ns[*receiver]);
        if untold_ns > 0 {
            for hop in &*hops {
                runners[hop.node_index].stats.busy_ns += share(untold_ns, hop.ticks, start - row);
            }
        }
        hops.clear();
        watch.moment = Moment { now: Timestamp(start.cast_signed()), real_ns: start };
    }

    /// At the end, what no timed row told about goes to the nodes where the rows ended.
    pub(super) fn share_rest(&mut self) {
        for (runner, rest) in self.runners.iter_mut().zip(&mut self.rows.untold_ns) {
            runner.stats.busy_ns += mem::take(rest);
        }
    }
}

/// The part of `all` that `part` is of `whole`.
fn share(all: u64, part: u64, whole: u64) -> u64 {
    // No part is larger than the whole.
    (u128::from(all) * u128::from(part) / u128::from(whole.max(1))) as u64
}
