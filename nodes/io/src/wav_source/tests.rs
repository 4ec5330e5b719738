//! Blocks, pace, repetition, and pipes.

use std::path::Path;

use afferent_graph::{NodeBench, Packet, Resume};
use hound::{SampleFormat, WavSpec, WavWriter};

use super::*;
use crate::testing::TempFolder;

fn write(path: &Path, channels: u16, samples: impl IntoIterator<Item = i16>) {
    let (bits_per_sample, sample_format) = (16, SampleFormat::Int);
    let spec = WavSpec { channels, sample_rate: 8000, bits_per_sample, sample_format };
    let mut writer = WavWriter::create(path, spec).unwrap();
    samples.into_iter().for_each(|sample| writer.write_sample(sample).unwrap());
    writer.finalize().unwrap();
}

fn params(path: &Path, pace: Pace) -> WavSourceParams {
    WavSourceParams {
        path: path.to_owned(),
        pace,
        block: Duration::from_millis(10),
        mix: Mix::Keep,
        format: None,
        rate: None,
        channels: None,
        start: Duration::ZERO,
        repeat: false,
    }
}

fn open(params: WavSourceParams) -> NodeBench<WavSource> {
    NodeBench::new(WavSource::open(params, &OpenCx::default()).unwrap())
}

#[test]
fn a_file_begins_at_its_start() {
    let folder = TempFolder::new();
    let path = folder.path("late.wav");
    write(&path, 1, (0..80).map(|n| n * 8));
    let start = Duration::from_secs(3);
    let mut bench = open(WavSourceParams { start, ..params(&path, Pace::Realtime) });
    let at = Timestamp(3_010_000_000);
    assert_eq!(bench.poll(Timestamp::ZERO).unwrap().1, Resume::At(at));
    assert_eq!(bench.poll(at).unwrap().0[0].1.header.at, Timestamp(3_000_000_000));
}

fn block(packet: &Packet) -> &AudioBlock {
    packet.get().unwrap()
}

#[test]
fn blocks_are_planar_and_the_last_is_short() {
    let folder = TempFolder::new();
    let path = folder.path("stereo.wav");
    write(&path, 2, (0..200).map(|n| if n % 2 == 0 { n * 8 } else { -n * 8 }));
    let mut bench = open(params(&path, Pace::Max));
    let mut blocks = Vec::new();
    loop {
        let (sent, resume) = bench.poll(Timestamp::ZERO).unwrap();
        blocks.extend(sent.into_iter().map(|(_, packet)| packet));
        match resume {
            Resume::Done => break,
            other => assert_eq!(other, Resume::Now),
        }
    }
    let about = blocks.iter().map(|packet| (packet.header.at.0, block(packet).len()));
    assert_eq!(about.collect::<Vec<_>>(), [(0, 80), (10_000_000, 20)]);
    let last = block(&blocks[1]);
    assert_eq!(last.channel(0).unwrap()[..2], [160.0 / 4096.0, 162.0 / 4096.0]);
    assert_eq!(last.channel(1).unwrap()[..2], [-161.0 / 4096.0, -163.0 / 4096.0]);
}

#[test]
fn channels_are_averaged() {
    let folder = TempFolder::new();
    let path = folder.path("stereo.wav");
    write(&path, 2, [16384, 0, -8192, -8192]);
    let params = WavSourceParams { mix: Mix::Mono, ..params(&path, Pace::Max) };
    let (sent, _) = open(params).poll(Timestamp::ZERO).unwrap();
    assert_eq!(block(&sent[0].1).samples.sizes(), [1, 2]);
    assert_eq!(block(&sent[0].1).channel(0).unwrap(), [0.25, -0.25]);
}

#[test]
fn realtime_sends_a_block_after_its_last_sample() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    write(&path, 1, 0..100);
    let mut bench = open(params(&path, Pace::Realtime));
    let ms = |ms: i64| Timestamp(ms * 1_000_000);
    let mut poll = |now| {
        let (sent, resume) = bench.poll(now).unwrap();
        (sent.first().map(|(_, packet)| packet.header.at), resume)
    };
    assert_eq!(poll(ms(0)), (None, Resume::At(ms(10))));
    assert_eq!(poll(ms(10)), (Some(ms(0)), Resume::At(Timestamp(12_500_000))));
    // After a slow downstream node, timestamps do not drift.
    assert_eq!(poll(ms(50)).0, Some(ms(10)));
    assert_eq!(poll(ms(50)), (None, Resume::Done));
}

