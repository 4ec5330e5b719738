//! Comparison of the outputs of two programs.

use afferent_runtime::{Input, Model};
use serde::Serialize;

use crate::{Difference, InspectError, OwnedValue, Tolerance, compare};

/// Comparison of one output of two programs.
#[derive(Debug, Serialize)]
pub struct OutputComparison {
    /// Index of the output.
    pub output: usize,
    /// True if the output is within tolerance.
    pub ok: bool,
    /// Difference; absent if the outputs cannot be compared.
    #[serde(flatten)]
    pub difference: Option<Difference>,
    /// Message of the error if the outputs cannot be compared.
    pub error: Option<String>,
}

/// Runs a method of both models on the same inputs and compares each output with that of
/// `reference`.
///
/// # Errors
/// [`InspectError::Run`] if a model cannot run, [`InspectError::OutputCount`] if the numbers of
/// outputs differ.
pub fn diff(
    reference: &mut Model,
    other: &mut Model,
    method: &str,
    inputs: &[OwnedValue],
    tolerance: Tolerance,
) -> Result<Vec<OutputComparison>, InspectError> {
    let inputs: Vec<Input<'_>> = inputs.iter().map(OwnedValue::as_input).collect();
    let [reference_path, other_path] =
        [&*reference, &*other].map(|model| model.file().path().to_owned());
    let failed = |path| move |error| InspectError::Run { path, error: Box::new(error) };
    let expected = reference.run(method, &inputs).map_err(failed(reference_path))?;
    let found = other.run(method, &inputs).map_err(failed(other_path))?;
    if expected.len() != found.len() {
        return Err(InspectError::OutputCount { found: found.len(), expected: expected.len() });
    }
    let compare_output = |output| compare(&found.get(output)?, &expected.get(output)?, tolerance);
    let comparison = |output| match compare_output(output) {
        Ok(difference) => OutputComparison {
            output,
            ok: difference.outside == 0,
            difference: Some(difference),
            error: None,
        },
        Err(error) => {
            OutputComparison { output, ok: false, difference: None, error: Some(error.to_string()) }
        }
    };
    Ok((0..expected.len()).map(comparison).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use afferent_kernels::KERNELS;
    use afferent_runtime::{
        ModelFile, ModelOptions,
        program::{TensorData, Value},
    };

    use super::*;
    use crate::random_inputs;

    fn open(name: &str) -> Arc<ModelFile> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/data/programs");
        ModelFile::open(format!("{folder}/{name}/model.pte"), &[]).unwrap()
    }

    fn diff_files(
        reference: &Arc<ModelFile>,
        other: &Arc<ModelFile>,
    ) -> Result<Vec<OutputComparison>, InspectError> {
        let inputs = random_inputs(&reference.method("forward").unwrap(), 1).unwrap();
        let [mut reference, mut other] =
            [reference, other].map(|file| Model::new(Arc::clone(file), ModelOptions::new(KERNELS)));
        diff(&mut reference, &mut other, "forward", &inputs, Tolerance::default())
    }

    #[test]
    fn a_program_equals_only_itself() {
        let (mlp, other) = (open("mlp"), open("linear"));
        let same = diff_files(&mlp, &mlp).unwrap();
        assert!(!same.is_empty() && same.iter().all(|comparison| comparison.ok), "{same:?}");
        assert!(diff_files(&mlp, &other).is_err());
    }

    #[test]
    fn a_changed_weight_changes_the_outputs() {
        let reference = open("mlp");
        let mut bytes = std::fs::read(reference.path()).unwrap();
        let plan = reference.method("forward").unwrap();
        let constant = plan.values().find_map(|value| match value {
            Value::Tensor(meta) => match meta.data {
                TensorData::Constant(data) => Some(data.to_vec()),
                _ => None,
            },
            _ => None,
        });
        let constant = constant.unwrap();
        let at = (0..bytes.len()).find(|&at| bytes[at..].starts_with(&constant)).unwrap();
        bytes[at..at + 4].copy_from_slice(&10.0_f32.to_le_bytes());
        let other = ModelFile::from_bytes("changed.pte", &bytes).unwrap();
        let found = diff_files(&reference, &other).unwrap();
        let difference = found[0].difference.as_ref().unwrap();
        assert!(!found[0].ok && difference.outside > 0 && difference.max_abs > 0.0);
        assert!(difference.snr_db.is_finite() && difference.cosine < 1.0);
    }
}
