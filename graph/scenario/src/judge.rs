//! Whether what is expected has happened.

use std::time::Duration;

use afferent_graph::Timestamp;

use crate::{
    spec::{Anchor, Check, Goal},
    stage::{Script, State},
};

/// What is known of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Something must still happen.
    Waiting,
    /// It is fine so far, and nothing has to happen any more.
    Content,
    Passed,
    /// What happened instead.
    Failed(String),
}

/// The time that a check looks at; the end is absent where it is that of the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Timestamp,
    pub(crate) until: Option<Timestamp>,
}

/// Judges `check` when everything before `now` is known, or at the end.
pub(crate) fn verdict(
    script: &Script,
    state: &State,
    check: &Check,
    now: Option<Timestamp>,
) -> (Verdict, Option<Window>) {
    let Some(from) = state.time_of(check.after).map(|time| time + check.delay) else {
        let failed = || Verdict::Failed("what it counts from never came".to_owned());
        return (now.map_or_else(failed, |_| Verdict::Waiting), None);
    };
    let window = Window { from, until: check.within.map(|within| from + within) };
    let closed = now.is_none_or(|now| window.until.is_some_and(|until| until < now));
    let verdict = match &check.goal {
        Goal::Count { pattern, least, most } => {
            // What was sent at the very moment of an event may have come before it.
            let is_event = matches!(check.after, Anchor::Event { .. });
            let behind = *most == Some(0) && is_event && check.delay.is_zero();
            let hits = hits(state, *pattern, window);
            let count = hits.iter().filter(|(at, _)| !behind || *at > from).count();
            counted(count, *least, *most, closed)
        }
        Goal::Order(patterns) => ordered(state, patterns, window, closed),
        Goal::Budget { from, to, limits } => {
            let times = paired(state, *from, *to, window);
            match now {
                Some(_) if times.is_empty() => Verdict::Waiting,
                Some(_) => Verdict::Content,
                None => kept(times, limits),
            }
        }
    };
    debug_assert!(check.turn.is_none_or(|turn| turn < script.turns.len()));
    (verdict, Some(window))
}

/// The events of a pattern in a window, its ends included.
pub(crate) fn hits(state: &State, pattern: usize, window: Window) -> &[(Timestamp, usize)] {
    let hits = &state.hits[pattern];
    let first = hits.partition_point(|(at, _)| *at < window.from);
    let last = hits.partition_point(|(at, _)| window.until.is_none_or(|until| *at <= until));
    &hits[first..last.max(first)]
}

fn counted(count: usize, least: usize, most: Option<usize>, closed: bool) -> Verdict {
    let times = |count: usize| match count {
        0 => "it did not come".to_owned(),
        1 => "it came".to_owned(),
        count => format!("it came {count} times"),
    };
    match most {
        Some(most) if count > most => Verdict::Failed(times(count)),
        None if count >= least => Verdict::Passed,
        _ if closed && count >= least => Verdict::Passed,
        _ if closed => Verdict::Failed(match count {
            1 => "it came once".to_owned(),
            count => times(count),
        }),
        _ if count >= least => Verdict::Content,
        _ => Verdict::Waiting,
    }
}

fn ordered(state: &State, patterns: &[usize], window: Window, closed: bool) -> Verdict {
    let (mut since, mut used) = (window.from, Vec::new());
    for (location, pattern) in patterns.iter().enumerate() {
        let hits = hits(state, *pattern, Window { from: since, ..window });
        match hits.iter().find(|(_, event)| !used.contains(event)) {
            Some((at, event)) => {
                since = *at;
                used.push(*event);
            }
            None if closed => {
                let message = format!("number {} of {} did not come", location + 1, patterns.len());
                return Verdict::Failed(message);
            }
            None => return Verdict::Waiting,
        }
    }
    Verdict::Passed
}

/// The times from an event of `from` to the first of `to` behind it; where several of `from` come
/// before, the last counts.
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

/// Whether times keep the limits of the median, of 95 % and of all.
fn kept(mut times: Vec<Duration>, limits: &[Option<Duration>; 3]) -> Verdict {
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
        let (mut location, mut state) = (0, State::default());
        let hits = hits.iter().map(|times| {
            let hit = |time: &i64| {
                location += 1;
                (ms(*time), location)
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
    fn counts_are_known_as_soon_as_they_can_be() {
        let failed = |text: &str| Verdict::Failed(text.to_owned());
        assert_eq!(counted(1, 1, None, false), Verdict::Passed);
        assert_eq!(counted(0, 1, None, false), Verdict::Waiting);
        assert_eq!(counted(0, 1, None, true), failed("it did not come"));
        assert_eq!(counted(1, 0, Some(0), false), failed("it came"));
        assert_eq!(counted(0, 0, Some(0), false), Verdict::Content);
        assert_eq!(counted(0, 0, Some(0), true), Verdict::Passed);
        assert_eq!(counted(2, 2, Some(2), false), Verdict::Content);
        assert_eq!(counted(3, 2, Some(2), false), failed("it came 3 times"));
        assert_eq!(counted(1, 2, Some(2), true), failed("it came once"));
    }

    #[test]
    fn the_ends_of_a_window_belong_to_it() {
        let state = state(&[&[10, 20, 30]]);
        assert_eq!(hits(&state, 0, window(10, 30)).len(), 3);
        assert_eq!(hits(&state, 0, window(11, 29)).len(), 1);
        assert_eq!(hits(&state, 0, window(31, 29)).len(), 0);
    }

    #[test]
    fn an_order_may_lie_in_one_moment() {
        let state = state(&[&[10, 20], &[10], &[30]]);
        let all = window(0, 100);
        assert_eq!(ordered(&state, &[1, 0, 2], all, true), Verdict::Passed);
        assert_eq!(ordered(&state, &[0, 0, 2], all, true), Verdict::Passed);
        assert!(matches!(ordered(&state, &[0, 0, 0], all, true), Verdict::Failed(_)));
        assert!(matches!(ordered(&state, &[2, 0], all, true), Verdict::Failed(_)));
        assert_eq!(ordered(&state, &[2, 0], all, false), Verdict::Waiting);
    }

    #[test]
    fn a_budget_counts_from_the_last_event_before() {
        let state = state(&[&[0, 100, 500], &[150, 160, 900]]);
        let times = paired(&state, 0, 1, window(0, 1000));
        assert_eq!(times, [50, 400].map(Duration::from_millis));
        let limit = |ms| Some(Duration::from_millis(ms));
        assert_eq!(kept(times.clone(), &[limit(50), None, limit(400)]), Verdict::Passed);
        assert!(matches!(kept(times, &[None, limit(399), None]), Verdict::Failed(_)));
        assert!(matches!(kept(Vec::new(), &[None; 3]), Verdict::Failed(_)));
    }
}
