//! Report in the text format of Prometheus.

use std::fmt::{self, Write};

use crate::{BudgetReport, JoinCounts, NodeReport, Report, Spread};

/// Family of samples, one for each node or budget: name, help, value.
type Family<R, T> = (&'static str, &'static str, fn(&R) -> T);

impl Report {
    /// Writes the figures in the text format of Prometheus, each family with help and type.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_prometheus(&self, out: &mut impl Write) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        family(out, "afferent_wall_seconds", "gauge", "Time since the start of the run.")?;
        writeln!(
            out,
            "afferent_wall_seconds{{graph={}}} {}",
            Label(&self.graph),
            seconds(self.wall_ns)
        )?;
        let counters: [Family<NodeReport, u64>; 9] = [
            ("calls", "Calls of a node.", |node| node.calls),
            ("packets_in", "Packets that a node was called with.", |node| node.packets_in),
            ("packets_out", "Packets that a node sent.", |node| node.packets_out),
            ("errors", "Calls that failed.", |node| node.errors),
            ("restarts", "How often a node was opened again.", |node| node.restarts),
            ("overruns", "Calls that exceeded the deadline.", |node| node.overruns),
            ("interrupts", "Interrupts that canceled a node's work.", |node| node.interrupts),
            ("undeclared", "Packets sent by outputs that the node does not have.", |node| {
                node.undeclared
            }),
            ("timestamp_faults", "Packets earlier than the one before.", |node| {
                node.timestamp_faults
            }),
        ];
        for (name, help, value) in counters {
            let name = format!("afferent_node_{name}_total");
            family(out, &name, "counter", help)?;
            for node in &self.nodes {
                writeln!(out, "{name}{{node={}}} {}", Label(&node.name), value(node))?;
            }
        }
        let times: [Family<NodeReport, u64>; 2] = [
            ("busy", "Time in calls of a node.", |node| node.busy_ns),
            ("model", "Time in models of a node.", |node| node.model_ns),
        ];
        for (name, help, value) in times {
            let name = format!("afferent_node_{name}_seconds_total");
            family(out, &name, "counter", help)?;
            for node in &self.nodes {
                writeln!(out, "{name}{{node={}}} {}", Label(&node.name), seconds(value(node)))?;
            }
        }
        let spreads: [Family<NodeReport, Spread>; 2] = [
            ("call", "Time of a call.", |node| node.call),
            ("latency", "Time from the source to the end of the call.", |node| node.latency),
        ];
        for (name, help, value) in spreads {
            let name = format!("afferent_node_{name}_seconds");
            family(out, &name, "gauge", help)?;
            for node in &self.nodes {
                quantiles(out, &name, &format!("node={}", Label(&node.name)), value(node))?;
            }
        }
        self.edges(out)?;
        let name = "afferent_path_seconds";
        family(out, name, "gauge", "Time from a source to the end of a packet's way.")?;
        for path in &self.paths {
            let labels = format!("from={},to={}", Label(&path.from), Label(&path.to));
            quantiles(out, name, &labels, path.latency)?;
        }
        family(out, "afferent_pool_values", "gauge", "Values of an output, by state.")?;
        for pool in &self.pools {
            for (state, values) in
                [("planned", pool.values), ("allocated", pool.allocated), ("free", pool.free)]
            {
                let output = Label(&pool.output);
                writeln!(
                    out,
                    "afferent_pool_values{{output={output},state=\"{state}\"}} {values}"
                )?;
            }
        }
        let name = "afferent_machine_clock_bound_seconds";
        let help = "Largest difference of a session clock from that of the first machine.";
        family(out, name, "gauge", help)?;
        for machine in &self.machines {
            if let Some(bound) = machine.clock_bound_ns {
                writeln!(out, "{name}{{machine={}}} {}", Label(&machine.name), seconds(bound))?;
            }
        }
        self.budgets(out)
    }

    fn edges(&self, out: &mut impl Write) -> fmt::Result {
        let ends = |from: &str, to: &str| format!("from={},to={}", Label(from), Label(to));
        let name = "afferent_edge_delivered_total";
        family(out, name, "counter", "Packets that an edge delivered.")?;
        for edge in &self.edges {
            writeln!(out, "{name}{{{}}} {}", ends(&edge.from, &edge.to), edge.counts.delivered)?;
        }
        let name = "afferent_edge_dropped_total";
        family(out, name, "counter", "Packets that an edge dropped or lost, by reason.")?;
        for edge in &self.edges {
            let counts = edge.counts;
            for (reason, count) in [
                ("full", counts.dropped_full),
                ("age", counts.dropped_age),
                ("epoch", counts.dropped_epoch),
                ("closed", counts.dropped_closed),
                ("lost", edge.lost),
            ] {
                let ends = ends(&edge.from, &edge.to);
                writeln!(out, "{name}{{{ends},reason=\"{reason}\"}} {count}")?;
            }
        }
        let name = "afferent_edge_depth";
        family(out, name, "gauge", "Packets that wait on an edge.")?;
        for edge in &self.edges {
            writeln!(out, "{name}{{{}}} {}", ends(&edge.from, &edge.to), edge.counts.depth)?;
        }
        let name = "afferent_edge_age_seconds";
        family(out, name, "gauge", "How old packets were when they were delivered.")?;
        for edge in &self.edges {
            quantiles(out, name, &ends(&edge.from, &edge.to), edge.age)?;
        }
        let name = "afferent_edge_joined_total";
        family(
            out,
            name,
            "counter",
            "Packets of a stream that is joined, by what became of them.",
        )?;
        for edge in &self.edges {
            let Some(JoinCounts { matched, late, dropped }) = edge.join else { continue };
            for (fate, count) in [("matched", matched), ("late", late), ("dropped", dropped)] {
                let ends = ends(&edge.from, &edge.to);
                writeln!(out, "{name}{{{ends},fate=\"{fate}\"}} {count}")?;
            }
        }
        Ok(())
    }

    fn budgets(&self, out: &mut impl Write) -> fmt::Result {
        let ends = |budget: &BudgetReport| {
            format!("from={},to={}", Label(&budget.from), Label(&budget.to))
        };
        let families: [Family<BudgetReport, [Option<u64>; 4]>; 2] = [
            ("", "Time from one port to another.", |budget| budget.found_ns.map(Some)),
            ("_limit", "Limits of that time.", |budget| budget.limits_ns),
        ];
        for (name, help, values) in families {
            let name = format!("afferent_budget{name}_seconds");
            family(out, &name, "gauge", help)?;
            for budget in &self.budgets {
                for (quantile, ns) in ["0.5", "0.95", "0.99", "1"].iter().zip(values(budget)) {
                    let Some(ns) = ns else { continue };
                    let (ends, seconds) = (ends(budget), ns as f64 / 1e9);
                    writeln!(out, "{name}{{{ends},quantile=\"{quantile}\"}} {seconds}")?;
                }
            }
        }
        let name = "afferent_budget_kept";
        family(out, name, "gauge", "1 when the time was measured and all limits were kept.")?;
        for budget in &self.budgets {
            writeln!(out, "{name}{{{}}} {}", ends(budget), u8::from(budget.kept))?;
        }
        Ok(())
    }
}

