//! `afferent doctor`: the parts of this machine that a graph can use.

use std::{fs, process::ExitCode};

use afferent_nodes_device::{audio_devices, cameras, motion_sensors};
use afferent_simd::Isa;

use crate::App;

pub(crate) fn doctor(app: &App) -> anyhow::Result<ExitCode> {
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
    rows.push(row("cameras", &cameras().len().to_string()));
    rows.push(row("motion sensors", &motion_sensors().len().to_string()));
    rows.push(row("priorities", &priorities()));
    let lines = rows.iter().map(|[name, value]| format!("  {name:<16}{value}\n"));
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
