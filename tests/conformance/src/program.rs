//! One exported program and its cases.

use std::{path::Path, sync::Arc};

use afferent_backend_xnnpack::Xnnpack;
use afferent_core::{KernelLists, Tensor, TensorView, find_kernel};
use afferent_runtime::{Input, Model, ModelError, ModelFile, ModelOptions, Output};
use serde::Deserialize;

use crate::{
    Tolerance, Value,
    case::{TensorJson, from_hex},
};

/// Names of the backends under test.
const BACKENDS: &[&str] = &[
    "XnnpackBackend",
    #[cfg(feature = "vulkan")]
    "VulkanBackend",
];

/// In a result of static quantization, one in this many elements may differ by more than one
/// quantization step.
const ELEMENTS_PER_OUTLIER: usize = 1000;

/// Program and its cases.
#[derive(Deserialize)]
pub(crate) struct Program {
    /// Name.
    pub(crate) program: String,
    /// Export error; a program with an export error has no cases.
    pub(crate) refused: Option<String>,
    /// The file in hexadecimal; if absent, it is `model.pte` in the folder.
    pte: Option<String>,
    #[serde(default)]
    cases: Vec<CaseJson>,
    load_error: Option<String>,
    backend: Option<String>,
}

#[derive(Deserialize)]
struct CaseJson {
    method: String,
    #[serde(default)]
    fresh: bool,
    #[serde(default)]
    inputs: Vec<Value>,
    expected: Option<Vec<Value>>,
    error: Option<String>,
    /// Quantization step of the results of a quantized program.
    quantum: Option<f64>,
    #[serde(flatten)]
    tolerance: Tolerance,
}

/// Error code of ExecuTorch for an error name.
fn code(name: &str) -> u32 {
    match name {
        "NotSupported" => 0x10,
        "InvalidArgument" => 0x12,
        "InvalidType" => 0x13,
        "OperatorMissing" => 0x14,
        "NotFound" => 0x20,
        "InvalidProgram" => 0x23,
        "InvalidExternalData" => 0x24,
        other => panic!("the error {other} has no known code"),
    }
}

/// Outcome of the cases of a program.
pub(crate) enum Verdict {
    /// Number of cases that ran, and failures.
    Ran(usize, Vec<String>),
    /// Operators without a kernel.
    MissingKernels(Vec<String>),
}

impl Program {
    /// Name of the suite's test that exports this program. A test may export several programs.
    pub(crate) fn test(&self) -> &str {
        self.program.split('#').next().unwrap_or(&self.program)
    }

    /// Opens an instance. Files are in `folder`.
    pub(crate) fn open(
        &self,
        folder: &Path,
        kernels: KernelLists<'static>,
    ) -> Result<Model, ModelError> {
        let ptd = folder.join("model.ptd");
        let ptd = if ptd.exists() { vec![ptd] } else { vec![] };
        let file: Arc<ModelFile> = match &self.pte {
            Some(digits) => ModelFile::from_bytes(folder, &from_hex(digits))?,
            None => ModelFile::open(folder.join("model.pte"), &ptd)?,
        };
        let options = ModelOptions::new(kernels).with_backend(Xnnpack);
        #[cfg(feature = "vulkan")]
        let options = options.with_backend(crate::vulkan::backend());
        Ok(Model::new(file, options))
    }

