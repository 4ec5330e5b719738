//! Test cases of a bundled program.

use std::sync::Arc;

use afferent_runtime::{Input, Model, ModelFile, ModelOptions, program::TestCase};
use serde::Serialize;

use crate::{Difference, InspectError, OwnedValue, Tolerance, compare};

/// Result of one output of a test case, or of a failed case.
#[derive(Debug, Serialize)]
pub struct TestCaseResult {
    /// Name of the method.
    pub method: String,
    /// Index of the case in the method's test suite.
    pub case: usize,
    /// Index of the output; absent if the case as a whole failed.
    pub output: Option<usize>,
    /// True if the output is within tolerance.
    pub ok: bool,
    /// Difference from the expected output; absent if they cannot be compared.
    #[serde(flatten)]
    pub difference: Option<Difference>,
    /// Message of the error if the case failed or the outputs cannot be compared.
    pub error: Option<String>,
}

/// Runs the bundled test cases of `method`, or of all methods, and compares the outputs with the
/// expected ones. Each case starts from the state after loading.
///
/// # Errors
/// [`InspectError::NoTestCases`] or [`InspectError::TestCasesMissing`] if there are no test cases.
/// A case that fails is a result, not an error.
pub fn verify(
    file: &Arc<ModelFile>,
    options: &ModelOptions,
    method: Option<&str>,
    tolerance: Tolerance,
) -> Result<Vec<TestCaseResult>, InspectError> {
    let path = || file.path().to_owned();
    let bundled = file.bundled().ok_or_else(|| InspectError::NoTestCases { path: path() })?;
    let is_selected = |name: &str| method.is_none_or(|method| method == name);
    let mut results = Vec::new();
    for suite in bundled.suites().filter(|suite| is_selected(suite.method)) {
        let mut model = Model::new(Arc::clone(file), options.clone());
        for (case, test) in suite.cases().enumerate() {
            let result = |output, difference: Option<Difference>, error: Option<InspectError>| {
                let within = difference.as_ref().is_none_or(|found| found.outside == 0);
                TestCaseResult {
                    method: suite.method.to_owned(),
                    case,
                    output,
                    ok: error.is_none() && within,
                    difference,
                    error: error.map(|error| error.to_string()),
                }
            };
            match run(&mut model, suite.method, &test, tolerance) {
                Ok(outputs) => {
                    let outputs = outputs.into_iter().enumerate();
                    results.extend(outputs.map(|(output, compared)| match compared {
                        Ok(difference) => result(Some(output), Some(difference), None),
                        Err(error) => result(Some(output), None, Some(error)),
                    }));
                }
                Err(error) => results.push(result(None, None, Some(error))),
            }
        }
    }
    if results.is_empty() {
        let available = bundled.suites().map(|suite| suite.method.to_owned()).collect();
        return Err(InspectError::TestCasesMissing { path: path(), available });
    }
    Ok(results)
}

/// Runs one case and compares each output with the expected one.
fn run(
    model: &mut Model,
    method: &str,
    case: &TestCase<'_>,
    tolerance: Tolerance,
) -> Result<Vec<Result<Difference, InspectError>>, InspectError> {
    let inputs = case.inputs().map(OwnedValue::from_test_value);
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let expected = case.expected().map(OwnedValue::from_test_value);
    let expected = expected.collect::<Result<Vec<_>, _>>()?;
    let inputs: Vec<Input<'_>> = inputs.iter().map(OwnedValue::as_input).collect();
    model.load_method(method)?;
    model.reset();
    let outputs = model.run(method, &inputs)?;
    if expected.is_empty() {
        return Err(InspectError::NoExpectedOutputs);
    }
    if outputs.len() != expected.len() {
        let (found, expected) = (outputs.len(), expected.len());
        return Err(InspectError::OutputCount { found, expected });
    }
    let mut compared = Vec::with_capacity(expected.len());
    for (index, value) in expected.iter().enumerate() {
        compared.push(
            outputs
                .get(index)
                .map_err(InspectError::from)
                .and_then(|output| compare(&output, &value.as_output(), tolerance)),
        );
    }
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use afferent_kernels::KERNELS;
    use afferent_runtime::program::TestValue;

    use super::*;

    const FILE: &[u8] =
        include_bytes!("../../../tests/conformance/data/programs/bundled/model.bpte");

    fn verify_bytes(bytes: &[u8]) -> Vec<TestCaseResult> {
        let file = ModelFile::from_bytes("model.bpte", bytes).unwrap();
        verify(&file, &ModelOptions::new(KERNELS), None, Tolerance::default()).unwrap()
    }

    #[test]
    fn the_exported_bundle_passes() {
        let results = verify_bytes(FILE);
        assert_eq!(results.len(), 1);
        assert!(results[0].ok, "{results:?}");
        assert_eq!(results[0].difference.as_ref().unwrap().elements, 6);
    }

    #[test]
    fn a_changed_expected_output_fails_at_its_index() {
        let file = ModelFile::from_bytes("model.bpte", FILE).unwrap();
        let case = file.bundled().unwrap().suites().next().unwrap().cases().next().unwrap();
        let expected = match case.expected().next() {
            Some(TestValue::Tensor(_, data)) => data.to_vec(),
            other => panic!("{other:?} is not a tensor"),
        };
        let at = (0..FILE.len()).find(|&at| FILE[at..].starts_with(&expected)).unwrap();
        let mut changed = FILE.to_vec();
        changed[at + 12..at + 16].copy_from_slice(&100.0_f32.to_le_bytes());
        let results = verify_bytes(&changed);
        assert!(!results[0].ok);
        let first = results[0].difference.as_ref().unwrap().first.as_ref().unwrap();
        assert_eq!((first.index.as_slice(), first.expected), (&[1, 1][..], 100.0));
    }

    #[test]
    fn a_program_without_test_cases_is_an_error() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/conformance/data/programs/bundled/model.pte"
        );
        let file = ModelFile::open(path, &[]).unwrap();
        let error = verify(&file, &ModelOptions::new(KERNELS), None, Tolerance::default());
        assert!(matches!(error, Err(InspectError::NoTestCases { .. })), "{error:?}");
    }
}
