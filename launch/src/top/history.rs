//! Figures of the last minute, and their charts.

use std::collections::{BTreeMap, VecDeque};

use super::figures::Section;

/// Age of the oldest figures, in nanoseconds.
const SPAN_NS: u64 = 60_000_000_000;
/// Bars of a chart, from low to high.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A figure, with the duration of the run at its time, in nanoseconds.
type Point = (u64, f64);

/// Charted figures of each row, by table and name.
#[derive(Debug, Default)]
pub(crate) struct History {
    rows: BTreeMap<(&'static str, String), VecDeque<Point>>,
    now_ns: u64,
}

impl History {
    /// Adds the figures of a report, and forgets those older than a minute.
    pub(crate) fn add(&mut self, wall_ns: u64, sections: &[Section]) {
        self.now_ns = wall_ns;
        for section in sections {
            let Some(charted) = section.charted else { continue };
            for row in &section.rows {
                let Some(cell) = row.cells.get(charted) else { continue };
                let key = (section.name, row.name.clone());
                self.rows.entry(key).or_default().push_back((wall_ns, cell.value));
            }
        }
        let oldest = wall_ns.saturating_sub(SPAN_NS);
        self.rows.retain(|_, points| {
            while points.front().is_some_and(|(at, _)| *at < oldest) {
                points.pop_front();
            }
            !points.is_empty()
        });
    }

    /// Chart of a row: the last minute from left to right, scaled to the largest bar, at least to
    /// one. Times without figures are blank.
    pub(crate) fn chart(&self, section: &'static str, name: &str, width: usize) -> String {
        let points = self.rows.get(&(section, name.to_owned()));
        let mut sums = vec![(0.0, 0u32); width];
        for (at, value) in points.into_iter().flatten() {
            let age = self.now_ns.saturating_sub(*at).min(SPAN_NS - 1);
            let from_right = (u128::from(age) * width as u128 / u128::from(SPAN_NS)) as usize;
            if let Some(sum) = sums.iter_mut().rev().nth(from_right) {
                *sum = (sum.0 + value, sum.1 + 1);
            }
        }
        let means: Vec<Option<f64>> =
            sums.iter().map(|(sum, count)| (*count > 0).then(|| sum / f64::from(*count))).collect();
        let most = means.iter().flatten().copied().fold(1.0, f64::max);
        let bar = |mean: &Option<f64>| {
            let Some(mean) = mean else { return ' ' };
            let height = (mean / most * (BARS.len() - 1) as f64).round() as usize;
            BARS[height.min(BARS.len() - 1)]
        };
        means.iter().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::figures::{Cell, Column, Row};

    fn section(value: f64) -> [Section; 1] {
        let cells = vec![Cell { text: String::new(), value, alarm: false }];
        let rows = vec![Row { name: "vad".into(), cells }];
        let columns = vec![Column { name: "busy %", rank: 0 }];
        [Section { name: "node", title: "nodes", columns, charted: Some(0), rows }]
    }

    #[test]
    fn charts_show_the_last_minute() {
        let mut history = History::default();
        assert_eq!(history.chart("node", "vad", 4), "    ");
        for second in 0..=200u64 {
            let value = if second >= 185 { 70.0 } else { 35.0 };
            history.add(second * 1_000_000_000, &section(value));
        }
        assert_eq!(history.chart("node", "vad", 4), "▅▅▅█");
        assert_eq!(history.chart("node", "asr", 4), "    ");
        assert_eq!(history.rows[&("node", "vad".to_owned())].len(), 61);
    }

    #[test]
    fn small_figures_are_not_magnified() {
        let mut history = History::default();
        history.add(0, &section(0.0));
        history.add(30_000_000_000, &section(0.14));
        assert_eq!(history.chart("node", "vad", 3), " ▁▂");
        assert_eq!(history.chart("node", "vad", 0), "");
    }
}