#[test]
fn timestamps_keep_increasing_when_the_file_repeats() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    write(&path, 1, 0..100);
    let mut bench = open(WavSourceParams { repeat: true, ..params(&path, Pace::Max) });
    let times = (0..5).map(|_| bench.poll(Timestamp::ZERO).unwrap().0[0].1.header.at.0);
    let expected = [0.0, 10.0, 12.5, 22.5, 25.0].map(|ms: f64| (ms * 1e6) as i64);
    assert_eq!(times.collect::<Vec<_>>(), expected);
    write(&path, 1, []);
    let mut bench = open(WavSourceParams { repeat: true, ..params(&path, Pace::Max) });
    assert_eq!(bench.poll(Timestamp::ZERO).unwrap().1, Resume::Done);
}

#[test]
fn samples_of_a_truncated_file_are_sent() {
    let folder = TempFolder::new();
    let path = folder.path("sound.wav");
    write(&path, 1, 0..100);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 41]).unwrap();
    let mut bench = open(params(&path, Pace::Max));
    let (sent, _) = bench.poll(Timestamp::ZERO).unwrap();
    assert_eq!(block(&sent[0].1).len(), 79);
    let error = bench.poll(Timestamp::ZERO).unwrap_err().to_string();
    let expected =
        "sample 79 of 100 (0.010 s): the file is truncated; its header states more samples";
    assert_eq!(error, format!("{}: {expected}", path.display()));
}

/// Samples of a pipe or a file, at the pace `max`, with the timestamp of the first.
fn read_all(params: WavSourceParams) -> Result<(i64, Vec<f32>), NodeError> {
    let mut bench = NodeBench::new(WavSource::open(params, &OpenCx::default())?);
    let (mut at, mut samples) = (None, Vec::new());
    loop {
        let (sent, resume) = bench.poll(Timestamp(500_000_000))?;
        for (_, packet) in &sent {
            at.get_or_insert(packet.header.at.0);
            samples.extend_from_slice(block(packet).channel(0).unwrap());
        }
        if resume == Resume::Done {
            return Ok((at.unwrap_or(-1), samples));
        }
    }
}

#[test]
fn samples_without_a_header_have_the_stated_format() {
    let folder = TempFolder::new();
    let path = folder.path("sound.raw");
    std::fs::write(&path, [0_i16, 16384, -8192, -8192, 7].map(i16::to_le_bytes).concat()).unwrap();
    let raw = WavSourceParams {
        format: Some(Encoding::S16),
        rate: Some(8000),
        channels: Some(2),
        mix: Mix::Mono,
        ..params(&path, Pace::Max)
    };
    assert_eq!(read_all(raw.clone()).unwrap(), (0, vec![0.25, -0.25]));
    let error = |params| read_all(params).unwrap_err().to_string();
    let without_rate = WavSourceParams { rate: None, ..raw.clone() };
    assert_eq!(error(without_rate), "parameter rate: is required with `format`");
    let without_format = WavSourceParams { format: None, ..raw.clone() };
    let expected = "parameter rate: is for samples without a header; set `format` too, such as \
                    format: s16le";
    assert_eq!(error(without_format), expected);
    let auto = error(params(&path, Pace::Max));
    assert!(auto.ends_with("set `format`, `rate`, and `channels`"), "{auto}");
}

#[cfg(unix)]
#[test]
fn a_named_pipe_is_read_to_its_end() {
    let folder = TempFolder::new();
    let (pipe, file) = (folder.path("pipe"), folder.path("sound.wav"));
    write(&file, 1, 0..100);
    let expected = read_all(params(&file, Pace::Max)).unwrap().1;
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let source = params(&pipe, Pace::Max);
    WavSource::check(&source, &OpenCx::default()).unwrap();
    let repeat = WavSourceParams { repeat: true, ..source.clone() };
    let error = WavSource::check(&repeat, &OpenCx::default()).unwrap_err().to_string();
    assert_eq!(error, "parameter repeat: a pipe cannot be read again");
    let bytes = std::fs::read(&file).unwrap();
    let target = pipe.clone();
    let writer = std::thread::spawn(move || std::fs::write(target, bytes).unwrap());
    // The first block, of 10 ms, has just ended.
    assert_eq!(read_all(source).unwrap(), (490_000_000, expected));
    writer.join().unwrap();
}
