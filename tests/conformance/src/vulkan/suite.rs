//! Configurations of ExecuTorch's tests for Vulkan and WebGPU: `data/vulkan_suite`.

use std::{collections::BTreeMap, path::Path};

use afferent_core::Tensor;
use afferent_runtime::{Input, Model, ModelFile, ModelOptions, Output};
use serde::Deserialize;

use super::backend;
use crate::{
    Tolerance, Value,
    archive::{archives, name, read},
    case::from_hex,
};

/// Program of one or more configurations, or a configuration without a program.
#[derive(Deserialize)]
pub(super) struct Entry {
    /// Reason why there is no program.
    refused: Option<String>,
    #[serde(default)]
    cases: Vec<Case>,
    pte: Option<String>,
}

/// Run of a program.
#[derive(Deserialize)]
struct Case {
    inputs: Vec<Value>,
    expected: Vec<Expected>,
}

/// Output of a run.
#[derive(Deserialize)]
struct Expected {
    /// Configuration.
    of: String,
    atol: f64,
    #[serde(flatten)]
    value: Value,
}

/// Failures of each configuration of a program.
type Results = BTreeMap<String, Vec<String>>;

impl Entry {
    /// Bytes of the program, if there is one.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        self.pte.as_deref().map(from_hex)
    }

    fn run(&self, path: &Path) -> Results {
        let names = self.cases.iter().flat_map(|case| &case.expected);
        let mut results: Results = names.map(|output| (output.of.clone(), vec![])).collect();
        if let Err(failure) = self.run_cases(path, &mut results) {
            results.values_mut().for_each(|failures| failures.push(failure.clone()));
        }
        results
    }

    /// Runs all cases in one instance. An error is one of the whole program.
    fn run_cases(&self, path: &Path, results: &mut Results) -> Result<(), String> {
        let bytes = self.bytes().unwrap_or_default();
        let file = ModelFile::from_bytes(path, &bytes).map_err(|error| error.to_string())?;
        let options = ModelOptions::new(afferent_kernels::KERNELS).with_backend(backend());
        let mut model = Model::new(file, options);
        for (number, case) in self.cases.iter().enumerate() {
            let tensors: Vec<Tensor> = case.inputs.iter().filter_map(|x| tensor(x, path)).collect();
            let inputs: Vec<Input<'_>> = tensors.iter().map(Input::from).collect();
            let outputs = model.run("forward", &inputs).map_err(|error| error.to_string())?;
            if outputs.len() != case.expected.len() {
                return Err(format!("{} outputs, expected {}", outputs.len(), case.expected.len()));
            }
            for (at, expected) in case.expected.iter().enumerate() {
                let output = outputs.get(at).map_err(|error| error.to_string())?;
                if let Err(reason) = compare(expected, &output, path) {
                    let failure = format!("run {number}, output {at}: {reason}");
                    results.entry(expected.of.clone()).or_default().push(failure);
                }
            }
        }
        Ok(())
    }
}

/// Tensor of an input.
fn tensor(value: &Value, path: &Path) -> Option<Tensor> {
    match value {
        Value::Tensor(json) => Some(json.tensor(path)),
        _ => None,
    }
}

fn compare(expected: &Expected, output: &Output<'_>, path: &Path) -> Result<(), String> {
    let tolerance = Tolerance { atol: expected.atol, rtol: 0.0 };
    match (&expected.value, output) {
        (Value::Tensor(json), Output::Tensor(view)) => json.compare(view, path, tolerance),
        (Value::Int(a), Output::Int(b)) if a == b => Ok(()),
        (expected, found) => Err(format!("found {found:?}, expected {expected:?}")),
    }
}

#[test]
fn configurations_match_pytorch() {
    if !super::backend_is_available() {
        return;
    }
    let (mut passed, mut failed, mut reasons) = (0, 0, BTreeMap::<String, usize>::new());
    for path in archives("vulkan_suite") {
        let (mut total, mut failures) = (0, vec![]);
        for entry in read::<Entry>(&path) {
            if let Some(reason) = entry.refused {
                *reasons.entry(reason).or_default() += 1;
                continue;
            }
            let results = entry.run(&path);
            total += results.len();
            let of = |(name, found): (String, Vec<String>)| format!("{name}: {}", found.join("; "));
            failures.extend(results.into_iter().filter(|(_, found)| !found.is_empty()).map(of));
        }
        println!("{:<40} {:>3} of {total}", name(&path), total - failures.len());
        failures.iter().for_each(|failure| println!("    {failure:.400}"));
        passed += total - failures.len();
        failed += failures.len();
    }
    println!("{passed} configurations match PyTorch, {failed} differ");
    reasons.iter().for_each(|(reason, count)| println!("{count} without a program: {reason}"));
    assert_eq!(failed, 0, "configurations that differ from PyTorch");
}
