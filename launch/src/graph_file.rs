//! `afferent check` and `afferent graph`.

use std::{
    fs,
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
};

use afferent_engine::{Plan, Report, Reweighed, Threads, pools, weigh};
use afferent_graph::{Choice, PortKind, Weight};
use afferent_spec::{
    Checked, CheckedGraph, DrawFormat, LoadOptions, Schedule, counted, draw as draw_graph,
};
use anyhow::Context;
use clap::Args;

use crate::{App, placement::PlacementArgs, table::aligned};

/// A graph file, and changes to it.
#[derive(Args)]
pub(crate) struct GraphFile {
    /// Graph file (YAML)
    pub(crate) graph: PathBuf,
    /// Apply this profile of the graph file
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Assign threads by the call durations of an earlier run (`afferent run --stats`)
    #[arg(long, value_name = "FILE")]
    pub(crate) measured: Option<PathBuf>,
    /// Override a parameter, `vad.threshold=0.8`, also of a node of a subgraph,
    /// `ears/vad.threshold=0.8`, or a parameter of the graph, `language=de`; may be given several
    /// times
    #[arg(long, value_name = "[NODE.]PARAM=VALUE")]
    pub(crate) set: Vec<String>,
    /// Keep packed weights of models in this folder, so that the next start maps them
    #[arg(long, value_name = "DIR")]
    pub(crate) weight_cache: Option<PathBuf>,
}

impl GraphFile {
    /// Applies the options of the command to the program.
    pub(crate) fn configure(&self, app: App) -> App {
        match &self.weight_cache {
            Some(folder) => app.weight_cache(folder),
            None => app,
        }
    }

    /// Reads and checks the graph with these options and those of the file, and prints the
    /// diagnostics. Returns `None` if the graph cannot run.
    pub(crate) fn load(&self, app: &App, options: LoadOptions) -> anyhow::Result<Option<Checked>> {
        let measured = self.measured.as_deref().map(read_figures).transpose()?;
        let (profile, set) = (self.profile.clone(), self.set.clone());
        let options = LoadOptions { profile, set, ..options };
        let color = stderr().is_terminal();
        match app.load_with(&self.graph, &options) {
            Ok(mut checked) => {
                for changed in measured.iter().flat_map(|found| weigh(&mut checked.graph, found)) {
                    let Reweighed { node, weight, call_ns } = changed;
                    let thread = match weight {
                        Weight::Heavy => "gets a thread of its own",
                        Weight::Light => "shares the thread of the node before it",
                    };
                    let us = call_ns / 1000;
                    crate::log::note(format_args!("node {node} {thread}: a call took {us} us"));
                }
                if !checked.warnings.is_empty() {
                    crate::log::diagnostics(checked.warnings.render(color), false);
                }
                Ok(Some(checked))
            }
            Err(faults) => {
                crate::log::diagnostics(faults.render(color), true);
                Ok(None)
            }
        }
    }
}

/// Report of an earlier run.
fn read_figures(path: &Path) -> anyhow::Result<Report> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not what `afferent run --stats` writes", path.display()))
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    file: GraphFile,
    #[command(flatten)]
    placement: PlacementArgs,
}

