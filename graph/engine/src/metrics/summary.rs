//! Report as text.

use std::fmt;

use crate::{EdgeReport, PoolReport, Report, RunEnd, Spread};

const NODE_COLUMNS: &str = "\
drops: packets dropped on edges to the node; faults: wrong timestamps, undeclared outputs
busy: time in calls; model: part of busy in models; call: time of one call
latency: from the source to the end of the call, feedback not counted";

const EDGE_COLUMNS: &str = "\
dropped packets: full: the queue was full; age: older than the limit
epoch: sent before an interrupt; closed: the receiver had stopped; lost: with a process; peak: \
  longest queue";

const POOL_COLUMNS: &str = "\
allocated above planned: a node keeps packets; copied: values that a node changed while another \
  one held them";

const JOIN_COLUMNS: &str = "\
late: sent before its match was certain, or received after its match was sent
dropped: without a match, or over the limit of the buffer";

const FAULT_COLUMNS: &str = "\
late: calls that exceeded the deadline; degraded: failed calls with dropped or replaced results
canceled: packets whose call an interrupt made obsolete";

const CLOCK_COLUMNS: &str = "\
clock: largest difference of the session clock from that of the first machine
± after a path or a budget: largest error of its times by the clocks of its two machines";

/// Ends of a latency, and its largest error.
fn between(from: &str, to: &str, clock_bound_ns: u64) -> String {
    match clock_bound_ns {
        0 => format!("{from} -> {to}"),
        bound => format!("{from} -> {to} ± {}", duration_text(bound)),
    }
}

