//! Tests of the node with a folder in place of sysfs, and pipes in place of character devices.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use afferent_graph::{NodeBench, ParamValue, ParamValues, Params, Resume, Timestamp};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use tempfile::TempDir;

use super::*;
use crate::session_clock::monotonic_ns;

/// A machine with made-up sensors.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> Root {
        Root { devices: self.0.path().join("devices"), dev: self.0.path().join("dev") }
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.root().devices.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root().devices.join(file)).unwrap().trim().to_owned()
    }

    /// Adds a device whose scans have `channels`, 16 bits each, and a timestamp.
    fn add(&self, number: u32, name: &str, channels: &[&str]) {
        let device = format!("iio:device{number}");
        let write = |file: &str, text: &str| self.write(&format!("{device}/{file}"), text);
        write("name", &format!("{name}\n"));
        write("current_timestamp_clock", "realtime\n");
        write("buffer/enable", "0\n");
        write("buffer/length", "2\n");
        write("buffer/watermark", "1\n");
        let stamp = [("in_timestamp", "le:s64/64>>0")];
        let all = channels.iter().map(|channel| (*channel, "le:s16/16>>0")).chain(stamp);
        for (index, (channel, kind)) in all.enumerate() {
            write(&format!("scan_elements/{channel}_en"), "0\n");
            write(&format!("scan_elements/{channel}_index"), &format!("{index}\n"));
            write(&format!("scan_elements/{channel}_type"), &format!("{kind}\n"));
        }
        for quantity in [Quantity::Acceleration, Quantity::AngularVelocity] {
            let prefix = quantity.prefix();
            if channels.iter().any(|channel| channel.starts_with(prefix)) {
                write(&format!("{prefix}_scale"), "0.01\n");
            }
        }
        let pipe = self.root().dev.join(&device);
        fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    fn remove(&self, number: u32) {
        let device = format!("iio:device{number}");
        fs::remove_dir_all(self.root().devices.join(&device)).unwrap();
        fs::remove_file(self.root().dev.join(&device)).unwrap();
    }

    /// The driver's end of a character device, which stays open when the node closes its end.
    fn driver(&self, number: u32) -> File {
        let pipe = self.root().dev.join(format!("iio:device{number}"));
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        File::from(rustix::fs::open(&pipe, flags, Mode::empty()).unwrap())
    }

    fn open(&self, values: &[(&str, ParamValue)]) -> Result<NodeBench<Imu>, String> {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let params = ImuParams::from_values(&values.collect::<ParamValues>()).unwrap();
        let node = Imu::open_in(self.root(), params).map_err(|error| error.to_string())?;
        Ok(NodeBench::new(node))
    }
}

const ACCEL: [&str; 3] = ["in_accel_x", "in_accel_y", "in_accel_z"];
const GYRO: [&str; 3] = ["in_anglvel_x", "in_anglvel_y", "in_anglvel_z"];

/// Bytes of a scan: values of 16 bits, padded to the timestamp.
fn scan(values: &[i16], ns: i64) -> Vec<u8> {
    let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(ns.to_le_bytes());
    bytes
}

fn text(text: &str) -> ParamValue {
    ParamValue::Text(text.into())
}

/// Calls the node once at `now`; returns times and values, and the time of the next call.
fn call(bench: &mut NodeBench<Imu>, now: i64) -> (Vec<(i64, Measurement)>, Resume) {
    let (sent, next) = bench.poll(Timestamp(now)).unwrap();
    let sent =
        sent.iter().map(|(_, packet)| (packet.header.at.0, *packet.get::<Measurement>().unwrap()));
    (sent.collect(), next)
}

