//! Recurrent models, which carry a state from run to run.

use std::path::Path;

use afferent_core::{Dynamism, ScalarType, Tensor, TensorView};
use afferent_graph::{NodeError, OpenCx};
use afferent_messages::AudioBlock;
use afferent_package::ModelPackage;
use afferent_runtime::{Input, Model, program::Value};

/// A model with the contract `forward(input, state) -> (result, state)`, all `f32`.
///
/// The Silero VAD and the keyword and recognition models of this project have this contract. The
/// initial state is zero, or the state after a lead-in.
pub(crate) struct RecurrentModel {
    model: Model,
    path: std::path::PathBuf,
    input_sizes: Vec<usize>,
    result_sizes: Vec<usize>,
    input: Vec<f32>,
    state: Tensor,
    /// State after a reset.
    initial_state: Tensor,
    /// Buffer for the state that a run returns while `state` is borrowed.
    next_state: Tensor,
    result: Vec<f32>,
}

impl RecurrentModel {
    /// Loads the package at `path`, which must have the task `task` and the contract `contract`.
    pub(crate) fn open(
        path: &Path,
        task: &'static str,
        contract: &'static str,
        cx: &OpenCx,
    ) -> Result<(Self, ModelPackage), NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
        let checked = package.expect_task(task).and_then(|()| package.expect_contract(contract));
        checked.map_err(|error| failed(error.to_string()))?;
        let model = package.load(cx.services.need::<afferent_runtime::ModelOptions>()?);
        let model = model.map_err(|error| failed(error.to_string()))?;
        let Contract { input: input_sizes, result: result_sizes, state: state_sizes } =
            contract_of(&model, model.options().memory_limit).map_err(failed)?;
        let state = || {
            let state = Tensor::try_zeros(ScalarType::Float, &state_sizes);
            state.map_err(|error| failed(error.to_string()))
        };
        let model = Self {
            model,
            path: path.to_owned(),
            input_sizes,
            result_sizes,
            input: Vec::new(),
            state: state()?,
            initial_state: state()?,
            next_state: state()?,
            result: Vec::new(),
        };
        Ok((model, package))
    }

    /// Sizes of the input tensor.
    pub(crate) fn input_sizes(&self) -> &[usize] {
        &self.input_sizes
    }

    /// Sizes of the result tensor.
    pub(crate) fn result_sizes(&self) -> &[usize] {
        &self.result_sizes
    }

    /// The integer that the metadata method `name` returns.
    pub(crate) fn metadata_int(&self, name: &str) -> Option<i64> {
        self.model.file().metadata_int(name)
    }

    /// The error `reason` about this model.
    pub(crate) fn error(&self, reason: impl Into<String>) -> NodeError {
        NodeError::Model { path: self.path.clone(), reason: reason.into() }
    }

    /// Resets the state to the initial state.
    pub(crate) fn reset(&mut self) {
        self.state.bytes_mut().copy_from_slice(self.initial_state.view().bytes());
    }

    /// Makes the state after `runs` runs on zeros the initial state, and resets.
    pub(crate) fn set_silent_lead_in(&mut self, runs: usize) -> Result<(), NodeError> {
        self.state.bytes_mut().fill(0);
        let silence = vec![0.0; self.input_sizes.iter().product()];
        for _ in 0..runs {
            self.run(&silence)?;
        }
        self.initial_state.bytes_mut().copy_from_slice(self.state.view().bytes());
        Ok(())
    }

    /// The current state, for [`RecurrentModel::run_from`].
    pub(crate) fn state(&self) -> Tensor {
        self.state.clone()
    }

    /// Runs the model on `input` from `state`, which is updated instead of the state of the model.
    pub(crate) fn run_from(
        &mut self,
        state: &mut Tensor,
        input: &[f32],
    ) -> Result<&[f32], NodeError> {
        std::mem::swap(&mut self.state, state);
        let result = self.run(input).map(drop);
        std::mem::swap(&mut self.state, state);
        result.map(|()| &*self.result)
    }

    /// Runs the model on `input`, updates the state, and returns the result.
    pub(crate) fn run(&mut self, input: &[f32]) -> Result<&[f32], NodeError> {
        self.input.clear();
        self.input.extend(input.iter().map(|value| AudioBlock::sanitized(*value)));
        let (path, sizes, input) = (&self.path, &self.input_sizes, &self.input);
        let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
        let inputs =
            [Input::Tensor(TensorView::new(sizes, input)?), Input::Tensor(self.state.view())];
        let outputs = self.model.run("forward", &inputs);
        let outputs = outputs.map_err(|error| failed(error.to_string()))?;
        self.result.clear();
        self.result.extend_from_slice(outputs.tensor(0)?.data::<f32>()?);
        self.next_state.data_mut::<f32>()?.copy_from_slice(outputs.tensor(1)?.data::<f32>()?);
        std::mem::swap(&mut self.state, &mut self.next_state);
        Ok(&self.result)
    }
}

