//! Sensors of the Industrial I/O subsystem: which there are, and which of them to use.

use std::{fmt, fs, path::PathBuf};

use afferent_graph::NodeError;

use super::sysfs::Folder;
use crate::ImuParams;

/// Folders of the system.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    /// Folder of devices and triggers.
    pub(crate) devices: PathBuf,
    /// Folder of character devices.
    pub(crate) dev: PathBuf,
}

impl Root {
    pub(crate) fn system() -> Self {
        Self { devices: "/sys/bus/iio/devices".into(), dev: "/dev".into() }
    }
}

/// Quantity of three axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Acceleration,
    AngularVelocity,
}

impl Quantity {
    /// Start of the names of its files.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Acceleration => "in_accel",
            Self::AngularVelocity => "in_anglvel",
        }
    }

    /// Sensor that measures it.
    fn sensor(self) -> &'static str {
        match self {
            Self::Acceleration => "accelerometer",
            Self::AngularVelocity => "gyroscope",
        }
    }
}

/// Axes of a quantity.
pub(crate) const AXES: [&str; 3] = ["x", "y", "z"];

/// A device with an accelerometer, a gyroscope, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) folder: Folder,
    /// Its name in the system, such as `iio:device0`.
    pub(crate) id: String,
    /// Name of the sensor.
    pub(crate) name: String,
    label: Option<String>,
    has_acceleration: bool,
    has_angular_velocity: bool,
}

impl Device {
    pub(crate) fn has(&self, quantity: Quantity) -> bool {
        match quantity {
            Quantity::Acceleration => self.has_acceleration,
            Quantity::AngularVelocity => self.has_angular_velocity,
        }
    }

    fn has_both(&self) -> bool {
        self.has_acceleration && self.has_angular_velocity
    }

    fn is_called(&self, name: &str) -> bool {
        self.id == name || self.name == name || self.label.as_deref() == Some(name)
    }

    pub(crate) fn error(&self, reason: &dyn ToString) -> NodeError {
        NodeError::Device { name: self.to_string(), reason: reason.to_string() }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.name)
    }
}

/// Accelerometers and gyroscopes of this machine, by number. Only those with a buffer for all three axes
/// count.
pub(crate) fn devices(root: &Root) -> Vec<Device> {
    let entries = fs::read_dir(&root.devices).into_iter().flatten().flatten();
    let mut found: Vec<(u32, Device)> = entries
        .filter_map(|entry| {
            let id = entry.file_name().into_string().ok()?;
            let number = id.strip_prefix("iio:device")?.parse().ok()?;
            let folder = Folder::new(entry.path());
            let text = |file| folder.text(file).ok().flatten();
            let has = |quantity: Quantity| {
                let prefix = quantity.prefix();
                AXES.iter().all(|axis| folder.has(&format!("scan_elements/{prefix}_{axis}_en")))
            };
            let device = Device {
                name: text("name").unwrap_or_else(|| id.clone()),
                label: text("label"),
                has_acceleration: has(Quantity::Acceleration),
                has_angular_velocity: has(Quantity::AngularVelocity),
                folder,
                id,
            };
            (device.has_acceleration || device.has_angular_velocity).then_some((number, device))
        })
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, device)| device).collect()
}

/// The devices that the parameters ask for: one with both quantities, or an accelerometer and a
/// gyroscope.
///
/// # Errors
/// The parameter, and the sensors that there are.
pub(crate) fn choose(devices: &[Device], params: &ImuParams) -> Result<Vec<Device>, NodeError> {
    let (acceleration, velocity) = (Quantity::Acceleration, Quantity::AngularVelocity);
    let first = match &params.device {
        Some(name) => named(devices, "device", name)?,
        None => {
            let wants_both = params.gyroscope.is_none();
            let both = devices.iter().find(|device| wants_both && device.has_both());
            let any = both.or_else(|| devices.iter().find(|device| device.has(acceleration)));
            any.ok_or_else(|| missing(devices, "device", acceleration))?
        }
    };
    if !first.has(acceleration) {
        let reason = format!(
            "{first} has no accelerometer; name a gyroscope of its own in gyroscope{}",
            known(devices)
        );
        return Err(invalid("device", reason));
    }
    let second = match &params.gyroscope {
        Some(name) => named(devices, "gyroscope", name)?,
        None if first.has(velocity) => first,
        None => {
            let found = devices.iter().find(|device| device.has(velocity));
            found.ok_or_else(|| missing(devices, "gyroscope", velocity))?
        }
    };
    if !second.has(velocity) {
        let reason = format!("{second} has no gyroscope{}", known(devices));
        return Err(invalid("gyroscope", reason));
    }
    let is_one = first.id == second.id;
    Ok(if is_one { vec![first.clone()] } else { vec![first.clone(), second.clone()] })
}

