//! Tables of results, formatted as aligned text or as JSON.

use std::fmt;

use serde_json::{Map, Number, Value, json};

/// Table with a title, column names, and notes below.
#[derive(Debug, Default)]
pub(crate) struct Table {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), ..Self::default() }
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a line below the table.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().zip(row);
            cells.map(|(name, cell)| ((*name).to_owned(), value(cell))).collect::<Map<_, _>>()
        });
        json!({ "title": self.title, "rows": rows.collect::<Vec<_>>(), "notes": self.notes })
    }
}

/// Converts a cell to a JSON number if possible, or to a string.
fn value(cell: &str) -> Value {
    let number = cell.parse().ok().and_then(Number::from_f64);
    number.map_or_else(|| Value::from(cell), Value::Number)
}

/// Converts `tables` to a JSON array.
pub(crate) fn to_json(tables: &[Table]) -> Value {
    tables.iter().map(Table::to_json).collect()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
                longest.max(self.columns[at].chars().count())
            })
            .collect();
        writeln!(f, "{}", self.title)?;
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for (at, (cell, &width)) in cells.zip(&widths).enumerate() {
                match at {
                    0 => text += &format!("  {cell:<width$}"),
                    _ => text += &format!("  {cell:>width$}"),
                }
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(&mut self.columns.iter().copied())?;
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}

/// Formats `value` with about three significant digits; `-` for NaN and infinity.
pub(crate) fn format_number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("sizes", &["what", "bytes"]);
        table.row(["a".to_owned(), "12".to_owned()]);
        table.row(["long name".to_owned(), "-".to_owned()]);
        table.note("of files");
        table
    }

    #[test]
    fn columns_are_aligned() {
        let expected =
            "sizes\n  what       bytes\n  a             12\n  long name      -\n  of files\n";
        assert_eq!(table().to_string(), expected);
    }

    #[test]
    fn numeric_cells_are_json_numbers() {
        let json = to_json(&[table()]);
        assert_eq!(json[0]["rows"][0], json!({ "what": "a", "bytes": 12.0 }));
        assert_eq!(json[0]["rows"][1]["bytes"], "-");
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, expected) in [(1234.5, "1234"), (12.34, "12.3"), (0.1234, "0.123")] {
            assert_eq!(format_number(value), expected);
        }
        assert_eq!(format_number(f64::NAN), "-");
    }
}
