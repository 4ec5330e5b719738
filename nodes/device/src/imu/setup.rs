//! Setup of a sensor: rate, trigger, scan and units.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
};

use afferent_graph::NodeError;
use rustix::fs::OFlags;

use super::{
    device::{AXES, Device, Quantity, Root, invalid},
    scan::{Element, ElementType, layout},
    sysfs::{Folder, IDENTITY, Matrix, count, decimal, fault, matrix, nearest_rate, number},
};
use crate::ImuParams;

/// A sensor that was set up. Its buffer is not enabled yet.
pub(crate) struct Sensor {
    pub(crate) device: Device,
    pub(crate) file: File,
    pub(crate) scan: Scan,
    /// Capacity of the buffer, in scans.
    pub(crate) capacity: usize,
}

/// Contents of a scan.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) bytes: usize,
    pub(crate) stamp: Element,
    pub(crate) acceleration: Option<Triple>,
    pub(crate) angular_velocity: Option<Triple>,
}

/// A quantity in a scan, and its unit.
#[derive(Debug, Clone)]
pub(crate) struct Triple {
    elements: [Element; 3],
    offset: [f64; 3],
    scale: [f64; 3],
    mount: Matrix,
}

impl Triple {
    /// Values in SI units.
    pub(crate) fn read(&self, scan: &[u8]) -> [f32; 3] {
        let value = |axis: usize| {
            (self.elements[axis].value(scan) as f64 + self.offset[axis]) * self.scale[axis]
        };
        let values: [f64; 3] = std::array::from_fn(value);
        let turned = |row: [f64; 3]| row.iter().zip(values).map(|(m, v)| m * v).sum::<f64>() as f32;
        self.mount.map(turned)
    }
}

impl Sensor {
    /// Opens and sets up a device for `quantities`.
    ///
    /// # Errors
    /// The file or parameter, and its fault.
    pub(crate) fn open(
        root: &Root,
        device: Device,
        quantities: &[Quantity],
        params: &ImuParams,
    ) -> Result<Self, NodeError> {
        let path = root.dev.join(&device.id);
        let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => {
                device.error(&"another program, such as iio-sensor-proxy, reads it")
            }
            _ => fault(&path, &error),
        })?;
        let folder = &device.folder;
        // Nothing reads it, since a device can be open only once; settings are locked while it is on.
        folder.set(ENABLE, "0")?;
        if let Err(error) = folder.write("current_timestamp_clock", "monotonic") {
            tracing::debug!("{device}: {error}");
        }
        let scan = set_scan(&device, quantities, params)?;
        set_trigger(root, &device, params)?;
        if let Some(rate) = params.rate {
            set_rate(root, &device, quantities, rate)?;
        }
        folder.set("buffer/length", &params.buffer.to_string())?;
        let watermark = params.watermark.to_string();
        match folder.has("buffer/watermark") {
            true => folder.set("buffer/watermark", &watermark)?,
            false if params.watermark == 1 => {}
            false => {
                let reason = format!("the buffer of {device} has none; leave it out");
                return Err(invalid("watermark", reason));
            }
        }
        let capacity = params.buffer as usize;
        Ok(Self { device, file, scan, capacity })
    }
}

/// File that enables the buffer.
pub(crate) const ENABLE: &str = "buffer/enable";

/// Folder of the files of scans.
const ELEMENTS: &str = "scan_elements";

/// Enables the elements of `quantities` and the timestamp, and disables all others.
fn set_scan(
    device: &Device,
    quantities: &[Quantity],
    params: &ImuParams,
) -> Result<Scan, NodeError> {
    let folder = &device.folder;
    if !folder.has(&format!("{ELEMENTS}/in_timestamp_en")) {
        return Err(device.error(&"its scans have no timestamps"));
    }
    let axes = |quantity: &Quantity| {
        let prefix = quantity.prefix();
        AXES.map(|axis| format!("{prefix}_{axis}"))
    };
    let mut enabled: Vec<String> = quantities.iter().flat_map(axes).collect();
    enabled.push("in_timestamp".to_owned());
    let path = folder.path(ELEMENTS);
    let entries = fs::read_dir(&path).map_err(|error| fault(&path, &error))?;
    for file in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if file.strip_suffix("_en").is_some_and(|name| !enabled.iter().any(|one| one == name)) {
            folder.set(&format!("{ELEMENTS}/{file}"), "0")?;
        }
    }
    let mut elements = Vec::new();
    for name in &enabled {
        folder.set(&format!("{ELEMENTS}/{name}_en"), "1")?;
        let index = folder.required(&format!("{ELEMENTS}/{name}_index"), count)?;
        let kind = folder.required(&format!("{ELEMENTS}/{name}_type"), ElementType::parse)?;
        elements.push((index, kind));
    }
    let (elements, bytes) = layout(&elements);
    let triple = |quantity| {
        let at = quantities.iter().position(|one| *one == quantity);
        at.map(|at| {
            triple(folder, quantity, std::array::from_fn(|axis| elements[3 * at + axis]), params)
        })
    };
    Ok(Scan {
        bytes,
        stamp: elements[3 * quantities.len()],
        acceleration: triple(Quantity::Acceleration).transpose()?,
        angular_velocity: triple(Quantity::AngularVelocity).transpose()?,
    })
}

