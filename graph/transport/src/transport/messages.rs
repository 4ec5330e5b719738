//! Control messages: to other processes and machines, and from them.

use std::sync::Arc;

use afferent_graph::{Header, Timestamp};

use super::{Connection, Transport};
use crate::{control::Control, frame::Head};

impl Transport {
    pub(crate) fn send_control(&self, partition: usize, message: &Control) {
        if let Some(Connection { link, .. }) = self.connection_to(partition) {
            // Messages have no maps with keys that are not strings, which alone could fail.
            let text = serde_json::to_vec(message).unwrap_or_default();
            link.send(&Head::Control, &text);
        }
    }

    /// Tells the other processes of this machine.
    pub(super) fn tell_processes(&self, message: &Control) {
        self.own_partitions().iter().for_each(|own| self.send_control(*own, message));
    }

    /// Tells every connected process but the one that the message came from.
    pub(super) fn spread(&self, message: &Control, from: Option<usize>) {
        let is_from_machine =
            from.is_some_and(|from| self.main_of(from) != self.main_of(self.here));
        for partition in 0..self.graph.partitions.len() {
            let is_connected = self.links()[partition].is_some() && Some(partition) != from;
            let is_machine = self.main_of(partition) != self.main_of(self.here);
            // Machines are connected with each other.
            if is_connected && !(is_from_machine && is_machine) {
                self.send_control(partition, message);
            }
        }
    }

    /// True if another machine has sent a message that only the own machine or the first one may
    /// send, or one about a process that is not its own.
    fn is_foreign(&self, from: usize, message: &Control) -> bool {
        let is_own = self.main_of(from) == self.main_of(self.here);
        let is_foreign = match message {
            Control::Clock { .. } | Control::Away { .. } | Control::Back { .. } => true,
            Control::Gone { partition, .. } => self.main_of(*partition) != from,
            Control::Stop { .. } => from != 0,
            _ => false,
        };
        !is_own && is_foreign
    }

    pub(super) fn control(self: &Arc<Self>, from: usize, message: Control) -> Result<(), String> {
        if self.is_foreign(from, &message) {
            return Err(format!("it may not send {message:?}"));
        }
        match message {
            Control::Open { shape } => self.opened(from, &shape),
            Control::Refused { reason } if self.progress().start_ns.is_some() => {
                tracing::error!("{reason}");
            }
            Control::Refused { reason } => {
                self.tell(|progress| {
                    progress.failed.get_or_insert(reason);
                });
            }
            Control::Go { start_ns, epoch } => {
                self.tell(|progress| {
                    progress.go.get_or_insert((from, start_ns));
                    progress.epoch = progress.epoch.max(epoch);
                });
                // Another machine says by itself when it is ready.
                if self.main_of(from) == self.main_of(self.here) {
                    self.join(from);
                }
            }
            Control::Ready => self.join(from),
            Control::Clock { start_ns } => self.follow(start_ns),
            Control::Epoch(epoch) => {
                if let Some(edges) = self.edges.get() {
                    edges.interrupt.raise(epoch);
                }
                self.tell(|progress| progress.epoch = progress.epoch.max(epoch));
                self.spread(&Control::Epoch(epoch), Some(from));
            }
            Control::Stop { everywhere } => {
                self.tell(|progress| progress.stops |= everywhere);
                if let Some(edges) = self.edges.get() {
                    edges.stop.stop();
                }
                self.spread_stop(Some(from));
            }
            Control::Gone { partition, returns, afresh } => {
                self.lost(partition, returns, afresh);
                self.spread(&message, Some(from));
            }
            Control::Away { partition } => self.away(partition),
            Control::Back { partition } => self.back(partition),
            Control::Left { stopped } => self.left(from, stopped),
            Control::Passed { .. } | Control::Reached { .. } if self.here != 0 => {
                self.send_figure(&message);
            }
            Control::Passed { budget, starts, trace, real_ns } => {
                self.edges.wait().budgets.pass(budget, starts, trace, real_ns);
            }
            Control::Reached { output, now, at, trace, model_ns } => {
                let header = Header { at: Timestamp(at), trace, model_ns, ..Header::default() };
                if let Some(reached) = self.reached.get() {
                    reached(output, Timestamp(now), &header);
                }
            }
            Control::Ask => self.answer(from),
            Control::Figures { partition, text, ends } => {
                self.collect(from, partition, &text, ends)?;
            }
        }
        Ok(())
    }

    /// Sends a figure to the first process, unless its machine cannot be reached.
    pub(crate) fn send_figure(&self, message: &Control) {
        if self.connection_to(0).is_some_and(|found| found.link.is_up()) {
            self.send_control(0, message);
        }
    }

    /// Tells the others that the run stops: the other machines only if this is the first one. A
    /// machine that stops alone leaves the graph.
    pub(super) fn spread_stop(&self, from: Option<usize>) {
        let everywhere = self.main_of(self.here) == 0 || self.progress().stops;
        let mut others = self.own_partitions();
        if self.here == 0 {
            others.extend(self.machines());
        }
        for other in others.into_iter().filter(|other| Some(*other) != from) {
            self.send_control(other, &Control::Stop { everywhere });
        }
    }

    /// True if this machine stops while the others go on: it leaves the graph.
    pub(super) fn leaves(&self) -> bool {
        let is_asked = self.edges.get().is_some_and(|edges| edges.stop.is_asked());
        is_asked && self.main_of(self.here) != 0 && !self.progress().stops
    }
}
