//! `afferent devices`: microphones, speakers and cameras.

use std::{fs, path::Path, process::ExitCode};

use afferent_nodes_device::{AudioDevice, audio_devices};
use clap::Args;

use crate::table::aligned;

#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A camera of Video4Linux.
pub(crate) struct Camera {
    /// Path, such as `/dev/video0`.
    path: String,
    name: String,
}

pub(crate) fn devices(args: &DevicesArgs) -> anyhow::Result<ExitCode> {
    let (audio, cameras) = (audio_devices(), cameras());
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

/// Cameras of this machine, sorted by path.
pub(crate) fn cameras() -> Vec<Camera> {
    cameras_in(Path::new("/sys/class/video4linux"))
}

/// Cameras in the folder `class`. A camera may have several devices; only the first gives images.
fn cameras_in(class: &Path) -> Vec<Camera> {
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
        let found = cameras_in(class.path()).into_iter().map(|one| (one.path, one.name));
        let expected = [("/dev/video0", "Webcam"), ("/dev/video2", "Depth")];
        let expected = expected.map(|(path, name)| (path.to_owned(), name.to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(cameras_in(&class.path().join("none")).is_empty());
    }
}
