//! Evaluation of expectations.

use std::time::Duration;

use afferent_graph::Timestamp;

use crate::{
    spec::{Anchor, Check, Goal},
    state::{Script, State},
};

/// Verdict on an expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A required event is still missing.
    Waiting,
    /// No event is missing, but a later one can still violate the expectation.
    Satisfied,
    Passed,
    /// Description of the violation.
    Failed(String),
}

/// Time window of an expectation. `until` is `None` for the end of the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Timestamp,
    pub(crate) until: Option<Timestamp>,
}

/// Evaluates `check` given all events before `now`, or at the end of the scenario if `now` is
/// `None`.
pub(crate) fn verdict(
    script: &Script,
    state: &State,
    check: &Check,
    now: Option<Timestamp>,
) -> (Verdict, Option<Window>) {
    let Some(from) = state.time_of(check.after).map(|time| time + check.delay) else {
        let failed = || Verdict::Failed("its anchor event never occurred".to_owned());
        return (now.map_or_else(failed, |_| Verdict::Waiting), None);
    };
    let window = Window { from, until: check.within.map(|within| from + within) };
    let closed = now.is_none_or(|now| window.until.is_some_and(|until| until < now));
    let verdict = match &check.goal {
        Goal::Count { pattern, least, most } => {
            // An event at exactly the time of the anchor event may have preceded it.
            let is_event = matches!(check.after, Anchor::Event { .. });
            let is_exclusive = *most == Some(0) && is_event && check.delay.is_zero();
            let hits = hits(state, *pattern, window);
            let count = hits.iter().filter(|(at, _)| !is_exclusive || *at > from).count();
            counted(count, *least, *most, closed)
        }
        Goal::Order(patterns) => ordered(state, patterns, window, closed),
        Goal::Budget { from, to, limits } => {
            let times = paired(state, *from, *to, window);
            match now {
                Some(_) if times.is_empty() => Verdict::Waiting,
                Some(_) => Verdict::Satisfied,
                None => within_limits(times, limits),
            }
        }
    };
    debug_assert!(check.turn.is_none_or(|turn| turn < script.turns.len()));
    (verdict, Some(window))
}

/// Events that match a pattern within a window, both ends included.
pub(crate) fn hits(state: &State, pattern: usize, window: Window) -> &[(Timestamp, usize)] {
    let hits = &state.hits[pattern];
    let first = hits.partition_point(|(at, _)| *at < window.from);
    let last = hits.partition_point(|(at, _)| window.until.is_none_or(|until| *at <= until));
    &hits[first..last.max(first)]
}

fn counted(count: usize, least: usize, most: Option<usize>, closed: bool) -> Verdict {
    let times = |count: usize| match count {
        0 => "it did not occur".to_owned(),
        1 => "it occurred".to_owned(),
        count => format!("it occurred {count} times"),
    };
    match most {
        Some(most) if count > most => Verdict::Failed(times(count)),
        None if count >= least => Verdict::Passed,
        _ if closed && count >= least => Verdict::Passed,
        _ if closed => Verdict::Failed(match count {
            1 => "it occurred once".to_owned(),
            count => times(count),
        }),
        _ if count >= least => Verdict::Satisfied,
        _ => Verdict::Waiting,
    }
}

fn ordered(state: &State, patterns: &[usize], window: Window, closed: bool) -> Verdict {
    let (mut since, mut used) = (window.from, Vec::new());
    for (index, pattern) in patterns.iter().enumerate() {
        let hits = hits(state, *pattern, Window { from: since, ..window });
        match hits.iter().find(|(_, event)| !used.contains(event)) {
            Some((at, event)) => {
                since = *at;
                used.push(*event);
            }
            None if closed => {
                let message = format!("event {} of {} did not occur", index + 1, patterns.len());
                return Verdict::Failed(message);
            }
            None => return Verdict::Waiting,
        }
    }
    Verdict::Passed
}

