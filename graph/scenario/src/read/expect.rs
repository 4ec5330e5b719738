//! Reader of expectations and event patterns.

use std::time::Duration;

use afferent_spec::yaml::{Node, Value};

use super::Reading;
use crate::spec::{Anchor, Check, Condition, Goal, Pattern, Test};

const KEYS: [&str; 9] =
    ["event", "where", "time", "within", "after", "absent", "count", "order", "budget"];
/// Default time window of an expectation.
const DEFAULT_WINDOW: Duration = Duration::from_secs(5);
/// Limits of a time budget.
const LIMITS: [&str; 3] = ["p50", "p95", "max"];

/// Suffixes of field names, and the test that each one stands for.
type MakeTest = fn(&str) -> Option<Test>;
const TESTS: [(&str, MakeTest); 3] = [
    ("_contains", |text| Some(Test::Contains(text.to_owned()))),
    ("_min", |text| Some(Test::Min(text.parse().ok()?))),
    ("_max", |text| Some(Test::Max(text.parse().ok()?))),
];

impl Reading<'_> {
    /// Reads one expectation or a list of expectations.
    pub(super) fn checks(&mut self, list: &Node, turn: Option<usize>, checks: &mut Vec<Check>) {
        let items = match &list.value {
            Value::Seq(items) => items.as_slice(),
            _ => std::slice::from_ref(list),
        };
        for item in items {
            checks.extend(self.check(item, turn));
        }
    }

    fn check(&mut self, node: &Node, turn: Option<usize>) -> Option<Check> {
        let what = "an expectation";
        let map = self.reader.map(node, what, "\"event\", \"order\" or \"budget\" and others")?;
        let meant = self.reader.keys(map, &KEYS, what);
        let own = turn.map_or(Anchor::Start, Anchor::End);
        let (after, delay) = match node.get("after").filter(|node| !node.is_null()) {
            Some(after) => (self.anchor(after, turn, own)?, self.delay(after)?),
            None => (own, Duration::ZERO),
        };
        let mut within = match node.get("within") {
            Some(within) => Some(self.reader.span(within, "\"within\"")?),
            None => None,
        };
        let others: Vec<_> = ["event", "order", "budget"]
            .into_iter()
            .filter_map(|key| Some((key, node.get(key)?)))
            .collect();
        let (goal, location) = match others.as_slice() {
            [("event", _)] => {
                let (goal, location) = self.count(node)?;
                if matches!(goal, Goal::Count { most: None, .. }) {
                    within = within.or(Some(DEFAULT_WINDOW));
                }
                (goal, location)
            }
            [("order", list)] => {
                within = within.or(Some(DEFAULT_WINDOW));
                (self.order(list)?, &list.location)
            }
            [(_, budget)] => (self.budget(budget)?, &budget.location),
            [] => {
                if !meant.iter().any(|key| ["event", "order", "budget"].contains(key)) {
                    let message = format!("{what} has no \"event\", \"order\" or \"budget\"");
                    self.reader.error(&node.location, message);
                }
                return None;
            }
            [_, (key, second), ..] => {
                let message =
                    format!("\"{key}\" is another expectation: write it as a separate item");
                self.reader.error(&second.location, message);
                return None;
            }
        };
        for key in ["where", "time", "absent", "count"] {
            if let Some(value) = node.get(key).filter(|_| node.get("event").is_none()) {
                self.reader.error(&value.location, format!("\"{key}\" belongs to an \"event\""));
            }
        }
        Some(Check { location: location.clone(), turn, goal, after, delay, within })
    }

    /// Reads the expected number of events.
    fn count<'n>(&mut self, node: &'n Node) -> Option<(Goal, &'n afferent_spec::Location)> {
        let pattern = self.pattern(node)?;
        let location = &node.get("event")?.location;
        let absent = match node.get("absent") {
            Some(absent) => self.reader.flag(absent, "\"absent\"")?,
            None => false,
        };
        let (least, most) = match node.get("count") {
            Some(count) if absent => {
                self.reader.error(&count.location, "what is \"absent\" has no \"count\"");
                return None;
            }
            Some(count) if count.as_map().is_some() => {
                let map = self.reader.map(count, "\"count\"", "\"min\" and \"max\"")?;
                self.reader.keys(map, &["min", "max"], "\"count\"");
                let mut end = |key: &str| {
                    let node = count.get(key)?;
                    self.int(node, &format!("\"{key}\" of \"count\""), 0..=1_000_000)
                };
                (end("min").unwrap_or(0), end("max"))
            }
            Some(count) => {
                let count = self.int(count, "\"count\"", 0..=1_000_000)?;
                (count, Some(count))
            }
            None if absent => (0, Some(0)),
            None => (1, None),
        };
        Some((Goal::Count { pattern, least, most }, location))
    }

    fn order(&mut self, node: &Node) -> Option<Goal> {
        let Value::Seq(items) = &node.value else {
            self.reader.wrong(node, "\"order\"", "a list of events");
            return None;
        };
        let mut patterns = Vec::new();
        for item in items {
            if let Some(map) = item.as_map() {
                self.reader.keys(map, &["event", "where", "time"], "an event of \"order\"");
            }
            patterns.push(self.event(item, "an event of \"order\"")?);
        }
        if patterns.len() < 2 {
            self.reader.error(&node.location, "\"order\" needs two events or more");
        }
        Some(Goal::Order(patterns))
    }

    fn budget(&mut self, node: &Node) -> Option<Goal> {
        let what = "\"budget\"";
        let map = self.reader.map(node, what, "\"from\", \"to\" and a limit such as \"p95\"")?;
        let meant = self.reader.keys(map, &["from", "to", "p50", "p95", "max"], what);
        let limits = LIMITS.map(|key| {
            let value = node.get(key)?;
            self.reader.duration(value, &format!("\"{key}\" of {what}"))
        });
        if !LIMITS.iter().any(|key| node.get(key).is_some() || meant.contains(key)) {
            self.reader
                .error(&node.location, format!("{what} has no limit: {}", LIMITS.join(", ")));
        }
        let mut end = |key: &str| match node.get(key) {
            Some(value) => self.event(value, &format!("\"{key}\" of {what}")),
            None => {
                self.reader.error(&node.location, format!("{what} has no \"{key}\""));
                None
            }
        };
        let (from, to) = (end("from"), end("to"));
        Some(Goal::Budget { from: from?, to: to?, limits })
    }

    /// Reads an event, written `node.port` or as a map with `event` and `where`.
    fn event(&mut self, node: &Node, what: &str) -> Option<usize> {
        match &node.value {
            Value::Map(_) => self.pattern(node),
            _ => {
                let output = self.output(node, what)?;
                self.patterns.push(Pattern { output, own_time: false, conditions: Vec::new() });
                Some(self.patterns.len() - 1)
            }
        }
    }

    /// Reads the pattern from `event` and `where` of `node`.
    fn pattern(&mut self, node: &Node) -> Option<usize> {
        let Some(event) = node.get("event") else {
            self.reader.error(&node.location, "\"event\" is missing: a node and its output");
            return None;
        };
        let output = self.output(event, "\"event\"")?;
        let own_time = match node.get("time") {
            Some(time) => match self.reader.text(time, "\"time\"")? {
                "sent" => false,
                "own" => true,
                text => {
                    let message = format!("\"time\" must be sent or own, not \"{text}\"");
                    self.reader.error(&time.location, message);
                    return None;
                }
            },
            None => false,
        };
        let mut conditions = Vec::new();
        if let Some(fields) = node.get("where").filter(|node| !node.is_null()) {
            for (key, value) in self.reader.map(fields, "\"where\"", "values by field")? {
                let text = self.reader.text(value, &format!("\"{}\" of \"where\"", key.text))?;
                let test = TESTS.iter().find_map(|(end, make)| {
                    Some((key.text.strip_suffix(end)?.to_owned(), make(text)))
                });
                let (field, test) =
                    test.unwrap_or_else(|| (key.text.clone(), Some(Test::Is(text.to_owned()))));
                let Some(test) = test else {
                    let message = format!("\"{}\" must be a number, not \"{text}\"", key.text);
                    self.reader.error(&value.location, message);
                    return None;
                };
                conditions.push(Condition { field, test });
            }
        }
        self.patterns.push(Pattern { output, own_time, conditions });
        Some(self.patterns.len() - 1)
    }

    /// Reads the `delay` of an `after` value.
    pub(super) fn delay(&mut self, after: &Node) -> Option<Duration> {
        let delay = after.get("delay");
        let delay = delay.map(|node| self.reader.span(node, "\"delay\" of \"after\""));
        delay.unwrap_or(Some(Duration::ZERO))
    }

    /// Reads the anchor of an `after` value. Events count from the start of `turn`, and a delay
    /// alone counts from `own`.
    pub(super) fn anchor(
        &mut self,
        node: &Node,
        turn: Option<usize>,
        own: Anchor,
    ) -> Option<Anchor> {
        if let Value::Scalar { text, .. } = &node.value {
            return match (text.as_str(), turn) {
                ("start", _) => Some(Anchor::Start),
                ("begin", Some(turn)) => Some(Anchor::Begin(turn)),
                ("end", Some(turn)) => Some(Anchor::End(turn)),
                _ => {
                    let message = format!("\"after: {text}\" is not a known time here");
                    let help = "write start, begin or end (of this turn), {begin: TURN}, {end: TURN} or {event: NODE.PORT}";
                    self.fault(&node.location, message, help);
                    None
                }
            };
        }
        let map = self.reader.map(node, "\"after\"", "\"event\", \"begin\" or \"end\"")?;
        let known = ["event", "where", "time", "nth", "begin", "end", "delay"];
        let meant = self.reader.keys(map, &known, "\"after\"");
        for (key, make) in [("begin", Anchor::Begin as fn(usize) -> Anchor), ("end", Anchor::End)] {
            let Some(value) = node.get(key) else { continue };
            let name = self.reader.text(value, &format!("\"{key}\" of \"after\""))?;
            if let Some(turn) = self.names.get(name) {
                return Some(make(*turn));
            }
            let names: Vec<_> = self.names.keys().cloned().collect();
            let message = format!("there is no turn \"{name}\"");
            let names = names.iter().map(String::as_str);
            self.reader.unknown(&value.location, message, name, names, "the turns with a \"name\"");
            return None;
        }
        if node.get("event").is_none() {
            if node.get("delay").is_some() {
                return Some(own);
            }
            if meant.is_empty() {
                self.reader
                    .error(&node.location, "\"after\" has no \"event\", \"begin\" or \"end\"");
            }
            return None;
        }
        let nth = match node.get("nth") {
            Some(nth) => self.int(nth, "\"nth\" of \"after\"", 1..=1_000_000)?,
            None => 1,
        };
        Some(Anchor::Event { pattern: self.pattern(node)?, nth, since: turn })
    }
}
