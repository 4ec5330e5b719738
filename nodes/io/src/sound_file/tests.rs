//! Formats, truncated files, and hostile headers.

use hound::{SampleFormat, WavSpec, WavWriter};

use super::*;
use crate::testing::TempFolder;

fn spec(bits_per_sample: u16, sample_format: SampleFormat) -> WavSpec {
    WavSpec { channels: 1, sample_rate: 8000, bits_per_sample, sample_format }
}

fn write<S: hound::Sample + Copy>(path: &Path, spec: WavSpec, samples: &[S]) {
    let mut writer = WavWriter::create(path, spec).unwrap();
    samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
    writer.finalize().unwrap();
}

#[test]
fn every_sample_format_has_the_same_scale() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    let check = || {
        let mut file = SoundFile::open(&path, None).unwrap();
        file.read(8).unwrap();
        assert_eq!(file.samples(), [-1.0, 0.0, 0.5]);
        assert_eq!(file.remaining(), 0);
    };
    for bits in [8, 16, 24, 32] {
        let half = 1 << (bits - 2);
        write(&path, spec(bits, SampleFormat::Int), &[(-2_i64 * half) as i32, 0, half as i32]);
        check();
    }
    write(&path, spec(32, SampleFormat::Float), &[-1.0_f32, 0.0, 0.5]);
    check();
}

#[test]
fn other_chunks_are_skipped_and_streamed_files_are_read_to_their_end() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    write(&path, spec(16, SampleFormat::Int), &[0_i16, 8192, -16384]);
    let sound = std::fs::read(&path).unwrap();
    let check = |(riff, data): (u32, u32), before: &[u8], after: &[u8], len: usize| {
        let mut bytes = [&sound[..36], before, &sound[36..], after].concat();
        bytes[4..8].copy_from_slice(&riff.to_le_bytes());
        let at = 40 + before.len();
        bytes[at..at + 4].copy_from_slice(&data.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let mut file = SoundFile::open(&path, None).unwrap();
        assert_eq!(file.remaining(), len, "{riff}, {data}");
        file.read(8).unwrap();
        assert_eq!(file.samples(), &[0.0, 0.25, -0.5, 0.125][..len], "{riff}, {data}");
        file.is_streamed()
    };
    let odd = [b"LIST\x1b\0\0\0".as_slice(), &[1; 27], &[0]].concat();
    assert!(!check((78, 6), &odd, &[], 3), "a chunk of odd length has a padding byte");
    assert!(!check((78, 6), &[], &odd, 3));
    assert!(!check((42, 0), &[], &[], 0), "an empty data chunk is valid if another chunk follows");
    // The sizes that ffmpeg and sox write to a pipe, and those of an aborted recording.
    let whole = 4096_i16.to_le_bytes();
    for lengths in [(u32::MAX, u32::MAX), (0x7fff_f024, 0x7fff_f000), (0, 0), (36, 0)] {
        assert!(check(lengths, &odd, &[], 3));
        assert!(
            check(lengths, &[], &[whole.as_slice(), &[9]].concat(), 4),
            "a partial sample is ignored"
        );
    }
}

#[test]
fn samples_that_are_not_finite_are_rejected() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    write(&path, spec(32, SampleFormat::Float), &[0.5, f32::NAN, 0.5]);
    let mut file = SoundFile::open(&path, None).unwrap();
    let error = file.read(3).unwrap_err().to_string();
    assert!(error.ends_with("sample 1 of 3 (0.000 s): not a finite number"), "{error}");
    assert_eq!(file.samples(), [0.5]);
}

#[test]
fn invalid_files_are_rejected() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    let check = |bytes: &[u8], expected: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = SoundFile::open(&path, None).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(b"", "the file is empty");
    check(b"not a sound file", "not a sound file of a known format");
    check(b"RIFF\0\0\0\0WAVEfmt ", "truncated within its WAV header");
    write(&path, spec(16, SampleFormat::Int), &[1_i16]);
    let mut bytes = std::fs::read(&path).unwrap();
    let error = SoundFile::open(&folder.path("none.wav"), None).err().unwrap().to_string();
    assert!(error.contains("none.wav: No such file"), "{error}");
    bytes[20] = 0x31;
    let expected = "a WAV file with GSM 6.10 (format tag 0x0031); convert it: ffmpeg -i INPUT";
    check(&bytes, expected);
    check(b"\0\0\0\x20ftypM4A ", "an MP4 or M4A file; convert it: ffmpeg");
}

#[test]
fn hostile_headers_neither_panic_nor_allocate() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    for sample_format in [SampleFormat::Int, SampleFormat::Float] {
        if sample_format == SampleFormat::Int {
            write(&path, spec(32, sample_format), &[1_i32; 4]);
        } else {
            write(&path, spec(32, sample_format), &[0.5_f32; 4]);
        }
        let sound = std::fs::read(&path).unwrap();
        let bytes = (0..sound.len()).flat_map(|at| [0, 1, 0x7f, 0xff].map(|byte| (at, byte)));
        for (at, byte) in bytes {
            let mut sound = sound.clone();
            sound[at] = byte;
            std::fs::write(&path, &sound).unwrap();
            let Ok(mut file) = SoundFile::open(&path, None) else { continue };
            while file.remaining() > 0 && file.read(usize::from(u16::MAX)).is_ok() {}
            assert!(file.interleaved.capacity() <= 64, "byte {at} = {byte}");
        }
    }
}