impl Report {
    /// Writes the report as aligned tables: nodes, edges with drops or limits, totals, failures.
    /// Each table is followed by the meaning of its columns.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_summary(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let end = match self.end {
            RunEnd::Running => "running",
            RunEnd::Complete => "complete",
            RunEnd::Stopped => "stopped",
            RunEnd::Cut => "stopped, and cut short",
        };
        let (wall, media) = (duration_text(self.wall_ns), duration_text(self.media_ns));
        writeln!(out, "{}: {end} after {wall}, {media} of media", self.graph)?;
        table(out, &self.node_rows(), NODE_COLUMNS)?;
        let rest = [
            (self.edge_rows(), EDGE_COLUMNS),
            (self.path_rows(), "time from the source to the end of the call of the sink"),
            (self.join_rows(), JOIN_COLUMNS),
            (self.fault_rows(), FAULT_COLUMNS),
            (self.pool_rows(), POOL_COLUMNS),
            (self.budget_rows(), "kept: no measured value exceeds its limit"),
            (self.machine_rows(), CLOCK_COLUMNS),
        ];
        for (rows, columns) in rest {
            if rows.len() > 1 {
                table(out, &rows, columns)?;
            }
        }
        let factor =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        let (busy, wall) = (factor(self.real_time_factor), factor(self.wall_per_media));
        writeln!(out, "\nreal-time factor {busy} (busy / media), wall / media {wall}")?;
        self.failures.iter().try_for_each(|failure| writeln!(out, "failed: {failure}"))
    }

    fn node_rows(&self) -> Vec<Vec<String>> {
        let head = ["node", "thread", "in", "out", "drops", "faults", "busy", "model"];
        let head = head.iter().chain(&["call p50", "p99", "latency p50", "p99", "max"]);
        let mut rows = vec![head.map(|text| (*text).to_owned()).collect::<Vec<_>>()];
        for node in &self.nodes {
            let port = format!("{}.", node.name);
            let edges = self.edges.iter().filter(|edge| edge.to.starts_with(&port));
            let drops: u64 = edges.map(|edge| edge.counts.dropped() + edge.lost).sum();
            let faults = node.timestamp_faults + node.undeclared;
            let counts = [node.packets_in, node.packets_out, drops, faults];
            let (call, latency) = (node.call, node.latency);
            let times = [node.busy_ns, node.model_ns, call.p50_ns, call.p99_ns];
            let times = times.iter().chain([&latency.p50_ns, &latency.p99_ns, &latency.max_ns]);
            let mut row = vec![node.name.clone(), node.thread.to_string()];
            row.extend(counts.iter().map(u64::to_string));
            row.extend(times.map(|ns| duration_text(*ns)));
            rows.push(row);
        }
        rows
    }

    /// Latency of the graph from end to end.
    fn path_rows(&self) -> Vec<Vec<String>> {
        let head = ["path", "packets", "p50", "p99", "max"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.paths.iter().map(|path| {
            let Spread { p50_ns, p99_ns, max_ns, .. } = path.latency;
            let mut row =
                vec![between(&path.from, &path.to, path.clock_bound_ns), path.measured.to_string()];
            row.extend([p50_ns, p99_ns, max_ns].map(duration_text));
            row
        }));
        rows
    }

    /// Machines and their clocks.
    fn machine_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["machine", "clock"].map(str::to_owned).to_vec()];
        rows.extend(self.machines.iter().enumerate().map(|(index, machine)| {
            let clock = match (index, machine.clock_bound_ns) {
                (0, _) => "the reference".to_owned(),
                (_, Some(bound)) => format!("± {}", duration_text(bound)),
                (_, None) => "unknown".to_owned(),
            };
            vec![machine.name.clone(), clock]
        }));
        rows
    }

    /// Outputs that allocated more values than can be in flight, or copied values.
    fn pool_rows(&self) -> Vec<Vec<String>> {
        let head = ["output", "allocated", "planned", "copied"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let is_shown = |pool: &&PoolReport| pool.allocated > pool.values || pool.copied > 0;
        for pool in self.pools.iter().filter(is_shown) {
            let counts = [pool.allocated, pool.values, pool.copied];
            let mut row = vec![pool.output.clone()];
            row.extend(counts.map(|count| count.to_string()));
            rows.push(row);
        }
        rows
    }

    /// Synchronized streams.
    fn join_rows(&self) -> Vec<Vec<String>> {
        let head = ["joined stream", "matched", "late", "dropped"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for edge in &self.edges {
            let Some(join) = edge.join else { continue };
            let mut row = vec![format!("{} -> {}", edge.from, edge.to)];
            row.extend([join.matched, join.late, join.dropped].map(|count| count.to_string()));
            rows.push(row);
        }
        rows
    }

    /// Nodes with failures or interrupted work.
    fn fault_rows(&self) -> Vec<Vec<String>> {
        let head = [
            "node with faults",
            "errors",
            "late",
            "restarts",
            "degraded",
            "interrupts",
            "canceled",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for node in &self.nodes {
            let counts = [node.errors, node.overruns, node.restarts, node.degraded];
            let counts: Vec<_> =
                counts.into_iter().chain([node.interrupts, node.canceled]).collect();
            if counts.iter().any(|count| *count > 0) {
                let mut row = vec![node.name.clone()];
                row.extend(counts.iter().map(u64::to_string));
                rows.push(row);
            }
        }
        rows
    }

    /// Budgets: measured value and limit.
    fn budget_rows(&self) -> Vec<Vec<String>> {
        let head = ["budget", "measured", "p50", "p95", "p99", "max", "kept"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for budget in &self.budgets {
            let mut row = vec![
                between(&budget.from, &budget.to, budget.clock_bound_ns),
                budget.measured.to_string(),
            ];
            let figures = budget.found_ns.iter().zip(&budget.limits_ns);
            row.extend(figures.map(|(found, limit)| match limit {
                Some(limit) => format!("{} of {}", duration_text(*found), duration_text(*limit)),
                None => duration_text(*found),
            }));
            let kept = match (budget.kept, budget.measured) {
                (true, _) => "yes",
                (false, 0) => "nothing measured",
                (false, _) => "no",
            };
            row.push(kept.to_owned());
            rows.push(row);
        }
        rows
    }

    /// Edges that dropped packets or have an in-flight limit.
    fn edge_rows(&self) -> Vec<Vec<String>> {
        let head = [
            "edge with drops or a limit",
            "in flight",
            "sent",
            "delivered",
            "hz",
            "full",
            "age",
            "epoch",
            "closed",
            "lost",
            "peak",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let shows =
            |edge: &&EdgeReport| edge.counts.dropped() + edge.lost > 0 || edge.in_flight.is_some();
        for edge in self.edges.iter().filter(shows) {
            let c = &edge.counts;
            let drops =
                [c.dropped_full, c.dropped_age, c.dropped_epoch, c.dropped_closed, edge.lost];
            let limit = edge.in_flight.map_or("-".to_owned(), |limit| limit.to_string());
            let mut row = vec![format!("{} -> {}", edge.from, edge.to), limit];
            row.extend([c.sent, c.delivered].map(|count| count.to_string()));
            row.push(format!("{:.1}", edge.rate_hz));
            row.extend(drops.map(|count| count.to_string()));
            row.push(c.peak.to_string());
            rows.push(row);
        }
        rows
    }
}

/// An empty line, then `rows`: the first column left-aligned, the others right-aligned. Then the
/// lines of `columns`, indented.
fn table(out: &mut impl fmt::Write, rows: &[Vec<String>], columns: &str) -> fmt::Result {
    writeln!(out)?;
    let width = |column: usize| {
        rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0)
    };
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            match column {
                0 => write!(out, "{cell:<0$}", width(0))?,
                _ => write!(out, "  {cell:>0$}", width(column))?,
            }
        }
        writeln!(out)?;
    }
    columns.lines().try_for_each(|line| writeln!(out, "  {line}"))
}

/// Duration with three digits and a unit; a dash for zero.
pub fn duration_text(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0 => "-".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => digits(value / 1e3, "us"),
        1_000_000..1_000_000_000 => digits(value / 1e6, "ms"),
        _ => digits(value / 1e9, "s"),
    }
}

