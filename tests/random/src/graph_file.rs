//! Generator of random graph files.

use std::fmt::Write;

use fastrand::Rng;

/// Returns `text` with a probability of `percent`, otherwise an empty string.
fn maybe(random: &mut Rng, percent: u32, text: impl FnOnce(&mut Rng) -> String) -> String {
    if random.u32(0..100) < percent { text(random) } else { String::new() }
}

fn choice<'a>(random: &mut Rng, words: &[&'a str]) -> &'a str {
    words[random.usize(0..words.len())]
}

/// Placeholder for a feedback edge, replaced when all nodes are known.
const FEEDBACK: &str = ", @";

/// Outputs with numbers and outputs with events.
#[derive(Default)]
struct Streams {
    numbers: Vec<String>,
    events: Vec<String>,
}

/// Generates a graph file. Half of the files have no intended errors.
pub(crate) fn generate(random: &mut Rng) -> String {
    let error_percent = if random.bool() { 0 } else { random.u32(1..15) };
    let mut text = "afferent: 1\nname: random\nnodes:\n".to_owned();
    let mut streams = Streams::default();
    let nodes = random.usize(1..=12);
    for index in 0..nodes {
        let kind = match index {
            0 => "source",
            _ if index + 1 == nodes => "sink",
            _ => choice(
                random,
                &["source", "pass", "pass", "heavy", "split", "merge", "echo", "sink"],
            ),
        };
        let inputs = inputs(random, kind, &streams, error_percent);
        let kind = if random.u32(0..100) < error_percent { "sours" } else { kind };
        write!(text, "  n{index}: {{use: {kind}").unwrap();
        write!(text, "{}", inputs).unwrap();
        text += &settings(random, kind, error_percent);
        text += "}\n";
        match kind {
            "split" => {
                streams.numbers.extend([format!("n{index}.out"), format!("n{index}.other")]);
                streams.events.push(format!("n{index}.events"));
            }
            "sink" => {}
            _ => streams.numbers.push(format!("n{index}.out")),
        }
    }
    // Feedback may come from any node.
    while let Some(at) = text.find(FEEDBACK) {
        let from = choose(random, &streams.numbers);
        let queue = maybe(random, 50, |random| format!(", queue: {}", random.u32(1..6)));
        text.replace_range(
            at..at + FEEDBACK.len(),
            &format!(", back: {{from: {from}, feedback: true{queue}}}"),
        );
    }
    text += &maybe(random, 30, |random| {
        let cancels: Vec<_> = (0..random.usize(1..4)).map(|_| node(random, nodes)).collect();
        let on = choose(random, &streams.numbers);
        format!("interrupt: {{on: {on}, cancels: [{}]}}\n", cancels.join(", "))
    });
    text += &maybe(random, 20, |random| {
        let (from, to) = (choose(random, &streams.numbers), node(random, nodes));
        format!("budget: {{from: {from}, to: {to}.in, p95: {}ms}}\n", random.u32(1..100))
    });
    text
}

fn node(random: &mut Rng, nodes: usize) -> String {
    format!("n{}", random.usize(0..nodes))
}

fn choose(random: &mut Rng, streams: &[String]) -> String {
    match streams.len() {
        0 => "n0.out".to_owned(),
        count => streams[random.usize(0..count)].clone(),
    }
}

