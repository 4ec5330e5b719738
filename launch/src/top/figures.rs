//! Tables of a report: nodes, edges, paths and pools.

use afferent_engine::{EdgeReport, NodeReport, PathReport, PoolReport, Report, duration_text};

/// A report, and the one before it.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) now: &'a Report,
    pub(crate) before: Option<&'a Report>,
}

/// Value of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// Value for sorting, and for the history.
    pub(crate) value: f64,
    /// True if it deserves attention, such as an error or a dropped packet.
    pub(crate) alarm: bool,
}

impl Cell {
    fn new(text: String, value: f64) -> Self {
        Self { text, value, alarm: false }
    }

    fn tenths(value: f64) -> Self {
        Self::new(format!("{value:.1}"), value)
    }

    fn count(value: u64) -> Self {
        Self::new(value.to_string(), value as f64)
    }

    /// A number that should be zero.
    fn faults(value: u64) -> Self {
        Self { alarm: value > 0, ..Self::count(value) }
    }

    fn time(ns: u64) -> Self {
        Self::new(duration_text(ns), ns as f64)
    }
}

/// Heading of a column, and its importance: columns with large ranks are left out first if the
/// terminal is narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) rank: u8,
}

/// Row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Unique within the table.
    pub(crate) name: String,
    /// Cells of the columns after the name.
    pub(crate) cells: Vec<Cell>,
}

/// A table. Its first column has the names of the rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    /// Heading of the names, and its plural.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Columns after the name.
    pub(crate) columns: Vec<Column>,
    /// Index in `columns` of the figure whose history is shown.
    pub(crate) charted: Option<usize>,
    pub(crate) rows: Vec<Row>,
}

impl Section {
    /// Cells as text; the first row has the headings.
    pub(crate) fn text(&self) -> Vec<Vec<String>> {
        let columns = self.columns.iter().map(|column| column.name.to_owned());
        let head = std::iter::once(self.name.to_owned()).chain(columns).collect();
        let rows = self.rows.iter().map(|row| {
            let cells = row.cells.iter().map(|cell| cell.text.clone());
            std::iter::once(row.name.clone()).chain(cells).collect()
        });
        std::iter::once(head).chain(rows).collect()
    }
}

/// Number of tables.
pub(crate) const SECTIONS: usize = 4;

/// All tables.
pub(crate) fn sections(reading: Reading<'_>) -> [Section; SECTIONS] {
    [nodes(reading), edges(reading), paths(reading.now), pools(reading.now)]
}

/// Name, duration and load of the graph.
pub(crate) fn head(reading: Reading<'_>) -> String {
    let wall = reading.now.wall_ns as f64 / 1e9;
    let load = reading.share(reading.now.busy_ns, reading.before.map(|before| before.busy_ns));
    format!("{}: {wall:.1} s, {load:.1} % of one processor", reading.now.graph)
}

impl Reading<'_> {
    /// Nanoseconds between the two reads, or since the start.
    fn window_ns(&self) -> f64 {
        let before = self.before.map_or(0, |before| before.wall_ns);
        self.now.wall_ns.saturating_sub(before).max(1) as f64
    }

    /// A duration within the window, in percent of it.
    fn share(&self, now: u64, before: Option<u64>) -> f64 {
        100.0 * now.saturating_sub(before.unwrap_or(0)) as f64 / self.window_ns()
    }

    /// Increase of a counter in the window, per second.
    fn rate(&self, now: u64, before: Option<u64>) -> f64 {
        1e9 * now.saturating_sub(before.unwrap_or(0)) as f64 / self.window_ns()
    }
}