fn family(out: &mut impl Write, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn quantiles(out: &mut impl Write, name: &str, labels: &str, spread: Spread) -> fmt::Result {
    let Spread { p50_ns, p95_ns, p99_ns, max_ns } = spread;
    for (quantile, ns) in [("0.5", p50_ns), ("0.95", p95_ns), ("0.99", p99_ns), ("1", max_ns)] {
        let seconds = ns as f64 / 1e9;
        writeln!(out, "{name}{{{labels},quantile=\"{quantile}\"}} {seconds}")?;
    }
    Ok(())
}

/// Value of a label, in quotes.
struct Label<'l>(&'l str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EdgeCounts, EdgeReport};

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let node = NodeReport { name: "a\"b\\\n".to_owned(), calls: 7, ..NodeReport::default() };
        let counts = EdgeCounts { dropped_age: 2, ..EdgeCounts::default() };
        let edge = EdgeReport {
            from: "a.x".to_owned(),
            to: "b.y".to_owned(),
            counts,
            join: Some(JoinCounts { late: 3, ..JoinCounts::default() }),
            ..EdgeReport::default()
        };
        let budget = BudgetReport {
            clock_bound_ns: 0,
            from: "a.x".to_owned(),
            to: "b.y".to_owned(),
            measured: 1,
            found_ns: [2_000_000; 4],
            limits_ns: [None, Some(1_000_000_000), None, None],
            kept: true,
        };
        let (nodes, edges, budgets) = (vec![node], vec![edge], vec![budget]);
        let report = Report { nodes, edges, budgets, ..Report::default() };
        let mut text = String::new();
        report.write_prometheus(&mut text).unwrap();
        assert!(text.contains("afferent_node_calls_total{node=\"a\\\"b\\\\\\n\"} 7\n"), "{text}");
        assert!(text.contains("_dropped_total{from=\"a.x\",to=\"b.y\",reason=\"age\"} 2\n"));
        assert!(text.contains("_joined_total{from=\"a.x\",to=\"b.y\",fate=\"late\"} 3\n"));
        assert!(text.contains("_budget_seconds{from=\"a.x\",to=\"b.y\",quantile=\"1\"} 0.002\n"));
        assert_eq!(text.matches("afferent_budget_limit_seconds{").count(), 1);
        assert!(text.contains("_budget_kept{from=\"a.x\",to=\"b.y\"} 1\n"));
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok() && name.ends_with('}'), "{line}");
        }
    }
}
