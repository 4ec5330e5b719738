//! `afferent devices` and `afferent doctor`: the parts of this machine that a graph can use.

use std::{fs, path::Path, process::ExitCode};

use afferent_nodes_device::{AudioDevice, audio_devices};
use afferent_simd::Isa;
use clap::Args;

use crate::{App, table::aligned};

#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A camera of Video4Linux.
struct Camera {
    /// Path, such as `/dev/video0`.
    path: String,
    name: String,
}

pub(crate) fn devices(args: &DevicesArgs) -> anyhow::Result<ExitCode> {
    let (audio, cameras) = (audio_devices(), cameras(Path::new("/sys/class/video4linux")));
    if args.json {
        let (audio, error) = match &audio {
            Ok(audio) => (audio.iter().map(audio_json).collect(), None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let cameras = cameras
            .iter()
            .map(|camera| serde_json::json!({"device": camera.path, "name": camera.name}));
        let cameras: Vec<_> = cameras.collect();
        let all = serde_json::json!({"audio": audio, "audio_error": error, "cameras": cameras});
        crate::print(&format!("{all}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["device", "use", "rates (Hz)", "channels", "name"].map(str::to_owned)];
    rows.extend(audio.iter().flatten().map(audio_row));
    rows.extend(cameras.iter().map(|camera| {
        [
            camera.path.clone(),
            "camera".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            camera.name.clone(),
        ]
    }));
    if rows.len() > 1 {
        crate::print(&aligned(&rows))?;
    } else {
        crate::print("no devices found\n")?;
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

/// Cameras in `class`, sorted by path. A camera may have several devices; only the first
/// gives images.
fn cameras(class: &Path) -> Vec<Camera> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let cameras = entries.filter_map(|entry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        // Further devices of a camera, such as metadata, have a higher index.
        let is_first = read("index").is_none_or(|index| index.trim() == "0");
        let name = read("name")?.trim().to_owned();
        let path = format!("/dev/{}", entry.file_name().to_string_lossy());
        is_first.then_some(Camera { path, name })
    });
    let mut cameras: Vec<_> = cameras.collect();
    cameras.sort_by(|one, other| one.path.cmp(&other.path));
    cameras
}

#[derive(Args)]
pub(crate) struct DoctorArgs {}

pub(crate) fn doctor(app: &App, _: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let mut rows = vec![
        row("version", env!("CARGO_PKG_VERSION")),
        row("system", &format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        row("SIMD", Isa::best().name()),
        row("processors", &std::thread::available_parallelism().map_or(1, usize::from).to_string()),
    ];
    if let Some(memory) = memory_mib() {
        rows.push(row("memory", &format!("{memory} MiB")));
    }
    let backends = app.models().backends.iter();
    let backends = backends.map(|backend| match backend.is_available() {
        true => backend.name().to_owned(),
        false => format!("{} (not available here)", backend.name()),
    });
    rows.push(row("backends", &backends.collect::<Vec<_>>().join(", ")));
    rows.push(row("nodes", &app.catalog().nodes().len().to_string()));
    let audio = match audio_devices() {
        Ok(devices) => {
            let count =
                |is_capture| devices.iter().filter(|one| one.is_capture == is_capture).count();
            format!("{} microphones, {} speakers", count(true), count(false))
        }
        Err(reason) => reason,
    };
    rows.push(row("audio", &audio));
    let cameras = cameras(Path::new("/sys/class/video4linux"));
    rows.push(row("cameras", &cameras.len().to_string()));
    rows.push(row("priorities", &priorities()));
    let lines = rows.iter().map(|[name, value]| format!("  {name:<12}{value}\n"));
    crate::print(&lines.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn row(name: &str, value: &str) -> [String; 2] {
    [name.to_owned(), value.to_owned()]
}

/// Memory of the machine.
fn memory_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

/// Real-time priorities that this user may ask for with `priority` of a node.
fn priorities() -> String {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime priority"));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("0") => "none; raise `rtprio` in /etc/security/limits.conf".to_owned(),
        Some(limit) => format!("up to {limit}"),
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cameras_are_listed_once() {
        let class = tempfile::tempdir().unwrap();
        for (video, index, name) in
            [("video2", "0", "Depth"), ("video0", "0", "Webcam"), ("video1", "1", "Webcam")]
        {
            let folder = class.path().join(video);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("index"), format!("{index}\n")).unwrap();
            fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        }
        let found = cameras(class.path()).into_iter().map(|one| (one.path, one.name));
        let expected = [("/dev/video0", "Webcam"), ("/dev/video2", "Depth")];
        let expected = expected.map(|(path, name)| (path.to_owned(), name.to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(cameras(&class.path().join("none")).is_empty());
    }
}
