//! Readers of levels and numbers.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

use afferent_spec::yaml::Node;

use super::Reading;

impl Reading<'_> {
    /// Reads a level in decibels, with or without its unit.
    pub(super) fn decibels(
        &mut self,
        node: &Node,
        what: &str,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        let text = self.reader.text(node, what)?.trim();
        let number = text.strip_suffix("dB").unwrap_or(text).trim_end();
        match number.parse::<f64>() {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                let (least, most) = (range.start(), range.end());
                let message = format!("{what} must be {least} to {most} dB, not \"{text}\"");
                self.reader.error(&node.location, message);
                None
            }
        }
    }

    /// Reads an integer in `range`.
    pub(super) fn int<N: FromStr + PartialOrd + Display>(
        &mut self,
        node: &Node,
        what: &str,
        range: RangeInclusive<N>,
    ) -> Option<N> {
        let text = self.reader.text(node, what)?;
        match text.trim().parse() {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                let (least, most) = (range.start(), range.end());
                let message = format!("{what} must be {least} to {most}, not \"{text}\"");
                self.reader.error(&node.location, message);
                None
            }
        }
    }
}
