//! Profiles of programs for Vulkan.

use std::cell::RefCell;

use afferent_core::{Backend, DelegateObserver};
use afferent_runtime::{Input, Model, ModelFile, ModelOptions, Output, RunObserver, RunOptions};

use super::{backend, zeros};
use crate::data;

/// Keeps the parts of delegates.
#[derive(Default)]
struct Parts(RefCell<Vec<(String, u64)>>);

impl RunObserver for Parts {
    fn begin(&self, _: usize) {}

    fn end(&self, _: usize) {}

    fn delegate_observer(&self) -> Option<&dyn DelegateObserver> {
        Some(self)
    }
}

impl DelegateObserver for Parts {
    fn part(&self, name: &str, nanos: u64) {
        self.0.borrow_mut().push((name.to_owned(), nanos));
    }
}

/// A profiled run computes what another run computes, and tells each shader.
#[test]
fn shaders_are_told() {
    if !backend().is_available() {
        println!("skipped: no Vulkan device");
        return;
    }
    let file = ModelFile::open(data().join("vulkan/mlp_int8/model.pte"), &[]).expect("a program");
    let options = ModelOptions::new(afferent_kernels::KERNELS).with_backend(backend());
    let mut model = Model::new(file, options);
    model.load_method("forward").expect("loads");
    let mut inputs = zeros(&model);
    for input in &mut inputs {
        input.data_mut::<f32>().expect("floats").fill(0.5);
    }
    let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
    let parts = Parts::default();
    let mut run = |options: &RunOptions<'_>| {
        let outputs = model.run_with("forward", &inputs, options).expect("runs");
        let Ok(Output::Tensor(output)) = outputs.get(0) else { panic!("a tensor") };
        output.bytes().to_vec()
    };
    let plain = run(&RunOptions::default());
    let profiled = run(&RunOptions { observer: Some(&parts), ..RunOptions::default() });
    assert_eq!(plain, profiled);
    let parts = parts.0.take();
    let named = |operator: &str| parts.iter().filter(|(name, _)| name.contains(operator)).count();
    assert!(named("linear") > 0, "{parts:?}");
    assert!(parts.iter().all(|(name, _)| name.contains(" #")), "{parts:?}");
    assert!(parts.iter().any(|(_, nanos)| *nanos > 0), "{parts:?}");
}