fn digits(value: f64, unit: &str) -> String {
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BudgetReport, EdgeCounts, Failure, FailureKind, Handled, JoinCounts, MachineReport,
        NodeReport, Spread,
    };

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        let cases = [(0, "-"), (999, "999 ns"), (1_500, "1.50 us"), (25_000_000, "25.0 ms")];
        for (ns, text) in cases.into_iter().chain([(123_000_000_000, "123 s")]) {
            assert_eq!(duration_text(ns), text);
        }
    }

    #[test]
    fn a_summary_lines_up_and_names_what_was_lost() {
        let (p50_ns, p95_ns, p99_ns, max_ns) = (1_500, 1_000_000, 2_000_000, 3_000_000_000);
        let spread = Spread { p50_ns, p95_ns, p99_ns, max_ns };
        let node = |name: &str, packets_in| NodeReport {
            name: name.to_owned(),
            packets_in,
            restarts: packets_in / 3,
            call: spread,
            latency: spread,
            ..NodeReport::default()
        };
        let counts = EdgeCounts { sent: 9, delivered: 7, dropped_full: 2, ..EdgeCounts::default() };
        let report = Report {
            graph: "demo".to_owned(),
            end: RunEnd::Stopped,
            wall_ns: 12_000_000,
            media_ns: 10_000_000_000,
            busy_ns: 1_000_000,
            real_time_factor: Some(0.0001),
            wall_per_media: None,
            nodes: vec![node("microphone", 0), node("vad", 7)],
            edges: vec![EdgeReport {
                from: "microphone.audio".to_owned(),
                to: "vad.audio".to_owned(),
                crosses: true,
                in_flight: Some(2),
                counts,
                rate_hz: 12.5,
                in_transit: 0,
                lost: 0,
                at_least: false,
                age: spread,
                join: Some(JoinCounts { matched: 5, late: 2, dropped: 0 }),
            }],
            paths: Vec::new(),
            pools: Vec::new(),
            budgets: vec![BudgetReport {
                from: "microphone.audio".to_owned(),
                to: "vad.audio".to_owned(),
                measured: 7,
                found_ns: [1_500, 2_000, 3_000, 4_000_000],
                limits_ns: [Some(2_000), None, None, Some(1_000_000)],
                kept: false,
                clock_bound_ns: 34_000,
            }],
            machines: vec![
                MachineReport { name: "robot".to_owned(), clock_bound_ns: None },
                MachineReport { name: "base".to_owned(), clock_bound_ns: Some(34_000) },
            ],
            failures: vec![Failure {
                node: "vad".to_owned(),
                kind: FailureKind::Panic,
                at_ns: 0,
                message: "oh".to_owned(),
                handled: Handled::Stopped,
            }],
        };
        let mut text = String::new();
        report.write_summary(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "demo: stopped after 12.0 ms, 10.0 s of media");
        assert_eq!(lines[2].len(), lines[3].len());
        assert_eq!(lines[3].len(), lines[4].len());
        let vad: Vec<&str> = lines[4].split_whitespace().take(6).collect();
        assert_eq!(vad, ["vad", "0", "7", "0", "2", "0"]);
        let edge: Vec<&str> = lines[10].split_whitespace().collect();
        assert_eq!(edge[..7], ["microphone.audio", "->", "vad.audio", "2", "9", "7", "12.5"]);
        let joined: Vec<&str> = lines[15].split_whitespace().collect();
        assert_eq!(joined[2..], ["vad.audio", "5", "2", "0"]);
        let vad: Vec<&str> = lines[20].split_whitespace().collect();
        assert_eq!(vad, ["vad", "0", "0", "2", "0", "0", "0"]);
        let budget: Vec<&str> = lines[25].split("  ").filter(|cell| !cell.is_empty()).collect();
        assert_eq!(budget[0], "microphone.audio -> vad.audio ± 34.0 us");
        assert!(text.contains("\nbase         ± 34.0 us\n"), "{text}");
        assert!(lines[25].contains("1.50 us of 2.00 us") && lines[25].ends_with("no"), "{text}");
        assert!(text.contains("real-time factor 0.0001 (busy / media), wall / media -"));
        assert!(text.ends_with("failed: node vad panicked: oh\n"));
    }
}
