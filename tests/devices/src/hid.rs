//! Virtual motion sensors: HID devices of this program, through `/dev/uhid`.
//!
//! The kernel takes one for a sensor hub (HID usage tables, page 0x20) and makes an Industrial I/O device
//! of it. Events have the layout of `linux/uhid.h`; the kernel fills short ones with zeros.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context, Result};

/// Kind of a sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One count is 0.001 g.
    Accelerometer,
    /// One count is 0.1 degrees per second.
    Gyroscope,
}

impl Kind {
    /// Name that the driver of the kernel gives to the sensor.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Accelerometer => "accel_3d",
            Self::Gyroscope => "gyro_3d",
        }
    }

    /// Usages of the sensor and of its x axis, and the decimal exponent of its values.
    fn usages(self) -> (u8, u16, i8) {
        match self {
            Self::Accelerometer => (0x73, 0x0453, -3),
            Self::Gyroscope => (0x76, 0x0457, -1),
        }
    }
}

/// Events.
const DESTROY: u32 = 1;
const STOP: u32 = 3;
const GET_REPORT: u32 = 9;
const GET_REPORT_REPLY: u32 = 10;
const CREATE: u32 = 11;
const INPUT: u32 = 12;
const SET_REPORT: u32 = 13;
const SET_REPORT_REPLY: u32 = 14;

/// Largest event.
const MAX_EVENT: usize = 4380;

/// Number of the reports.
const REPORT: u8 = 1;

/// First value of the feature report: number, reporting state, power state and interval of 10 ms.
const FEATURES: [u8; 7] = [REPORT, 1, 1, 10, 0, 0, 0];

/// A sensor. It is unplugged on drop.
pub(crate) struct Sensor {
    file: File,
    is_unplugged: Arc<AtomicBool>,
}

impl Sensor {
    pub(crate) fn plug(kind: Kind) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open("/dev/uhid").context("/dev/uhid")?;
        let descriptor = descriptor(kind);
        let mut event = CREATE.to_le_bytes().to_vec();
        event.extend(b"virtual sensor");
        // Name, physical location and serial number.
        event.resize(4 + 128 + 64 + 64, 0);
        event.extend(u16::try_from(descriptor.len())?.to_le_bytes());
        const BUS_USB: u16 = 3;
        event.extend(BUS_USB.to_le_bytes());
        // Vendor, product, version and country.
        event.extend([0x1209, 0x0001, 1, 0].iter().flat_map(|number: &u32| number.to_le_bytes()));
        event.extend(descriptor);
        (&file).write_all(&event)?;
        let is_unplugged = Arc::<AtomicBool>::default();
        let (answers, ends) = (file.try_clone()?, is_unplugged.clone());
        thread::spawn(move || answer(answers, &ends));
        Ok(Self { file, is_unplugged })
    }

    /// Sends a report with the counts of x, y and z.
    pub(crate) fn send(&self, axes: [i16; 3]) -> Result<()> {
        const READY: u8 = 2;
        let mut report = vec![REPORT, READY];
        report.extend(axes.iter().flat_map(|axis| axis.to_le_bytes()));
        let mut event = INPUT.to_le_bytes().to_vec();
        event.extend(u16::try_from(report.len())?.to_le_bytes());
        event.extend(report);
        Ok((&self.file).write_all(&event)?)
    }
}

impl Drop for Sensor {
    fn drop(&mut self) {
        self.is_unplugged.store(true, Ordering::Release);
        let _ = (&self.file).write_all(&DESTROY.to_le_bytes());
    }
}

/// Answers requests for reports until the sensor is unplugged.
fn answer(mut file: File, is_unplugged: &AtomicBool) {
    let mut features = FEATURES.to_vec();
    let mut event = [0; MAX_EVENT];
    while let Ok(read) = file.read(&mut event) {
        let [kind, id] = [0, 4].map(|at| event[at..at + 4].try_into().unwrap_or_default());
        let reply = match u32::from_le_bytes(kind) {
            STOP if is_unplugged.load(Ordering::Acquire) => return,
            GET_REPORT => {
                let is_feature = event[9] == 0;
                let report = if is_feature { features.clone() } else { vec![REPORT; 8] };
                let size = (report.len() as u16).to_le_bytes();
                let error = [0; 2];
                [&GET_REPORT_REPLY.to_le_bytes()[..], &id, &error, &size, &report].concat()
            }
            SET_REPORT => {
                let size = usize::from(u16::from_le_bytes([event[10], event[11]]));
                features = event[12..(12 + size).min(read)].to_vec();
                let error = [0; 2];
                [&SET_REPORT_REPLY.to_le_bytes()[..], &id, &error].concat()
            }
            _ => continue,
        };
        if file.write_all(&reply).is_err() {
            return;
        }
    }
}

/// Report descriptor of a sensor: a feature report with its states and its interval, and an input report
/// with its state and three values of 16 bits.
fn descriptor(kind: Kind) -> Vec<u8> {
    const FEATURE: u8 = 0xb1;
    const INPUT: u8 = 0x81;
    const END: &[u8] = &[0xc0];
    let (sensor, x, exponent) = kind.usages();
    let usage = |usage: u16| [&[0x0a][..], &usage.to_le_bytes()].concat();
    // A choice of one of `count` usages that begin at `first`, in one byte.
    let choice = |name: u16, first: u16, count: u16, report: u8| {
        let size = [0x15, 0, 0x25, (count - 1) as u8, 0x75, 8, 0x95, 1];
        let usages: Vec<u8> = (first..first + count).flat_map(usage).collect();
        [&usage(name)[..], &size, &[0xa1, 2], &usages, &[report, 0], END].concat()
    };
    let interval = {
        let range = [0x15, 0, 0x27, 0xff, 0xff, 0xff, 0x7f];
        [&usage(0x030e)[..], &range, &[0x75, 32, 0x95, 1, 0x55, 0, FEATURE, 2]].concat()
    };
    let axis = |usage_of: u16| {
        let range = [0x16, 0x01, 0x80, 0x26, 0xff, 0x7f];
        let exponent = exponent.cast_unsigned() & 0xf;
        [&usage(usage_of)[..], &range, &[0x75, 16, 0x95, 1, 0x55, exponent, INPUT, 2]].concat()
    };
    [
        // Page of sensors, a physical collection, and the number of the reports.
        vec![0x05, 0x20, 0x09, sensor, 0xa1, 0, 0x85, REPORT],
        choice(0x0316, 0x0840, 6, FEATURE),
        choice(0x0319, 0x0850, 6, FEATURE),
        interval,
        choice(0x0201, 0x0800, 7, INPUT),
        axis(x),
        axis(x + 1),
        axis(x + 2),
        END.to_vec(),
    ]
    .concat()
}
