//! Report of an agent with twelve nodes, for tests.

use afferent_engine::{EdgeCounts, EdgeReport, NodeReport, PoolReport, Report, Spread};

/// Nodes of the agent.
pub(crate) const NODES: [&str; 12] = [
    "sound",
    "resample",
    "vad",
    "asr",
    "turns",
    "llm",
    "tool",
    "sentences",
    "tts",
    "speaker",
    "barge",
    "log",
];

/// Report of an agent after some seconds; later nodes are busier.
pub(crate) fn agent(seconds: u64) -> Report {
    let node = |(index, name): (usize, &&str)| NodeReport {
        name: (*name).to_owned(),
        thread: index,
        calls: 50 * seconds * (index as u64 + 1),
        busy_ns: 60_000_000 * seconds * (index as u64 + 1),
        errors: u64::from(index == 6),
        call: Spread { p50_ns: 1_234_000, p99_ns: 20_000_000, ..Spread::default() },
        ..NodeReport::default()
    };
    let edge = |pair: &[&str]| EdgeReport {
        from: format!("{}.output", pair[0]),
        to: format!("{}.input", pair[1]),
        counts: EdgeCounts { delivered: 40 * seconds, ..EdgeCounts::default() },
        ..EdgeReport::default()
    };
    let pool = |name: &&str| PoolReport {
        output: format!("{name}.output"),
        values: 4,
        allocated: 2,
        free: 1,
        copied: 0,
    };
    Report {
        graph: "voice_agent".to_owned(),
        wall_ns: seconds * 1_000_000_000,
        busy_ns: seconds * 500_000_000,
        nodes: NODES.iter().enumerate().map(node).collect(),
        edges: NODES.windows(2).map(edge).collect(),
        pools: NODES.iter().map(pool).collect(),
        ..Report::default()
    }
}
