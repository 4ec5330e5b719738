//! Time from the end of a question to the first sound of its answer.

use std::{path::Path, process::Command};

use afferent_graph::Header;
use afferent_messages::{AudioBlock, payload_type};
use serde_json::Value;

/// Share of the greatest peak from which a block counts as speech. Recordings have noise in the pauses.
const LOUD: f64 = 0.2;

/// Least silence before an answer, in milliseconds.
const PAUSE: f64 = 1000.0;

/// Time in milliseconds, and peak, of blocks of sound.
pub(crate) type Blocks = Vec<(f64, f64)>;

/// Returns for each answer in `played` the time from the last loud block of `said` before it, in
/// milliseconds.
pub(crate) fn first_sounds(said: &Blocks, played: &Blocks) -> Vec<f64> {
    let loud = |blocks: &Blocks| -> Vec<f64> {
        let most = blocks.iter().map(|(_, peak)| *peak).fold(0.0, f64::max);
        blocks.iter().filter(|(_, peak)| *peak >= LOUD * most).map(|(time, _)| *time).collect()
    };
    let (said, played) = (loud(said), loud(played));
    let mut found = Vec::new();
    for (index, start) in played.iter().enumerate() {
        let is_first = index == 0 || start - played[index - 1] >= PAUSE;
        if let (true, Some(end)) = (is_first, said.iter().rfind(|time| *time < start)) {
            found.push(start - end);
        }
    }
    found
}

/// Keeps the samples that the page plays, and the blocks that it sends and plays, as lists of [time in
/// milliseconds, peak].
pub(crate) const KEEP_SOUND: &str = "window.heard = [];
    window.said = [];
    window.played = [];
    const peak = (samples, scale) => samples.reduce((most, x) => Math.max(most, Math.abs(x)), 0) / scale;
    const send = WebSocket.prototype.send;
    WebSocket.prototype.send = function (data) {
        if (data instanceof ArrayBuffer) {
            window.said.push([performance.now(), peak(new Int16Array(data), 32768)]);
        }
        return send.call(this, data);
    };
    const begin = AudioBufferSourceNode.prototype.start;
    AudioBufferSourceNode.prototype.start = function (at) {
        const wait = Math.max(0, (at ?? 0) - this.context.currentTime);
        const samples = this.buffer.getChannelData(0);
        window.heard.push(...samples);
        window.played.push([performance.now() + 1000 * wait, peak(samples, 1)]);
        return begin.call(this, at);
    };";

/// The blocks in a list of the page.
pub(crate) fn of_page(list: &Value) -> Blocks {
    let number = |pair: &Value, at: usize| pair[at].as_f64().expect("a number");
    let pairs = list.as_array().expect("a list").iter();
    pairs.map(|pair| (number(pair, 0), number(pair, 1))).collect()
}

/// First sounds of the graph with files for its devices, by a recording.
pub(crate) fn of_files(graph: &Path) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("run.mcap");
    let answer = format!("speaker.path={}", folder.path().join("answer.wav").display());
    let status = Command::new(env!("CARGO_BIN_EXE_afferent"))
        .arg("run")
        .arg(graph)
        .args(["--set", &answer, "--record-only", "sound", "--record-only", "tts", "--record"])
        .arg(&recording)
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    let bytes = std::fs::read(&recording).unwrap();
    let codec = payload_type("audio/Block").unwrap().record.unwrap();
    let (mut said, mut played) = (Blocks::new(), Blocks::new());
    for message in mcap::MessageStream::new(&bytes).unwrap() {
        let message = message.unwrap();
        let blocks = match message.channel.topic.as_str() {
            "sound/audio" => &mut said,
            "tts/audio" => &mut played,
            _ => continue,
        };
        let packet = codec.decode(&message.data, Header::default()).unwrap();
        let block = packet.payload().unwrap() as &dyn std::any::Any;
        let samples = block.downcast_ref::<AudioBlock>().unwrap().samples.data::<f32>().unwrap();
        let peak = samples.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
        blocks.push((message.log_time as f64 / 1e6, f64::from(peak)));
    }
    first_sounds(&said, &played)
}

#[test]
fn the_first_sound_is_that_after_a_pause() {
    let said = vec![(0.0, 0.5), (20.0, 0.5), (40.0, 0.01), (5000.0, 0.3)];
    let played = vec![(300.0, 0.001), (320.0, 0.4), (900.0, 0.4), (5600.0, 0.4)];
    assert_eq!(first_sounds(&said, &played), [300.0, 600.0]);
}