#[test]
fn a_sensor_with_both_quantities_is_set_up_and_read() {
    let machine = Machine::new();
    // The gyroscope comes first in a scan, and the sensor has a temperature that is on.
    let channels: Vec<&str> = GYRO.into_iter().chain(ACCEL).chain(["in_temp"]).collect();
    machine.add(4, "lsm6ds3", &channels);
    machine.write("iio:device4/scan_elements/in_temp_en", "1\n");
    machine.write("iio:device4/in_accel_y_scale", "0.5\n");
    machine.write("iio:device4/in_accel_offset", "-1\n");
    machine.write("iio:device4/in_anglvel_mount_matrix", "0, 1, 0; -1, 0, 0; 0, 0, 1\n");
    machine.write("iio:device4/sampling_frequency", "12.5\n");
    machine.write("iio:device4/sampling_frequency_available", "12.5 104 208\n");
    machine.write("iio:device4/trigger/current_trigger", "\n");
    machine.write("trigger2/name", "lsm6ds3-dev4\n");
    let driver = machine.driver(4);
    let params = [("rate", ParamValue::Float(100.0)), ("watermark", ParamValue::Int(3))];
    let mut bench = machine.open(&params).unwrap();
    for (file, expected) in [
        ("current_timestamp_clock", "monotonic"),
        ("scan_elements/in_temp_en", "0"),
        ("scan_elements/in_accel_z_en", "1"),
        ("scan_elements/in_timestamp_en", "1"),
        ("sampling_frequency", "104"),
        ("trigger/current_trigger", "lsm6ds3-dev4"),
        ("buffer/length", "256"),
        ("buffer/watermark", "3"),
        ("buffer/enable", "0"),
    ] {
        assert_eq!(machine.read(&format!("iio:device4/{file}")), expected, "{file}");
    }
    assert_eq!(call(&mut bench, 0).0, []);
    assert_eq!(machine.read("iio:device4/buffer/enable"), "1");
    let ns = monotonic_ns();
    // Without the temperature, a scan has six values. The second one arrives in two parts.
    let scans = [scan(&[1, 2, 3, 101, 201, -299], ns), scan(&[0; 6], ns + 5_000_000)].concat();
    (&driver).write_all(&scans[..40]).unwrap();
    let (first, _) = call(&mut bench, 1_000_000_000);
    (&driver).write_all(&scans[40..]).unwrap();
    let (second, _) = call(&mut bench, 1_000_000_000);
    let expected = Measurement {
        angular_velocity_rad_s: [0.02, -0.01, 0.03],
        acceleration_m_s2: [1.0, 100.0, -3.0],
    };
    let [(at, found)] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!(found, &expected);
    // The clocks are compared after the stamp was made.
    assert!((900_000_000..=1_000_000_000).contains(at), "{at}");
    let [(next, _)] = second.as_slice() else { panic!("{second:?}") };
    assert!((next - at - 5_000_000).abs() < 1_000_000, "{at} {next}");
    drop(bench);
    assert_eq!(machine.read("iio:device4/buffer/enable"), "0");
}

#[test]
fn two_sensors_are_paired_at_the_times_of_the_gyroscope() {
    let machine = Machine::new();
    machine.add(0, "gyro_3d", &GYRO);
    machine.add(1, "accel_3d", &ACCEL);
    let (gyro, accel) = (machine.driver(0), machine.driver(1));
    let mut bench = machine.open(&[("mount_matrix", text("1,0,0;0,1,0;0,0,-1"))]).unwrap();
    assert_eq!(call(&mut bench, 0).0, []);
    let ns = monotonic_ns();
    let ms = 1_000_000;
    (&accel)
        .write_all(&[scan(&[0, 0, 900], ns), scan(&[100, 0, 900], ns + 10 * ms)].concat())
        .unwrap();
    (&gyro)
        .write_all(&[scan(&[7, 8, 9], ns + 4 * ms), scan(&[0; 3], ns + 14 * ms)].concat())
        .unwrap();
    let mut sent = call(&mut bench, 0).0;
    sent.extend(call(&mut bench, 0).0);
    let [(_, found)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(found.angular_velocity_rad_s, [0.07, 0.08, -0.09]);
    let [x, y, z] = found.acceleration_m_s2;
    assert!((x - 0.4).abs() < 1e-6 && y == 0.0 && (z + 9.0).abs() < 1e-6, "{found:?}");
}

#[test]
fn a_lost_sensor_is_opened_again() {
    let machine = Machine::new();
    let channels = [ACCEL, GYRO].concat();
    machine.add(0, "bmi160", &channels);
    let first = machine.driver(0);
    let mut bench = machine.open(&[]).unwrap();
    assert_eq!(call(&mut bench, 0), (vec![], Resume::Now));
    machine.remove(0);
    assert_eq!(call(&mut bench, 1), (vec![], Resume::At(Timestamp(250_000_001))));
    assert_eq!(call(&mut bench, 250_000_001).1, Resume::At(Timestamp(500_000_001)), "still away");
    drop(first);
    machine.add(1, "bmi160", &channels);
    let driver = machine.driver(1);
    assert_eq!(call(&mut bench, 500_000_001).1, Resume::Now);
    (&driver).write_all(&scan(&[1; 6], monotonic_ns())).unwrap();
    let (sent, _) = call(&mut bench, 500_000_002);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].0 >= 500_000_001, "{sent:?}");
}

