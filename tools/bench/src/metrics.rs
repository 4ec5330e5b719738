//! Metrics with an optional peer value and limit, formatted as a table or as JSON lines.

use anyhow::{Result, bail};
use serde_json::json;

use crate::table::{Table, format_number};

/// Measured value.
#[derive(Debug)]
pub(crate) struct Metric {
    name: &'static str,
    value: f64,
    unit: &'static str,
    peer: Option<(f64, &'static str)>,
    limit: Option<f64>,
}

impl Metric {
    pub(crate) fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, value, unit, peer: None, limit: None }
    }

    /// Adds the value of a peer.
    pub(crate) fn peer(self, name: &'static str, value: f64) -> Self {
        Self { peer: Some((value, name)), ..self }
    }

    /// Adds an upper limit.
    pub(crate) fn at_most(self, limit: f64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    fn is_within_limit(&self) -> bool {
        self.limit.is_none_or(|limit| self.value <= limit)
    }

    fn cells(&self) -> Vec<String> {
        let (peer, peer_name) = self.peer.unwrap_or((f64::NAN, "-"));
        let verdict = match self.limit {
            None => "-",
            Some(_) if self.is_within_limit() => "ok",
            Some(_) => "exceeded",
        };
        vec![
            self.name.to_owned(),
            format_number(self.value),
            self.unit.to_owned(),
            format_number(peer),
            peer_name.to_owned(),
            format_number(self.limit.unwrap_or(f64::NAN)),
            verdict.to_owned(),
        ]
    }
}

/// Formats `metrics` as a table, or as one JSON object per line.
pub(crate) fn text(title: String, metrics: &[Metric], notes: Vec<String>, json: bool) -> String {
    if json {
        let line = |metric: &Metric| {
            let Metric { name, value, unit, peer, .. } = metric;
            let (peer, peer_name) = peer.unzip();
            let object = json!({
                "name": name, "value": value, "unit": unit, "peer": peer, "peer_name": peer_name,
            });
            format!("{object}\n")
        };
        return metrics.iter().map(line).collect();
    }
    let columns = ["metric", "value", "unit", "peer", "peer name", "limit", "verdict"];
    let mut table = Table::new(title, &columns);
    metrics.iter().for_each(|metric| table.row(metric.cells()));
    notes.into_iter().for_each(|note| table.note(note));
    table.to_string()
}

/// Checks that no metric exceeds its limit.
///
/// # Errors
/// Lists the metrics that do.
pub(crate) fn verdict(metrics: &[Metric]) -> Result<()> {
    let exceeded = metrics.iter().filter(|metric| !metric.is_within_limit());
    let exceeded: Vec<_> = exceeded.map(|metric| metric.name).collect();
    if !exceeded.is_empty() {
        bail!("above the limit: {}", exceeded.join(", "));
    }
    Ok(())
}

/// Quantile `q` of `values` (nearest rank), for `q` from 0 to 1. Sorts `values`.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * q).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_have_all_fields() {
        let metrics = [
            Metric::new("fused_hop", 21.5, "ns").peer("copper", 43.0),
            Metric::new("drops", 0.0, "packets").at_most(0.0),
        ];
        let text = text(String::new(), &metrics, Vec::new(), true);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let first = json!({
            "name": "fused_hop", "value": 21.5, "unit": "ns", "peer": 43.0, "peer_name": "copper",
        });
        assert_eq!(lines[0], first);
        assert!(lines[1]["peer"].is_null() && verdict(&metrics).is_ok());
    }

    #[test]
    fn exceeded_limits_are_listed() {
        let metrics = [Metric::new("a", 2.0, "ns").at_most(1.0), Metric::new("b", 2.0, "ns")];
        assert_eq!(verdict(&metrics).unwrap_err().to_string(), "above the limit: a");
        assert!(text(String::new(), &metrics, Vec::new(), false).contains("exceeded"));
    }

    #[test]
    fn quantiles_are_elements() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.99), 3.0);
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
