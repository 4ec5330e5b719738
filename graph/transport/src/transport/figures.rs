//! Figures and reports of all processes.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::Report;

use super::{Edges, Progress, Transport};
use crate::{
    control::{Control, PartitionReport, SentCounts},
    edges::Sender,
    report,
};

/// Time that a process waits for the last messages and reports of the others.
const END_TIMEOUT: Duration = Duration::from_secs(10);

impl Transport {
    /// Collects the figures of a partition.
    pub(super) fn collect(&self, from: usize, text: &str, ends: bool) -> Result<(), String> {
        const MOST: usize = 64 << 20;
        let mut progress = self.progress();
        progress.parts[from].push_str(text);
        if progress.parts[from].len() > MOST {
            return Err("its report is longer than 64 MiB".to_owned());
        }
        if ends {
            let text = std::mem::take(&mut progress.parts[from]);
            let report: PartitionReport = serde_json::from_str(&text)
                .map_err(|error| format!("its report is damaged: {error}"))?;
            progress.asked.remove(&from);
            if report.is_last {
                progress.ended.insert(from);
            }
            progress.reports[from] = Some(report);
            drop(progress);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Sends the figures of this process to that of `to`.
    pub(super) fn answer(self: &Arc<Self>, to: usize) {
        let transport = self.clone();
        // Reading them waits for every thread of the session.
        let answer = move || {
            let report = transport.figures.get().map(|read| read()).unwrap_or_default();
            for message in transport.own_report(report, false).messages() {
                transport.send_control(to, &message);
            }
        };
        drop(thread::Builder::new().name("figures".to_owned()).spawn(answer));
    }

    /// Sets how the figures of the session of this process are read.
    pub fn read_figures_by(&self, read: impl Fn() -> Report + Send + Sync + 'static) {
        drop(self.figures.set(Box::new(read)));
    }

    /// Current figures of all processes. Those that do not answer in time have their last ones.
    pub fn figures(&self, patience: Duration) -> Report {
        let others = self.own_partitions();
        let asked = others.iter().copied().filter(|other| self.links()[*other].is_some());
        let asked: BTreeSet<_> = asked.collect();
        self.progress().asked.extend(&asked);
        for partition in asked {
            self.send_control(partition, &Control::Ask);
        }
        let report = self.figures.get().map(|read| read()).unwrap_or_default();
        let own = self.own_report(report, false);
        let progress = self.wait(Instant::now() + patience, |progress| progress.asked.is_empty());
        let mut reports = progress.reports.clone();
        drop(progress);
        reports[self.here] = Some(own);
        report::merge(&self.graph, &reports)
    }

    /// Waits until the other processes have received what this one sends and have ended; returns
    /// the report of the whole run in the first process, and otherwise its own.
    pub fn finish(&self, report: Report) -> Report {
        let Some(edges) = self.edges.get() else { return report };
        let is_sent = |_: &Progress| edges.senders.iter().flatten().all(Sender::is_ended);
        self.wait_for_end(edges, is_sent);
        let own = self.own_report(report, true);
        if self.here != self.main_of(self.here) {
            self.is_over.store(true, Ordering::Release);
            for message in own.messages() {
                self.send_control(self.main_of(self.here), &message);
            }
            // The main process closes the connection when it has the report.
            let main = self.main_of(self.here);
            let is_gone = |_: &Progress| self.links()[main].is_none();
            drop(self.wait(Instant::now() + END_TIMEOUT, is_gone));
            return own.report;
        }
        let awaited = self.own_partitions();
        let has_ended =
            |progress: &Progress| awaited.iter().all(|one| progress.ended.contains(one));
        if !self.wait_for_end(edges, has_ended) {
            tracing::warn!("not every process has ended in {END_TIMEOUT:?}");
        }
        self.is_over.store(true, Ordering::Release);
        let mut reports = self.progress().reports.clone();
        reports[self.here] = Some(own);
        self.links().iter().flatten().for_each(|found| found.link.close());
        let mut merged = report::merge(&self.graph, &reports);
        merged.failures.append(&mut self.progress().failures);
        merged
    }

    /// Waits until `done`: as long as it takes, but after a stop at most for [`END_TIMEOUT`].
    /// Returns false if that has passed.
    fn wait_for_end(&self, edges: &Edges, done: impl Fn(&Progress) -> bool) -> bool {
        let mut limit = None;
        loop {
            let soon = Instant::now() + Duration::from_millis(50);
            let progress = self.wait(soon, &done);
            if done(&progress) {
                return true;
            }
            drop(progress);
            if edges.stop.is_asked()
                && Instant::now() >= *limit.get_or_insert_with(|| Instant::now() + END_TIMEOUT)
            {
                return false;
            }
        }
    }

    /// Report of this process with the counters of its edges to others.
    fn own_report(&self, mut report: Report, is_last: bool) -> PartitionReport {
        let mut sent: Vec<(usize, SentCounts)> = Vec::new();
        let mut received_before = Vec::new();
        if let Some(edges) = self.edges.get() {
            for sender in edges.senders.iter().flatten() {
                let (counts, more) = sender.counts();
                let edge = sender.outgoing.edge;
                if let Some(found) = report.edges.get_mut(edge) {
                    found.counts = counts;
                }
                sent.push((edge, more));
            }
            for receiver in edges.receivers.iter().flatten() {
                let edge = receiver.incoming.edge;
                if let Some(found) = report.edges.get_mut(edge) {
                    found.counts = receiver.incoming.counts();
                }
                let before = receiver.received_before();
                if before > 0 {
                    received_before.push((edge, before));
                }
            }
        }
        PartitionReport { report, is_last, sent, received_before }
    }
}
