//! Microphone and speaker on ALSA devices that are backed by files.
//!
//! ALSA reads its configuration once per process, from a path in the environment, so each test runs
//! in its own process.

#![cfg(all(feature = "audio-device", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env, fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
use afferent_messages::{AudioBlock, SampleRate};
use afferent_nodes_device::{Microphone, MicrophoneParams, Speaker, SpeakerParams};

const RATE: SampleRate = SampleRate(16_000);

/// True if this process has the devices. Otherwise runs `test` in a process that has them.
fn with_devices(test: &str) -> bool {
    if env::var_os("AFFERENT_CAPTURE").is_some() {
        return true;
    }
    let folder = env::temp_dir().join(format!("afferent-alsa-{}-{test}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("capture.raw"), []).unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("ALSA_CONFIG_PATH", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/asoundrc"))
        .env("AFFERENT_CAPTURE", folder.join("capture.raw"))
        .env("AFFERENT_PLAYBACK", folder.join("playback.raw"))
        .status()
        .unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert!(status.success(), "{test}: {status}");
    false
}

fn file(name: &str) -> PathBuf {
    env::var_os(name).unwrap().into()
}

/// A ramp: all samples are different, and none is zero.
fn ramp(len: usize) -> Vec<f32> {
    (1..=len).map(|n| n as f32 / 65_536.0).collect()
}

fn microphone(device: &str) -> Result<Microphone, String> {
    let (block, buffer) = (Duration::from_millis(20), Duration::from_secs(1));
    let (device, rate) = (device.to_owned(), RATE.0);
    let params = MicrophoneParams { device, rate, channels: 1, block, buffer };
    Microphone::open(params, &OpenCx::default()).map_err(|error| error.to_string())
}

fn speaker(device: &str) -> Result<Speaker, String> {
    let (channels, buffer, fade) = (1, Duration::from_secs(1), Duration::from_millis(8));
    let device = device.to_owned();
    let params = SpeakerParams { device, rate: RATE.0, channels, buffer, fade };
    Speaker::open(params, &OpenCx::default()).map_err(|error| error.to_string())
}

#[test]
fn a_microphone_sends_the_captured_audio() {
    if !with_devices("a_microphone_sends_the_captured_audio") {
        return;
    }
    let sound = ramp(RATE.0 as usize);
    let bytes: Vec<u8> = sound.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    fs::write(file("AFFERENT_CAPTURE"), bytes).unwrap();
    let mut bench = NodeBench::new(microphone("from_file").unwrap());
    let (start, mut heard, mut times) = (Instant::now(), Vec::new(), Vec::new());
    while times.len() < 20 {
        let now = Timestamp::ZERO + start.elapsed();
        for (_, packet) in bench.poll(now).unwrap().0 {
            times.push(packet.header.at);
            heard.extend_from_slice(packet.get::<AudioBlock>().unwrap().channel(0).unwrap());
        }
        assert!(start.elapsed() < Duration::from_secs(60), "only {} blocks were sent", times.len());
        std::thread::yield_now();
    }
    assert_eq!(heard, sound[..heard.len()]);
    // The device runs faster than its rate; the drift is corrected.
    let block = Duration::from_millis(20);
    let steps = times.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(steps.map(|step| step.abs_diff(block)).all(|off| off <= block / 1000), "{times:?}");
}

#[test]
fn timestamps_increase_across_a_loss() {
    if !with_devices("timestamps_increase_across_a_loss") {
        return;
    }
    fs::write(file("AFFERENT_CAPTURE"), vec![0; 4 * RATE.0 as usize]).unwrap();
    let mut bench = NodeBench::new(microphone("from_file").unwrap());
    let (start, mut times) = (Instant::now(), Vec::new());
    // The device runs faster than its rate, so its buffer of one second is always full.
    while times.len() < 200 {
        let now = Timestamp::ZERO + start.elapsed();
        times.extend(bench.poll(now).unwrap().0.iter().map(|(_, packet)| packet.header.at));
        assert!(start.elapsed() < Duration::from_secs(60), "only {} blocks were sent", times.len());
        std::thread::yield_now();
    }
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
}

#[test]
fn a_speaker_plays_every_sample_once() {
    if !with_devices("a_speaker_plays_every_sample_once") {
        return;
    }
    let mut bench = NodeBench::new(speaker("to_file").unwrap());
    let sound = ramp(3200);
    for (number, samples) in sound.chunks(1600).enumerate() {
        let mut block = AudioBlock::default();
        block.reshape(RATE, 1, samples.len()).unwrap().copy_from_slice(samples);
        let at = Timestamp::ZERO + RATE.duration(number * 1600);
        bench.call(Speaker::AUDIO, at, block).unwrap();
    }
    // The node keeps asking for calls until everything is played.
    let mut now = Timestamp::ZERO;
    while bench.asked().wake.is_some() {
        std::thread::sleep(Duration::from_millis(10));
        now = now + Duration::from_millis(10);
        bench.advance(now).unwrap();
    }
    bench.finish(now).unwrap();
    drop(bench);
    let bytes = fs::read(file("AFFERENT_PLAYBACK")).unwrap();
    let samples = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    // The device runs faster than its rate, so there is silence in between.
    let played: Vec<f32> = samples.filter(|sample| *sample != 0.0).collect();
    assert_eq!(played, sound);
}

#[test]
fn unknown_devices_are_rejected() {
    if !with_devices("unknown_devices_are_rejected") {
        return;
    }
    let error = microphone("from_the_moon").err().unwrap();
    let expected = "device \"from_the_moon\": device not found; available: ";
    assert!(error.starts_with(expected) && error.contains("from_file"), "{error}");
}

#[test]
fn other_formats_are_rejected_with_advice() {
    if !with_devices("other_formats_are_rejected_with_advice") {
        return;
    }
    let mut bench = NodeBench::new(speaker("to_file").unwrap());
    let mut block = AudioBlock::default();
    block.reshape(SampleRate(48_000), 2, 1).unwrap().fill(0.0);
    let error = bench.call(Speaker::AUDIO, Timestamp::ZERO, block).unwrap_err().to_string();
    assert!(error.contains("48000 Hz and 2 channels for a device of 16000 Hz and 1"), "{error}");
    assert!(error.contains("resample"), "{error}");
}