#[test]
fn a_silent_sensor_is_lost() {
    let machine = Machine::new();
    machine.add(0, "bmi160", &[ACCEL, GYRO].concat());
    let _driver = machine.driver(0);
    let mut bench = machine.open(&[("on_lost", text("fail"))]).unwrap();
    assert_eq!(call(&mut bench, 0).0, []);
    let told = bench.poll(Timestamp(2_000_000_001)).unwrap_err().to_string();
    assert_eq!(told, "device \"iio:device0 (bmi160)\": no measurement for 2s");
}

#[test]
fn faults_name_the_file_or_the_parameter() {
    let check =
        |change: &dyn Fn(&Machine, &Path), params: &[(&str, ParamValue)], expected: &str| {
            let machine = Machine::new();
            machine.add(0, "bmi160", &[ACCEL, GYRO].concat());
            change(&machine, &machine.root().devices.join("iio:device0"));
            let told = machine.open(params).err().unwrap();
            assert!(told.contains(expected), "{told}");
        };
    let set = |file: &'static str, text: &'static str| {
        move |machine: &Machine, _: &Path| machine.write(&format!("iio:device0/{file}"), text)
    };
    let remove = |file: &'static str| {
        move |_: &Machine, folder: &Path| fs::remove_file(folder.join(file)).unwrap()
    };
    let nothing = |_: &Machine, _: &Path| {};
    check(&set("in_accel_scale", "nan"), &[], "in_accel_scale: \"nan\" is not a number");
    check(&remove("in_anglvel_scale"), &[], "in_anglvel_scale: there is no such file");
    check(&set("mount_matrix", "1, 2"), &[], "mount_matrix: \"1, 2\" is not an invertible");
    let kind = "scan_elements/in_accel_y_type";
    check(&set(kind, "le:s16/16X2>>0"), &[], "in_accel_y_type: \"le:s16/16X2>>0\" is not a type");
    check(&remove(kind), &[], "in_accel_y_type: there is no such file");
    check(&remove("scan_elements/in_timestamp_en"), &[], "its scans have no timestamps");
    let rate = [("rate", ParamValue::Float(100.0))];
    check(&nothing, &rate, "parameter rate: iio:device0 (bmi160) and its trigger have no rate");
    check(
        &nothing,
        &[("trigger", text("hrtimer"))],
        "there is no trigger \"hrtimer\"; there are: none",
    );
    check(&nothing, &[("mount_matrix", text("1"))], "parameter mount_matrix: ");
    check(&nothing, &[("watermark", ParamValue::Int(300))], "parameter watermark: ");
    let fifo = |machine: &Machine, _: &Path| {
        fs::remove_file(machine.root().dev.join("iio:device0")).unwrap();
    };
    check(&fifo, &[], "dev/iio:device0: No such file");
}
