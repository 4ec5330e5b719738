//! Latency budgets from port to port, measured by trace id.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{BudgetReport, Spread, metrics::histogram::Times};
use afferent_spec::{CheckedBudget, CheckedGraph, End};

/// Most traces that are tracked at a time; the oldest is forgotten.
const MAX_TRACES: usize = 4096;

/// Meter of one budget, from the first packet of a trace at one port to the first at the other.
pub(crate) struct Meter {
    pub(crate) budget: CheckedBudget,
    paths: Mutex<Paths>,
    /// Present if an end is in another process: tells another process of a packet at an end
    /// (true for the start), by its trace and its real time. Returns false if this process measures.
    tell: Option<Tell>,
}

/// See [`Meter`].
pub(crate) type Tell = Box<dyn Fn(bool, u64, u64) -> bool + Send + Sync>;

struct Paths {
    /// Start of each tracked trace; `None` after it has arrived.
    started: HashMap<u64, Option<u64>>,
    /// Tracked traces, oldest first.
    order: VecDeque<u64>,
    times: Times,
}

/// An end of a budget that a packet passes.
#[derive(Clone)]
pub(crate) struct Mark {
    meter: Arc<Meter>,
    starts: bool,
}

/// One meter for each budget of `graph`, by whose index `tell` is made.
pub(crate) fn meters(
    graph: &CheckedGraph,
    tell: impl Fn(usize) -> Option<Tell>,
) -> Vec<Arc<Meter>> {
    let paths = || Paths {
        // Removed entries leave tombstones.
        started: HashMap::with_capacity(2 * MAX_TRACES),
        order: VecDeque::with_capacity(MAX_TRACES),
        times: Times::new(),
    };
    let meter = |(index, budget): (usize, &CheckedBudget)| {
        Arc::new(Meter { budget: *budget, paths: Mutex::new(paths()), tell: tell(index) })
    };
    graph.budgets.iter().enumerate().map(meter).collect()
}

/// Budgets that are measured at the port `end`.
pub(crate) fn marks(meters: &[Arc<Meter>], end: End) -> Vec<Mark> {
    let marks = meters.iter().flat_map(|meter| {
        let ends = [(meter.budget.to, false), (meter.budget.from, true)];
        let here = ends.into_iter().filter(move |(other, _)| *other == end);
        here.map(|(_, starts)| Mark { meter: meter.clone(), starts })
    });
    marks.collect()
}

impl Mark {
    /// Registers a packet of `trace` at real time `real_ns`.
    pub(crate) fn pass(&self, trace: u64, real_ns: u64) {
        let is_told =
            self.meter.tell.as_ref().is_some_and(|tell| tell(self.starts, trace, real_ns));
        if !is_told {
            self.meter.pass(self.starts, trace, real_ns);
        }
    }
}

impl Meter {
    /// Registers a packet of `trace` at real time `real_ns`, at the start or the end of the budget.
    pub(crate) fn pass(&self, starts: bool, trace: u64, real_ns: u64) {
        let mut paths = self.lock();
        let Paths { started, order, times } = &mut *paths;
        match started.get_mut(&trace) {
            None if starts => {
                if order.len() == MAX_TRACES
                    && let Some(oldest) = order.pop_front()
                {
                    started.remove(&oldest);
                }
                order.push_back(trace);
                started.insert(trace, Some(real_ns));
            }
            Some(start) if !starts => {
                if let Some(start) = start.take() {
                    times.record(real_ns.saturating_sub(start));
                }
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measured latency, compared with the limits.
    pub(crate) fn report(&self, graph: &CheckedGraph) -> BudgetReport {
        let paths = self.lock();
        let Spread { p50_ns, p95_ns, p99_ns, max_ns } = paths.times.spread();
        let measured = paths.times.count();
        let found = [p50_ns, p95_ns, p99_ns, max_ns];
        let limits = self
            .budget
            .limits
            .map(|limit| limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)));
        let within =
            |(found, limit): (&u64, &Option<u64>)| limit.is_none_or(|limit| *found <= limit);
        let name = |end: End| graph.port_name((end.node, end.port), end.kind);
        BudgetReport {
            clock_bound_ns: 0,
            from: name(self.budget.from),
            to: name(self.budget.to),
            measured,
            found_ns: found,
            limits_ns: limits,
            kept: measured > 0 && found.iter().zip(&limits).all(within),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use afferent_graph::PortKind;

    use super::*;

    fn end(node: usize, kind: PortKind) -> End {
        End { node, port: afferent_graph::PortId::at(0), kind }
    }

    fn check(limits: [Option<Duration>; 4], passes: &[(bool, u64, u64)]) -> BudgetReport {
        let (from, to) = (end(0, PortKind::Output), end(1, PortKind::Input));
        let budgets = vec![CheckedBudget { from, to, limits }];
        let graph = CheckedGraph { budgets, ..CheckedGraph::default() };
        let meters = meters(&graph, |_| None);
        let (starts, ends) = (marks(&meters, from), marks(&meters, to));
        assert_eq!(
            (starts.len(), ends.len(), marks(&meters, end(1, PortKind::Output)).len()),
            (1, 1, 0)
        );
        for (is_start, trace, at) in passes {
            if *is_start { &starts[0] } else { &ends[0] }.pass(*trace, *at);
        }
        meters[0].report(&graph)
    }

    #[test]
    fn the_first_packets_of_a_trace_count() {
        let passes = [
            (true, 1, 10),
            (true, 1, 20),
            (true, 2, 30),
            (false, 2, 40),
            (false, 1, 50),
            (false, 1, 90),
            (true, 1, 100),
            (false, 1, 190),
            (false, 7, 199),
        ];
        let report = check([None; 4], &passes);
        assert_eq!((report.measured, report.found_ns[3], report.kept), (2, 40, true));
        assert_eq!((report.from.as_str(), report.to.as_str()), ("node 0.0", "node 1.0"));
    }

    #[test]
    fn a_limit_is_kept_or_not() {
        let limit = |nanos| Some(Duration::from_nanos(nanos));
        let passes = [(true, 1, 0), (false, 1, 10), (true, 2, 0), (false, 2, 1000)];
        assert!(check([limit(10), None, None, limit(1000)], &passes).kept);
        assert!(!check([None, limit(980), None, None], &passes).kept);
        assert!(!check([limit(10), None, None, None], &[]).kept, "nothing was measured");
    }

    #[test]
    fn what_never_arrives_is_given_up() {
        let passes: Vec<_> = (1..=10_000).map(|trace| (true, trace, 0)).collect();
        let mut passes = passes;
        passes.extend([(false, 1, 5), (false, 10_000, 5)]);
        assert_eq!(check([None; 4], &passes).measured, 1);
    }
}
