//! Damaged programs: an error or a result, but no crash, no hang and no large allocation.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    alloc::System,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::Instant,
};

use afferent_core::{Dynamism, ScalarType, Tensor};
use afferent_runtime::{
    Input, Model, ModelFile, ModelOptions,
    program::{Program, Value},
};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes that may be allocated for a file: a multiple of its size, its planned memory included,
/// and what small files need for tables and first scratch memory. A model is told half of it as
/// its limit.
fn allowance(file: usize) -> usize {
    64 * file + (1 << 20)
}

/// Repeatable random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn programs() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/programs");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("model.pte"))
        .filter(|path| path.exists())
        .collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// What became of a damaged program.
#[derive(Default)]
struct Tally {
    refused: usize,
    failed: usize,
    ran: usize,
    outputs: usize,
}

/// Loads every method of `bytes` and runs it on inputs of the shapes that it names.
fn try_program(path: &PathBuf, bytes: &[u8], tally: &mut Tally) {
    let Ok(file) = ModelFile::from_bytes(path, bytes) else {
        tally.refused += 1;
        return;
    };
    let options = ModelOptions {
        memory_limit: allowance(bytes.len()) / 2,
        instruction_limit: 10_000,
        ..ModelOptions::new(afferent_kernels::KERNELS)
    };
    let names: Vec<String> = file.program().method_names().map(str::to_owned).collect();
    let mut model = Model::new(file.clone(), options);
    for name in names.iter().take(8) {
        if model.load_method(name).is_err() {
            tally.refused += 1;
            continue;
        }
        let inputs = inputs(file.program(), name, allowance(bytes.len()));
        let inputs: Vec<Input<'_>> = inputs
            .iter()
            .map(|input| match input {
                Some(tensor) => Input::Tensor(tensor.view()),
                None => Input::None,
            })
            .collect();
        match model.run(name, &inputs) {
            Ok(outputs) => {
                (0..outputs.len())
                    .for_each(|at| tally.outputs += usize::from(outputs.get(at).is_ok()));
                tally.ran += 1;
            }
            Err(_) => tally.failed += 1,
        }
    }
}

/// Zeros of the shapes that the method names; `None` where it takes no tensor, or a huge one.
fn inputs(program: &Program<'_>, method: &str, limit: usize) -> Vec<Option<Tensor>> {
    let plan = program.method(method).unwrap();
    let input = |id: u32| match plan.value(id as usize) {
        Value::Tensor(meta) if meta.layout.nbytes <= limit => {
            let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
            let unbounded = meta.dynamism == Dynamism::Unbounded;
            let dtype = if unbounded { ScalarType::Float } else { meta.layout.dtype };
            let bytes = vec![0; sizes.iter().product::<usize>() * dtype.size()];
            Tensor::from_bytes(dtype, &sizes, meta.layout.dim_order, &bytes).ok()
        }
        _ => None,
    };
    plan.inputs().iter().take(64).map(input).collect()
}

/// Tries one damaged program; a panic or too much memory ends the test with `what`.
fn attempt(path: &PathBuf, bytes: &[u8], what: &str, tally: &mut Tally) {
    let before = ALLOCATOR.allocated();
    ALLOCATOR.set_limit(before + allowance(bytes.len())).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| try_program(path, bytes, tally)));
    ALLOCATOR.set_limit(usize::MAX).unwrap();
    assert!(result.is_ok(), "{} {what}", path.display());
}

#[test]
fn damaged_programs_are_refused_or_run() {
    let start = Instant::now();
    let programs = programs();
    assert!(programs.len() >= 10);
    let (mut cut, mut flipped) = (Tally::default(), Tally::default());
    for (path, bytes) in &programs {
        for len in (0..bytes.len()).step_by(64) {
            attempt(path, &bytes[..len], &format!("cut to {len} bytes"), &mut cut);
        }
    }
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..10_000 {
        let (path, bytes) = &programs[round % programs.len()];
        let mut bytes = bytes.clone();
        let at = (random.next() % bytes.len() as u64) as usize;
        let flip = (random.next() % 255 + 1) as u8;
        bytes[at] ^= flip;
        attempt(path, &bytes, &format!("byte {at} ^= {flip:#04x}"), &mut flipped);
    }
    for (what, tally) in [("cut", &cut), ("flipped", &flipped)] {
        let Tally { refused, failed, ran, .. } = tally;
        println!("{what}: {refused} refused, {failed} failed in a run, {ran} ran");
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
    assert!(flipped.ran > 1000, "undamaged parts still run");
    assert!(cut.refused > 100, "cut files are refused");
}