/// Durations from an event of `from` to the first following event of `to`. If several events of
/// `from` precede it, the last one counts.
fn paired(state: &State, from: usize, to: usize, window: Window) -> Vec<Duration> {
    let begins = hits(state, from, window);
    let mut times = Vec::new();
    let mut used = 0;
    for (end, _) in hits(state, to, window) {
        let before = begins.partition_point(|(begin, _)| begin <= end);
        if before > used {
            times.push(end.since(begins[before - 1].0));
            used = before;
        }
    }
    times
}

/// Compares the median, the 95th percentile, and the maximum of `times` with the limits.
fn within_limits(mut times: Vec<Duration>, limits: &[Option<Duration>; 3]) -> Verdict {
    if times.is_empty() {
        return Verdict::Failed("it was never measured".to_owned());
    }
    times.sort();
    let at = |share: f64| times[((times.len() as f64 * share).ceil() as usize).max(1) - 1];
    let found = [("p50", at(0.5)), ("p95", at(0.95)), ("max", at(1.0))];
    let over = found.iter().zip(limits).find_map(|((name, found), limit)| {
        let limit = limit.filter(|limit| found > limit)?;
        Some(format!("{name} is {found:?} of {limit:?}, in {} measurements", times.len()))
    });
    over.map_or(Verdict::Passed, Verdict::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn state(hits: &[&[i64]]) -> State {
        let (mut index, mut state) = (0, State::default());
        let hits = hits.iter().map(|times| {
            let hit = |time: &i64| {
                index += 1;
                (ms(*time), index)
            };
            times.iter().map(hit).collect()
        });
        state.hits = hits.collect();
        state
    }

    fn window(from: i64, until: i64) -> Window {
        Window { from: ms(from), until: Some(ms(until)) }
    }

    #[test]
    fn counts_are_decided_as_early_as_possible() {
        let failed = |text: &str| Verdict::Failed(text.to_owned());
        assert_eq!(counted(1, 1, None, false), Verdict::Passed);
        assert_eq!(counted(0, 1, None, false), Verdict::Waiting);
        assert_eq!(counted(0, 1, None, true), failed("it did not occur"));
        assert_eq!(counted(1, 0, Some(0), false), failed("it occurred"));
        assert_eq!(counted(0, 0, Some(0), false), Verdict::Satisfied);
        assert_eq!(counted(0, 0, Some(0), true), Verdict::Passed);
        assert_eq!(counted(2, 2, Some(2), false), Verdict::Satisfied);
        assert_eq!(counted(3, 2, Some(2), false), failed("it occurred 3 times"));
        assert_eq!(counted(1, 2, Some(2), true), failed("it occurred once"));
    }

    #[test]
    fn a_window_includes_its_ends() {
        let state = state(&[&[10, 20, 30]]);
        assert_eq!(hits(&state, 0, window(10, 30)).len(), 3);
        assert_eq!(hits(&state, 0, window(11, 29)).len(), 1);
        assert_eq!(hits(&state, 0, window(31, 29)).len(), 0);
    }

    #[test]
    fn ordered_events_may_have_the_same_time() {
        let state = state(&[&[10, 20], &[10], &[30]]);
        let all = window(0, 100);
        assert_eq!(ordered(&state, &[1, 0, 2], all, true), Verdict::Passed);
        assert_eq!(ordered(&state, &[0, 0, 2], all, true), Verdict::Passed);
        assert!(matches!(ordered(&state, &[0, 0, 0], all, true), Verdict::Failed(_)));
        assert!(matches!(ordered(&state, &[2, 0], all, true), Verdict::Failed(_)));
        assert_eq!(ordered(&state, &[2, 0], all, false), Verdict::Waiting);
    }

    #[test]
    fn a_budget_counts_from_the_last_preceding_event() {
        let state = state(&[&[0, 100, 500], &[150, 160, 900]]);
        let times = paired(&state, 0, 1, window(0, 1000));
        assert_eq!(times, [50, 400].map(Duration::from_millis));
        let limit = |ms| Some(Duration::from_millis(ms));
        assert_eq!(within_limits(times.clone(), &[limit(50), None, limit(400)]), Verdict::Passed);
        assert!(matches!(within_limits(times, &[None, limit(399), None]), Verdict::Failed(_)));
        assert!(matches!(within_limits(Vec::new(), &[None; 3]), Verdict::Failed(_)));
    }
}
