//! Models that take an input and a state, and give a result and the next state.

use std::path::Path;

use afferent_core::{Dynamism, ScalarType, Tensor, TensorView};
use afferent_graph::{NodeError, OpenCx};
use afferent_messages::AudioBlock;
use afferent_package::ModelPackage;
use afferent_runtime::{Input, Model, program::Value};

/// A model with the contract `forward(input, state) -> (result, state)`, all `f32`.
///
/// This is the contract of Silero VAD and of our keyword models. The state starts at zero.
pub(crate) struct RecurrentModel {
    model: Model,
    path: std::path::PathBuf,
    input_sizes: Vec<usize>,
    result_sizes: Vec<usize>,
    input: Vec<f32>,
    state: Tensor,
    /// Takes the state that a run gives, while the old one is still borrowed.
    next_state: Tensor,
    result: Vec<f32>,
}

impl RecurrentModel {
    /// Loads the package at `path`, which must be for `task`.
    pub(crate) fn open(
        path: &Path,
        task: &'static str,
        cx: &OpenCx,
    ) -> Result<(Self, ModelPackage), NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
        package.expect_task(task).map_err(|error| failed(error.to_string()))?;
        let model = package.load(cx.services.need::<afferent_runtime::ModelOptions>()?);
        let model = model.map_err(|error| failed(error.to_string()))?;
        let Contract { input: input_sizes, result: result_sizes, state: state_sizes } =
            contract(&model, model.options().memory_limit).map_err(failed)?;
        let state = || {
            let state = Tensor::try_zeros(ScalarType::Float, &state_sizes);
            state.map_err(|error| failed(error.to_string()))
        };
        let (path, state, next_state) = (path.to_owned(), state()?, state()?);
        let (input, result) = (Vec::new(), Vec::new());
        let model =
            Self { model, path, input_sizes, result_sizes, input, state, next_state, result };
        Ok((model, package))
    }

    /// Sizes of the input.
    pub(crate) fn input_sizes(&self) -> &[usize] {
        &self.input_sizes
    }

    /// Sizes of the result.
    pub(crate) fn result_sizes(&self) -> &[usize] {
        &self.result_sizes
    }

    /// The integer that the metadata method `name` returns.
    pub(crate) fn metadata_int(&self, name: &str) -> Option<i64> {
        self.model.file().metadata_int(name)
    }

    /// An error about this model.
    pub(crate) fn fault(&self, reason: impl Into<String>) -> NodeError {
        NodeError::Model { path: self.path.clone(), reason: reason.into() }
    }

    /// Forgets what it heard.
    pub(crate) fn reset(&mut self) {
        self.state.bytes_mut().fill(0);
    }

    /// Runs the model on `input`, keeps its state, and returns the result.
    pub(crate) fn run(&mut self, input: &[f32]) -> Result<&[f32], NodeError> {
        self.input.clear();
        self.input.extend(input.iter().map(|value| AudioBlock::heard(*value)));
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

/// The sizes of what `forward` takes and gives.
struct Contract {
    input: Vec<usize>,
    result: Vec<usize>,
    state: Vec<usize>,
}

/// The sizes, if the model has the contract and no tensor of it takes more than `limit` bytes:
/// planned memory is limited when the model is loaded, that of a caller is not.
fn contract(model: &Model, limit: usize) -> Result<Contract, String> {
    let plan = model.file().method("forward").map_err(|error| error.to_string())?;
    let expected = "it must take (input, state) and give (result, state), all f32 of fixed size";
    let tensor = |ids: afferent_runtime::program::Vector<'_, u32>, at: usize| match ids
        .get(at)
        .map(|id| plan.value(id as usize))
    {
        Some(Value::Tensor(meta))
            if meta.layout.dtype == ScalarType::Float && meta.dynamism == Dynamism::Static =>
        {
            let needed = meta.layout.nbytes;
            if needed > limit {
                return Err(format!("an input or result has {needed} bytes; {limit} are the most"));
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
        return Err("the state that it gives has other sizes than the one it takes".to_owned());
    }
    Ok(Contract { input, result, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_sound_is_outlived() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad"));
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let (mut model, _) = RecurrentModel::open(path, "voice_activity", &cx).unwrap();
        let len = model.input_sizes().iter().product();
        for value in [f32::NAN, f32::INFINITY, 1e30, -1e3] {
            model.run(&vec![value; len]).unwrap();
            let result = model.run(&vec![0.1; len]).unwrap();
            assert!(result.iter().all(|x| x.is_finite()), "{value}: {result:?}");
        }
    }

    #[test]
    fn what_a_caller_keeps_is_limited() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad");
        let package = ModelPackage::open(path).unwrap();
        let model =
            package.load(&afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)).unwrap();
        let Contract { input, state, .. } = contract(&model, usize::MAX).unwrap();
        let bytes = |sizes: &[usize]| 4 * sizes.iter().product::<usize>();
        assert!(contract(&model, bytes(&input).max(bytes(&state))).is_ok());
        let limit = bytes(&state) - 1;
        let error = contract(&model, limit).map(|_| ()).unwrap_err();
        assert!(error.ends_with(&format!("bytes; {limit} are the most")), "{error}");
    }
}
