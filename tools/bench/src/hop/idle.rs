//! A graph of thirty nodes: how long it takes to start, and what it uses when it has nothing to do.

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
    figures::Figure,
    hop::{Number, block},
    process,
    scripted::{self, Scripted},
};

const NODES: usize = 30;

/// Threads, in the order of the nodes.
const THREADS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

const IN: In<Number> = In::at(0, "in");
const OUT: Out<Number> = Out::at(0, "out");
const SOURCE: &[Port] = &[OUT.port()];
const PASS: &[Port] = &[IN.port(), OUT.port()];
const SINK: &[Port] = &[IN.port()];

/// A time that does not come.
const NEVER: Timestamp = Timestamp(i64::MAX);

/// Start, idle wakes, idle processor time.
pub(super) fn figures(idle: Duration) -> Result<Vec<Figure>> {
    let mut graph = Scripted::default();
    let (tell, arrived) = mpsc::channel();
    for place in 0..NODES {
        let thread = THREADS[place * THREADS.len() / NODES];
        let name = format!("node{place}");
        let node = match place {
            0 => graph.node(&name, thread, SOURCE, |cx| {
                cx.send(OUT, Number(0));
                cx.resume_at(NEVER);
            }),
            _ if place + 1 == NODES => {
                let tell = tell.clone();
                // Nobody waits for a second packet.
                graph.node(&name, thread, SINK, move |_| {
                    let _ = tell.send(());
                })
            }
            _ => graph.node(&name, thread, PASS, |cx| cx.forward(IN, OUT)),
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
    // Until the last thread has gone to sleep.
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
        Figure::new("check_30_nodes", checked.as_secs_f64() * 1e3, "ms"),
        Figure::new("start_30_nodes", started.as_secs_f64() * 1e3, "ms"),
        Figure::new("idle_wakes", wakes, "per second").at_most(0.0),
        Figure::new("idle_cpu", cpu / 1e7, "% of a core"),
    ])
}

/// Reads and checks a graph file of as many nodes.
fn check_time() -> Result<Duration> {
    let nodes = [("source", SOURCE), ("pass", PASS), ("sink", SINK)];
    let catalog = nodes.map(|(name, ports)| scripted::silent(name, ports)).into_iter().collect();
    let mut text = "afferent: 1\nname: thirty\nnodes:\n  node0: {use: source}\n".to_owned();
    for place in 1..NODES {
        let kind = if place + 1 == NODES { "sink" } else { "pass" };
        writeln!(text, "  node{place}: {{use: {kind}, in: node{}}}", place - 1)?;
    }
    let start = Instant::now();
    let loaded = parse(&text, Path::new("thirty.yaml"), &LoadOptions::default());
    let checked = check(&loaded, &catalog, &OpenCx::default());
    let took = start.elapsed();
    checked.map_err(|faults| anyhow!("{faults}"))?;
    Ok(took)
}
