//! Runs of a graph that reads `sound.wav` and writes `out.wav`.

use std::{fs, path::Path};

use afferent_engine::Report;
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

/// A folder with `graph` as `graph.yaml` and a sound of `seconds`.
pub(crate) fn sound_folder(graph: &str, seconds: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.yaml"), graph).unwrap();
    let sample_format = SampleFormat::Int;
    let spec = WavSpec { channels: 1, sample_rate: 16_000, bits_per_sample: 16, sample_format };
    let mut file = WavWriter::create(folder.path().join("sound.wav"), spec).unwrap();
    for index in 0..16_000 * seconds {
        file.write_sample(((f64::from(index * 440) / 16_000.0).sin() * 8000.0) as i16).unwrap();
    }
    file.finalize().unwrap();
    folder
}

/// Report in `NAME.json`, where the run wrote it with `--stats`.
pub(crate) fn report(folder: &Path, name: &str) -> Report {
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Samples of `out.wav`.
pub(crate) fn samples(folder: &Path) -> Vec<i16> {
    let mut file = WavReader::open(folder.join("out.wav")).unwrap();
    file.samples().map(Result::unwrap).collect()
}

/// Checks that every packet of every edge is accounted for.
pub(crate) fn check_accounts(report: &Report) {
    for edge in &report.edges {
        let counts = edge.counts;
        let all = counts.delivered + counts.dropped() + counts.depth as u64;
        assert_eq!(counts.sent, all + edge.in_transit + edge.lost, "{edge:?}");
        assert_eq!(edge.in_transit, 0, "the run has ended: {edge:?}");
    }
}

/// Process id of the child of `parent` that runs a partition of the graph.
pub(crate) fn child(parent: u32, partition: usize) -> Option<u32> {
    // Children may be started by any thread.
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let all =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let all = all.collect::<Vec<_>>().join(" ");
    all.split_whitespace().filter_map(|id| id.parse().ok()).find(|id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment).into_owned();
        text.split('\0').any(|one| one.starts_with(&format!("AFFERENT_PROCESS={partition}:")))
    })
}
