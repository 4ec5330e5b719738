//! Control messages, and reports in parts.

use afferent_engine::Report;
use serde::{Deserialize, Serialize};

/// Message of one process to another about the run as a whole, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Control {
    /// Every node of the partition is open; from a main process, every node of its machine.
    Open {
        /// Description of the graph, a line for each node and edge.
        shape: Vec<String>,
    },
    /// The receiver runs another graph and cannot take part.
    Refused { reason: String },
    /// The session starts, or has started.
    Go {
        /// Start of the session by the monotonic clock of the sender's machine, in nanoseconds.
        start_ns: i64,
        /// Current epoch.
        epoch: u32,
    },
    /// Another machine takes messages of edges from now on.
    Ready,
    /// The session clock of the main process started at this time of the monotonic clock.
    Clock { start_ns: i64 },
    /// An interrupt began this epoch.
    Epoch(u32),
    /// The run is to stop: on every machine, or on this one.
    Stop { everywhere: bool },
    /// The process of the partition has ended unexpectedly; `returns` says that it is started again,
    /// and `afresh` that its machine is, whose processes are then counted from the start.
    Gone { partition: usize, returns: bool, afresh: bool },
    /// The machine with this main process cannot be reached at present.
    Away { partition: usize },
    /// It can be reached again.
    Back { partition: usize },
    /// The machine of the sender has ended its part of the graph, or was stopped.
    Left { stopped: bool },
    /// A packet of `trace` has passed an end of a budget.
    Passed { budget: usize, starts: bool, trace: u64, real_ns: u64 },
    /// A packet has left an output of the waterfall.
    Reached { output: usize, now: i64, at: i64, trace: u64, model_ns: u64 },
    /// Asks for the figures of the run.
    Ask,
    /// A part of the figures of a partition: the answer to [`Control::Ask`], or its last report.
    Figures { partition: usize, text: String, ends: bool },
}

/// Figures of one partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartitionReport {
    /// Report of its session.
    pub(crate) report: Report,
    /// True for the report that it makes at its end.
    pub(crate) is_last: bool,
    /// Edges to other processes, by their index.
    pub(crate) sent: Vec<(usize, SentCounts)>,
    /// Packets of edges from other processes, by their index, whose senders ended unexpectedly.
    #[serde(default)]
    pub(crate) received_before: Vec<(usize, u64)>,
    /// [`MachineReport::clock_bound_ns`](afferent_engine::MachineReport::clock_bound_ns) of the
    /// machine, from its main process.
    #[serde(default)]
    pub(crate) clock_bound_ns: Option<u64>,
}

/// Counters of an edge to another process, beside those of its queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentCounts {
    /// Packets that were lost with a connection.
    pub(crate) lost: u64,
    /// Packets that processes of the receiver took before they ended unexpectedly.
    pub(crate) taken_before: u64,
    /// Those of them that were dropped.
    pub(crate) dropped_before: u64,
}

/// Longest text of a part.
const PART: usize = 32 * 1024;

impl PartitionReport {
    /// Messages that carry the report of `partition`.
    pub(crate) fn messages(&self, partition: usize) -> Vec<Control> {
        // A report has no maps with keys that are not strings, which alone could fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        let mut rest = text.as_str();
        let mut parts = Vec::new();
        loop {
            let end = rest.floor_char_boundary(PART);
            let (part, after) = rest.split_at(end);
            let (text, ends) = (part.to_owned(), after.is_empty());
            parts.push(Control::Figures { partition, text, ends });
            if ends {
                return parts;
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_travels_in_parts() {
        let name = "ä".repeat(100_000);
        let report = PartitionReport {
            report: Report { graph: name, ..Report::default() },
            is_last: true,
            sent: vec![(3, SentCounts { lost: 1, ..SentCounts::default() })],
            received_before: vec![(4, 2)],
            clock_bound_ns: Some(5),
        };
        let mut text = String::new();
        let messages = report.messages(3);
        assert!(messages.len() > 5);
        for message in messages {
            let bytes = serde_json::to_vec(&message).unwrap();
            assert!(bytes.len() < 60_000);
            let Ok(Control::Figures { text: part, .. }) = serde_json::from_slice(&bytes) else {
                panic!("another message")
            };
            text += &part;
        }
        assert_eq!(serde_json::from_str::<PartitionReport>(&text).unwrap(), report);
    }
}
