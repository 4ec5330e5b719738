//! The report of a run that has ended, and the end of its nodes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

use crate::{
    CheckedGraph, EdgeCounts, EdgeReport, NodeReport, Report, RunEnd, runner::Runner,
    shared::Shared, wire::end_name,
};

/// What is left of a run.
pub(crate) struct Outcome<'o> {
    pub(crate) graph: &'o CheckedGraph,
    pub(crate) shared: &'o Shared,
    /// For each thread its nodes, unless it was lost.
    pub(crate) groups: &'o [Option<Vec<Runner>>],
    pub(crate) wall: Duration,
}

impl Outcome<'_> {
    /// The node at `place` of the graph, and its thread.
    fn runner(&self, place: usize) -> Option<(usize, &Runner)> {
        let groups = self.groups.iter().enumerate();
        let mut runners = groups.flat_map(|(index, runners)| {
            runners.iter().flatten().map(move |runner| (index, runner))
        });
        runners.find(|(_, runner)| runner.place == place)
    }

    fn node(&self, place: usize) -> NodeReport {
        let name = self.graph.nodes[place].name.clone();
        let Some((thread, Runner { stats, .. })) = self.runner(place) else {
            return NodeReport { name, ..NodeReport::default() };
        };
        NodeReport {
            name,
            thread,
            calls: stats.calls,
            packets_in: stats.packets_in,
            packets_out: stats.packets_out,
            timestamp_faults: stats.timestamp_faults,
            errors: stats.errors,
            overruns: stats.overruns,
            restarts: stats.restarts,
            degraded: stats.degraded,
            last_error: stats.last_error.clone(),
            interrupts: stats.interrupts,
            cancelled: stats.cancelled,
            busy_ns: stats.busy_ns,
            model_ns: stats.model_ns,
            call: stats.call(),
            latency: stats.latency(),
        }
    }

    fn edge(&self, index: usize) -> EdgeReport {
        let edge = &self.graph.edges[index];
        let receiver = self.runner(edge.to.0);
        let input =
            receiver.and_then(|(_, runner)| runner.inputs.iter().find(|input| input.edge == index));
        EdgeReport {
            from: end_name(self.graph, edge.from),
            to: end_name(self.graph, edge.to),
            crosses: input.is_some_and(|input| input.inlet.is_far()),
            counts: input.map_or_else(EdgeCounts::default, |input| input.inlet.counts()),
            join: receiver.and_then(|(_, runner)| runner.join_counts(index)),
        }
    }
}

pub(crate) fn report(outcome: &Outcome<'_>) -> Report {
    let Outcome { graph, shared, groups, wall } = outcome;
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let nodes: Vec<_> = (0..graph.nodes.len()).map(|place| outcome.node(place)).collect();
    let runners = || groups.iter().flatten().flatten();
    let first = runners().filter_map(|runner| runner.stats.media).map(|(first, _)| first).min();
    let last = runners().filter_map(|runner| runner.stats.media).map(|(_, last)| last).max();
    let media_ns = first.zip(last).map_or(0, |(first, last)| nanos(last.since(first)));
    let (wall_ns, busy_ns) = (nanos(*wall), nodes.iter().map(|node| node.busy_ns).sum());
    let per_media = |ns: u64| (media_ns > 0).then(|| ns as f64 / media_ns as f64);
    let failures = shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Report {
        graph: graph.name.clone(),
        end: match (shared.stop.is_asked(), shared.cut.load(Ordering::Relaxed)) {
            (_, true) => RunEnd::Cut,
            (true, false) => RunEnd::Stopped,
            (false, false) => RunEnd::Complete,
        },
        wall_ns,
        media_ns,
        busy_ns,
        real_time_factor: per_media(busy_ns),
        wall_per_media: per_media(wall_ns),
        nodes,
        edges: (0..graph.edges.len()).map(|index| outcome.edge(index)).collect(),
        budgets: shared.meters.iter().map(|meter| meter.report(graph)).collect(),
        failures,
    }
}

/// Closes the nodes, each before those that it sends to.
pub(crate) fn close(order: &[usize], groups: Vec<Option<Vec<Runner>>>) {
    let mut runners: Vec<Runner> = groups.into_iter().flatten().flatten().collect();
    let rank = |place: usize| order.iter().position(|other| *other == place);
    runners.sort_by_key(|runner| rank(runner.place));
    for runner in runners {
        // A node that panics while it closes does not keep the others open.
        drop(catch_unwind(AssertUnwindSafe(|| drop(runner))));
    }
}
