//! Runs the method `forward` of a `.pte` file on zeros, and prints the shapes of its outputs.
//!
//! ```text
//! cargo run --release --example run_program -- pipelines/models/vad/vad_xnnpack.pte
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use afferent::{
    App,
    core::Tensor,
    runtime::{Input, Model, Output, program::Value},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: run_program FILE.pte")?;
    let mut model = Model::open(&path, App::new().models().clone())?;
    let plan = model.file().method("forward")?;
    let mut tensors = Vec::new();
    for value in plan.inputs().iter() {
        let Value::Tensor(meta) = plan.value(value as usize) else {
            return Err(format!("{path}: an input is not a tensor").into());
        };
        let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
        tensors.push(Tensor::zeros(meta.layout.dtype, &sizes));
    }
    let inputs: Vec<_> = tensors.iter().map(|tensor| Input::Tensor(tensor.view())).collect();
    let outputs = model.run("forward", &inputs)?;
    for index in 0..outputs.len() {
        if let Output::Tensor(tensor) = outputs.get(index)? {
            println!("output {index}: {:?} {:?}", tensor.dtype(), tensor.sizes());
        }
    }
    Ok(())
}
