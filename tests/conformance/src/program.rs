//! One exported program and its cases: inputs in, outputs as PyTorch gives them.

use std::{path::Path, sync::Arc};

use afferent_backend_xnnpack::Xnnpack;
use afferent_core::{Backend, KernelLists, Tensor, TensorView, find_kernel};
use afferent_runtime::{Input, Model, ModelError, ModelFile, ModelOptions, Output};
use serde::Deserialize;

use crate::{
    Tolerance, Value,
    case::{TensorJson, from_hex},
};

/// The backends under test.
const BACKENDS: &[&dyn Backend] = &[&Xnnpack];

/// Of so many results of static quantisation one may be further than one quantum away.
const FAR: usize = 1000;

/// A program and its cases.
#[derive(Deserialize)]
pub(crate) struct Program {
    /// Its name.
    pub(crate) program: String,
    /// Why the exporter refuses it; then it has no cases.
    pub(crate) refused: Option<String>,
    /// The file in hexadecimal digits; without it `model.pte` lies in the folder.
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
    /// The step of results that were quantised.
    quantum: Option<f64>,
    #[serde(flatten)]
    tolerance: Tolerance,
}

/// ExecuTorch's number for an error by its name.
fn code(name: &str) -> u32 {
    match name {
        "NotSupported" => 0x10,
        "InvalidArgument" => 0x12,
        "InvalidType" => 0x13,
        "OperatorMissing" => 0x14,
        "NotFound" => 0x20,
        "InvalidProgram" => 0x23,
        "InvalidExternalData" => 0x24,
        other => panic!("no number is known for the error {other}"),
    }
}

/// What a program did.
pub(crate) enum Verdict {
    /// So many cases ran, with these faults.
    Ran(usize, Vec<String>),
    /// No kernel list has these operators.
    Lacks(Vec<String>),
}

impl Program {
    /// The test of a suite that makes this program, one of several perhaps.
    pub(crate) fn test(&self) -> &str {
        self.program.split('#').next().unwrap_or(&self.program)
    }

    /// An instance; files are in `folder`.
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
        Ok(Model::new(file, ModelOptions::new(kernels).with_backend(Xnnpack)))
    }

    /// The operators of its methods that no list has.
    fn lacking(model: &Model, kernels: KernelLists<'static>) -> Vec<String> {
        let program = model.file().program();
        let plans = program.method_names().filter_map(|name| program.method(name));
        let operators = plans.flat_map(|plan| plan.operators());
        let missing = operators.filter(|op| find_kernel(kernels, op.name, op.overload).is_none());
        let mut names: Vec<_> = missing.map(|operator| operator.to_string()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Runs every case.
    pub(crate) fn check(&self, folder: &Path, kernels: KernelLists<'static>) -> Verdict {
        let is_known = |name: &str| BACKENDS.iter().any(|backend| backend.name() == name);
        let unknown = self.backend.as_deref().filter(|name| !is_known(name));
        let needs_backend = unknown.map(|_| "NotFound".to_owned());
        if let Some(name) = self.load_error.clone().or(needs_backend) {
            return Verdict::Ran(1, self.check_refused(folder, kernels, &name));
        }
        let mut model = match self.open(folder, kernels) {
            Ok(model) => model,
            Err(error) => return Verdict::Ran(1, vec![error.to_string()]),
        };
        let lacking = Self::lacking(&model, kernels);
        if !lacking.is_empty() {
            return Verdict::Lacks(lacking);
        }
        let mut faults = Vec::new();
        for (at, case) in self.cases.iter().enumerate() {
            if case.fresh && at > 0 {
                model = match self.open(folder, kernels) {
                    Ok(model) => model,
                    Err(error) => return Verdict::Ran(at, vec![error.to_string()]),
                };
            }
            if let Err(fault) = check_case(&mut model, case, folder) {
                faults.push(format!("case {at}: {fault}"));
            }
        }
        Verdict::Ran(self.cases.len(), faults)
    }

    /// Loads a program that must be refused with the error `name`.
    fn check_refused(
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
            Err(error) => vec![format!("{error} ({:#x}), not {name}", error.code())],
            Ok(()) => vec![format!("it loads, instead of {name}")],
        }
    }
}

/// Compares a result; one of static quantisation with the official runtime's, from which it is no
/// further away than two quanta, and seldom further than one.
fn compare(
    expected: &TensorJson,
    found: &TensorView<'_>,
    folder: &Path,
    case: &CaseJson,
) -> Result<(), String> {
    let Some(quantum) = case.quantum else {
        return expected.compare(found, folder, case.tolerance);
    };
    // The sums of a long result are of many elements, of which few are off.
    let quanta = if expected.is_summed() { 1.0 / 8.0 } else { 2.01 };
    let wide = Tolerance { atol: case.tolerance.atol + quanta * quantum, ..case.tolerance };
    expected.compare(found, folder, wide)?;
    let near = Tolerance { atol: case.tolerance.atol + 1.01 * quantum, ..case.tolerance };
    let far = expected.count_far(found, folder, near);
    if far * FAR > found.numel() {
        return Err(format!("{far} of {} elements are more than one quantum away", found.numel()));
    }
    Ok(())
}

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
            Err(error) => Err(format!("{error} ({:#x}) instead of {name}", error.code())),
            Ok(_) => Err(format!("it ran, instead of {name}")),
        };
    }
    let outputs = result.map_err(|error| error.to_string())?;
    let expected = case.expected.as_deref().unwrap_or_default();
    if outputs.len() != expected.len() {
        return Err(format!("{} outputs instead of {}", outputs.len(), expected.len()));
    }
    for (at, expected) in expected.iter().enumerate() {
        let output = outputs.get(at).map_err(|error| format!("output {at}: {error}"))?;
        let same = match (output, expected) {
            (Output::Tensor(view), Value::Tensor(json)) => compare(json, &view, folder, case),
            (Output::Int(a), Value::Int(b)) if a == *b => Ok(()),
            (Output::Double(a), Value::Double(b)) if (a - b).abs() <= 1e-12 * b.abs() => Ok(()),
            (Output::Bool(a), Value::Bool(b)) if a == *b => Ok(()),
            (Output::Str(a), Value::Str(b)) if a == b => Ok(()),
            (Output::None, Value::None(_)) => Ok(()),
            (found, expected) => Err(format!("{found:?} instead of {expected:?}")),
        };
        same.map_err(|reason| format!("output {at}: {reason}"))?;
    }
    Ok(())
}
