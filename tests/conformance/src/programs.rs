//! Whole programs: inputs in, outputs as PyTorch gives them.

use std::{fs, path::Path, sync::Arc};

use afferent_core::{KernelLists, Tensor};
use afferent_runtime::{Input, Model, ModelError, ModelFile, ModelOptions, Output};
use serde::Deserialize;

use crate::{KERNEL_LISTS, Tolerance, Value, compare, data};

#[derive(Deserialize)]
struct ProgramJson {
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

fn open(folder: &Path, kernels: KernelLists<'static>) -> Result<Model, ModelError> {
    let ptd = folder.join("model.ptd");
    let ptd = if ptd.exists() { vec![ptd] } else { vec![] };
    let file: Arc<ModelFile> = ModelFile::open(folder.join("model.pte"), &ptd)?;
    Ok(Model::new(file, ModelOptions::new(kernels)))
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
            (Output::Tensor(view), Value::Tensor(json)) => {
                compare(&view, &json.tensor(folder).view(), case.tolerance)
            }
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

/// Runs every case of a program; the faults, and how many cases ran.
fn check_program(folder: &Path, kernels: KernelLists<'static>) -> (usize, Vec<String>) {
    let text = fs::read_to_string(folder.join("cases.json")).expect("a program has cases");
    let json: ProgramJson = serde_json::from_str(&text).expect("the cases are valid JSON");
    // No backend is under test here, so a program that needs one must say so.
    let load_error = json.load_error.or(json.backend.map(|_| "NotFound".to_owned()));
    let mut faults = Vec::new();
    if let Some(name) = load_error {
        let loaded = open(folder, kernels).and_then(|mut model| {
            let method = json.cases.first().map_or("forward", |case| &case.method);
            model.load_method(method)
        });
        match loaded {
            Err(error) if error.code() == code(&name) => {}
            Err(error) => faults.push(format!("{error} ({:#x}), not {name}", error.code())),
            Ok(()) => faults.push(format!("it loads, instead of {name}")),
        }
        return (1, faults);
    }
    let mut model = match open(folder, kernels) {
        Ok(model) => model,
        Err(error) => return (1, vec![error.to_string()]),
    };
    for (at, case) in json.cases.iter().enumerate() {
        if case.fresh && at > 0 {
            model = match open(folder, kernels) {
                Ok(model) => model,
                Err(error) => return (at, vec![error.to_string()]),
            };
        }
        if let Err(fault) = check_case(&mut model, case, folder) {
            faults.push(format!("case {at}: {fault}"));
        }
    }
    (json.cases.len(), faults)
}

#[test]
fn programs_give_what_pytorch_gives() {
    let mut folders: Vec<_> = fs::read_dir(data().join("programs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("cases.json").exists())
        .collect();
    folders.sort();
    assert!(folders.len() >= 10, "the programs are here");
    let mut broken = 0;
    for (list, kernels) in KERNEL_LISTS {
        for folder in &folders {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            let (cases, faults) = check_program(folder, kernels);
            let verdict = if faults.is_empty() { "ok" } else { "FAILED" };
            println!("{list:<10} {name:<24} {cases:>3} cases  {verdict}");
            for fault in &faults {
                println!("           {fault}");
            }
            broken += usize::from(!faults.is_empty());
        }
    }
    assert_eq!(broken, 0, "programs that differ from PyTorch");
}
