//! Startup time and idle CPU load of a graph with 30 nodes.

use std::{
    fmt::Write,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use afferent_engine::RunOptions;
use afferent_graph::{In, OpenCx, Out, Port, Timestamp};
use afferent_spec::{LoadOptions, check, parse};
use anyhow::{Result, anyhow};

use crate::{
    closure_graph::{self, ClosureGraph},
    hop::{Number, block},
    metrics::Metric,
    process,
};

const NODES: usize = 30;

/// Names of the threads, in the order of the nodes.
const THREADS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

const IN: In<Number> = In::at(0, "in");
const OUT: Out<Number> = Out::at(0, "out");
const SOURCE_PORTS: &[Port] = &[OUT.port()];
const PASS_PORTS: &[Port] = &[IN.port(), OUT.port()];
const SINK_PORTS: &[Port] = &[IN.port()];

/// Time that is never reached.
const NEVER: Timestamp = Timestamp(i64::MAX);

/// Metrics for startup, idle wake-ups and idle CPU time.
pub(super) fn metrics(idle: Duration) -> Result<Vec<Metric>> {
    let mut graph = ClosureGraph::default();
    let (arrived_sender, arrived) = mpsc::channel();
    for index in 0..NODES {
        let thread = THREADS[index * THREADS.len() / NODES];
        let name = format!("node{index}");
        let node = match index {
            0 => graph.node(&name, thread, SOURCE_PORTS, |cx| {
                cx.send(OUT, Number(0));
                cx.resume_at(NEVER);
            }),
            _ if index + 1 == NODES => {
                let sender = arrived_sender.clone();
                graph.node(&name, thread, SINK_PORTS, move |_| {
                    // The receiver accepts only the first packet.
                    let _ = sender.send(());
                })
            }
            _ => graph.node(&name, thread, PASS_PORTS, |cx| cx.forward(IN, OUT)),
        };
        if node > 0 {
            graph.edge((node - 1, "out"), (node, "in"), block());
        }
    }
    let checked = check_time()?;
    let start = Instant::now();
    let session = graph.start(RunOptions::default())?;
    arrived.recv()?;
    let started = start.elapsed();
    // Wait until all threads sleep.
    thread::sleep(Duration::from_millis(100));
    let before = process::other_threads()?;
    thread::sleep(idle);
    let after = process::other_threads()?;
    session.stop_handle().stop();
    session.wait()?;
    let seconds = idle.as_secs_f64();
    let wakes = (after.sleeps - before.sleeps) as f64 / seconds;
    let cpu = (after.cpu_ns - before.cpu_ns) as f64 / seconds;
    Ok(vec![
        Metric::new("check_30_nodes", checked.as_secs_f64() * 1e3, "ms"),
        Metric::new("start_30_nodes", started.as_secs_f64() * 1e3, "ms"),
        Metric::new("idle_wakes", wakes, "per second").at_most(0.0),
        Metric::new("idle_cpu", cpu / 1e7, "% of a core"),
    ])
}

/// Time to parse and check a graph file of the same size.
fn check_time() -> Result<Duration> {
    let nodes = [("source", SOURCE_PORTS), ("pass", PASS_PORTS), ("sink", SINK_PORTS)];
    let catalog =
        nodes.map(|(name, ports)| closure_graph::check_only(name, ports)).into_iter().collect();
    let mut text = "afferent: 1\nname: thirty\nnodes:\n  node0: {use: source}\n".to_owned();
    for index in 1..NODES {
        let kind = if index + 1 == NODES { "sink" } else { "pass" };
        writeln!(text, "  node{index}: {{use: {kind}, in: node{}}}", index - 1)?;
    }
    let start = Instant::now();
    let loaded = parse(&text, Path::new("thirty.yaml"), &LoadOptions::default());
    let checked = check(&loaded, &catalog, &OpenCx::default());
    let elapsed = start.elapsed();
    checked.map_err(|diagnostics| anyhow!("{diagnostics}"))?;
    Ok(elapsed)
}
