//! One report of the reports of all processes.

use std::collections::BTreeMap;

use afferent_engine::{EdgeCounts, MachineReport, Report, RunEnd};
use afferent_spec::CheckedGraph;

use crate::control::{PartitionReport, SentCounts};

/// Combines the reports of the partitions of `graph`, where known.
pub(crate) fn merge(graph: &CheckedGraph, parts: &[Option<PartitionReport>]) -> Report {
    let part = |partition: usize| parts.get(partition)?.as_ref();
    let found = || parts.iter().flatten().map(|part| &part.report);
    let mut merged = found().next().cloned().unwrap_or_default();
    merged.end = worst(found().map(|report| report.end));
    merged.wall_ns = found().map(|report| report.wall_ns).max().unwrap_or(0);
    merged.media_ns = found().map(|report| report.media_ns).max().unwrap_or(0);
    merged.busy_ns = found().map(|report| report.busy_ns).sum();
    let per_media = |ns: u64| (merged.media_ns > 0).then(|| ns as f64 / merged.media_ns as f64);
    merged.real_time_factor = per_media(merged.busy_ns);
    merged.wall_per_media = per_media(merged.wall_ns);
    // Threads have numbers of their own in each process.
    let mut first_thread = BTreeMap::new();
    let mut threads = 0;
    for (partition, report) in parts.iter().enumerate() {
        first_thread.insert(partition, threads);
        let nodes = report.iter().flat_map(|part| &part.report.nodes);
        threads += nodes.map(|node| node.thread + 1).max().unwrap_or(0);
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        if let Some(found) = part(node.partition).and_then(|part| part.report.nodes.get(index)) {
            let thread = found.thread + first_thread.get(&node.partition).copied().unwrap_or(0);
            merged.nodes[index] = afferent_engine::NodeReport { thread, ..found.clone() };
        }
    }
    for (index, edge) in graph.edges.iter().enumerate() {
        let (from, to) = (graph.partition_of(edge.from.0), graph.partition_of(edge.to.0));
        let report_of = |partition| part(partition).and_then(|part| part.report.edges.get(index));
        if let Some(receiver) = report_of(to) {
            merged.edges[index] = receiver.clone();
        }
        if from != to {
            let sender = report_of(from).map(|edge| edge.counts).unwrap_or_default();
            let receiver = report_of(to).map(|edge| edge.counts).unwrap_or_default();
            let sent = part(from).and_then(|part| {
                part.sent.iter().find(|(edge, _)| *edge == index).map(|(_, counts)| *counts)
            });
            let sent = sent.unwrap_or_default();
            let before = part(to).and_then(|part| {
                let before = &part.received_before;
                before.iter().find(|(edge, _)| *edge == index).map(|(_, packets)| *packets)
            });
            let before = before.unwrap_or(0);
            let sender = EdgeCounts {
                sent: sender.sent + before,
                delivered: sender.delivered + before,
                ..sender
            };
            let has_ended = part(to).is_some_and(|part| part.is_last);
            let edge = &mut merged.edges[index];
            edge.crosses = true;
            (edge.counts, edge.in_transit, edge.lost) =
                across(&sender, &receiver, &sent, (merged.end, has_ended));
            edge.at_least = before > 0 || sent.taken_before > 0;
        }
    }
    merged.paths = found().flat_map(|report| report.paths.iter().cloned()).collect();
    let here = |name: &str| {
        let node = name.split('.').next().unwrap_or(name);
        graph.nodes.iter().position(|known| known.name == node)
    };
    merged.pools = found().flat_map(|report| report.pools.iter().cloned()).collect();
    merged.pools.sort_by_key(|pool| here(&pool.output));
    merged.failures = found().flat_map(|report| report.failures.iter().cloned()).collect();
    for (index, budget) in merged.budgets.iter_mut().enumerate() {
        let measured = found().filter_map(|report| report.budgets.get(index));
        if let Some(most) = measured.max_by_key(|budget| budget.measured) {
            *budget = most.clone();
        }
    }
    add_clocks(graph, parts, &mut merged);
    merged
}