/// Reads the unit of a quantity. Files of a single axis come before those of all three.
fn triple(
    folder: &Folder,
    quantity: Quantity,
    elements: [Element; 3],
    params: &ImuParams,
) -> Result<Triple, NodeError> {
    let prefix = quantity.prefix();
    let (mut offset, mut scale) = ([0.0; 3], [1.0; 3]);
    for (at, axis) in AXES.into_iter().enumerate() {
        let own = folder.parsed(&format!("{prefix}_{axis}_offset"), number)?;
        let shared = folder.parsed(&format!("{prefix}_offset"), number)?;
        offset[at] = own.or(shared).unwrap_or(0.0);
        let own = folder.parsed(&format!("{prefix}_{axis}_scale"), number)?;
        scale[at] = match own {
            Some(own) => own,
            None => folder.required(&format!("{prefix}_scale"), number)?,
        };
    }
    let mount = match &params.mount_matrix {
        Some(text) => matrix(text).map_err(|reason| invalid("mount_matrix", reason))?,
        None => {
            let own = format!("{prefix}_mount_matrix");
            let files = [own.as_str(), "in_mount_matrix", "mount_matrix"];
            let file = files.into_iter().find(|file| folder.has(file));
            let found = file.map(|file| folder.parsed(file, matrix)).transpose()?;
            found.flatten().unwrap_or(IDENTITY)
        }
    };
    Ok(Triple { elements, offset, scale, mount })
}

/// Sets the trigger that the parameters name, or that of the device if it has none.
fn set_trigger(root: &Root, device: &Device, params: &ImuParams) -> Result<(), NodeError> {
    const CURRENT: &str = "trigger/current_trigger";
    let folder = &device.folder;
    if let Some(name) = &params.trigger {
        if trigger(root, name).is_none() {
            let known: Vec<String> = triggers(root).into_iter().map(|(name, _)| name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let reason = format!("there is no trigger {name:?}; there are: {known}");
            return Err(invalid("trigger", reason));
        }
        return folder.set(CURRENT, name);
    }
    if folder.text(CURRENT)?.is_some_and(|current| current.is_empty()) {
        let number = device.id.trim_start_matches("iio:device");
        let own = format!("{}-dev{number}", device.name);
        if trigger(root, &own).is_some() {
            folder.write(CURRENT, &own)?;
        }
    }
    Ok(())
}

/// Names and folders of the triggers.
fn triggers(root: &Root) -> Vec<(String, Folder)> {
    let entries = fs::read_dir(&root.devices).into_iter().flatten().flatten();
    let triggers =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("trigger"));
    let named = triggers.filter_map(|entry| {
        let folder = Folder::new(entry.path());
        Some((folder.text("name").ok()??, folder))
    });
    let mut named: Vec<_> = named.collect();
    named.sort_by(|one, other| one.0.cmp(&other.0));
    named
}

fn trigger(root: &Root, name: &str) -> Option<Folder> {
    triggers(root).into_iter().find_map(|(found, folder)| (found == name).then_some(folder))
}

/// Sets the rate that is nearest to `wanted`.
fn set_rate(
    root: &Root,
    device: &Device,
    quantities: &[Quantity],
    wanted: f64,
) -> Result<(), NodeError> {
    const SHARED: &str = "sampling_frequency";
    let folder = &device.folder;
    let own = quantities.iter().map(|quantity| format!("{}_{SHARED}", quantity.prefix()));
    let mut files: Vec<(Folder, String)> = own.map(|file| (folder.clone(), file)).collect();
    files.push((folder.clone(), SHARED.to_owned()));
    files.retain(|(folder, file)| folder.has(file));
    if files.is_empty()
        && let Some(name) = folder.text("trigger/current_trigger")?
        && let Some(trigger) = trigger(root, &name)
        && trigger.has(SHARED)
    {
        files.push((trigger, SHARED.to_owned()));
    }
    if files.is_empty() {
        let reason = format!("{device} and its trigger have no rate to set; leave it out");
        return Err(invalid("rate", reason));
    }
    for (folder, file) in files {
        let available =
            folder.parsed(&format!("{file}_available"), |list| nearest_rate(list, wanted));
        let nearest = available?.unwrap_or_else(|| decimal(wanted));
        folder.write(&file, &nearest)?;
        let found = folder.required(&file, number)?;
        if (found - wanted).abs() > 0.01 * wanted {
            tracing::warn!(
                "{device}: {found} measurements per second instead of {wanted} ({file})"
            );
        } else {
            tracing::info!("{device}: {found} measurements per second ({file})");
        }
    }
    Ok(())
}
