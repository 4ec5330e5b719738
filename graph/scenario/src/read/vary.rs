//! One case for every combination of values.
//!
//! ```yaml
//! vary:
//!   delay: [0ms, 50ms, 100ms]
//!   level: {from: -30dB, to: -10dB, step: 5dB}
//! ```

use afferent_spec::{
    Reader,
    yaml::{Key, Map, Node, Value},
};

/// Maximum number of combinations.
const MAX_COMBINATIONS: usize = 1000;

/// Value maps of all cases. One empty map if nothing varies.
pub(super) fn combinations(reader: &mut Reader, vary: Option<&Node>) -> Vec<Map> {
    let mut all = vec![Map::new()];
    let Some(vary) = vary.filter(|vary| !vary.is_null()) else { return all };
    let Some(map) = reader.map(vary, "\"vary\"", "lists of values by name") else { return all };
    for (key, list) in map {
        let values = values(reader, key, list);
        let with = |known: &Map, value: &Node| {
            let mut known = known.clone();
            known.push((key.clone(), value.clone()));
            known
        };
        if all.len().saturating_mul(values.len()) > MAX_COMBINATIONS {
            reader
                .error(&key.location, format!("\"vary\" gives more than {MAX_COMBINATIONS} cases"));
            return Vec::new();
        }
        all = all.iter().flat_map(|known| values.iter().map(|value| with(known, value))).collect();
    }
    all
}

fn values(reader: &mut Reader, key: &Key, list: &Node) -> Vec<Node> {
    let what = format!("\"{}\" of \"vary\"", key.text);
    match &list.value {
        Value::Seq(items) => {
            if items.is_empty() {
                reader.error(&list.location, format!("{what} has no values"));
            }
            let scalar = |item: &&Node| matches!(item.value, Value::Scalar { .. });
            for item in items.iter().filter(|item| !scalar(item)) {
                reader.wrong(item, &format!("a value of {what}"), "a single value");
            }
            items.iter().filter(scalar).cloned().collect()
        }
        Value::Map(_) => steps(reader, list, &what).unwrap_or_default(),
        _ => {
            reader.wrong(list, &what, "a list of values, or \"from\", \"to\" and \"step\"");
            Vec::new()
        }
    }
}

/// Expands `from`, `to`, and `step`, which must have the same unit, into a list of values.
fn steps(reader: &mut Reader, node: &Node, what: &str) -> Option<Vec<Node>> {
    let map = reader.map(node, what, "\"from\", \"to\" and \"step\"")?;
    reader.keys(map, &["from", "to", "step"], what);
    let mut part = |key: &str| {
        let Some(value) = node.get(key) else {
            reader.error(&node.location, format!("{what} has no \"{key}\""));
            return None;
        };
        let text = reader.text(value, &format!("\"{key}\" of {what}"))?.trim();
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ".-+".contains(c));
        match text[..text.len() - unit.len()].parse::<f64>() {
            Ok(number) if number.is_finite() => Some((number, unit.trim().to_owned())),
            _ => {
                reader.error(
                    &value.location,
                    format!("\"{key}\" of {what} must be a number, not \"{text}\""),
                );
                None
            }
        }
    };
    let ((from, unit), (to, last), (step, width)) = (part("from")?, part("to")?, part("step")?);
    if unit != last || unit != width {
        reader.error(&node.location, format!("{what} has several units: use the same unit"));
        return None;
    }
    let count = ((to - from) / step + 1e-9).floor();
    if !(0.0..MAX_COMBINATIONS as f64).contains(&count) {
        let message = format!("{what} has no values, or more than {MAX_COMBINATIONS}");
        reader.error(&node.location, message);
        return None;
    }
    // `count` is an integer below `MAX_COMBINATIONS`.
    let numbers = (0..=count as usize).map(|n| from + step * n as f64);
    let rounded = numbers.map(|number| (number * 1e6).round() / 1e6);
    let text = |number: f64| Value::Scalar { text: format!("{number}{unit}"), quoted: false };
    Some(rounded.map(|number| Node::leaf(node.location.clone(), text(number))).collect())
}
