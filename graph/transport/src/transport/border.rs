//! The transport as the border of a session.

use std::time::Instant;

use afferent_engine::{Border, BorderEnds};

use super::{Edges, Transport};
use crate::{
    control::Control,
    edges::{Receiver, Sender},
};

impl Border for Transport {
    fn is_here(&self, node_index: usize) -> bool {
        self.graph.partition_of(node_index) == self.here
    }

    fn begin(&self) -> Result<Instant, String> {
        self.begin_together().inspect_err(|reason| self.abort(reason))
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
        if self.is_main() {
            self.machines().iter().for_each(|machine| self.send_control(*machine, &Control::Ready));
        }
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
        self.send_figure(&Control::Passed { budget, starts, trace, real_ns });
        true
    }

    fn stopped(&self) {
        self.spread_stop(None);
        self.changed.notify_all();
    }
}
