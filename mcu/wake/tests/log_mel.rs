//! The features in fixed-point arithmetic against the package that the network was trained with.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::path::Path;

use afferent_core::TensorView;
use afferent_runtime::{Input, Model, ModelOptions};
use afferent_wake::{LogMel, Row};

/// Largest difference of a feature, in steps of the quantization. Rounding takes half a step.
const MAX_STEPS: f64 = 0.6;

/// Samples of a new and of the context of a run of the package, and its rows.
const NEW: usize = 640;
const CONTEXT: usize = 240;

fn fixed(sound: &[i16]) -> Vec<Row> {
    let mut rows = Vec::new();
    LogMel::new().push(sound, |row| rows.push(*row));
    rows
}

/// Rows of the package `log_mel`.
fn expected(sound: &[i16]) -> Vec<Vec<f32>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/models/log_mel");
    let options = ModelOptions::new(afferent_kernels::KERNELS);
    let mut model = Model::open(folder.join("log_mel_portable.pte"), options).unwrap();
    let mut padded = vec![0.0; CONTEXT];
    padded.extend(sound.iter().map(|&sample| f32::from(sample) / 32768.0));
    let mut rows = Vec::new();
    for start in (0..sound.len() / NEW).map(|run| run * NEW) {
        let window = &padded[start..start + CONTEXT + NEW];
        let input = TensorView::new(&[1, CONTEXT + NEW], window).unwrap();
        let outputs = model.run("forward", &[Input::Tensor(input)]).unwrap();
        let features = outputs.tensor(0).unwrap().data::<f32>().unwrap();
        rows.extend(features.chunks(LogMel::BANDS).map(<[f32]>::to_vec));
    }
    rows
}

/// Checks the features of `sound`, and that they do not depend on the length of the blocks.
fn check(name: &str, sound: &[i16]) {
    let rows = fixed(sound);
    let mut in_blocks = Vec::new();
    let mut features = LogMel::new();
    for block in sound.chunks(77) {
        features.push(block, |row| in_blocks.push(*row));
    }
    assert_eq!(rows, in_blocks, "{name}");
    let (mut largest, mut count) = (0.0_f64, 0);
    for (row, expected) in rows.iter().zip(expected(sound)) {
        for (&value, expected) in row.iter().zip(expected) {
            let expected = f64::from(expected) / LogMel::SCALE + f64::from(LogMel::ZERO_POINT);
            largest = largest.max((f64::from(value) - expected.clamp(-128.0, 127.0)).abs());
            count += 1;
        }
    }
    println!("{name}: largest difference {largest:.4} steps in {count} features");
    assert!(count >= 40 * 90, "{name}");
    assert!(largest <= MAX_STEPS, "{name}: {largest} steps");
}

/// One second of `level` times a wave, as 16-bit samples.
fn sound(level: f64, mut wave: impl FnMut(f64) -> f64) -> Vec<i16> {
    let sample = |at: u32| (level * wave(f64::from(at) / 16_000.0)).round() as i16;
    (0..16_000).map(sample).collect()
}

#[test]
fn features_are_those_of_the_package() {
    let mut random = 1_u64;
    let mut noise = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    for level in [0.0, 1.0, 3.0, 30.0, 300.0, 3_000.0, 32_767.0] {
        check(&format!("noise of {level}"), &sound(level, |_| noise()));
        for hz in [100.0, 440.0, 1000.0, 3300.0, 7000.0] {
            let tone = |at: f64| (std::f64::consts::TAU * hz * at).sin();
            check(&format!("{hz} Hz of {level}"), &sound(level, tone));
        }
        let sweep = |at: f64| (std::f64::consts::TAU * 3900.0 * at * at).sin();
        check(&format!("sweep of {level}"), &sound(level, sweep));
    }
    let square = |at: f64| if (at * 200.0).fract() < 0.5 { 1.0 } else { -1.0 };
    check("square wave", &sound(32_767.0, square));
    check("constant", &sound(-32_768.0, |_| 1.0));
}
