//! Programs compiled for Vulkan: `data/vulkan` and `data/vulkan_suite`.
//!
//! Without a device the test prints `skipped: no Vulkan device` and passes.

mod coverage;
mod device_tensors;
mod profile;
mod suite;

use std::{
    env, fs,
    sync::OnceLock,
    time::{Duration, Instant},
};

use afferent_backend_vulkan::Vulkan;
use afferent_core::{Backend, Tensor};
use afferent_gpu::{Gpu, GpuOptions};
use afferent_runtime::{Input, Model, ModelFile, ModelOptions, program::Value};

use crate::{
    data,
    program::{Program, Verdict},
};

/// Backend on the device that all programs of the tests share.
pub(crate) fn backend() -> impl Backend {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    Vulkan::new(GPU.get_or_init(|| Gpu::new(GpuOptions::from_env())).clone())
}

/// True if there is a device; prints that the test is skipped if there is none.
#[expect(clippy::print_stdout, reason = "tests tell what they skip")]
fn backend_is_available() -> bool {
    let is_available = backend().is_available();
    if !is_available {
        println!("skipped: no Vulkan device");
    }
    is_available
}

/// Runs all programs, or those whose names contain `VULKAN_PROGRAM`.
#[test]
fn programs_match_pytorch() {
    if !backend_is_available() {
        return;
    }
    let wanted = env::var("VULKAN_PROGRAM").unwrap_or_default();
    let folders = fs::read_dir(data().join("vulkan")).expect("the folder exists");
    let mut folders: Vec<_> = folders.map(|entry| entry.expect("readable").path()).collect();
    folders.retain(|folder| folder.to_string_lossy().contains(&wanted));
    folders.sort();
    let mut failed = vec![];
    for folder in folders {
        let json = fs::read_to_string(folder.join("cases.json")).expect("cases");
        let program: Program = serde_json::from_str(&json).expect("valid JSON");
        let Verdict::Ran(cases, failures) = program.check(&folder, afferent_kernels::KERNELS)
        else {
            panic!("{}: kernels are missing", program.program);
        };
        println!("{}: {cases} cases, {} failures", program.program, failures.len());
        failed.extend(failures.iter().map(|failure| format!("{}: {failure}", program.program)));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// 450 programs with flipped bits or cut ends give a delegate or an error, and those that load run or
/// give an error. The device still works afterwards.
#[test]
fn damaged_programs_neither_panic_nor_hang() {
    if !backend_is_available() {
        return;
    }
    let folders = fs::read_dir(data().join("vulkan")).expect("the folder exists");
    let mut files: Vec<_> =
        folders.map(|entry| entry.expect("readable").path().join("model.pte")).collect();
    files.sort();
    let programs: Vec<_> = files.iter().map(|file| fs::read(file).expect("a program")).collect();
    let mut random = fastrand::Rng::with_seed(11);
    let (mut loaded, mut ran, mut longest) = (0, 0, Duration::ZERO);
    for number in 0..450 {
        let mut bytes = programs[number % programs.len()].clone();
        if number % 5 == 0 {
            bytes.truncate(random.usize(..bytes.len()));
        } else {
            // The blob of the delegate starts at its header.
            let start = bytes.windows(4).position(|window| window == b"VH00").unwrap_or(0);
            let end = bytes.len().min(start + 24_000);
            for _ in 0..=random.usize(..4) {
                bytes[random.usize(start..end)] ^= 1 << random.u8(..8);
            }
        }
        let Ok(file) = ModelFile::from_bytes("damaged", &bytes) else { continue };
        let options = ModelOptions::new(afferent_kernels::KERNELS).with_backend(backend());
        let options = ModelOptions { memory_limit: 1 << 26, ..options };
        let mut model = Model::new(file, options);
        if model.load_method("forward").is_err() {
            continue;
        }
        loaded += 1;
        let inputs = zeros(&model);
        let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
        let start = Instant::now();
        ran += usize::from(model.run("forward", &inputs).is_ok());
        longest = longest.max(start.elapsed());
    }
    println!("{loaded} of 450 damaged programs loaded, {ran} ran, the longest for {longest:?}");
    assert!(ran > 50, "too few programs were damaged lightly");
    device_tensors::still_works(backend());
}

/// Inputs of `forward`: zeros of the planned sizes.
fn zeros(model: &Model) -> Vec<Tensor> {
    let plan = model.file().method("forward").expect("a loaded method");
    let zeros = |id: u32| match plan.value(id as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
            Tensor::try_zeros(meta.layout.dtype, &sizes).ok()
        }
        _ => None,
    };
    // An input that is no tensor, or too large, is refused by the run.
    plan.inputs()
        .iter()
        .map(|id| zeros(id).unwrap_or_else(|| Tensor::from_slice(&[0_u8])))
        .collect()
}