/// Tensor sizes of `forward`.
struct Contract {
    input: Vec<usize>,
    result: Vec<usize>,
    state: Vec<usize>,
}

/// Checks the contract of `model` and returns its sizes. No tensor may exceed `limit` bytes: the
/// memory limit of the model covers planned memory, but not the inputs and outputs that the caller
/// keeps.
fn contract_of(model: &Model, limit: usize) -> Result<Contract, String> {
    let plan = model.file().method("forward").map_err(|error| error.to_string())?;
    let expected = "forward must take (input, state) and return (result, state), all f32 tensors of fixed size";
    let tensor = |ids: afferent_runtime::program::Vector<'_, u32>, at: usize| match ids
        .get(at)
        .map(|id| plan.value(id as usize))
    {
        Some(Value::Tensor(meta))
            if meta.layout.dtype == ScalarType::Float && meta.dynamism == Dynamism::Static =>
        {
            let needed = meta.layout.nbytes;
            if needed > limit {
                return Err(format!(
                    "an input or output of forward has {needed} bytes; the limit is {limit}"
                ));
            }
            Ok(meta.layout.sizes.iter().collect::<Vec<usize>>())
        }
        _ => Err(expected.to_owned()),
    };
    if (plan.inputs().len(), plan.outputs().len()) != (2, 2) {
        return Err(expected.to_owned());
    }
    let (input, state) = (tensor(plan.inputs(), 0)?, tensor(plan.inputs(), 1)?);
    let result = tensor(plan.outputs(), 0)?;
    if tensor(plan.outputs(), 1)? != state {
        return Err("the output state of forward has other sizes than the input state".to_owned());
    }
    Ok(Contract { input, result, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_recovers_from_invalid_samples() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad"));
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let (mut model, _) =
            RecurrentModel::open(path, "voice_activity", "silero_vad", &cx).unwrap();
        let len = model.input_sizes().iter().product();
        for value in [f32::NAN, f32::INFINITY, 1e30, -1e3] {
            model.run(&vec![value; len]).unwrap();
            let result = model.run(&vec![0.1; len]).unwrap();
            assert!(result.iter().all(|x| x.is_finite()), "{value}: {result:?}");
        }
    }

    #[test]
    fn input_and_output_sizes_are_limited() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad");
        let package = ModelPackage::open(path).unwrap();
        let model =
            package.load(&afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)).unwrap();
        let Contract { input, state, .. } = contract_of(&model, usize::MAX).unwrap();
        let bytes = |sizes: &[usize]| 4 * sizes.iter().product::<usize>();
        assert!(contract_of(&model, bytes(&input).max(bytes(&state))).is_ok());
        let limit = bytes(&state) - 1;
        let error = contract_of(&model, limit).map(|_| ()).unwrap_err();
        assert!(error.ends_with(&format!("bytes; the limit is {limit}")), "{error}");
    }
}
