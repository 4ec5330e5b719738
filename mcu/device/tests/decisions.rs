//! The device on a host: its messages are the decisions of the listener on a host.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use afferent_core::AlignedBytes;
use afferent_device::{BLOCK, Battery, Device, FlashNetwork, Line, Memory};
use afferent_link::{Decoder, Message};
use afferent_runtime::ModelOptions;
use afferent_wake::{HostNetwork, Listener, Step};

fn pipelines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines")
}

fn program() -> PathBuf {
    pipelines().join("models/wake_word_int8/wake_word_int8.pte")
}

/// Samples of a WAV file with 16 bits, mono, and a header of 44 bytes.
fn sound(name: &str) -> Vec<i16> {
    let bytes = fs::read(pipelines().join("assets").join(name)).unwrap();
    assert_eq!(&bytes[20..28], [1, 0, 1, 0, 0x80, 0x3e, 0, 0], "PCM, mono, 16 kHz");
    bytes[44..].as_chunks::<2>().0.iter().map(|&pair| i16::from_le_bytes(pair)).collect()
}

/// Line that keeps everything.
#[derive(Default)]
struct Kept(Vec<u8>);

impl Line for &mut Kept {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Bytes that a device sends while it hears `sound`, whose blocks follow `lost` samples each.
fn heard(sound: &[i16], lost: u32, battery: Battery) -> Vec<u8> {
    let file = fs::read(program()).unwrap();
    let mut program = AlignedBytes::try_zeroed(file.len()).unwrap();
    program.as_mut_slice().copy_from_slice(&file);
    let mut memory = Memory::new();
    // SAFETY: the program is as the exporter wrote it.
    #[expect(unsafe_code, reason = "the program is trusted")]
    let network = unsafe { FlashNetwork::load(program.as_slice(), &mut memory) };
    let mut kept = Kept::default();
    let mut device = Device::new(network.unwrap(), &mut kept);
    device.set_battery(battery);
    for block in sound.as_chunks::<BLOCK>().0 {
        device.hear(block, lost);
    }
    kept.0
}

/// Calls `on_message` for each message of a line without faults.
fn for_each(line: &[u8], mut on_message: impl FnMut(&Message<'_>)) {
    let mut decoder = Decoder::new();
    for &byte in line {
        if let Some(frame) = decoder.push(byte) {
            let frame = frame.unwrap();
            assert_eq!(frame.lost, 0);
            on_message(&frame.message);
        }
    }
}

/// Decisions of the listener on a host: end, label, score.
fn expected(sound: &[i16]) -> Vec<(u64, String, f32)> {
    let options = ModelOptions::new(afferent_kernels::KERNELS);
    let mut listener = Listener::new(HostNetwork::open(&program(), options).unwrap());
    let mut found = Vec::new();
    let on_step = |Step { end, detected, .. }: Step| {
        let name = |label: usize| Listener::LABELS[label].0.to_owned();
        found.extend(detected.map(|detected| (end, name(detected.label), detected.score)));
    };
    listener.push(sound, on_step).unwrap();
    found
}

/// Decisions on a line: end, label, score.
fn told(line: &[u8]) -> Vec<(u64, String, f32)> {
    let mut found = Vec::new();
    for_each(line, |message| {
        if let &Message::Keyword { at, score, label } = message {
            found.push((at, label.to_owned(), score));
        }
    });
    found
}

#[test]
fn decisions_are_those_of_the_host() {
    let sound = sound("wake_word.wav");
    let found = told(&heard(&sound, 0, Battery::UNKNOWN));
    println!("{found:?}");
    assert!(found.iter().any(|(_, label, _)| label == "hey afferent"), "{found:?}");
    assert_eq!(found, expected(&sound));
}

#[test]
fn sound_follows_the_wake_word_without_gaps() {
    let mut sound = sound("wake_word.wav");
    sound.resize(sound.len() + 16_000 * 9, 0);
    let (mut word_at, mut next, mut decoded, mut first) = (None, None, Vec::new(), 0);
    for_each(&heard(&sound, 0, Battery::UNKNOWN), |message| match *message {
        Message::Keyword { at, label: "hey afferent", .. } => {
            word_at.get_or_insert(at);
        }
        Message::Audio { at, mut start, data } => {
            assert!(word_at.is_some(), "sound at {at} before the wake word");
            if next.is_none() {
                first = at as usize;
            }
            assert!(next.is_none_or(|next| next == at), "{at}");
            next = Some(at + 2 * data.len() as u64);
            decoded.extend(data.iter().flat_map(|&byte| start.decode(byte)));
        }
        _ => {}
    });
    let word_at = word_at.unwrap() as usize;
    assert_eq!(first, word_at - 16 * BLOCK);
    let (mut signal, mut noise) = (0.0, 0.0);
    for (&sample, &decoded) in sound[first..].iter().zip(&decoded) {
        signal += f64::from(sample).powi(2);
        noise += f64::from(sample - decoded).powi(2);
    }
    let ratio = 10.0 * (signal / noise).log10();
    assert!(decoded.len() >= 8 * 16_000 && ratio > 15.0, "{} samples, {ratio} dB", decoded.len());
}

#[test]
fn heartbeats_have_the_battery_and_the_losses() {
    let mut found = Vec::new();
    let battery = Battery { millivolts: 3700, percent: 80 };
    for_each(&heard(&[0; 16_000 * 2 + 640], 3, battery), |message| {
        if let &Message::Heartbeat {
            at,
            lost_samples,
            failed_runs,
            battery_mv,
            battery_percent,
            ..
        } = message
        {
            found.push((at, lost_samples, failed_runs, battery_mv, battery_percent));
        }
    });
    assert_eq!(found, [0, 100, 200].map(|n| (n * 160, 3 * (n as u32 + 1), 0, 3700, 80)));
}

/// Sounds of the repository, and one of them at several levels with noise.
fn sounds() -> Vec<Vec<i16>> {
    let names = ["wake_word", "commands", "question", "other_speech", "glasses_questions"];
    let mut sounds: Vec<_> = names.iter().map(|name| sound(&format!("{name}.wav"))).collect();
    let mut random = 1_u32;
    for (gain, noise) in [(0.2, 10), (0.5, 30), (1.0, 100), (1.5, 200), (2.0, 400), (1.0, 800)] {
        let noisy = sounds[0].iter().map(|&sample| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = i64::from(random >> 16) * 2 * noise / 65_536 - noise;
            (f64::from(sample) * gain + noise as f64) as i16
        });
        sounds.push(noisy.collect());
    }
    sounds
}

fn write_wav(path: &Path, sound: &[i16]) {
    let bytes = 2 * u32::try_from(sound.len()).unwrap();
    let mut file = [b"RIFF", &(36 + bytes).to_le_bytes()[..], b"WAVEfmt ", &[16, 0, 0, 0]].concat();
    file.extend([1, 0, 1, 0, 0x80, 0x3e, 0, 0, 0, 0x7d, 0, 0, 2, 0, 16, 0]);
    file.extend([b"data", &bytes.to_le_bytes()[..]].concat());
    file.extend(sound.iter().flat_map(|sample| sample.to_le_bytes()));
    fs::write(path, file).unwrap();
}

/// Firmware by the variables that `.ci/firmware` sets.
#[test]
fn decisions_in_an_emulator_are_those_of_the_host() {
    for (machine, variable) in
        [("mps2-an386", "AFFERENT_FIRMWARE_M4"), ("mps3-an547", "AFFERENT_FIRMWARE_M55")]
    {
        let Some(firmware) = env::var_os(variable) else {
            println!("skipped: {machine}, because {variable} is not set (.ci/firmware)");
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let (wav, line) = (folder.path().join("sound.wav"), folder.path().join("line.bin"));
        let (mut decisions, mut seconds) = (0, 0);
        for sound in sounds() {
            write_wav(&wav, &sound);
            let semihosting = format!("enable=on,target=native,arg=listen,arg={}", wav.display());
            let status = Command::new("qemu-system-arm")
                .args(["-machine", machine, "-display", "none", "-monitor", "none", "-serial"])
                .arg(format!("file:{}", line.display()))
                .args(["-semihosting-config", &semihosting, "-kernel"])
                .arg(&firmware)
                .status();
            assert!(status.expect("qemu-system-arm runs").success(), "{machine}");
            let line = fs::read(&line).unwrap();
            assert_eq!(line, heard(&sound, 0, Battery::UNKNOWN), "{machine}: other bytes");
            let expected = expected(&sound);
            assert_eq!(told(&line), expected, "{machine}");
            decisions += expected.len();
            seconds += sound.len() / 16_000;
        }
        assert!(decisions >= 20, "{decisions} decisions");
        println!(
            "{machine}: {decisions} of {decisions} decisions in {seconds} s are those of the host"
        );
    }
}

#[test]
fn labels_and_thresholds_are_those_of_the_package() {
    let card = fs::read_to_string(program().with_file_name("model.yaml")).unwrap();
    let labels = Listener::LABELS.map(|(label, _)| format!("- {label}\n")).concat();
    assert!(card.contains(&format!("labels:\n{labels}decision:\n")), "{labels}");
    for (label, threshold) in &Listener::LABELS[1..] {
        assert!(card.contains(&format!("    {label}: {threshold}\n")), "{label}");
    }
    let ms = [Listener::SMOOTH, Listener::REFRACTORY].map(|time| time.as_millis());
    let [smooth, refractory] = ms;
    assert!(card.contains(&format!("  smooth_ms: {smooth}\n  refractory_ms: {refractory}\n")));
}
