//! Single figures, each with its peer and its limit, as a table or as lines of JSON.

use anyhow::{Result, bail};
use serde_json::json;

use crate::table::{Table, figure};

/// One thing that was measured.
#[derive(Debug)]
pub(crate) struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    peer: Option<(f64, &'static str)>,
    limit: Option<f64>,
}

impl Figure {
    pub(crate) fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, value, unit, peer: None, limit: None }
    }

    /// The same with what somebody else takes for it.
    pub(crate) fn peer(self, name: &'static str, value: f64) -> Self {
        Self { peer: Some((value, name)), ..self }
    }

    /// The same with the largest value that is good.
    pub(crate) fn at_most(self, limit: f64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    fn is_kept(&self) -> bool {
        self.limit.is_none_or(|limit| self.value <= limit)
    }

    fn cells(&self) -> Vec<String> {
        let (peer, peer_name) = self.peer.unwrap_or((f64::NAN, "-"));
        let verdict = match self.limit {
            None => "-",
            Some(_) if self.is_kept() => "kept",
            Some(_) => "missed",
        };
        vec![
            self.name.to_owned(),
            figure(self.value),
            self.unit.to_owned(),
            figure(peer),
            peer_name.to_owned(),
            figure(self.limit.unwrap_or(f64::NAN)),
            verdict.to_owned(),
        ]
    }
}

/// `figures` as a table, or one JSON object a line.
pub(crate) fn text(title: String, figures: &[Figure], notes: Vec<String>, json: bool) -> String {
    if json {
        let line = |figure: &Figure| {
            let Figure { name, value, unit, peer, .. } = figure;
            let (peer, peer_name) = peer.unzip();
            let object = json!({
                "name": name, "value": value, "unit": unit, "peer": peer, "peer_name": peer_name,
            });
            format!("{object}\n")
        };
        return figures.iter().map(line).collect();
    }
    let columns = ["figure", "value", "unit", "peer", "peer's name", "limit", "verdict"];
    let mut table = Table::new(title, &columns);
    figures.iter().for_each(|figure| table.row(figure.cells()));
    notes.into_iter().for_each(|note| table.note(note));
    table.to_string()
}

/// Whether all limits are kept.
///
/// # Errors
/// Names the figures above their limit.
pub(crate) fn verdict(figures: &[Figure]) -> Result<()> {
    let missed = figures.iter().filter(|figure| !figure.is_kept());
    let missed: Vec<_> = missed.map(|figure| figure.name).collect();
    if !missed.is_empty() {
        bail!("above the limit: {}", missed.join(", "));
    }
    Ok(())
}

/// The value that a share of `values` does not exceed; it sorts them.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    values.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json_has_the_five_fields() {
        let figures = [
            Figure::new("fused_hop", 21.5, "ns").peer("copper", 43.0),
            Figure::new("drops", 0.0, "packets").at_most(0.0),
        ];
        let text = text(String::new(), &figures, Vec::new(), true);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let first = json!({
            "name": "fused_hop", "value": 21.5, "unit": "ns", "peer": 43.0, "peer_name": "copper",
        });
        assert_eq!(lines[0], first);
        assert!(lines[1]["peer"].is_null() && verdict(&figures).is_ok());
    }

    #[test]
    fn what_is_above_its_limit_is_named() {
        let figures = [Figure::new("a", 2.0, "ns").at_most(1.0), Figure::new("b", 2.0, "ns")];
        assert_eq!(verdict(&figures).unwrap_err().to_string(), "above the limit: a");
        assert!(text(String::new(), &figures, Vec::new(), false).contains("missed"));
    }

    #[test]
    fn quantiles_are_values() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.99), 3.0);
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
