//! Networks compiled for Vulkan: `data/vulkan`.
//!
//! Without a device the test prints `skipped: no Vulkan device` and passes.

mod device_tensors;

use std::{env, fs, sync::OnceLock};

use afferent_backend_vulkan::Vulkan;
use afferent_core::Backend;
use afferent_gpu::{Gpu, GpuOptions};
use afferent_runtime::{Model, ModelFile, ModelOptions};

use crate::{
    data,
    program::{Program, Verdict},
};

/// Backend on the device that all programs of the tests share.
pub(crate) fn backend() -> impl Backend {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    Vulkan::new(GPU.get_or_init(|| Gpu::new(GpuOptions::from_env())).clone())
}

/// Runs all programs, or those whose names contain `VULKAN_PROGRAM`.
#[test]
fn programs_match_pytorch() {
    if !backend().is_available() {
        println!("skipped: no Vulkan device");
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

/// 450 programs with flipped bits or cut ends give a delegate or an error.
#[test]
fn damaged_programs_do_not_panic() {
    if !backend().is_available() {
        println!("skipped: no Vulkan device");
        return;
    }
    let folders = fs::read_dir(data().join("vulkan")).expect("the folder exists");
    let mut files: Vec<_> =
        folders.map(|entry| entry.expect("readable").path().join("model.pte")).collect();
    files.sort();
    let programs: Vec<_> = files.iter().map(|file| fs::read(file).expect("a program")).collect();
    let mut random = fastrand::Rng::with_seed(11);
    let mut loaded = 0;
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
        loaded += usize::from(Model::new(file, options).load_method("forward").is_ok());
    }
    assert!(loaded > 0, "no program was damaged lightly");
}
