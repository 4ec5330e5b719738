//! What it costs to hand a packet from node to node.

mod chain;
mod measure;
mod reference;

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::{
    hops::measure::{Figures, Load},
    table::{Table, figure},
};

/// Nodes that pass a packet on, between the source and the sink.
pub(crate) const NODES: usize = 10;

/// Hops of a packet: into each of these nodes, and into the sink.
const HOPS: usize = NODES + 1;

/// Time of a hop from one node to the next, drops, and allocations.
///
/// A source sends sound through ten nodes that pass it on to a sink. First it is paced, so that
/// threads sleep between packets: the time from one node to the next has a median and a 99th
/// percentile, each with one clock read in it. Then it sends as fast as the chain takes it: the
/// time of the run by packets and hops. Beside the graph the same chain runs as plain boxed calls
/// and as threads with `std::sync::mpsc` between them.
///
/// Fails when a graph drops a packet, or allocates anything in steady state.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Packets a second while paced.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Seconds of each paced run.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Packets of each run back to back.
    #[arg(long, default_value_t = 100_000)]
    packets: usize,
}

/// Tables, and whether they are as they should be.
pub(crate) fn run(options: &Options) -> Result<(Vec<Table>, Result<()>)> {
    let period = Duration::from_secs(1) / options.rate;
    let packets = (options.seconds * f64::from(options.rate)) as usize;
    let paced = Load { packets, period: Some(period) };
    let unpaced = Load { packets: options.packets, period: None };

    let title = format!("a hop, {} of them in a chain, {} packets a second", HOPS, options.rate);
    let columns =
        ["chain", "p50 µs", "p99 µs", "back to back ns", "dropped", "allocations a packet"];
    let mut table = Table::new(title, &columns);
    let mut verdict = Ok(());
    for (name, is_graph, run) in chains() {
        let (slow, fast) = (run(paced)?, run(unpaced)?);
        table.row(cells(name, &slow, &fast));
        if is_graph && verdict.is_ok() {
            verdict = check(name, &slow).and_then(|()| check(name, &fast));
        }
    }
    table.note("back to back: time of the run by packets and hops, threads working in parallel");
    Ok((vec![table], verdict))
}

type Chain = (&'static str, bool, fn(Load) -> Result<Figures>);

fn chains() -> [Chain; 5] {
    [
        ("graph, one thread", true, |load| chain::run(load, false)),
        ("boxed calls, one thread", false, |load| Ok(reference::boxed_calls(load))),
        ("graph, a thread for each node", true, |load| chain::run(load, true)),
        ("mpsc, a thread for each node", false, |load| Ok(reference::channels(load, HOPS))),
        ("mpsc, two threads", false, |load| Ok(reference::channels(load, 1))),
    ]
}

fn cells(name: &str, paced: &Figures, unpaced: &Figures) -> Vec<String> {
    let micros = |quantile| paced.hops.value_at_quantile(quantile) as f64 / 1e3;
    let each = |figures: &Figures| figures.allocations as f64 / figures.packets as f64;
    vec![
        name.to_owned(),
        figure(micros(0.5)),
        figure(micros(0.99)),
        figure(unpaced.ns_per_hop()),
        (paced.dropped + unpaced.dropped).to_string(),
        figure(each(paced).max(each(unpaced))),
    ]
}

fn check(name: &str, figures: &Figures) -> Result<()> {
    ensure!(figures.dropped == 0, "{name}: {} packets were dropped", figures.dropped);
    let count = figures.allocations;
    ensure!(count == 0, "{name}: {count} allocations for {} packets", figures.packets);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chain_counts_each_hop_once() {
        let load = Load { packets: 20, period: Some(Duration::from_micros(100)) };
        for (name, _, run) in chains() {
            let figures = run(load).unwrap();
            assert_eq!(figures.hops.len(), 20 * figures.hops_a_packet as u64, "{name}");
            assert_eq!(figures.dropped, 0, "{name}");
            assert!(figures.ns_per_hop() > 0.0, "{name}");
        }
    }
}