fn inputs(random: &mut Rng, kind: &str, streams: &Streams, error_percent: u32) -> String {
    if random.u32(0..100) < error_percent {
        return choice(random, &["", ", in: n9.out", ", in: {side: n1}", ", in: [n0, n2.other]"])
            .to_owned();
    }
    let number = |random: &mut Rng| choose(random, &streams.numbers);
    match kind {
        "source" => String::new(),
        "merge" if random.bool() => {
            let primary = stream(random, number, "");
            let mut text = format!(", in: {{in: {primary}");
            let sync = sync(random, true);
            let side = stream(random, number, &sync);
            write!(text, ", side: {side}").unwrap();
            if !streams.events.is_empty() && random.bool() {
                let sync = self::sync(random, false);
                let extra = stream(random, |random| choose(random, &streams.events), &sync);
                write!(text, ", extra: {extra}").unwrap();
            }
            text + "}"
        }
        "merge" | "sink" => {
            let count = random.usize(1..4);
            let mut all: Vec<_> = (0..count).map(|_| stream(random, number, "")).collect();
            if kind == "sink" && !streams.events.is_empty() {
                all.push(stream(random, |random| choose(random, &streams.events), ""));
            }
            format!(", in: {{in: [{}]}}", all.join(", "))
        }
        "echo" => {
            // A synchronizer cannot have a feedback input.
            let more = if random.u32(0..5) == 0 {
                let sync = sync(random, true);
                format!(", side: {}", stream(random, number, &sync))
            } else {
                maybe(random, 75, |_| FEEDBACK.to_owned())
            };
            format!(", in: {{in: {}{more}}}", stream(random, number, ""))
        }
        _ => format!(", in: {{in: {}}}", stream(random, number, "")),
    }
}

/// An edge with a random policy.
fn stream(random: &mut Rng, from: impl FnOnce(&mut Rng) -> String, sync: &str) -> String {
    let mut text = format!("{{from: {}{sync}", from(random));
    if random.bool() {
        let on_full = choice(random, &["block", "drop_oldest", "drop_newest", "latest"]);
        write!(text, ", on_full: {on_full}").unwrap();
        if on_full != "latest" {
            text += &maybe(random, 60, |random| format!(", queue: {}", random.u32(1..6)));
        }
    }
    text += &maybe(random, 10, |random| format!(", max_age: {}us", random.u32(1..500)));
    text += &maybe(random, 15, |random| format!(", in_flight: {}", random.u32(1..4)));
    text + "}"
}

fn sync(random: &mut Rng, interpolates: bool) -> String {
    let forms = [
        "exact",
        "latest",
        "barrier",
        "{latest: 200us}",
        "{approx: 100us}",
        "{window: {before: 150us, after: 80us}}",
        "interpolate",
    ];
    let count = if interpolates { forms.len() } else { forms.len() - 1 };
    let sync = choice(random, &forms[..count]);
    let timeout = maybe(random, 30, |random| format!(", timeout: {}us", random.u32(1..300)));
    format!(", sync: {sync}{timeout}")
}

fn settings(random: &mut Rng, kind: &str, error_percent: u32) -> String {
    let mut text = String::new();
    let mut params = Vec::new();
    if kind == "source" {
        if random.u32(0..100) < 60 {
            params.push(format!("period: {}us", random.u32(1..100)));
        }
        if random.u32(0..100) < 20 {
            params.push(format!("burst: {}", random.u32(1..17)));
        }
    } else if kind == "echo" {
        params.push(format!("repeats: {}, later: {}us", random.u32(0..4), random.u32(0..200)));
        if random.u32(0..100) < 20 {
            params.push(format!("rest: {}us", random.u32(0..50)));
        }
    } else if matches!(kind, "pass" | "heavy") && random.u32(0..100) < 25 {
        params.push(format!("fails: {}, panics: {}", random.u32(1..40), random.bool()));
    }
    if random.u32(0..100) < error_percent {
        params.push(choice(random, &["burst: 99", "priod: 3", "fails: x"]).to_owned());
    }
    if !params.is_empty() {
        write!(text, ", params: {{{}}}", params.join(", ")).unwrap();
    }
    text += &maybe(random, 25, |random| format!(", thread: t{}", random.u32(0..3)));
    text += &maybe(random, 30, |random| {
        let policy = choice(
            random,
            &[
                "stop",
                "{restart: {backoff: 1us, limit: 9}}",
                "{restart: {backoff: 300us, limit: 2}}",
                "degrade",
                "{degrade: last}",
            ],
        );
        format!(", on_error: {policy}")
    });
    // A late call of a source sends no packets, which would break the packet count.
    if kind != "source" {
        text += &maybe(random, 10, |random| format!(", deadline: {}ms", random.u32(1..50)));
    }
    text += &maybe(random, 10, |random| {
        format!(", on_time_fault: {}", choice(random, &["drop", "clamp", "restart"]))
    });
    text
}
