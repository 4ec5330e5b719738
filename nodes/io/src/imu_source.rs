//! Inertial measurements of a file.

use std::path::{Path, PathBuf};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, params, ports};
use afferent_messages::Imu;

use crate::{
    Pace, mcap_messages,
    output::file_error,
    paced::{Paced, Readings},
    timed_lines::{LineLayout, TimedLines},
};

params! {
    /// Settings of [`ImuSource`].
    pub struct ImuSourceParams {
        /// Path of a CSV file, or of a recording (MCAP).
        pub path: PathBuf;
        /// Topic of a recording. Default: the first one with measurements.
        pub topic: Option<String>;
        /// Pace of reading.
        pub pace: Pace = "realtime";
        /// Restart the file at its end; timestamps keep increasing.
        pub repeat: bool = "false";
    }
}

/// Reads inertial measurements from a CSV file, as the data sets EuRoC and TUM-VI have, or from a recording.
///
/// A recording is an MCAP file with `sensor_msgs/msg/Imu`, of this program or of ROS 2 (`ros2 bag record -s
/// mcap`). The time is the stamp of a message, or the time of its publishing if it has none. A line of a CSV
/// file has the time in nanoseconds, the angular velocity about x, y and z in radians per second, and
/// the acceleration along x, y and z in meters per second squared, separated by commas or spaces. Lines
/// that begin with `#`, empty lines, and a first line with names are skipped. The first measurement is
/// at the start of the session. If a line or a message is not a measurement, or not later than the one before,
/// those before it are sent, and then the node fails.
///
/// Latency: none.
pub struct ImuSource(Paced<Imu>);

/// Lines of the data sets EuRoC and TUM-VI.
const LAYOUTS: &[LineLayout] =
    &[LineLayout { columns: "time_ns, wx, wy, wz, ax, ay, az", numbers: 6, has_seconds: false }];

ports! {
    impl ImuSource {
        /// Measurements of the file.
        out IMU: Imu;
    }
}

/// Measurements of a file.
fn readings(path: &Path, topic: Option<&str>) -> Result<Readings<Imu>, NodeError> {
    if let Some(recorded) = mcap_messages::readings_of(path, topic)? {
        return Ok(recorded);
    }
    let mut lines = TimedLines::open(path, LAYOUTS)?;
    Ok(Box::new(move || {
        let Some((time, numbers)) = lines.next()? else { return Ok(None) };
        let number = |index: usize| numbers.get(index).map_or(0.0, |value| *value as f32);
        let imu = Imu {
            angular_velocity_rad_s: [0, 1, 2].map(number),
            acceleration_m_s2: [3, 4, 5].map(number),
        };
        Ok(Some((time, imu)))
    }))
}

impl Node for ImuSource {
    type Params = ImuSourceParams;

    const NAME: &'static str = "imu_source";
    const SUMMARY: &'static str = "Reads inertial measurements from a CSV file or a recording.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn check(params: &ImuSourceParams, _: &OpenCx) -> Result<(), NodeError> {
        let first = readings(&params.path, params.topic.as_deref())?()?;
        first.map(drop).ok_or_else(|| file_error(&params.path, "it has no measurements"))
    }

    fn open(params: ImuSourceParams, _: &OpenCx) -> Result<Self, NodeError> {
        let ImuSourceParams { path, topic, pace, repeat } = params;
        Paced::open(move || readings(&path, topic.as_deref()), pace, repeat).map(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some((at, imu)) = self.0.poll(cx)? {
            cx.send_at(Self::IMU, at, imu);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params, Timestamp};

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
