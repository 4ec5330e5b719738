//! Figures by value, and the report that combines them.

use std::{
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

use afferent_graph::{PortKind, Timestamp};

use crate::{
    EdgeCounts, EdgeReport, JoinCounts, NodeReport, PathReport, PoolReport, Report, RunEnd, Spread,
    run::state::Shared,
};

/// Figures of one thread.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// True if the thread has ended.
    pub(crate) last: bool,
    /// By index in the graph.
    pub(crate) nodes: Vec<(usize, NodeReport)>,
    pub(crate) edges: Vec<(usize, EdgeFigures)>,
    pub(crate) paths: Vec<PathReport>,
    pub(crate) pools: Vec<(usize, PoolReport)>,
    /// Earliest and latest packet of its sources.
    pub(crate) media: Option<(Timestamp, Timestamp)>,
}

/// Figures of the receiver of an edge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EdgeFigures {
    pub(crate) crosses: bool,
    pub(crate) counts: EdgeCounts,
    pub(crate) age: Spread,
    pub(crate) join: Option<JoinCounts>,
}

/// Combines the last answers of the threads into a report.
pub(crate) fn report(shared: &Shared, told: &[Option<Figures>], end: RunEnd) -> Report {
    let graph = &*shared.graph;
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let told = || told.iter().flatten();
    let moment = shared.clock.moment();
    let session_s = moment.now.since(Timestamp::ZERO).as_secs_f64();
    let mut nodes: Vec<_> = graph
        .nodes
        .iter()
        .map(|node| NodeReport { name: node.name.clone(), ..NodeReport::default() })
        .collect();
    for (node_index, node) in told().flat_map(|figures| &figures.nodes) {
        nodes[*node_index] = node.clone();
    }
    let mut edges: Vec<_> = graph
        .edges
        .iter()
        .map(|edge| EdgeReport {
            from: graph.port_name(edge.from, PortKind::Output),
            to: graph.port_name(edge.to, PortKind::Input),
            // The virtual clock has no in-flight limits.
            in_flight: edge.in_flight.filter(|_| shared.clock.lockstep.is_none()),
            ..EdgeReport::default()
        })
        .collect();
    for (index, figures) in told().flat_map(|figures| &figures.edges) {
        let EdgeFigures { crosses, counts, age, join } = *figures;
        let edge = &mut edges[*index];
        (edge.crosses, edge.counts, edge.age, edge.join) = (crosses, counts, age, join);
        edge.rate_hz = if session_s > 0.0 { counts.delivered as f64 / session_s } else { 0.0 };
    }
    // The process of the receiver counts the rest.
    for (index, queue) in &shared.outgoing {
        (edges[*index].crosses, edges[*index].counts) = (true, queue.counts());
    }
    let mut pools: Vec<_> = told().flat_map(|figures| figures.pools.iter().cloned()).collect();
    pools.sort_by_key(|(node_index, _)| *node_index);
    let first = told().filter_map(|figures| figures.media).map(|(first, _)| first).min();
    let last = told().filter_map(|figures| figures.media).map(|(_, last)| last).max();
    let media_ns = first.zip(last).map_or(0, |(first, last)| nanos(last.since(first)));
    let (wall_ns, busy_ns) = (moment.real_ns, nodes.iter().map(|node| node.busy_ns).sum());
    let per_media = |ns: u64| (media_ns > 0).then(|| ns as f64 / media_ns as f64);
    let failures = shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Report {
        machines: Vec::new(),
        graph: graph.name.clone(),
        end,
        wall_ns,
        media_ns,
        busy_ns,
        real_time_factor: per_media(busy_ns),
        wall_per_media: per_media(wall_ns),
        nodes,
        edges,
        paths: told().flat_map(|figures| figures.paths.iter().cloned()).collect(),
        pools: pools.into_iter().map(|(_, pool)| pool).collect(),
        budgets: shared.meters.iter().map(|meter| meter.report(graph)).collect(),
        failures,
    }
}

/// End of a run whose threads have ended.
pub(crate) fn end(shared: &Shared) -> RunEnd {
    match (shared.stop.is_asked(), shared.cut.load(Ordering::Relaxed)) {
        (_, true) => RunEnd::Cut,
        (true, false) => RunEnd::Stopped,
        (false, false) => RunEnd::Complete,
    }
}
