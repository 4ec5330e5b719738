//! Parameters of the node `imu`, for each of its modules.

use std::time::Duration;

use afferent_graph::params;

use crate::OnLost;

params! {
    /// Settings of [`Imu`].
    pub struct ImuParams {
        /// Sensor, by its name, its label, or as `iio:deviceN`. Default: the first with an
        /// accelerometer and a gyroscope, otherwise the first with an accelerometer.
        pub device: Option<String>;
        /// Gyroscope, if `device` has only an accelerometer. Default: the first one.
        pub gyroscope: Option<String>;
        /// Measurements per second; the nearest rate that the sensor offers is set. Default: unchanged.
        pub rate: Option<f64>, range 0.01..=100000.0, unit "Hz";
        /// Capacity of the buffer in the kernel, in measurements. A larger one outlasts longer pauses of
        /// this node.
        pub buffer: u32 = "256", range 2.0..=65536.0;
        /// Measurements that the kernel collects before this node wakes up (`buffer/watermark` of the
        /// kernel). More of them save energy and add latency.
        pub watermark: u32 = "1", range 1.0..=65536.0;
        /// Name of the trigger that starts each measurement. Default: the current one, or that of the
        /// sensor.
        pub trigger: Option<String>;
        /// Rotation from the axes of the sensor to those of the measurements, as three rows such as
        /// `0, 1, 0; -1, 0, 0; 0, 0, 1`. Default: that of the driver.
        pub mount_matrix: Option<String>;
        /// Time without a measurement after which the sensor counts as lost.
        pub timeout: Duration = "2s", range 0.1..=60.0;
        /// Action when the sensor is lost.
        pub on_lost: OnLost = "restart";
        /// Time to add to the timestamps, for a sensor whose driver stamps late or early.
        pub stamp_offset: f64 = "0", range -1000.0..=1000.0, unit "ms";
    }
}
