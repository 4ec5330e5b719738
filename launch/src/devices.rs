//! `afferent devices`: microphones, speakers, cameras and motion sensors.

use std::process::ExitCode;

use afferent_nodes_device::{
    AudioDevice, CameraDevice, CameraMode, MotionSensor, audio_devices, cameras, motion_sensors,
};
use clap::Args;

use crate::table::aligned;

#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn devices(args: &DevicesArgs) -> anyhow::Result<ExitCode> {
    let (audio, cameras, sensors) = (audio_devices(), cameras(), motion_sensors());
    if args.json {
        let (audio, error) = match &audio {
            Ok(audio) => (audio.iter().map(audio_json).collect(), None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let cameras: Vec<_> = cameras.iter().map(camera_json).collect();
        let sensors: Vec<_> = sensors.iter().map(sensor_json).collect();
        let all = serde_json::json!({
            "audio": audio,
            "audio_error": error,
            "cameras": cameras,
            "motion_sensors": sensors,
        });
        crate::print(&format!("{all}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["device", "use", "rates (Hz)", "channels", "name"].map(str::to_owned)];
    rows.extend(audio.iter().flatten().map(audio_row));
    rows.extend(cameras.iter().map(camera_row));
    rows.extend(sensors.iter().map(sensor_row));
    if rows.len() > 1 {
        crate::print(&aligned(&rows))?;
    } else {
        crate::print("no devices found\n")?;
    }
    for camera in &cameras {
        let modes = match &camera.modes {
            Ok(modes) => formats(modes),
            Err(error) => format!("{error}\n"),
        };
        crate::print(&format!("\n{} ({})\n{modes}", camera.path.display(), camera.name))?;
    }
    if let Err(error) = audio {
        crate::log::note(error);
    }
    Ok(ExitCode::SUCCESS)
}

fn audio_row(device: &AudioDevice) -> [String; 5] {
    let (least, greatest) = device.rates;
    let rates = match least == greatest {
        true => least.to_string(),
        false => format!("{least} to {greatest}"),
    };
    let used_by = if device.is_capture { "microphone" } else { "speaker" };
    let default = if device.is_default { ", default" } else { "" };
    let used_by = format!("{used_by}{default}");
    [device.id.clone(), used_by, rates, device.channels.to_string(), device.name.clone()]
}

fn audio_json(device: &AudioDevice) -> serde_json::Value {
    serde_json::json!({
        "device": device.id,
        "name": device.name,
        "node": if device.is_capture { "microphone" } else { "speaker" },
        "default": device.is_default,
        "rates_hz": device.rates,
        "channels": device.channels,
    })
}

fn camera_row(camera: &CameraDevice) -> [String; 5] {
    let [rates, channels] = ["-", "-"].map(str::to_owned);
    let path = camera.path.display().to_string();
    [path, "camera".to_owned(), rates, channels, camera.name.clone()]
}

fn sensor_row(sensor: &MotionSensor) -> [String; 5] {
    let quantities = match (sensor.has_accelerometer, sensor.has_gyroscope) {
        (true, false) => "imu (accelerometer)",
        (false, true) => "imu (gyroscope)",
        _ => "imu",
    };
    let [rates, channels] = ["-", "-"].map(str::to_owned);
    [sensor.id.clone(), quantities.to_owned(), rates, channels, sensor.name.clone()]
}

fn sensor_json(sensor: &MotionSensor) -> serde_json::Value {
    serde_json::json!({
        "device": sensor.id,
        "name": sensor.name,
        "accelerometer": sensor.has_accelerometer,
        "gyroscope": sensor.has_gyroscope,
    })
}

/// A line for each format of a camera: its sizes, and the greatest rate of each.
fn formats(modes: &[CameraMode]) -> String {
    let mut lines = String::new();
    let mut last = None;
    for mode in modes {
        if last != Some(mode.fourcc) {
            let start = if last.is_some() { "\n" } else { "" };
            lines += &format!("{start}  {}", mode.name());
        }
        last = Some(mode.fourcc);
        let rate = if mode.fps > 0.0 { format!("@{:.0}", mode.fps) } else { String::new() };
        let limit = if mode.is_limit { "up to " } else { "" };
        lines += &format!("  {limit}{}x{}{rate}", mode.width, mode.height);
    }
    lines + "\n"
}

fn camera_json(camera: &CameraDevice) -> serde_json::Value {
    let mode = |mode: &CameraMode| {
        serde_json::json!({
            "format": mode.name(),
            "width": mode.width,
            "height": mode.height,
            "fps": mode.fps,
            "is_limit": mode.is_limit,
        })
    };
    let (modes, error) = match &camera.modes {
        Ok(modes) => (modes.iter().map(mode).collect(), None),
        Err(error) => (Vec::new(), Some(error)),
    };
    serde_json::json!({
        "device": camera.path,
        "name": camera.name,
        "modes": modes,
        "error": error,
    })
}