/// Adds the machines, and the largest error of latencies from one to another.
fn add_clocks(graph: &CheckedGraph, parts: &[Option<PartitionReport>], report: &mut Report) {
    let bounds: Vec<Option<u64>> = (0..graph.machines.len())
        .map(|machine| match machine {
            0 => Some(0),
            // Its main process has the partition of the same number.
            _ => parts.get(machine)?.as_ref()?.clock_bound_ns,
        })
        .collect();
    let machine = |name: &str| {
        let name = name.split('.').next().unwrap_or(name);
        graph.nodes.iter().position(|node| node.name == name).map(|node| graph.machine_of(node))
    };
    let between = |from: &str, to: &str| match (machine(from), machine(to)) {
        (Some(from), Some(to)) if from != to => {
            let bound = |machine: usize| bounds.get(machine).copied().flatten().unwrap_or(0);
            bound(from).saturating_add(bound(to))
        }
        _ => 0,
    };
    for path in &mut report.paths {
        path.clock_bound_ns = between(&path.from, &path.to);
    }
    for budget in &mut report.budgets {
        budget.clock_bound_ns = between(&budget.from, &budget.to);
    }
    if graph.machines.len() > 1 {
        let machines = graph.machines.iter().zip(bounds);
        let machines = machines.map(|(machine, clock_bound_ns)| MachineReport {
            name: machine.name.clone(),
            clock_bound_ns,
        });
        report.machines = machines.collect();
    }
}

/// Counters of an edge from one process to another: those of its two queues in series, and of the
/// connection between them, and packets that are in transit and lost. `end` is that of the run, and
/// `has_ended` says that the process of the receiver has made its last report.
fn across(
    sender: &EdgeCounts,
    receiver: &EdgeCounts,
    sent: &SentCounts,
    (end, has_ended): (RunEnd, bool),
) -> (EdgeCounts, u64, u64) {
    let SentCounts { lost, taken_before, dropped_before } = *sent;
    // Packets that left the first queue, did not reach the second one and are not known as lost.
    let known = receiver.sent + taken_before + lost;
    let rest = sender.delivered.saturating_sub(known);
    let (in_transit, late, lost) = match (end, has_ended) {
        (RunEnd::Running, _) => (rest, 0, lost),
        // They arrived after the receiver had made its report, when it took nothing more.
        (_, true) => (0, rest, lost),
        (_, false) => (0, 0, lost + rest),
    };
    let counts = EdgeCounts {
        sent: sender.sent,
        delivered: receiver.delivered + (taken_before - dropped_before.min(taken_before)),
        dropped_full: sender.dropped_full + receiver.dropped_full + dropped_before,
        dropped_age: sender.dropped_age + receiver.dropped_age,
        dropped_epoch: sender.dropped_epoch + receiver.dropped_epoch,
        dropped_closed: sender.dropped_closed + receiver.dropped_closed + late,
        depth: sender.depth + receiver.depth,
        peak: sender.peak.max(receiver.peak),
    };
    (counts, in_transit, lost)
}

/// End of a run whose processes ended as given.
fn worst(ends: impl Iterator<Item = RunEnd>) -> RunEnd {
    let rank = |end: &RunEnd| match end {
        RunEnd::Complete => 0,
        RunEnd::Stopped => 1,
        RunEnd::Cut => 2,
        RunEnd::Running => 3,
    };
    ends.max_by_key(rank).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_an_edge_between_processes_is_accounted_for() {
        let sender = EdgeCounts {
            sent: 20,
            delivered: 17,
            dropped_full: 1,
            depth: 2,
            ..EdgeCounts::default()
        };
        let receiver =
            EdgeCounts { sent: 9, delivered: 7, dropped_age: 1, depth: 1, ..EdgeCounts::default() };
        let sent = SentCounts { lost: 2, taken_before: 4, dropped_before: 1 };
        let check = |end, expected| {
            let (counts, in_transit, lost) = across(&sender, &receiver, &sent, end);
            assert_eq!((in_transit, lost, counts.dropped_closed), expected);
            let all = counts.delivered + counts.dropped() + counts.depth as u64;
            assert_eq!(counts.sent, all + in_transit + lost);
        };
        check((RunEnd::Running, true), (2, 2, 0));
        check((RunEnd::Stopped, true), (0, 2, 2));
        check((RunEnd::Stopped, false), (0, 4, 0));
    }
}
