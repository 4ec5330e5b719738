//! The transport as the border of a session.

use std::time::{Duration, Instant};

use afferent_engine::{Border, BorderEnds};

use super::{Edges, Progress, Transport};
use crate::{
    clock::{instant, monotonic_ns},
    control::Control,
    edges::{Receiver, Sender},
    shape,
};

/// Time that the processes of a graph have to open their nodes.
const OPEN_TIMEOUT: Duration = Duration::from_secs(120);

impl Border for Transport {
    fn is_here(&self, node_index: usize) -> bool {
        self.graph.partition_of(node_index) == self.here
    }

    fn begin(&self) -> Result<Instant, String> {
        let awaited = self.awaited();
        let is_open = |progress: &Progress| {
            progress.failed.is_some() || awaited.iter().all(|one| progress.open.contains(one))
        };
        let end = Instant::now() + OPEN_TIMEOUT;
        let progress = self.wait(end, is_open);
        if let Some(reason) = &progress.failed {
            return Err(reason.clone());
        }
        let missing = awaited.iter().filter(|one| !progress.open.contains(one));
        let missing: Vec<_> = missing.map(|one| self.name(*one)).collect();
        if !missing.is_empty() {
            let names = missing.join(", ");
            return Err(format!("process {names} was not ready after {OPEN_TIMEOUT:?}"));
        }
        drop(progress);
        if self.here == 0 {
            let start_ns = monotonic_ns();
            self.tell(|progress| (progress.start_ns, progress.epoch) = (Some(start_ns), 1));
            awaited.iter().for_each(|partition| self.start(*partition, start_ns, 1));
        } else {
            let to = if self.here == self.main_of(self.here) { 0 } else { self.main_of(self.here) };
            self.send_control(to, &Control::Open { shape: shape::of(&self.graph) });
        }
        let has_started =
            |progress: &Progress| progress.start_ns.is_some() || progress.failed.is_some();
        let progress = self.wait(Instant::now() + OPEN_TIMEOUT, has_started);
        match (progress.start_ns, &progress.failed) {
            (Some(start_ns), _) => Ok(instant(start_ns)),
            (None, Some(reason)) => Err(reason.clone()),
            (None, None) => {
                Err(format!("the main process did not start the session in {OPEN_TIMEOUT:?}"))
            }
        }
    }

    fn connect(&self, ends: BorderEnds) {
        let mut senders: Vec<_> = self.codecs.iter().map(|_| None).collect();
        let mut receivers: Vec<_> = self.codecs.iter().map(|_| None).collect();
        let BorderEnds { outgoing, incoming, interrupt, stop, budgets, clock } = ends;
        for outgoing in outgoing {
            let index = outgoing.edge;
            let edge = &self.graph.edges[index];
            let Some(codec) = self.codecs[index] else { continue };
            let to = self.graph.partition_of(edge.to.0);
            let name = self.graph.edge_name(edge);
            let sender = Sender::new(edge, name, (outgoing, to), codec, self.incarnation);
            senders[index] = Some(sender);
        }
        for incoming in incoming {
            let index = incoming.edge;
            let edge = &self.graph.edges[index];
            let Some(codec) = self.codecs[index] else { continue };
            let from = self.graph.partition_of(edge.from.0);
            let name = self.graph.edge_name(edge);
            receivers[index] = Some(Receiver::new(edge, name, (incoming, from), codec));
        }
        let progress = self.progress();
        let (epoch, stops) = (progress.epoch, progress.stops);
        drop(progress);
        interrupt.raise(epoch);
        if stops {
            stop.stop();
        }
        let edges = Edges { senders, receivers, interrupt, stop, budgets, clock };
        drop(self.edges.set(edges));
    }

    fn send(&self, edge: usize) {
        if let Some(sender) = self.edges.get().and_then(|edges| edges.senders[edge].as_ref()) {
            self.pump(sender);
        }
    }

    fn taken(&self, edge: usize) {
        if let Some(receiver) = self.edges.get().and_then(|edges| edges.receivers[edge].as_ref()) {
            self.acknowledge(receiver);
        }
    }

    fn interrupted(&self, epoch: u32) {
        self.spread(&Control::Epoch(epoch), None);
    }

    fn passed(&self, budget: usize, starts: bool, trace: u64, real_ns: u64) -> bool {
        if self.here == 0 {
            return false;
        }
        self.send_control(0, &Control::Passed { budget, starts, trace, real_ns });
        true
    }

    fn stopped(&self) {
        self.spread(&Control::Stop, None);
        self.changed.notify_all();
    }
}
