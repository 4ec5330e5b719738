//! Files of the Industrial I/O subsystem in sysfs.

use std::{
    fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use afferent_graph::NodeError;

/// Greatest magnitude of a number: measurements stay finite in single precision.
const MAX_NUMBER: f64 = 1e9;

/// Rows of a rotation.
pub(crate) type Matrix = [[f64; 3]; 3];

pub(crate) const IDENTITY: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// Folder of a device or trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.path(file).exists()
    }

    /// Trimmed content of a file; `None` if there is no such file.
    ///
    /// # Errors
    /// The file, and the error of the system.
    pub(crate) fn text(&self, file: &str) -> Result<Option<String>, NodeError> {
        match fs::read_to_string(self.path(file)) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault(&self.path(file), &error)),
        }
    }

    /// Parsed content of a file; `None` if there is no such file.
    ///
    /// # Errors
    /// The file, and its fault.
    pub(crate) fn parsed<T>(
        &self,
        file: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, NodeError> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        parse(&text).map(Some).map_err(|reason| fault(&self.path(file), &reason))
    }

    /// As [`Folder::parsed`], of a file that must be there.
    ///
    /// # Errors
    /// The file, and its fault.
    pub(crate) fn required<T>(
        &self,
        file: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, NodeError> {
        self.parsed(file, parse)?.ok_or_else(|| fault(&self.path(file), &"there is no such file"))
    }

    /// Writes a file that is there.
    ///
    /// # Errors
    /// The file, the value, and the error of the system.
    pub(crate) fn write(&self, file: &str, value: &str) -> Result<(), NodeError> {
        let path = self.path(file);
        let opened = fs::OpenOptions::new().write(true).truncate(true).open(&path);
        let written = opened.and_then(|mut opened| opened.write_all(value.as_bytes()));
        written.map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::PermissionDenied => "; a udev rule can permit it",
                _ => "",
            };
            fault(&path, &format!("{value:?} cannot be written: {error}{hint}"))
        })
    }

    /// Writes a file if it has another content.
    ///
    /// # Errors
    /// As [`Folder::write`].
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<(), NodeError> {
        match self.text(file)? {
            Some(found) if found == value => Ok(()),
            _ => self.write(file, value),
        }
    }
}

pub(crate) fn fault(path: &Path, reason: &dyn ToString) -> NodeError {
    NodeError::File { path: path.to_owned(), reason: reason.to_string() }
}

/// Parses a number.
///
/// # Errors
/// The text, and the accepted range.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let found = text.trim().parse().ok().filter(|found: &f64| found.abs() <= MAX_NUMBER);
    found.ok_or_else(|| format!("{text:?} is not a number of at most {MAX_NUMBER:e}"))
}

/// Parses a count.
///
/// # Errors
/// The text.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a count"))
}

/// Parses a mount matrix, such as `0, 1, 0; -1, 0, 0; 0, 0, 1`.
///
/// # Errors
/// The text, and an example.
pub(crate) fn matrix(text: &str) -> Result<Matrix, String> {
    let mut matrix = [[0.0; 3]; 3];
    let fault =
        || format!("{text:?} is not an invertible matrix such as `0, 1, 0; -1, 0, 0; 0, 0, 1`");
    let mut rows = text.split(';');
    for row in &mut matrix {
        let mut axes = rows.next().ok_or_else(fault)?.split(',');
        for axis in row.iter_mut() {
            *axis = axes.next().and_then(|text| number(text).ok()).ok_or_else(fault)?;
        }
        if axes.next().is_some() {
            return Err(fault());
        }
    }
    let [a, b, c] = matrix;
    let volume = a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0]);
    if rows.next().is_some() || volume.abs() < 1e-9 {
        return Err(fault());
    }
    Ok(matrix)
}

