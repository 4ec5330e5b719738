//! The node `diarize` with programs in the form of ExecuTorch's Sortformer, against the loop of the reference
//! runner in PyTorch; see `tools/stand_ins`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::PathBuf, time::Duration};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, SpeakerTurn, SpeakerTurns};
use afferent_nodes_speech::{Diarize, DiarizeParams};
use afferent_runtime::ModelOptions;
use serde_json::Value;

const RATE: SampleRate = SampleRate(16_000);
/// Samples of a row.
const ROW: usize = 1280;
const TONES_HZ: [f64; 4] = [400.0, 1200.0, 2600.0, 5600.0];

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sortformer")).join(name)
}

fn cases() -> Vec<Value> {
    serde_json::from_str(&fs::read_to_string(data("cases.json")).unwrap()).unwrap()
}

fn open(program: &str, more: &[(&str, ParamValue)]) -> Result<NodeBench<Diarize>, String> {
    let mut values: ParamValues =
        [("model".to_owned(), ParamValue::Path(data(&format!("{program}.pte"))))].into();
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let models = ModelOptions::new(afferent_kernels::KERNELS);
    let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
    let opened = Diarize::open(DiarizeParams::from_values(&values).unwrap(), &cx);
    opened.map(NodeBench::new).map_err(|error| error.to_string())
}

fn open_case(program: &str, case: &Value) -> NodeBench<Diarize> {
    let length = |name: &str| {
        let rows = u32::try_from(case[name].as_u64().unwrap()).unwrap();
        ParamValue::Duration(Duration::from_millis(80) * rows)
    };
    open(program, &[("chunk", length("chunk")), ("queue", length("queue"))]).unwrap()
}

/// Audio of ([[voice, level], ...], milliseconds), as the script makes it.
fn sound(case: &Value) -> Vec<f32> {
    let mut samples = Vec::new();
    for part in case["sound"].as_array().unwrap() {
        let len = usize::try_from(part[1].as_u64().unwrap()).unwrap() * 16;
        let voices: Vec<(f64, f64)> = part[0]
            .as_array()
            .unwrap()
            .iter()
            .map(|voice| {
                let tone = usize::try_from(voice[0].as_u64().unwrap()).unwrap();
                (TONES_HZ[tone], voice[1].as_f64().unwrap())
            })
            .collect();
        samples.extend((0..len).map(|n| {
            let fade = (n.min(len - 1 - n) as f64 / 320.0).min(1.0);
            let phase = std::f64::consts::TAU * n as f64 / 16_000.0;
            let tones = voices.iter().map(|(hz, level)| level * (phase * hz).sin());
            (tones.sum::<f64>() * fade) as f32
        }));
    }
    samples
}

fn block(samples: &[f32]) -> AudioBlock {
    let mut block = AudioBlock::default();
    block.reshape(RATE, 1, samples.len()).unwrap().copy_from_slice(samples);
    block
}

/// Packets of turns for `samples` from `at` on, in blocks of 1000 samples.
fn run(
    bench: &mut NodeBench<Diarize>,
    samples: &[f32],
    at: Timestamp,
) -> Vec<(Timestamp, SpeakerTurns)> {
    let mut found = Vec::new();
    for (number, part) in samples.chunks(1000).enumerate() {
        let part_at = at + RATE.duration(1000 * number);
        let sent = bench.call(Diarize::AUDIO, part_at, block(part)).unwrap();
        found.extend(sent.into_iter().map(|(_, packet)| packet));
    }
    let turns = |packet: afferent_graph::Packet| {
        (packet.header.at, packet.get::<SpeakerTurns>().unwrap().clone())
    };
    found.into_iter().map(turns).collect()
}

fn finish(bench: &mut NodeBench<Diarize>, at: Timestamp) -> Vec<(Timestamp, SpeakerTurns)> {
    let sent = bench.finish(at).unwrap();
    let turns = |packet: &afferent_graph::Packet| packet.get::<SpeakerTurns>().unwrap().clone();
    sent.iter().map(|(_, packet)| (packet.header.at, turns(packet))).collect()
}

/// Turns that have ended, by their start.
fn ended(packets: &[(Timestamp, SpeakerTurns)]) -> Vec<SpeakerTurn> {
    let all = packets.iter().flat_map(|(_, packet)| &packet.turns);
    let mut turns: Vec<SpeakerTurn> = all.filter(|turn| turn.has_ended).copied().collect();
    turns.sort_by_key(|turn| (turn.start, turn.speaker));
    turns
}

