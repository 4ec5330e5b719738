//! Processes and machines that are lost, and those that are back.

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use afferent_engine::{Failure, FailureKind, Handled};
use afferent_spec::{CheckedNode, Edge, OnLoss};

use super::Transport;
use crate::{control::Control, edges::Receiver};

impl Transport {
    /// The process of `partition` has ended unexpectedly, or with `afresh` the program of its machine.
    pub(super) fn lost(self: &Arc<Self>, partition: usize, returns: bool, afresh: bool) {
        let Some(edges) = self.edges.get() else { return };
        for sender in edges.senders.iter().flatten().filter(|sender| sender.to == partition) {
            sender.lose();
            if !returns {
                sender.close();
            }
        }
        for (receiver, edge) in self.receivers_from(|from| from == partition) {
            let returns = returns && edge.on_loss == OnLoss::Wait;
            let loss = receiver.lose(returns, afresh);
            self.react(receiver, edge, returns.then_some(loss));
        }
    }

    /// Receivers of edges whose sender is in a partition that `is_lost`.
    fn receivers_from(
        &self,
        is_lost: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = (&Receiver, &Edge)> {
        let receivers = self.edges.get().into_iter().flat_map(|edges| &edges.receivers).flatten();
        let found = receivers.filter(move |receiver| is_lost(receiver.from));
        found.map(|receiver| (receiver, &self.graph.edges[receiver.incoming.edge]))
    }

    /// Reacts to the loss of the sender of an edge by its `on_loss`; `loss` is its number if the
    /// sender may come back.
    fn react(self: &Arc<Self>, receiver: &Receiver, edge: &Edge, loss: Option<u32>) {
        match edge.on_loss {
            OnLoss::Wait => {
                if let (Some(loss), Some(timeout)) = (loss, edge.loss_timeout) {
                    self.limit_loss(receiver.incoming.edge, loss, timeout);
                }
            }
            OnLoss::End => receiver.end(),
            OnLoss::Stop => {
                receiver.end();
                if let Some(edges) = self.edges.get() {
                    edges.stop.stop();
                }
            }
        }
    }

    /// Ends the stream of an edge if its sender is not back `timeout` after the loss with this
    /// number.
    fn limit_loss(self: &Arc<Self>, edge: usize, loss: u32, timeout: Duration) {
        let transport = Arc::downgrade(self);
        let give_up = move || {
            thread::sleep(timeout);
            let Some(transport) = transport.upgrade() else { return };
            let receiver = transport.edges.get().and_then(|edges| edges.receivers[edge].as_ref());
            if let Some(name) = receiver.and_then(|receiver| receiver.give_up(loss)) {
                tracing::warn!("edge {name}: the sender is not back after {timeout:?}; it ends");
            }
        };
        drop(thread::Builder::new().name("loss".to_owned()).spawn(give_up));
    }

    /// The connection to the process of `partition` has ended: that of a machine only if its
    /// messages are against the protocol.
    pub(super) fn gone(self: &Arc<Self>, partition: usize, reason: &str) {
        self.links()[partition] = None;
        let has_ended = self.progress().ended.contains(&partition);
        if has_ended || self.is_over.load(Ordering::Acquire) {
            self.changed.notify_all();
            return;
        }
        let name = self.name(partition);
        let has_started = self.progress().start_ns.is_some();
        let is_own = self.main_of(partition) == self.main_of(self.here);
        let gone = self.gone.get().filter(|_| has_started && is_own);
        let returns = gone.is_some_and(|gone| gone(partition));
        let message = match is_own {
            true => format!("process {name} has ended: {reason}"),
            false => format!("the connection to machine {name} has ended: {reason}"),
        };
        let lost = match is_own {
            true => vec![partition],
            false => {
                tracing::error!("{message}");
                self.partitions_of(partition)
            }
        };
        for partition in lost {
            let failures = self.failures_of(partition, &message);
            self.tell(|progress| {
                progress.open.remove(&partition);
                if !returns {
                    progress.ended.insert(partition);
                    progress.failures.extend(failures);
                    progress.failed.get_or_insert(message.clone());
                }
            });
            self.lost(partition, returns, false);
            if self.is_main() {
                let gone = Control::Gone { partition, returns, afresh: false };
                self.spread(&gone, Some(partition));
            }
        }
        if !self.is_main()
            && let Some(edges) = self.edges.get()
        {
            // Without the main process of its machine, nothing connects this one.
            tracing::error!("the main process has ended; this one stops");
            edges.stop.stop();
        }
    }

    /// A failure for each node of a lost process.
    pub(super) fn failures_of(&self, partition: usize, message: &str) -> Vec<Failure> {
        let at = self.edges.get().map_or(0, |edges| edges.clock.now().0);
        let at_ns = u64::try_from(at).unwrap_or(0);
        let nodes = self.graph.nodes.iter().filter(|node| node.partition == partition);
        let failure = |node: &CheckedNode| Failure {
            node: node.name.clone(),
            kind: FailureKind::Lost,
            at_ns,
            message: message.to_owned(),
            handled: Handled::Stopped,
        };
        nodes.map(failure).collect()
    }

    /// The machine with the main process `main` cannot be reached.
    pub(super) fn paused(self: &Arc<Self>, main: usize, reason: &str) {
        let has_ended = self.progress().ended.contains(&main);
        if has_ended || self.is_over.load(Ordering::Acquire) {
            self.changed.notify_all();
            return;
        }
        tracing::warn!("machine {} cannot be reached: {reason}", self.name(main));
        self.away(main);
        self.tell_processes(&Control::Away { partition: main });
    }

    /// The link to a machine stands, for the first time or again.
    pub(super) fn resumed(&self, main: usize) {
        if self.progress().away.contains(&main) {
            tracing::info!("machine {} is back", self.name(main));
        }
        self.back(main);
        self.tell_processes(&Control::Back { partition: main });
        self.resume(main);
    }

    /// Applies `on_loss` to the edges from a machine that cannot be reached.
    pub(super) fn away(self: &Arc<Self>, main: usize) {
        self.tell(|progress| {
            progress.away.insert(main);
        });
        for (receiver, edge) in self.receivers_from(|from| self.main_of(from) == main) {
            let loss = receiver.pause();
            self.react(receiver, edge, Some(loss));
        }
    }

    /// Takes the edges from a machine that can be reached again as they were.
    pub(super) fn back(&self, main: usize) {
        self.tell(|progress| {
            progress.away.remove(&main);
        });
        self.receivers_from(|from| self.main_of(from) == main)
            .for_each(|(receiver, _)| receiver.resume());
    }

    /// The program on a machine was started again.
    pub(super) fn restarted(self: &Arc<Self>, main: usize) {
        tracing::warn!("machine {} was started again", self.name(main));
        self.without_machine(main);
        // The one before may have received it.
        if self.progress().is_open {
            self.send_open(main);
        }
    }

    /// A machine has ended its part of the graph, or was stopped and may come back.
    pub(super) fn left(self: &Arc<Self>, main: usize, stopped: bool) {
        if stopped && !self.progress().stops {
            tracing::warn!("machine {} has left the graph", self.name(main));
            self.without_machine(main);
        }
        self.tell(|progress| progress.ended.extend(self.partitions_of(main)));
    }

    /// The programs of a machine are gone, and new ones may come.
    fn without_machine(self: &Arc<Self>, main: usize) {
        if let Some(connection) = &mut self.links()[main] {
            connection.has_joined = false;
        }
        let partitions = self.partitions_of(main);
        self.drop_relayed(&partitions);
        for partition in partitions {
            self.tell(|progress| {
                progress.open.remove(&partition);
                progress.ended.remove(&partition);
                progress.reports[partition] = None;
                progress.parts[partition].clear();
            });
            self.lost(partition, true, true);
            self.tell_processes(&Control::Gone { partition, returns: true, afresh: true });
        }
    }
}