fn columns<const N: usize>(columns: [(&'static str, u8); N]) -> Vec<Column> {
    columns.map(|(name, rank)| Column { name, rank }).to_vec()
}

fn nodes(reading: Reading<'_>) -> Section {
    let row = |node: &NodeReport| {
        let before = reading.before.and_then(|before| before.node(&node.name));
        let busy = reading.share(node.busy_ns, before.map(|before| before.busy_ns));
        let calls = reading.rate(node.calls, before.map(|before| before.calls));
        let cells = vec![
            Cell::count(node.thread as u64),
            Cell { alarm: busy >= 80.0, ..Cell::tenths(busy) },
            Cell::tenths(calls),
            Cell::time(node.call.p50_ns),
            Cell::time(node.call.p99_ns),
            Cell::time(node.latency.p99_ns),
            Cell::faults(node.errors),
            Cell::faults(node.restarts),
        ];
        Row { name: node.name.clone(), cells }
    };
    Section {
        name: "node",
        title: "nodes",
        columns: columns([
            ("thread", 7),
            ("busy %", 0),
            ("calls/s", 1),
            ("p50", 5),
            ("p99", 2),
            ("latency p99", 4),
            ("errors", 3),
            ("restarts", 6),
        ]),
        charted: Some(1),
        rows: reading.now.nodes.iter().map(row).collect(),
    }
}

fn edges(reading: Reading<'_>) -> Section {
    let row = |edge: &EdgeReport| {
        let before = reading.before.and_then(|before| before.edge(&edge.from, &edge.to));
        let rate = reading.rate(edge.counts.delivered, before.map(|edge| edge.counts.delivered));
        let cells = vec![
            Cell::tenths(rate),
            Cell::count(edge.counts.depth as u64),
            Cell::count(edge.counts.peak as u64),
            Cell::time(edge.age.p50_ns),
            Cell::time(edge.age.p99_ns),
            Cell::faults(edge.counts.dropped() + edge.lost),
        ];
        Row { name: format!("{} -> {}", edge.from, edge.to), cells }
    };
    Section {
        name: "edge",
        title: "edges",
        columns: columns([
            ("packets/s", 0),
            ("waiting", 3),
            ("peak", 4),
            ("age p50", 5),
            ("age p99", 2),
            ("dropped", 1),
        ]),
        charted: Some(0),
        rows: reading.now.edges.iter().map(row).collect(),
    }
}

fn paths(report: &Report) -> Section {
    let row = |path: &PathReport| {
        let latency = path.latency;
        let times = [latency.p50_ns, latency.p99_ns, latency.max_ns].map(Cell::time);
        let cells = std::iter::once(Cell::count(path.measured)).chain(times).collect();
        Row { name: format!("{} -> {}", path.from, path.to), cells }
    };
    Section {
        name: "path",
        title: "paths",
        columns: columns([("packets", 3), ("p50", 1), ("p99", 0), ("max", 2)]),
        charted: None,
        rows: report.paths.iter().map(row).collect(),
    }
}

/// Pools of outputs: planned, allocated and unused values.
fn pools(report: &Report) -> Section {
    let row = |pool: &PoolReport| {
        let cells = [pool.values, pool.allocated, pool.free];
        let mut cells = cells.map(|values| Cell::count(values as u64)).to_vec();
        cells[1].alarm = pool.allocated > pool.values;
        Row { name: pool.output.clone(), cells }
    };
    Section {
        name: "pool",
        title: "pools",
        columns: columns([("planned", 1), ("allocated", 0), ("free", 2)]),
        charted: None,
        rows: report.pools.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_window() {
        let node = |busy_ns, calls| NodeReport {
            name: "vad".into(),
            busy_ns,
            calls,
            errors: 1,
            ..NodeReport::default()
        };
        let report = |wall_ns, node| Report { wall_ns, nodes: vec![node], ..Report::default() };
        let before = report(1_000_000_000, node(900_000_000, 10));
        let now = report(3_000_000_000, node(1_400_000_000, 110));
        let [nodes, ..] = sections(Reading { now: &now, before: Some(&before) });
        let cells = &nodes.rows[0].cells;
        assert_eq!((cells[1].text.as_str(), cells[2].text.as_str()), ("25.0", "50.0"));
        assert!(cells[6].alarm && !cells[1].alarm && !cells[7].alarm);
        let [nodes, ..] = sections(Reading { now: &now, before: None });
        assert_eq!(nodes.rows[0].cells[1].text, "46.7");
        assert_eq!(nodes.text()[0][..3], ["node", "thread", "busy %"]);
    }
}
