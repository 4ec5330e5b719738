//! Inertial measurements of a file.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::Imu;

use crate::{Pace, imu_file::ImuFile};

params! {
    /// Settings of [`ImuSource`].
    pub struct ImuSourceParams {
        /// Path of a CSV file.
        pub path: PathBuf;
        /// Pace of reading.
        pub pace: Pace = "realtime";
        /// Restart the file at its end; timestamps keep increasing.
        pub repeat: bool = "false";
    }
}

/// Reads inertial measurements from a CSV file, as the data sets EuRoC and TUM-VI have.
///
/// A line has the time in nanoseconds, the angular velocity about x, y and z in radians per second, and
/// the acceleration along x, y and z in meters per second squared, separated by commas or spaces. Lines
/// that begin with `#`, empty lines, and a first line with names are skipped. The first measurement is
/// at the start of the session. If a line is not a measurement, those before it are sent, and then the
/// node fails.
///
/// Latency: none.
pub struct ImuSource {
    params: ImuSourceParams,
    file: ImuFile,
    /// Measurement that was read too early.
    early: Option<(Duration, Imu)>,
    /// Time at which this pass through the file began, its last measurement, and the one before.
    start: Duration,
    last: Duration,
    period: Duration,
}

ports! {
    impl ImuSource {
        /// Measurements of the file.
        out IMU: Imu;
    }
}

impl ImuSource {
    /// The next measurement with its time since the start of the session; `None` at the end.
    fn next(&mut self) -> Result<Option<(Duration, Imu)>, NodeError> {
        if let Some(early) = self.early.take() {
            return Ok(Some(early));
        }
        let mut next = self.file.next()?;
        // A file without measurements would be read for ever.
        if next.is_none() && self.params.repeat && !self.period.is_zero() {
            self.file = ImuFile::open(&self.params.path)?;
            self.start = self.last.saturating_add(self.period);
            next = self.file.next()?;
        }
        Ok(next.map(|(since, imu)| (self.start.saturating_add(since), imu)))
    }
}

impl Node for ImuSource {
    type Params = ImuSourceParams;

    const NAME: &'static str = "imu_source";
    const SUMMARY: &'static str = "Reads inertial measurements from a CSV file.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn check(params: &ImuSourceParams, _: &OpenCx) -> Result<(), NodeError> {
        ImuFile::open(&params.path)?.next().map(drop)
    }

    fn open(params: ImuSourceParams, _: &OpenCx) -> Result<Self, NodeError> {
        let file = ImuFile::open(&params.path)?;
        let (start, last, period) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Ok(Self { params, file, early: None, start, last, period })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some((time, imu)) = self.next()? else {
            cx.end();
            return Ok(());
        };
        let at = Timestamp::ZERO + time;
        if self.params.pace == Pace::Realtime && cx.now() < at {
            self.early = Some((time, imu));
            cx.resume_at(at);
            return Ok(());
        }
        if time > self.last {
            self.period = time - self.last;
        }
        self.last = time;
        cx.send_at(Self::IMU, at, imu);
        cx.resume();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params};

    use super::*;

    fn source(name: &str, text: &str, more: &[(&str, ParamValue)]) -> NodeBench<ImuSource> {
        let name = format!("afferent-imu-source-{name}-{}.csv", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let mut values: ParamValues = [("path".to_owned(), ParamValue::Path(path))].into();
        values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let params = ImuSourceParams::from_values(&values).unwrap();
        NodeBench::new(ImuSource::open(params, &OpenCx::default()).unwrap())
    }

    const FILE: &str = "1000,0,0,0,0,0,1\n6000,0,0,0,0,0,2\n";

    fn next(bench: &mut NodeBench<ImuSource>, now: i64) -> Option<(i64, f32)> {
        let (sent, _) = bench.poll(Timestamp(now)).unwrap();
        let (_, packet) = sent.first()?;
        Some((packet.header.at.0, packet.get::<Imu>().unwrap().acceleration_m_s2[2]))
    }

    #[test]
    fn measurements_come_at_their_times() {
        let mut bench = source("times", FILE, &[]);
        assert_eq!(next(&mut bench, 0), Some((0, 1.0)));
        assert_eq!(next(&mut bench, 4_999), None);
        assert_eq!(next(&mut bench, 5_000), Some((5_000, 2.0)));
        assert_eq!(next(&mut bench, 6_000), None);
    }

    #[test]
    fn a_repeated_file_goes_on_after_a_period() {
        let repeat = [("repeat", ParamValue::Bool(true)), ("pace", ParamValue::Text("max".into()))];
        let mut bench = source("repeat", FILE, &repeat);
        let found: Vec<_> = (0..4).filter_map(|_| next(&mut bench, 0)).collect();
        assert_eq!(found, [(0, 1.0), (5_000, 2.0), (10_000, 1.0), (15_000, 2.0)]);
        let mut empty = source("empty", "# nothing\n", &repeat);
        assert_eq!(next(&mut empty, 0), None);
    }
}
