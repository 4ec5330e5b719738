//! Text files in which each line has a time and numbers.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_graph::NodeError;

use crate::output::file_error;

/// Layout of the lines of a file.
#[derive(Debug)]
pub(crate) struct LineLayout {
    /// Names of the columns, the time first.
    pub(crate) columns: &'static str,
    /// Number of numbers after the time.
    pub(crate) numbers: usize,
    /// True if the time is in seconds, not in whole nanoseconds.
    pub(crate) has_seconds: bool,
}

/// A time since the first line, and the numbers after it.
pub(crate) type Line = (Duration, Vec<f64>);

/// A file that is read line by line. Columns are separated by commas or spaces. Lines that begin with
/// `#`, empty lines, and a first line with names are skipped.
pub(crate) struct TimedLines {
    path: PathBuf,
    lines: BufReader<File>,
    line: usize,
    layouts: &'static [LineLayout],
    layout: Option<&'static LineLayout>,
    /// Time of the first and of the last line, in nanoseconds.
    first_ns: Option<i64>,
    last_ns: i64,
}

impl TimedLines {
    /// Opens a file whose lines have one of the `layouts`, all the same.
    pub(crate) fn open(path: &Path, layouts: &'static [LineLayout]) -> Result<Self, NodeError> {
        let file = File::open(path).map_err(|error| file_error(path, error))?;
        let (path, lines) = (path.to_owned(), BufReader::new(file));
        Ok(Self { path, lines, line: 0, layouts, layout: None, first_ns: None, last_ns: i64::MIN })
    }

    /// Layout of the lines that were read.
    pub(crate) fn layout(&self) -> Option<&'static LineLayout> {
        self.layout
    }

    /// The numbers of the next line; `None` at the end.
    ///
    /// # Errors
    /// [`NodeError::File`] with the line that is not right.
    pub(crate) fn next(&mut self) -> Result<Option<Line>, NodeError> {
        let mut text = String::new();
        loop {
            text.clear();
            self.line += 1;
            match self.lines.read_line(&mut text) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(self.fault(&error.to_string())),
            }
            let line = text.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let is_header = self.line == 1 && line.starts_with(char::is_alphabetic);
            if !is_header {
                return self.parse(line).map(Some);
            }
        }
    }

    fn parse(&mut self, line: &str) -> Result<Line, NodeError> {
        let cells: Vec<&str> =
            line.split([',', ' ', '\t']).filter(|cell| !cell.is_empty()).collect();
        let fits = |layout: &&LineLayout| layout.numbers + 1 == cells.len();
        let layout = match self.layout {
            Some(layout) => Some(layout).filter(fits),
            None => self.layouts.iter().find(fits),
        };
        let Some(layout) = layout else {
            let expected: Vec<_> = self.layouts.iter().map(|layout| layout.columns).collect();
            let (found, expected) = (cells.len(), expected.join("; or "));
            return Err(self.fault(&format!("{found} columns; {expected} were expected")));
        };
        self.layout = Some(layout);
        let at = match layout.has_seconds {
            true => seconds_in_ns(cells[0]),
            false => cells[0].parse().ok(),
        };
        let at: i64 = at.ok_or_else(|| {
            let unit = if layout.has_seconds { "seconds" } else { "whole nanoseconds" };
            self.fault(&format!("the time {:?} is not a number of {unit}", cells[0]))
        })?;
        if at <= self.last_ns {
            return Err(self.fault("the time is not later than that of the line before"));
        }
        let mut values = vec![0.0; layout.numbers];
        for (value, cell) in values.iter_mut().zip(&cells[1..]) {
            let parsed = cell.parse().ok().filter(|value: &f64| value.is_finite());
            *value = parsed.ok_or_else(|| self.fault(&format!("{cell:?} is not a number")))?;
        }
        self.last_ns = at;
        let first = *self.first_ns.get_or_insert(at);
        Ok((Duration::from_nanos(at.abs_diff(first)), values))
    }

    /// The error `reason` about the last line.
    pub(crate) fn fault(&self, reason: &str) -> NodeError {
        file_error(&self.path, format!("line {}: {reason}", self.line))
    }
}

/// Nanoseconds of a decimal number of seconds, also with an exponent, without rounding in floating
/// point.
fn seconds_in_ns(text: &str) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Digits before the point, if the unit is a nanosecond.
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent.parse::<i32>().ok()?) + 9;
    if point <= 0 {
        return Some(0);
    }
    let point = usize::try_from(point).ok().filter(|point| *point <= 40)?;
    let nanos: String = digits.chars().chain(std::iter::repeat('0')).take(point).collect();
    nanos.parse::<i64>().ok().map(|ns| sign * ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: &[LineLayout] = &[
        LineLayout { columns: "time_ns, x, y, z", numbers: 3, has_seconds: false },
        LineLayout { columns: "time_s x", numbers: 1, has_seconds: true },
    ];

    fn read(text: &str) -> Result<Vec<Line>, String> {
        let name = format!("afferent-lines-{:?}.csv", std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let mut file = TimedLines::open(&path, LAYOUTS).unwrap();
        let found = std::iter::from_fn(|| file.next().transpose()).collect::<Result<_, _>>();
        std::fs::remove_file(&path).unwrap();
        found.map_err(|error| error.to_string().rsplit(": ").next().unwrap_or_default().to_owned())
    }

    #[test]
    fn lines_of_data_sets_are_read() {
        let text = "#timestamp [ns],w_RS_S_x [rad s^-1],...\n\
            1403636579758555392,-0.0991,0.147,0.029\n\n\
            1403636579763555584 , -1e-1,0.1,0.0\r\n";
        let found = read(text).unwrap();
        assert_eq!(found[0], (Duration::ZERO, vec![-0.0991, 0.147, 0.029]));
        assert_eq!(found[1], (Duration::from_nanos(5_000_192), vec![-0.1, 0.1, 0.0]));
        assert_eq!(read("time,x,y,z\n1,0,0,9.8\n").unwrap().len(), 1);
        assert_eq!(read("").unwrap(), []);
        let seconds = read("1305031102.175304 1\n1305031102.2\t2\n1305031103 3\n").unwrap();
        let nanos: Vec<_> = seconds.iter().map(|line| line.0.as_nanos()).collect();
        assert_eq!(nanos, [0, 24_696_000, 824_696_000]);
        let check = |text: &str, expected| assert_eq!(seconds_in_ns(text), expected, "{text}");
        check("1.403636579758555412e+09", Some(1_403_636_579_758_555_412));
        check("-2.5", Some(-2_500_000_000));
        check("25e-3", Some(25_000_000));
        check("1e-12", Some(0));
        check("1e99", None);
        check("", None);
        check("1.-5", None);
    }

    #[test]
    fn faults_are_named() {
        let check = |text: &str, expected: &str| assert_eq!(read(text).unwrap_err(), expected);
        check("1,2,3\n", "3 columns; time_ns, x, y, z; or time_s x were expected");
        check("1.5,0,0,0\n", "the time \"1.5\" is not a number of whole nanoseconds");
        check("1x3 0\n", "the time \"1x3\" is not a number of seconds");
        check("1 2\n3,4,5,6\n", "4 columns; time_ns, x, y, z; or time_s x were expected");
        check("1,0,0,nan\n", "\"nan\" is not a number");
        check("5,0,0,0\n5,0,0,0\n", "the time is not later than that of the line before");
    }
}
