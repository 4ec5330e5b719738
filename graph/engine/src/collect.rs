//! The report of a run, and the end of its nodes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use afferent_graph::Timestamp;

use crate::{
    CheckedGraph, EdgeCounts, EdgeReport, JoinCounts, NodeReport, PathReport, PoolReport, Report,
    RunEnd, Spread, clock::Watch, runner::Runner, shared::Shared, wire::end_name,
};

/// What one thread has counted.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Whether the thread is at its end.
    pub(crate) last: bool,
    /// By place in the graph.
    nodes: Vec<(usize, NodeReport)>,
    edges: Vec<(usize, EdgeFigures)>,
    paths: Vec<PathReport>,
    pools: Vec<(usize, PoolReport)>,
    /// The earliest and the latest packet of its sources.
    media: Option<(Timestamp, Timestamp)>,
}

/// What the receiver of an edge has counted.
#[derive(Debug, Clone, Copy)]
struct EdgeFigures {
    crosses: bool,
    counts: EdgeCounts,
    age: Spread,
    join: Option<JoinCounts>,
}

/// What the thread `index` has counted, whose nodes are `runners`.
pub(crate) fn figures(
    graph: &CheckedGraph,
    index: usize,
    runners: &[Runner],
    last: bool,
) -> Figures {
    let mut figures = Figures { last, ..Figures::default() };
    for runner in runners {
        figures.nodes.push((runner.place, node(index, runner)));
        for input in &runner.inputs {
            let (mut counts, age) = (input.inlet.counts(), input.ages.spread());
            // A node that is called untimed has no other input.
            counts.add_passed(runner.stats.untimed());
            let (crosses, join) = (input.inlet.is_far(), runner.join_counts(input.edge));
            figures.edges.push((input.edge, EdgeFigures { crosses, counts, age, join }));
        }
        figures.paths.extend(runner.stats.paths().map(|(source, measured, latency)| PathReport {
            from: graph.nodes.get(source).map_or_else(String::new, |node| node.name.clone()),
            to: runner.name.clone(),
            measured,
            latency,
        }));
        for (port, pool) in &runner.around.outputs {
            let pool = PoolReport {
                output: format!("{}.{port}", runner.name),
                values: pool.capacity(),
                made: pool.made(),
                free: pool.free(),
            };
            figures.pools.push((runner.place, pool));
        }
        if let Some((first, last)) = runner.stats.media {
            let (earliest, latest) = figures.media.unwrap_or((first, last));
            figures.media = Some((earliest.min(first), latest.max(last)));
        }
    }
    figures
}

fn node(thread: usize, runner: &Runner) -> NodeReport {
    let stats = &runner.stats;
    NodeReport {
        name: runner.name.clone(),
        thread,
        calls: stats.calls(),
        packets_in: stats.packets_in(),
        packets_out: stats.packets_out,
        timestamp_faults: stats.timestamp_faults,
        errors: stats.errors,
        overruns: stats.overruns,
        restarts: stats.restarts.into(),
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

/// The report of a run of which each thread has told `told`.
pub(crate) fn report(shared: &Shared, told: &[Option<Figures>], end: RunEnd) -> Report {
    let graph = &*shared.graph;
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let told = || told.iter().flatten();
    let moment = Watch::new(&shared.clock, 0, Arc::default()).moment;
    let session_s = moment.now.since(Timestamp::ZERO).as_secs_f64();
    let mut nodes: Vec<_> = graph
        .nodes
        .iter()
        .map(|node| NodeReport { name: node.name.clone(), ..NodeReport::default() })
        .collect();
    for (place, node) in told().flat_map(|figures| &figures.nodes) {
        nodes[*place] = node.clone();
    }
    let mut edges: Vec<_> = graph
        .edges
        .iter()
        .map(|edge| EdgeReport {
            from: end_name(graph, edge.from),
            to: end_name(graph, edge.to),
            // On the virtual clock nothing is limited.
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
    let mut pools: Vec<_> = told().flat_map(|figures| figures.pools.iter().cloned()).collect();
    pools.sort_by_key(|(place, _)| *place);
    let first = told().filter_map(|figures| figures.media).map(|(first, _)| first).min();
    let last = told().filter_map(|figures| figures.media).map(|(_, last)| last).max();
    let media_ns = first.zip(last).map_or(0, |(first, last)| nanos(last.since(first)));
    let (wall_ns, busy_ns) = (moment.real_ns, nodes.iter().map(|node| node.busy_ns).sum());
    let per_media = |ns: u64| (media_ns > 0).then(|| ns as f64 / media_ns as f64);
    let failures = shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Report {
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

/// How a run ended whose threads have ended.
pub(crate) fn end(shared: &Shared) -> RunEnd {
    match (shared.stop.is_asked(), shared.cut.load(Ordering::Relaxed)) {
        (_, true) => RunEnd::Cut,
        (true, false) => RunEnd::Stopped,
        (false, false) => RunEnd::Complete,
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
