//! `afferent top`: a live view of a graph that runs with `--serve`.

use std::{iter, process::ExitCode, time::Duration};

use afferent_engine::Report;
use anyhow::{Context, bail};
use clap::Args;
use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout},
    style::{Modifier, Style, Stylize},
    text::Line,
    widgets::{Block, Cell, Row, Table},
};

use crate::{serve::ADDRESS, table::aligned};

#[derive(Args)]
pub(crate) struct TopArgs {
    /// Address of the graph's server
    #[arg(default_value = ADDRESS)]
    address: String,
    /// Interval between two reads, in milliseconds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..))]
    every: u64,
    /// Print the figures once as text, and end
    #[arg(long)]
    once: bool,
}

pub(crate) fn top(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let every = Duration::from_millis(args.every);
    let mut view = View { now: ask(&args.address)?, before: None, error: None };
    if args.once {
        let text: String =
            view.tables().iter().map(|rows| format!("\n{}", aligned(rows))).collect();
        crate::print(&format!("{}\n{text}", view.head()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut terminal = ratatui::try_init().context("cannot use this terminal; try --once")?;
    let result = view.show(&mut terminal, &args.address, every);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

/// Report that is served at `address`.
fn ask(address: &str) -> anyhow::Result<Report> {
    let url = format!("http://{address}/stats");
    let answer =
        ureq::get(&url).config().timeout_global(Some(Duration::from_secs(5))).build().call();
    let mut answer = answer.with_context(|| {
        format!("no figures at {address}: start the graph with `afferent run GRAPH --serve`")
    })?;
    let text = answer.body_mut().read_to_string()?;
    serde_json::from_str(&text).with_context(|| format!("{url} is not from afferent"))
}

struct View {
    now: Report,
    before: Option<Report>,
    /// Reason for outdated figures.
    error: Option<String>,
}

/// Cells of a row: a name, and its figures.
type Cells = Vec<String>;

impl View {
    fn show(
        &mut self,
        terminal: &mut DefaultTerminal,
        address: &str,
        every: Duration,
    ) -> anyhow::Result<()> {
        loop {
            terminal.draw(|frame| self.draw(frame))?;
            if event::poll(every)? {
                if let Event::Key(key) = event::read()?
                    && key.kind == KeyEventKind::Press
                {
                    let ctrl_c = key.modifiers.contains(KeyModifiers::CONTROL)
                        && key.code == KeyCode::Char('c');
                    if ctrl_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                        return Ok(());
                    }
                }
                continue;
            }
            match ask(address) {
                Ok(report) => {
                    self.before = Some(std::mem::replace(&mut self.now, report));
                    self.error = None;
                }
                Err(error) if self.error.is_none() => self.error = Some(format!("{error:#}")),
                Err(_) if self.before.is_none() => bail!("the graph has ended"),
                Err(_) => {}
            }
        }
    }

    fn head(&self) -> String {
        let wall = self.now.wall_ns as f64 / 1e9;
        let load = self.share(self.now.busy_ns, self.before.as_ref().map(|before| before.busy_ns));
        format!("{}: {wall:.1} s, {load:.1} % of one processor", self.now.graph)
    }

    /// Nanoseconds between the two reads, or since the start.
    fn window_ns(&self) -> f64 {
        let before = self.before.as_ref().map_or(0, |before| before.wall_ns);
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

    fn tables(&self) -> [Vec<Cells>; 4] {
        [self.nodes(), self.edges(), self.paths(), self.pools()]
    }

    fn nodes(&self) -> Vec<Cells> {
        let head = [
            "node",
            "thread",
            "busy %",
            "calls/s",
            "p50",
            "p99",
            "latency p99",
            "errors",
            "restarts",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for node in &self.now.nodes {
            let before = self.before.as_ref().and_then(|before| before.node(&node.name));
            let busy = self.share(node.busy_ns, before.map(|before| before.busy_ns));
            let calls = self.rate(node.calls, before.map(|before| before.calls));
            rows.push(vec![
                node.name.clone(),
                node.thread.to_string(),
                format!("{busy:.1}"),
                format!("{calls:.1}"),
                time(node.call.p50_ns),
                time(node.call.p99_ns),
                time(node.latency.p99_ns),
                node.errors.to_string(),
                node.restarts.to_string(),
            ]);
        }
        rows
    }

    fn edges(&self) -> Vec<Cells> {
        let head = ["edge", "packets/s", "waiting", "peak", "age p50", "age p99", "dropped"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for edge in &self.now.edges {
            let before = self.before.as_ref().and_then(|before| before.edge(&edge.from, &edge.to));
            let before = before.map(|before| before.counts.delivered);
            let rate = self.rate(edge.counts.delivered, before);
            rows.push(vec![
                format!("{} -> {}", edge.from, edge.to),
                format!("{rate:.1}"),
                edge.counts.depth.to_string(),
                edge.counts.peak.to_string(),
                time(edge.age.p50_ns),
                time(edge.age.p99_ns),
                edge.counts.dropped().to_string(),
            ]);
        }
        rows
    }

    fn paths(&self) -> Vec<Cells> {
        let head = ["path", "packets", "p50", "p99", "max"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.now.paths.iter().map(|path| {
            let mut row = vec![format!("{} -> {}", path.from, path.to), path.measured.to_string()];
            let latency = path.latency;
            row.extend([latency.p50_ns, latency.p99_ns, latency.max_ns].map(time));
            row
        }));
        rows
    }

    /// Pools of outputs: planned, allocated and unused values.
    fn pools(&self) -> Vec<Cells> {
        let head = ["pool", "planned", "allocated", "free"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.now.pools.iter().map(|pool| {
            let mut row = vec![pool.output.clone()];
            row.extend([pool.values, pool.allocated, pool.free].map(|values| values.to_string()));
            row
        }));
        rows
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let tables = self.tables();
        let height = |rows: &[Cells]| u16::try_from(rows.len() + 2).unwrap_or(u16::MAX);
        let heights = tables.iter().map(|rows| Constraint::Max(height(rows)));
        let areas =
            Layout::vertical(iter::once(Constraint::Length(1)).chain(heights)).split(frame.area());
        let head = match &self.error {
            Some(error) => Line::from(format!("{}  [{error}]", self.head())).red(),
            None => Line::from(format!("{}   q ends the view", self.head())).bold(),
        };
        frame.render_widget(head, areas[0]);
        for (rows, area) in tables.iter().zip(&areas[1..]) {
            frame.render_widget(table(rows), *area);
        }
    }
}

/// Table whose first row is the head; its first cell names the table.
fn table(rows: &[Cells]) -> Table<'_> {
    let columns = rows.first().map_or(0, Vec::len);
    let widths = (0..columns).map(|column| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        Constraint::Length(u16::try_from(widest).unwrap_or(u16::MAX))
    });
    let widths: Vec<_> = widths.collect();
    let mut all = rows.iter().map(|cells| {
        Row::new(cells.iter().enumerate().map(|(column, cell)| match column {
            0 => Cell::from(cell.clone()),
            _ => Cell::from(Line::from(cell.clone()).right_aligned()),
        }))
    });
    let head = all.next().map(|head| head.style(Style::new().add_modifier(Modifier::DIM)));
    Table::new(all, widths)
        .header(head.unwrap_or_default())
        .column_spacing(2)
        .block(Block::bordered())
}

/// A duration with its unit; a dash for zero.
fn time(ns: u64) -> String {
    match ns {
        0 => "-".to_owned(),
        1..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{} us", ns / 1_000),
        10_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}
