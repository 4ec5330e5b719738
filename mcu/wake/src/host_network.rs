//! The network of a listener on a host.

use std::path::Path;

use afferent_core::{Error, Tensor};
use afferent_runtime::{Input, Model, ModelError, ModelOptions};

use crate::Network;

/// Program of a [`Network`], with memory from the heap.
pub struct HostNetwork {
    model: Model,
    inputs: Vec<Tensor>,
    outputs: Vec<Vec<i8>>,
}

/// Dim order of images.
const CHANNELS_LAST: [u8; 4] = [0, 2, 3, 1];

impl HostNetwork {
    /// Opens the program at `path`.
    ///
    /// # Errors
    /// As text: the program does not load, or its inputs and outputs are not tensors.
    pub fn open(path: &Path, options: ModelOptions) -> Result<Self, String> {
        let text = |error: ModelError| error.to_string();
        let model = Model::open(path, options).map_err(text)?;
        let signature = model.file().signature("forward").map_err(text)?;
        let (Some(inputs), Some(outputs)) = (signature.tensor_inputs(), signature.tensor_outputs())
        else {
            return Err(format!("{}: forward must take and return tensors", path.display()));
        };
        let zeros = |spec: &&afferent_runtime::TensorSpec| {
            let mut tensor = Tensor::try_zeros(spec.dtype, &spec.sizes)?;
            if let [_, _, _, _] = *spec.sizes {
                tensor.set_dim_order(&CHANNELS_LAST)?;
            }
            Ok(tensor)
        };
        let inputs: Result<Vec<Tensor>, Error> = inputs.iter().map(zeros).collect();
        let inputs = inputs.map_err(|error| error.to_string())?;
        let outputs = vec![Vec::new(); outputs.len()];
        Ok(Self { model, inputs, outputs })
    }
}

impl Network for HostNetwork {
    type Error = String;

    fn write(&mut self, input: usize, at: usize, values: &[i8]) -> Result<(), String> {
        let tensor = self.inputs.get_mut(input);
        let tensor = tensor.ok_or_else(|| format!("forward has no input {input}"))?;
        let data = tensor.data_mut::<i8>();
        let data = data.map_err(|error| format!("input {input} of forward: {error}"))?;
        let part = data.get_mut(at..).and_then(|data| data.get_mut(..values.len()));
        let part = part.ok_or_else(|| format!("input {input} of forward is too small"))?;
        part.copy_from_slice(values);
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        let inputs: Vec<Input<'_>> =
            self.inputs.iter().map(|input| Input::Tensor(input.view())).collect();
        let results = self.model.run("forward", &inputs).map_err(|error| error.to_string())?;
        for (index, output) in self.outputs.iter_mut().enumerate() {
            let result = results.tensor(index).and_then(|tensor| tensor.data::<i8>());
            let result = result.map_err(|error| format!("output {index} of forward: {error}"))?;
            output.clear();
            output.extend_from_slice(result);
        }
        Ok(())
    }

    fn read(&self, output: usize, values: &mut [i8]) -> Result<(), String> {
        let result = self.outputs.get(output).and_then(|result| result.get(..values.len()));
        values.copy_from_slice(
            result.ok_or_else(|| format!("output {output} of forward is too small"))?,
        );
        Ok(())
    }
}
