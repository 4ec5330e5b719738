//! CSV files with inertial measurements.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_graph::NodeError;
use afferent_messages::Imu;

use crate::output::file_error;

/// Columns of a line: the time in nanoseconds, three angular velocities in radians per second, and three
/// accelerations in meters per second squared, as in the EuRoC and TUM-VI data sets.
const COLUMNS: usize = 7;

/// A file that is read line by line.
pub(crate) struct ImuFile {
    path: PathBuf,
    lines: BufReader<File>,
    line: usize,
    /// Time of the first and of the last measurement, in nanoseconds.
    first_ns: Option<i64>,
    last_ns: i64,
}

impl ImuFile {
    pub(crate) fn open(path: &Path) -> Result<Self, NodeError> {
        let file = File::open(path).map_err(|error| file_error(path, error))?;
        let lines = BufReader::new(file);
        Ok(Self { path: path.to_owned(), lines, line: 0, first_ns: None, last_ns: i64::MIN })
    }

    /// The next measurement, with its time since the first one; `None` at the end.
    ///
    /// # Errors
    /// [`NodeError::File`] with the line that is not a measurement.
    pub(crate) fn next(&mut self) -> Result<Option<(Duration, Imu)>, NodeError> {
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

    fn parse(&mut self, line: &str) -> Result<(Duration, Imu), NodeError> {
        let cells: Vec<&str> =
            line.split([',', ' ', '\t']).filter(|cell| !cell.is_empty()).collect();
        if cells.len() != COLUMNS {
            let found = cells.len();
            return Err(self.fault(&format!(
                "{found} columns; time_ns, wx, wy, wz, ax, ay, az were expected"
            )));
        }
        let at: i64 = cells[0].parse().map_err(|_| {
            self.fault(&format!("the time {:?} is not a whole number of nanoseconds", cells[0]))
        })?;
        if at <= self.last_ns {
            return Err(self.fault("the time is not later than that of the line before"));
        }
        let mut values = [0.0_f32; COLUMNS - 1];
        for (value, cell) in values.iter_mut().zip(&cells[1..]) {
            let parsed = cell.parse().ok().filter(|value: &f32| value.is_finite());
            *value = parsed.ok_or_else(|| self.fault(&format!("{cell:?} is not a number")))?;
        }
        self.last_ns = at;
        let first = *self.first_ns.get_or_insert(at);
        let [gyro @ .., ax, ay, az] = values;
        let since = Duration::from_nanos(at.abs_diff(first));
        Ok((since, Imu { angular_velocity_rad_s: gyro, acceleration_m_s2: [ax, ay, az] }))
    }

    fn fault(&self, reason: &str) -> NodeError {
        file_error(&self.path, format!("line {}: {reason}", self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(Duration, Imu)>, String> {
        let name = format!("afferent-imu-{:?}.csv", std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let mut file = ImuFile::open(&path).unwrap();
        let found = std::iter::from_fn(|| file.next().transpose()).collect::<Result<_, _>>();
        std::fs::remove_file(&path).unwrap();
        found.map_err(|error| error.to_string().rsplit(": ").next().unwrap_or_default().to_owned())
    }

    #[test]
    fn lines_of_the_data_sets_are_read() {
        let text = "#timestamp [ns],w_RS_S_x [rad s^-1],...\n\
            1403636579758555392,-0.0991,0.147,0.029,8.1476,-0.3759,-2.4026\n\n\
            1403636579763555584 , -1e-1,0.1,0.0,8.1,-0.3,-2.4\r\n";
        let found = read(text).unwrap();
        assert_eq!(found[0].0, Duration::ZERO);
        assert_eq!(found[0].1.angular_velocity_rad_s, [-0.0991, 0.147, 0.029]);
        assert_eq!(found[1].0, Duration::from_nanos(5_000_192));
        assert_eq!(found[1].1.acceleration_m_s2, [8.1, -0.3, -2.4]);
        assert_eq!(read("time,wx,wy,wz,ax,ay,az\n1,0,0,0,0,0,9.8\n").unwrap().len(), 1);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn faults_are_named() {
        let check = |text: &str, expected: &str| assert_eq!(read(text).unwrap_err(), expected);
        check("1,2,3\n", "3 columns; time_ns, wx, wy, wz, ax, ay, az were expected");
        check("1.5,0,0,0,0,0,0\n", "the time \"1.5\" is not a whole number of nanoseconds");
        check("1,0,0,0,0,0,nan\n", "\"nan\" is not a number");
        check(
            "5,0,0,0,0,0,0\n5,0,0,0,0,0,0\n",
            "the time is not later than that of the line before",
        );
    }
}
