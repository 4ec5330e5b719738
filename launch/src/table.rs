//! Text tables with aligned columns.

/// Formats `rows` with an indent of two spaces. Numbers are right-aligned, other cells
/// left-aligned.
pub(crate) fn aligned<R: AsRef<[String]>>(rows: &[R]) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, &width) in row.as_ref().iter().zip(&widths) {
            if is_number(cell) {
                line += &format!("  {cell:>width$}");
            } else {
                line += &format!("  {cell:width$}");
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn is_number(cell: &str) -> bool {
    cell.parse::<f64>().is_ok()
}

/// Formats a number with three significant digits.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => value.to_string(),
        0.0 => "0".to_owned(),
        size if (0.01..1e6).contains(&size) => {
            let digits = (2 - size.log10().floor() as i32).clamp(0, 4);
            format!("{value:.*}", digits.unsigned_abs() as usize)
        }
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["name", "bytes", "what"], ["a", "12", ""], ["longer", "7", "x y"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(
            aligned(&rows),
            "  name    bytes  what\n  a          12\n  longer      7  x y\n"
        );
        assert_eq!(aligned::<Vec<String>>(&[]), "");
    }

    #[test]
    fn figures_have_three_significant_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1.00"),
            (-12.345, "-12.3"),
            (0.5, "0.500"),
            (123_456.0, "123456"),
            (1.25e-7, "1.25e-7"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, expected) in cases {
            assert_eq!(figure(value), expected);
        }
    }
}