/// A WAV file with this `fmt ` chunk.
fn wav(format: &[u8], data: &[u8]) -> Vec<u8> {
    let size = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
    let body = [b"WAVEfmt ", &size(format)[..], format, b"data", &size(data), data].concat();
    [b"RIFF", &size(&body)[..], &body].concat()
}

/// A `fmt ` chunk for one channel at 8 kHz.
fn format(tag: u16, align: u16, bits: u16, extension: &[u8]) -> Vec<u8> {
    let head = [tag, 1, 8000, 0].map(u16::to_le_bytes).concat();
    let rate = (8000 * u32::from(align)).to_le_bytes();
    let rest = [align, bits].map(u16::to_le_bytes).concat();
    [&head[..], &rate, &rest, extension].concat()
}

/// Extension of a format with `valid` bits.
fn extension(valid: u16, tag: u16) -> Vec<u8> {
    let guid = b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71";
    let head = [22, valid, 4, 0, tag].map(u16::to_le_bytes).concat();
    [&head[..], guid].concat()
}

#[test]
fn wav_files_of_every_encoding_are_read() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    let check = |format: &[u8], data: &[u8], expected: &[f32]| {
        std::fs::write(&path, wav(format, data)).unwrap();
        let mut file = SoundFile::open(&path, None).unwrap();
        file.read(100).unwrap();
        assert_eq!(file.samples(), expected, "{format:?}");
    };
    // 24 valid bits in four bytes are left-justified.
    let left_justified = [0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0x01, 0, 0xc0];
    let expected = [0.0, 0.5, (-1_073_741_824.0 + 256.0) / 2_147_483_648.0];
    check(&format(0xfffe, 4, 32, &extension(24, 1)), &left_justified, &expected);
    check(&format(1, 2, 12, &[]), &[0, 0x40, 0, 0xc0], &[0.5, -0.5]);
    check(&format(0xfffe, 4, 32, &extension(32, 3)), &0.25_f32.to_le_bytes(), &[0.25]);
    check(&format(3, 8, 64, &[]), &0.25_f64.to_le_bytes(), &[0.25]);
    check(&format(7, 1, 8, &[0, 0]), &[0x80, 0xff], &[32_124.0 / 32_768.0, 0.0]);
    check(&format(6, 1, 8, &[]), &[0xaa, 0xd5], &[32_256.0 / 32_768.0, 8.0 / 32_768.0]);
    std::fs::write(&path, wav(&format(1, 4, 24, &[]), &[0; 8])).unwrap();
    let error = SoundFile::open(&path, None).err().unwrap().to_string();
    assert!(error.contains("4 bytes for a sample of 1 channels, but 24 bits"), "{error}");
}

#[test]
fn rf64_files_state_their_length_in_64_bits() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    let sizes = [100_u64, 4, 2].map(u64::to_le_bytes).concat();
    let head = [b"RF64\xff\xff\xff\xffWAVEds64\x1c\0\0\0", &sizes[..], &[0; 4]].concat();
    let format = [b"fmt \x10\0\0\0", &format(1, 2, 16, &[])[..]].concat();
    let data = b"data\xff\xff\xff\xff\0\x40\0\xc0extra chunk";
    std::fs::write(&path, [&head[..], &format, data].concat()).unwrap();
    let mut file = SoundFile::open(&path, None).unwrap();
    assert_eq!((file.remaining(), file.is_streamed()), (2, false));
    file.read(100).unwrap();
    assert_eq!(file.samples(), [0.5, -0.5]);
}

#[test]
fn compressed_files_are_decoded() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sound_file/data");
    // An encoder may pad the end of the file.
    for (name, tolerance, most) in [
        ("sine.aiff", 1e-4, 800),
        ("sine.flac", 1e-4, 800),
        ("sine.mp3", 0.05, 800 + 1152),
        ("sine.ogg", 0.05, 800),
        ("sine_ima.wav", 0.05, 1100),
        ("sine_ms.wav", 0.05, 1100),
    ] {
        let mut file = SoundFile::open(&data.join(name), None).unwrap();
        assert_eq!((file.rate(), file.channels()), (SampleRate(8000), 2), "{name}");
        let mut samples = Vec::new();
        while file.remaining() > 0 {
            file.read(100).unwrap();
            samples.extend_from_slice(file.samples());
        }
        assert!((1600..=2 * most).contains(&samples.len()), "{name}: {}", samples.len());
        // The first samples of a lossy codec fade in.
        for (at, pair) in samples.chunks(2).enumerate().take(700).skip(100) {
            let sine = 0.5 * (at as f32 / 8000.0 * 440.0 * std::f32::consts::TAU).sin();
            let errors = [pair[0] - sine, pair[1] - sine / 2.0].map(f32::abs);
            assert!(
                errors.iter().all(|error| *error < tolerance),
                "{name}, {at}: {pair:?}, {sine}"
            );
        }
    }
    let error = SoundFile::open(&data.join("sine.opus"), None).err().unwrap().to_string();
    assert!(error.contains("an Ogg Opus file; convert it: ffmpeg -i INPUT"), "{error}");
}