fn expected(case: &Value, start: Timestamp, len: usize) -> Vec<SpeakerTurn> {
    let turn = |turn: &Value| {
        let number = |index: usize| usize::try_from(turn[index].as_u64().unwrap()).unwrap();
        // The last row may be longer than the audio.
        let at = |row: usize| start + RATE.duration((row * ROW).min(len));
        SpeakerTurn {
            speaker: u32::try_from(number(0)).unwrap(),
            start: at(number(1)),
            end: at(number(2)),
            has_ended: true,
        }
    };
    case["turns"].as_array().unwrap().iter().map(turn).collect()
}

#[test]
fn turns_are_those_of_the_reference_loop() {
    let start = Timestamp(5_000_000_000);
    let mut count = 0;
    for program in ["sortformer", "no_preprocessor"] {
        for case in cases() {
            let mut bench = open_case(program, &case);
            let samples = sound(&case);
            let mut packets = run(&mut bench, &samples, start);
            let end = start + RATE.duration(samples.len());
            packets.extend(finish(&mut bench, end));
            let found = ended(&packets);
            assert_eq!(
                found,
                expected(&case, start, samples.len()),
                "{program}: {}",
                case["sound"]
            );
            assert_eq!(packets.last().unwrap().0, end, "{program}");
            count += found.len();
            check_continuity(&packets);
        }
    }
    assert!(count > 50, "{count} turns");
}

/// Checks that each turn that goes on is in the next packet, and that packets follow each other.
fn check_continuity(packets: &[(Timestamp, SpeakerTurns)]) {
    for pair in packets.windows(2) {
        let [(at, turns), (next_at, next)] = pair else { continue };
        assert!(at <= next_at);
        for turn in turns.turns.iter().filter(|turn| !turn.has_ended) {
            assert_eq!(turn.end, *at);
            let same = |one: &&SpeakerTurn| (one.speaker, one.start) == (turn.speaker, turn.start);
            assert!(next.turns.iter().find(same).is_some_and(|one| one.end >= *at), "{turn:?}");
        }
    }
}

#[test]
fn a_gap_ends_the_turns_and_speakers_keep_their_numbers() {
    let mut bench = open("sortformer", &[]).unwrap();
    let voice = |tone: u32, ms: u32| sound(&serde_json::json!({ "sound": [[[[tone, 0.3]], ms]] }));
    let (first, second) = ([voice(2, 2000), voice(1, 1000)].concat(), voice(1, 2000));
    let mut packets = run(&mut bench, &first, Timestamp::ZERO);
    assert!(packets.is_empty(), "less than a chunk");
    let later = Timestamp(60_000_000_000);
    packets.extend(run(&mut bench, &second, later));
    packets.extend(finish(&mut bench, later + RATE.duration(second.len())));
    let speakers: Vec<u32> = ended(&packets).iter().map(|turn| turn.speaker).collect();
    assert_eq!(speakers, [0, 1, 1], "{packets:?}");
    assert_eq!(ended(&packets)[2].start, later);
}

#[test]
fn an_interrupt_drops_audio_and_short_audio_is_no_error() {
    let mut bench = open("sortformer", &[]).unwrap();
    run(&mut bench, &[0.1; 4000], Timestamp::ZERO);
    bench.cancel(Timestamp(1)).unwrap();
    assert!(finish(&mut bench, Timestamp(1)).is_empty());
    for len in [1, 159, 160, 1281] {
        let mut bench = open("no_preprocessor", &[]).unwrap();
        let samples = vec![0.0; len];
        run(&mut bench, &samples, Timestamp::ZERO);
        let sent = finish(&mut bench, Timestamp::ZERO + RATE.duration(len));
        assert_eq!(sent.len(), 1, "{len} samples");
        // Features that are filled up with zeros sound loud to the stand-in.
        let end = Timestamp::ZERO + RATE.duration(len);
        assert!(sent[0].1.turns.iter().all(|turn| turn.has_ended && turn.end <= end));
    }
}

#[test]
fn chunks_that_the_model_cannot_take_are_errors() {
    let check = |name: &str, seconds: u64, expected: &str| {
        let value = ParamValue::Duration(Duration::from_secs(seconds));
        let error = open("sortformer", &[(name, value)]).err().unwrap();
        assert_eq!(error, expected);
    };
    check("chunk", 50, "parameter chunk: must be at most 39.92s with this model");
    check("queue", 60, "parameter queue: must be at most 55.04s with this model");
}
