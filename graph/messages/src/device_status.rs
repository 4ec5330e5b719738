//! State of a connected device.

use crate::{Cdr, CdrMessage};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// State of a microcontroller, and of the line to it. All counts are since the start of the session
/// or, for those of the device, since its own start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DeviceStatus {
    /// True if the device is connected.
    pub is_connected: bool,
    /// Number of connections so far.
    pub connections: u64,
    /// Voltage of the battery, in volts; NaN if it is not measured.
    pub battery_v: f32,
    /// Charge of the battery, in percent; NaN if it is not measured.
    pub battery_percent: f32,
    /// Samples that the device could not process in time.
    pub lost_samples: u64,
    /// Failed runs of a model on the device.
    pub failed_runs: u64,
    /// Messages that were lost on the line.
    pub lost_messages: u64,
    /// Times at which the line had bytes that are no message.
    pub garbage: u64,
}

impl Payload for DeviceStatus {
    const TYPE: &'static str = "device/Status";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::DropOldest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let count = |count: u64| Field::Int(i64::try_from(count).unwrap_or(i64::MAX));
        vec![
            ("connected", Field::Bool(self.is_connected)),
            ("connections", count(self.connections)),
            ("battery_v", Field::Number(self.battery_v.into())),
            ("battery_percent", Field::Number(self.battery_percent.into())),
            ("lost_samples", count(self.lost_samples)),
            ("failed_runs", count(self.failed_runs)),
            ("lost_messages", count(self.lost_messages)),
            ("garbage", count(self.garbage)),
        ]
    }
}

impl CdrMessage for DeviceStatus {
    const MESSAGE: &'static str = "afferent_msgs/msg/DeviceStatus";
    const SCHEMA: &'static str = "bool is_connected\nuint64 connections\nfloat32 battery_v\n\
        float32 battery_percent\nuint64 lost_samples\nuint64 failed_runs\nuint64 lost_messages\n\
        uint64 garbage\n";
    type Wire = (bool, u64, f32, f32, u64, u64, u64, u64);

    fn to_wire(&self) -> Self::Wire {
        let Self { is_connected, connections, battery_v, battery_percent, .. } = *self;
        let Self { lost_samples, failed_runs, lost_messages, garbage, .. } = *self;
        (
            is_connected,
            connections,
            battery_v,
            battery_percent,
            lost_samples,
            failed_runs,
            lost_messages,
            garbage,
        )
    }

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        let (is_connected, connections, battery_v, battery_percent, ..) = wire;
        let (.., lost_samples, failed_runs, lost_messages, garbage) = wire;
        Ok(Self {
            is_connected,
            connections,
            battery_v,
            battery_percent,
            lost_samples,
            failed_runs,
            lost_messages,
            garbage,
        })
    }
}
