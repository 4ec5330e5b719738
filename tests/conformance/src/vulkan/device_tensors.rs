//! Tensors that stay on the device between two programs.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use afferent_backend_vulkan::Vulkan;
use afferent_core::{Backend, ScalarType, Tensor};
use afferent_gpu::{Counts, Gpu, GpuOptions};
use afferent_runtime::{Input, Model, ModelFile, ModelOptions};

use crate::data;

/// Two instances of a network whose output is as large as its input.
struct Chain {
    gpu: Gpu,
    first: Model,
    second: Model,
}

impl Chain {
    /// The chain on a device of its own, which nothing else counts.
    fn open(keep: bool) -> Option<Self> {
        let gpu = Gpu::new(GpuOptions::from_env());
        if let Err(error) = gpu.device() {
            println!("skipped: no Vulkan device: {error}");
            return None;
        }
        let path = data().join("vulkan/denoise/model.pte");
        let file = ModelFile::open(path, &[]).expect("a program");
        let options = ModelOptions::new(afferent_kernels::KERNELS);
        let options = options.with_backend(Vulkan::new(gpu.clone()));
        let [mut first, mut second] = [(); 2].map(|()| Model::new(file.clone(), options.clone()));
        if keep {
            first.keep_outputs_on_device("forward").expect("loads");
            second.keep_outputs_on_device("forward").expect("loads");
        }
        Some(Self { gpu, first, second })
    }

    fn counts(&self) -> Counts {
        self.gpu.device().expect("an open device").counts()
    }

    /// Result of the first network, and that of the second for it.
    fn run(&mut self, input: &Tensor) -> [Tensor; 2] {
        let mut results = [(); 2].map(|()| Tensor::zeros(ScalarType::Float, &[0]));
        let [between, last] = &mut results;
        let outputs = self.first.run("forward", &[Input::from(input)]).expect("runs");
        outputs.store(0, between).expect("an output");
        let outputs = self.second.run("forward", &[Input::from(&*between)]).expect("runs");
        outputs.store(0, last).expect("an output");
        results
    }
}

fn input(seed: usize) -> Tensor {
    let values: Vec<f32> =
        (0..3 * 24 * 32).map(|at| ((at * 37 + seed) % 101) as f32 / 100.0).collect();
    Tensor::new(&[1, 3, 24, 32], &values).expect("the sizes match")
}

#[test]
fn an_edge_between_two_programs_reads_nothing_back() {
    let (Some(mut host), Some(mut device)) = (Chain::open(false), Chain::open(true)) else {
        return;
    };
    let mut held = vec![];
    for seed in 0..4 {
        let before = device.counts();
        let [between, last] = device.run(&input(seed));
        let spent = device.counts() - before;
        if seed > 0 {
            assert_eq!((spent.uploads, spent.readbacks), (1, 0), "run {seed}: {spent:?}");
            assert!(spent.dispatches > 1);
        }
        assert!(between.device_memory().is_some() && last.device_memory().is_some());
        held.push([between, last]);
    }
    // Held results do not change, and each is read back once.
    let before = device.counts();
    for (seed, found) in held.iter().enumerate() {
        let expected = host.run(&input(seed));
        for (found, expected) in found.iter().zip(&expected) {
            assert!(expected.device_memory().is_none());
            assert_eq!(found.data::<f32>(), expected.data::<f32>(), "run {seed}");
            assert_eq!(found.clone().data::<f32>(), expected.data::<f32>(), "run {seed}");
        }
    }
    assert_eq!((device.counts() - before).readbacks, 8);
}

/// Runs a program and compares its result with that of a device that nothing else used.
pub(super) fn still_works(backend: impl Backend + 'static) {
    let Some(mut fresh) = Chain::open(false) else { return };
    let options = ModelOptions::new(afferent_kernels::KERNELS).with_backend(backend);
    let mut model = Model::new(fresh.first.file().clone(), options);
    let given = input(3);
    let outputs = model.run("forward", &[Input::from(&given)]).expect("runs");
    let found = outputs.tensor(0).expect("an output");
    assert_eq!(found.data::<f32>(), fresh.run(&given)[0].data::<f32>());
}

/// A program on another device, or of the host, gets the elements from the host.
#[test]
fn elements_reach_another_device_through_the_host() {
    let (Some(mut one), Some(mut other)) = (Chain::open(true), Chain::open(true)) else {
        return;
    };
    let [between, last] = one.run(&input(0));
    let mut found = Tensor::zeros(ScalarType::Float, &[0]);
    let outputs = other.second.run("forward", &[Input::from(&between)]).expect("runs");
    outputs.store(0, &mut found).expect("an output");
    assert_eq!(found.data::<f32>(), last.data::<f32>());
    // A view of a kept output reads it back, and so does a wrong input: the message names it.
    let view = outputs.tensor(0).expect("an output");
    assert_eq!(view.data::<f32>(), last.data::<f32>());
    let wrong = Tensor::from_slice(&[1_i64]);
    let error = other.first.run("forward", &[Input::from(&wrong)]).err().expect("an error");
    assert!(error.to_string().contains("i64"), "{error}");
}