    /// Operators of its methods without a kernel.
    fn missing_kernels(model: &Model, kernels: KernelLists<'static>) -> Vec<String> {
        let program = model.file().program();
        let plans = program.method_names().filter_map(|name| program.method(name));
        let operators = plans.flat_map(|plan| plan.operators());
        let missing = operators.filter(|op| find_kernel(kernels, op.name, op.overload).is_none());
        let mut names: Vec<_> = missing.map(|operator| operator.to_string()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Runs all cases.
    pub(crate) fn check(&self, folder: &Path, kernels: KernelLists<'static>) -> Verdict {
        let is_known = |name: &str| BACKENDS.contains(&name);
        let unknown = self.backend.as_deref().filter(|name| !is_known(name));
        let needs_backend = unknown.map(|_| "NotFound".to_owned());
        if let Some(name) = self.load_error.clone().or(needs_backend) {
            return Verdict::Ran(1, self.check_load_error(folder, kernels, &name));
        }
        let mut model = match self.open(folder, kernels) {
            Ok(model) => model,
            Err(error) => return Verdict::Ran(1, vec![error.to_string()]),
        };
        let missing = Self::missing_kernels(&model, kernels);
        if !missing.is_empty() {
            return Verdict::MissingKernels(missing);
        }
        let mut failures = Vec::new();
        for (at, case) in self.cases.iter().enumerate() {
            if case.fresh && at > 0 {
                model = match self.open(folder, kernels) {
                    Ok(model) => model,
                    Err(error) => return Verdict::Ran(at, vec![error.to_string()]),
                };
            }
            if let Err(failure) = check_case(&mut model, case, folder) {
                failures.push(format!("case {at}: {failure}"));
            }
        }
        Verdict::Ran(self.cases.len(), failures)
    }

    /// Loads a program that must fail with the error `name`.
    fn check_load_error(
        &self,
        folder: &Path,
        kernels: KernelLists<'static>,
        name: &str,
    ) -> Vec<String> {
        let loaded = self.open(folder, kernels).and_then(|mut model| {
            let method = self.cases.first().map_or("forward", |case| &case.method);
            model.load_method(method)
        });
        match loaded {
            Err(error) if error.code() == code(name) => vec![],
            Err(error) => vec![format!("{error} ({:#x}), expected {name}", error.code())],
            Ok(()) => vec![format!("loaded, expected {name}")],
        }
    }
}

/// Compares a result. A result of static quantization is compared with that of the official
/// runtime: all elements must be within two quantization steps, and all but one in
/// [`ELEMENTS_PER_OUTLIER`] within one.
fn compare(
    expected: &TensorJson,
    found: &TensorView<'_>,
    folder: &Path,
    case: &CaseJson,
) -> Result<(), String> {
    let Some(quantum) = case.quantum else {
        return expected.compare(found, folder, case.tolerance);
    };
    // In a sum of many elements, few differ.
    let steps = if expected.is_summed() { 1.0 / 8.0 } else { 2.01 };
    let wide = Tolerance { atol: case.tolerance.atol + steps * quantum, ..case.tolerance };
    expected.compare(found, folder, wide)?;
    let near = Tolerance { atol: case.tolerance.atol + 1.01 * quantum, ..case.tolerance };
    let outliers = expected.count_outliers(found, folder, near);
    if outliers * ELEMENTS_PER_OUTLIER > found.numel() {
        let numel = found.numel();
        return Err(format!("{outliers} of {numel} elements differ by more than one step"));
    }
    Ok(())
}

/// Runs a case and compares its outputs or its error.
fn check_case(model: &mut Model, case: &CaseJson, folder: &Path) -> Result<(), String> {
    let tensors: Vec<Option<Tensor>> = case
        .inputs
        .iter()
        .map(|input| if let Value::Tensor(json) = input { Some(json.tensor(folder)) } else { None })
        .collect();
    let inputs: Vec<Input<'_>> = case
        .inputs
        .iter()
        .zip(&tensors)
        .map(|(input, tensor)| match (input, tensor) {
            (_, Some(tensor)) => Input::Tensor(tensor.view()),
            (Value::Int(value), _) => Input::Int(*value),
            (Value::Double(value), _) => Input::Double(*value),
            (Value::Bool(value), _) => Input::Bool(*value),
            _ => Input::None,
        })
        .collect();
    let result = model.run(&case.method, &inputs);
    if let Some(name) = &case.error {
        return match result {
            Err(error) if error.code() == code(name) => Ok(()),
            Err(error) => Err(format!("{error} ({:#x}), expected {name}", error.code())),
            Ok(_) => Err(format!("ran, expected {name}")),
        };
    }
    let outputs = result.map_err(|error| error.to_string())?;
    let expected = case.expected.as_deref().unwrap_or_default();
    if outputs.len() != expected.len() {
        return Err(format!("{} outputs, expected {}", outputs.len(), expected.len()));
    }
    for (at, expected) in expected.iter().enumerate() {
        let output = outputs.get(at).map_err(|error| format!("output {at}: {error}"))?;
        let comparison = match (output, expected) {
            (Output::Tensor(view), Value::Tensor(json)) => compare(json, &view, folder, case),
            (Output::Int(a), Value::Int(b)) if a == *b => Ok(()),
            (Output::Double(a), Value::Double(b)) if (a - b).abs() <= 1e-12 * b.abs() => Ok(()),
            (Output::Bool(a), Value::Bool(b)) if a == *b => Ok(()),
            (Output::Str(a), Value::Str(b)) if a == b => Ok(()),
            (Output::None, Value::None(_)) => Ok(()),
            (found, expected) => Err(format!("found {found:?}, expected {expected:?}")),
        };
        comparison.map_err(|reason| format!("output {at}: {reason}"))?;
    }
    Ok(())
}