/// The entry of a list of rates that is nearest to `wanted`, as it is to be written. The list has rates
/// separated by spaces, or is a range such as `[12.5 0.5 400]`: least, step and greatest rate.
///
/// # Errors
/// The text.
pub(crate) fn nearest_rate(list: &str, wanted: f64) -> Result<String, String> {
    let range = list.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']'));
    let texts: Vec<&str> = range.unwrap_or(list).split_whitespace().collect();
    let rates: Vec<f64> = texts.iter().map(|text| number(text)).collect::<Result<_, _>>()?;
    if range.is_some() {
        let &[least, step, greatest] = rates.as_slice() else {
            return Err(format!("{list:?} is not a range such as `[12.5 0.5 400]`"));
        };
        let steps = if step > 0.0 { ((wanted - least) / step).round() } else { 0.0 };
        return Ok(decimal((least + steps * step).min(greatest).max(least)));
    }
    let distance = |at: &usize| (rates[*at] - wanted).abs();
    let best = (0..rates.len()).min_by(|one, other| distance(one).total_cmp(&distance(other)));
    best.map(|at| texts[at].to_owned()).ok_or_else(|| "it has no rates".to_owned())
}

/// A number as drivers read it: at most six decimal places.
pub(crate) fn decimal(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_finite() {
        assert_eq!(number("0.009806650\n"), Ok(0.009_806_65));
        assert_eq!(number("-12"), Ok(-12.0));
        for text in ["", "nan", "inf", "1e10", "0.1 dB", "0x10"] {
            assert!(number(text).unwrap_err().contains("is not a number"), "{text}");
        }
    }

    #[test]
    fn matrices_have_nine_numbers_and_a_volume() {
        assert_eq!(matrix("1, 0, 0; 0, 1, 0; 0, 0, 1"), Ok(IDENTITY));
        let turned = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
        assert_eq!(matrix("0,-1,0;1,0,0;0,0,1.0"), Ok(turned));
        for text in [
            "",
            "1, 0, 0; 0, 1, 0",
            "1, 0, 0; 0, 1, 0; 0, 0",
            "1, 0, 0; 0, 1, 0; 0, 0, 1; 0, 0, 1",
            "1, 0, 0, 0; 0, 1, 0; 0, 0, 1",
            "1, 0, 0; 0, 1, 0; 0, 0, nan",
            "1, 0, 0; 1, 0, 0; 0, 0, 1",
            "0, 0, 0; 0, 0, 0; 0, 0, 0",
        ] {
            assert!(matrix(text).unwrap_err().contains("invertible"), "{text}");
        }
    }

    #[test]
    fn the_nearest_rate_is_chosen() {
        let check = |list: &str, wanted: f64, expected: &str| {
            assert_eq!(nearest_rate(list, wanted).as_deref(), Ok(expected), "{list} {wanted}");
        };
        check("12.5 26 52 104 208 416.666667", 100.0, "104");
        check("12.5 26 52 104 208 416.666667", 1000.0, "416.666667");
        check("12.5\n", 1.0, "12.5");
        check("[12.5 0.5 400]", 100.2, "100");
        check("[12.5 0.5 400]", 1000.0, "400");
        check("[12.5 0.5 400]", 1.0, "12.5");
        check("[5 0 400]", 100.0, "5");
        assert!(nearest_rate("", 1.0).is_err());
        assert!(nearest_rate("[1 2]", 1.0).is_err());
        assert!(nearest_rate("10 fast", 1.0).is_err());
    }

    #[test]
    fn faults_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::new(folder.path().to_owned());
        fs::write(files.path("in_accel_scale"), "much\n").unwrap();
        let told = files.parsed("in_accel_scale", number).unwrap_err().to_string();
        assert!(told.contains("in_accel_scale: \"much\" is not a number"), "{told}");
        assert_eq!(files.parsed("in_accel_offset", number), Ok(None));
        let told = files.required("in_accel_offset", number).unwrap_err().to_string();
        assert!(told.contains("in_accel_offset: there is no such file"), "{told}");
        let told = files.write("none", "1").unwrap_err().to_string();
        assert!(told.contains("none: \"1\" cannot be written"), "{told}");
        files.set("in_accel_scale", "2").unwrap();
        assert_eq!(files.parsed("in_accel_scale", number), Ok(Some(2.0)));
    }
}
