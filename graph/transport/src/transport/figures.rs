//! Figures and reports of all processes.

use std::{
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

/// Time that a machine waits at its end until the others have its last messages.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time that the main process of a machine waits for its processes when another machine asks.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(100);

impl Transport {
    /// Collects the figures of a partition, which the process of `from` sends.
    pub(super) fn collect(
        &self,
        from: usize,
        partition: usize,
        text: &str,
        ends: bool,
    ) -> Result<(), String> {
        const MOST: usize = 64 << 20;
        if partition >= self.graph.partitions.len() || self.next_hop(partition) != from {
            return Err(format!("it reports for partition {partition}, which is not its own"));
        }
        let mut progress = self.progress();
        progress.parts[partition].push_str(text);
        if progress.parts[partition].len() > MOST {
            return Err("its report is longer than 64 MiB".to_owned());
        }
        if ends {
            let text = std::mem::take(&mut progress.parts[partition]);
            let report: PartitionReport = serde_json::from_str(&text)
                .map_err(|error| format!("its report is damaged: {error}"))?;
            progress.asked.remove(&partition);
            // Another machine says when it has sent everything.
            if report.is_last && self.main_of(partition) == self.main_of(self.here) {
                progress.ended.insert(partition);
            }
            progress.reports[partition] = Some(report);
            drop(progress);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Sends the figures of this process to that of `to`; to another machine, those of all processes
    /// of this one.
    pub(super) fn answer(self: &Arc<Self>, to: usize) {
        let transport = self.clone();
        // Reading them waits for every thread of the session.
        let answer = move || {
            let is_machine = transport.main_of(to) != transport.main_of(transport.here);
            let asked = if is_machine { transport.own_partitions() } else { Vec::new() };
            for (partition, report) in
                transport.read(&asked, ANSWER_TIMEOUT).into_iter().enumerate()
            {
                let is_own = partition == transport.here || asked.contains(&partition);
                if let Some(report) = report.filter(|_| is_own) {
                    transport.send_report(to, partition, &report);
                }
            }
        };
        drop(thread::Builder::new().name("figures".to_owned()).spawn(answer));
    }

    fn send_report(&self, to: usize, partition: usize, report: &PartitionReport) {
        for message in report.messages(partition) {
            self.send_control(to, &message);
        }
    }

    /// Sets how the figures of the session of this process are read.
    pub fn read_figures_by(&self, read: impl Fn() -> Report + Send + Sync + 'static) {
        drop(self.figures.set(Box::new(read)));
    }

    /// Current figures: in the first process of all processes, and in the main process of another
    /// machine of those of that machine. Those that do not answer in time have their last ones.
    pub fn figures(&self, patience: Duration) -> Report {
        let mut others = self.own_partitions();
        if self.here == 0 {
            others.extend(self.machines());
        }
        report::merge(&self.graph, &self.read(&others, patience))
    }

    /// Partitions whose figures the process of `other` sends: its own, or those of its machine.
    fn reports_of(&self, other: usize) -> Vec<usize> {
        match self.main_of(other) == self.main_of(self.here) {
            true => vec![other],
            false => self.partitions_of(other),
        }
    }

    /// Reads the figures of this process, asks `others` for theirs, and waits for them.
    fn read(&self, others: &[usize], patience: Duration) -> Vec<Option<PartitionReport>> {
        for other in others {
            if !self.connection_to(*other).is_some_and(|found| found.link.is_up()) {
                continue;
            }
            let mut progress = self.progress();
            if !progress.ended.contains(other) {
                progress.asked.extend(self.reports_of(*other));
                drop(progress);
                self.send_control(*other, &Control::Ask);
            }
        }
        let report = self.figures.get().map(|read| read()).unwrap_or_default();
        let own = self.own_report(report, false);
        let progress = self.wait(Instant::now() + patience, |progress| progress.asked.is_empty());
        let mut reports = progress.reports.clone();
        drop(progress);
        self.progress().asked.clear();
        reports[self.here] = Some(own);
        reports
    }

    /// Waits until the other processes have received what this one sends and have ended; returns the
    /// report of the whole run in the first process, that of its machine in another main process,
    /// and otherwise that of this process.
    pub fn finish(&self, report: Report) -> Report {
        let Some(edges) = self.edges.get() else { return report };
        let is_sent = |_: &Progress| edges.senders.iter().flatten().all(Sender::is_ended);
        self.wait_for_end(edges, is_sent);
        let own = self.own_report(report, true);
        if !self.is_main() {
            self.is_over.store(true, Ordering::Release);
            let main = self.main_of(self.here);
            self.send_report(main, self.here, &own);
            // The main process closes the connection when it has the report.
            let is_gone = |_: &Progress| self.links()[main].is_none();
            drop(self.wait(Instant::now() + END_TIMEOUT, is_gone));
            return own.report;
        }
        let machines = self.machines();
        let mut awaited = self.own_partitions();
        if self.here == 0 {
            awaited.extend(machines.iter().flat_map(|machine| self.reports_of(*machine)));
        }
        let has_ended =
            |progress: &Progress| awaited.iter().all(|one| progress.ended.contains(one));
        let missing = match self.wait_for_end(edges, has_ended) {
            true => Vec::new(),
            false => {
                let progress = self.progress();
                awaited.into_iter().filter(|one| !progress.ended.contains(one)).collect()
            }
        };
        self.is_over.store(true, Ordering::Release);
        let mut reports = self.progress().reports.clone();
        reports[self.here] = Some(own);
        self.leave(&machines, &reports);
        self.links().iter().flatten().for_each(|found| found.link.close());
        let mut merged = report::merge(&self.graph, &reports);
        merged.failures.append(&mut self.progress().failures);
        for partition in missing {
            let message = format!("{} has not ended in {END_TIMEOUT:?}", self.name(partition));
            tracing::warn!("{message}");
            merged.failures.extend(self.failures_of(partition, &message));
        }
        merged
    }

    /// Tells the other machines that this one has ended, and the first one its last reports.
    fn leave(&self, machines: &[usize], reports: &[Option<PartitionReport>]) {
        let stopped = self.leaves();
        for machine in machines {
            if *machine == 0 {
                for partition in self.partitions_of(self.here) {
                    if let Some(report) = &reports[partition] {
                        self.send_report(0, partition, report);
                    }
                }
            }
            self.send_control(*machine, &Control::Left { stopped });
        }
        for machine in machines {
            if let Some(found) = self.connection_to(*machine) {
                found.link.drain(LEAVE_TIMEOUT);
            }
        }
    }

    /// Waits until `done`: as long as it takes, but after a stop and while a machine cannot be
    /// reached at most for [`END_TIMEOUT`]. Returns false if that has passed.
    fn wait_for_end(&self, edges: &Edges, done: impl Fn(&Progress) -> bool) -> bool {
        let mut limit = None;
        loop {
            let soon = Instant::now() + Duration::from_millis(50);
            let progress = self.wait(soon, &done);
            if done(&progress) {
                return true;
            }
            let is_limited = edges.stop.is_asked() || !progress.away.is_empty();
            drop(progress);
            match is_limited {
                false => limit = None,
                true => {
                    let end = *limit.get_or_insert_with(|| Instant::now() + END_TIMEOUT);
                    if Instant::now() >= end {
                        return false;
                    }
                }
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
        let clock_bound_ns = self.clock_bound();
        PartitionReport { report, is_last, sent, received_before, clock_bound_ns }
    }
}
