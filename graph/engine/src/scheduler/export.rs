//! Figures of the nodes of a thread, by value; closing of nodes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};

use crate::{
    NodeReport, PathReport, PoolReport,
    run::snapshot::{EdgeFigures, Figures},
    scheduler::node::Runner,
};
use afferent_spec::CheckedGraph;

/// Figures of the thread `index` with the nodes `runners`.
pub(crate) fn figures(
    graph: &CheckedGraph,
    index: usize,
    runners: &[Runner],
    last: bool,
) -> Figures {
    let mut figures = Figures { last, ..Figures::default() };
    for runner in runners {
        figures.nodes.push((runner.node_index, node(index, runner)));
        for input in &runner.inputs {
            let (mut counts, age) = (input.inlet.counts(), input.ages.spread());
            // A node with untimed calls has no other input.
            counts.add_passed(runner.stats.untimed());
            let (crosses, join) = (input.inlet.is_remote(), runner.join_counts(input.edge));
            figures.edges.push((input.edge, EdgeFigures { crosses, counts, age, join }));
        }
        figures.paths.extend(runner.stats.paths().map(|(source, measured, latency)| PathReport {
            from: graph.nodes.get(source).map_or_else(String::new, |node| node.name.clone()),
            to: runner.name.clone(),
            measured,
            latency,
            clock_bound_ns: 0,
        }));
        for (port, pool) in &runner.context.outputs {
            let pool = PoolReport {
                output: format!("{}.{port}", runner.name),
                values: pool.capacity(),
                allocated: pool.allocated(),
                free: pool.free(),
                copied: pool.copied(),
            };
            figures.pools.push((runner.node_index, pool));
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
        undeclared: runner.context.undeclared.load(Ordering::Relaxed),
        errors: stats.errors,
        overruns: stats.overruns,
        restarts: stats.restarts.into(),
        degraded: stats.degraded,
        last_error: stats.last_error.clone(),
        interrupts: stats.interrupts,
        canceled: stats.canceled,
        busy_ns: stats.busy_ns,
        model_ns: stats.model_ns,
        call: stats.call(),
        latency: stats.latency(),
    }
}

/// Closes the nodes, senders first.
pub(crate) fn close(order: &[usize], groups: Vec<Option<Vec<Runner>>>) {
    let mut runners: Vec<Runner> = groups.into_iter().flatten().flatten().collect();
    let rank = |node_index: usize| order.iter().position(|other| *other == node_index);
    runners.sort_by_key(|runner| rank(runner.node_index));
    for runner in runners {
        // A panic in one node does not keep the others open.
        drop(catch_unwind(AssertUnwindSafe(|| drop(runner))));
    }
}