/// The device with this name.
fn named<'d>(
    devices: &'d [Device],
    param: &'static str,
    name: &str,
) -> Result<&'d Device, NodeError> {
    let found: Vec<&Device> = devices.iter().filter(|device| device.is_called(name)).collect();
    match found.as_slice() {
        [device] => Ok(device),
        [] => Err(invalid(param, format!("there is no sensor {name:?}{}", known(devices)))),
        several => {
            let ids: Vec<&str> = several.iter().map(|device| device.id.as_str()).collect();
            let ids = ids.join(", ");
            Err(invalid(param, format!("several sensors are called {name:?}; use one of {ids}")))
        }
    }
}

fn missing(devices: &[Device], param: &'static str, quantity: Quantity) -> NodeError {
    let reason = format!("there is no {} with a buffer{}", quantity.sensor(), known(devices));
    invalid(param, reason)
}

/// The sensors that there are, for an error message.
fn known(devices: &[Device]) -> String {
    let named = |device: &Device| {
        let quantities = [Quantity::Acceleration, Quantity::AngularVelocity];
        let has = quantities.into_iter().filter(|quantity| device.has(*quantity));
        let has: Vec<&str> = has.map(Quantity::sensor).collect();
        format!("{device}: {}", has.join(" and "))
    };
    match devices {
        [] => "; there are none".to_owned(),
        devices => {
            let named: Vec<String> = devices.iter().map(named).collect();
            format!("; there are {}", named.join(", "))
        }
    }
}

pub(crate) fn invalid(name: &'static str, reason: String) -> NodeError {
    NodeError::InvalidParam { name: name.into(), reason }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{ParamValue, Params};

    use super::*;

    fn device(number: u32, name: &str, has_acceleration: bool, has_velocity: bool) -> Device {
        let id = format!("iio:device{number}");
        Device {
            folder: Folder::new(PathBuf::new()),
            label: (number == 3).then(|| "base".to_owned()),
            name: name.to_owned(),
            has_acceleration,
            has_angular_velocity: has_velocity,
            id,
        }
    }

    fn params(device: &str, gyroscope: &str) -> ImuParams {
        let values = [("device", device), ("gyroscope", gyroscope)].into_iter();
        let given = values.filter(|(_, value)| !value.is_empty());
        let values = given.map(|(name, value)| (name.to_owned(), ParamValue::Text(value.into())));
        ImuParams::from_values(&values.collect()).unwrap()
    }

    #[test]
    fn devices_are_chosen_by_name_or_by_what_they_measure() {
        let accel = device(0, "accel_3d", true, false);
        let gyro = device(1, "gyro_3d", false, true);
        let both = device(2, "lsm6ds3", true, true);
        let base = device(3, "lsm6ds3", true, true);
        let all = [accel.clone(), gyro.clone(), both, base];
        let check = |devices: &[Device], named: (&str, &str), expected: &[&str]| {
            let chosen = choose(devices, &params(named.0, named.1)).unwrap();
            let ids: Vec<&str> = chosen.iter().map(|device| device.id.as_str()).collect();
            assert_eq!(ids, expected, "{named:?}");
        };
        check(&all, ("", ""), &["iio:device2"]);
        check(&all[..2], ("", ""), &["iio:device0", "iio:device1"]);
        check(&all, ("iio:device0", ""), &["iio:device0", "iio:device1"]);
        check(&all, ("accel_3d", "iio:device3"), &["iio:device0", "iio:device3"]);
        check(&all, ("", "gyro_3d"), &["iio:device0", "iio:device1"]);
        check(&all, ("base", ""), &["iio:device3"]);
        check(&all, ("base", "iio:device3"), &["iio:device3"]);
        let told = |devices: &[Device], named: (&str, &str)| {
            choose(devices, &params(named.0, named.1)).unwrap_err().to_string()
        };
        let check = |devices: &[Device], named, expected: &[&str]| {
            let told = told(devices, named);
            assert!(expected.iter().all(|part| told.contains(part)), "{told}");
        };
        check(&[], ("", ""), &["parameter device: ", "accelerometer", "there are none"]);
        check(&[accel], ("", ""), &["parameter gyroscope: ", "(accel_3d): accelerometer"]);
        check(&[gyro], ("", ""), &["parameter device: ", "iio:device1 (gyro_3d): gyroscope"]);
        check(&all, ("lsm6ds3", ""), &["device: several", "iio:device2, iio:device3"]);
        check(&all, ("bmi160", ""), &["no sensor \"bmi160\"", "accelerometer and gyroscope"]);
        check(&all, ("gyro_3d", ""), &["parameter device: ", "has no accelerometer"]);
        check(&all, ("", "accel_3d"), &["parameter gyroscope: ", "has no gyroscope"]);
    }
}