pub(crate) fn check(app: App, args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let app = args.file.configure(app);
    let loaded = args.file.load(&app, args.placement.options(false))?;
    let Some(checked) = loaded else { return Ok(ExitCode::FAILURE) };
    let graph = &checked.graph;
    let (nodes, edges) = (graph.nodes.len(), graph.edges.len());
    let (nodes, edges) = (counted(nodes, "node"), counted(edges, "edge"));
    let mut text = format!("{}: {nodes} and {edges}, ready to run\n", graph.name);
    // Cycles have been reported.
    if let Some(threads) = threads(graph) {
        text += &format!("\n{}", aligned(&thread_rows(graph, &threads)));
        text += &format!("\n{}", aligned(&edge_rows(graph, &threads)));
    }
    text += &format!("\n{}", aligned(&pool_rows(graph)));
    crate::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Nodes of each thread, with the partition of the thread; `None` if nodes form a cycle.
fn threads(graph: &CheckedGraph) -> Option<Vec<(usize, Vec<usize>)>> {
    let mut threads = Vec::new();
    for partition in 0..graph.partitions.len() {
        let is_here = |node| graph.partition_of(node) == partition;
        let plan = Plan::partition(graph, Threads::Auto, is_here).ok()?;
        threads.extend(plan.groups.into_iter().map(|members| (partition, members)));
    }
    Some(threads)
}

/// Rows of the thread table: process, nodes and schedule of each thread.
fn thread_rows(graph: &CheckedGraph, threads: &[(usize, Vec<usize>)]) -> Vec<Vec<String>> {
    let is_one = graph.partitions.len() == 1;
    let mut rows = vec![row(["thread", "process", "nodes", "asks for"])];
    for (number, (partition, members)) in threads.iter().enumerate() {
        let members: Vec<_> = members.iter().map(|index| &graph.nodes[*index]).collect();
        let names: Vec<_> = members.iter().map(|node| node.name.as_str()).collect();
        let wishes = members.iter().flat_map(|node| {
            let Schedule { cpu, priority, spin, .. } = &node.schedule;
            let cpu = cpu.map(|cpu| format!("cpu {cpu}"));
            let priority = priority.map(|priority| format!("priority {priority}"));
            cpu.into_iter().chain(priority).chain(spin.map(|spin| format!("spin {spin:?}")))
        });
        let wishes: Vec<_> = wishes.collect();
        let process = graph.partition_name(*partition);
        rows.push(vec![number.to_string(), process, names.join(", "), wishes.join(", ")]);
    }
    if is_one {
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    rows
}

/// Rows of the edge table: route, queue policy and limits.
fn edge_rows(graph: &CheckedGraph, threads: &[(usize, Vec<usize>)]) -> Vec<Vec<String>> {
    let thread = |node| threads.iter().position(|(_, members)| members.contains(&node));
    let mut rows = vec![row(["edge", "way", "when full", "queue", "in flight"])];
    rows.extend(graph.edges.iter().map(|edge| {
        let from = graph.port_name(edge.from, PortKind::Output);
        let to = graph.port_name(edge.to, PortKind::Input);
        let way = match () {
            () if graph.crosses_machines(edge) => "between machines",
            () if graph.crosses(edge) => "between processes",
            () if thread(edge.from.0) != thread(edge.to.0) => "between threads",
            () => "within the thread",
        };
        let full = edge.policy.on_full.word();
        let in_flight = edge.in_flight.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        let edge_name = format!("{from} -> {to}");
        vec![edge_name, way.to_owned(), full.to_owned(), edge.policy.queue.to_string(), in_flight]
    }));
    rows
}

/// Rows of the pool table.
fn pool_rows(graph: &CheckedGraph) -> Vec<Vec<String>> {
    let mut rows = vec![row(["pool", "payload", "values"])];
    rows.extend(pools(graph).iter().map(|pool| {
        let name = graph.port_name(pool.output, PortKind::Output);
        vec![name, pool.ty.to_string(), pool.values.to_string()]
    }));
    rows
}

#[derive(Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    file: GraphFile,
    #[command(flatten)]
    placement: PlacementArgs,
    /// mermaid, dot or svg
    #[arg(long, default_value = "mermaid")]
    format: String,
    /// Show the figures of a run, from `afferent run --stats`
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
}

pub(crate) fn draw(app: App, args: &GraphArgs) -> anyhow::Result<ExitCode> {
    let format: DrawFormat = args.format.parse()?;
    let app = args.file.configure(app);
    let loaded = args.file.load(&app, args.placement.options(false))?;
    let Some(checked) = loaded else { return Ok(ExitCode::FAILURE) };
    let figures = args.stats.as_deref().map(read_figures).transpose()?;
    let labels = figures.map(|report| report.labels(&checked.graph)).unwrap_or_default();
    crate::print(&draw_graph(&checked.graph, format, &labels))?;
    Ok(ExitCode::SUCCESS)
}
