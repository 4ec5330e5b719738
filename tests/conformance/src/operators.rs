//! Single calls of kernels, compared with PyTorch.

use std::{collections::BTreeMap, fs, path::Path};

use afferent_core::{Arg, Argument, Call, Kernel, Scalar, ScalarType, Tensor, find_kernel};
use serde::Deserialize;

use crate::{KERNEL_LISTS, Tolerance, Value, case::TensorJson, compare, data};

#[derive(Deserialize)]
struct OperatorJson {
    operator: String,
    cases: Vec<CaseJson>,
}

#[derive(Deserialize)]
struct CaseJson {
    args: Vec<Value>,
    expected: Vec<TensorJson>,
    #[serde(flatten)]
    tolerance: Tolerance,
}

/// Cases that are known to differ, with the reason; everything else must pass.
const SKIPPED: &[(&str, &str)] = &[];

fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Int(value) => Some(Scalar::Int(*value)),
        Value::Double(value) => Some(Scalar::Double(*value)),
        Value::Bool(value) => Some(Scalar::Bool(*value)),
        Value::Dtype(name) => {
            let dtype = ScalarType::from_name(name).expect("the dtype is known");
            Some(Scalar::Int(dtype as i64))
        }
        Value::MemoryFormat(value) => Some(Scalar::Int(*value)),
        Value::Scalar(value) => scalar(value),
        _ => None,
    }
}

/// Owned tensors of the arguments of `kernel`, in order: those to read and those to write.
fn tensors(kernel: &Kernel, args: &[Value], read: &mut Vec<Tensor>, written: &mut Vec<Tensor>) {
    let here = Path::new("");
    for (arg, kind) in args.iter().zip(kernel.args) {
        match arg {
            Value::Tensor(json) if *kind == Arg::InOut => written.push(json.tensor(here)),
            Value::Tensor(json) => read.push(json.tensor(here)),
            Value::Tensors(list) => read.extend(list.iter().flatten().map(|t| t.tensor(here))),
            Value::Out(json) => written.push(json.tensor(here)),
            Value::Outs(list) => written.extend(list.iter().map(|json| json.tensor(here))),
            _ => {}
        }
    }
}

fn check_case(kernel: &Kernel, case: &CaseJson) -> Result<(), String> {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    tensors(kernel, &case.args, &mut read, &mut written);
    let (mut inputs, mut outputs) = (read.iter(), written.iter_mut());
    let mut missing = || panic!("the tensors were collected from the same arguments");
    let mut arguments: Vec<Argument<'_>> = Vec::new();
    for (arg, kind) in case.args.iter().zip(kernel.args) {
        arguments.push(match arg {
            Value::Tensor(_) if *kind == Arg::InOut => {
                Argument::Out(outputs.next().unwrap_or_else(&mut missing))
            }
            Value::Tensor(_) => Argument::Tensor(inputs.next().expect("collected above")),
            Value::Tensors(list) => {
                let mut next =
                    |json: &Option<TensorJson>| json.as_ref().and_then(|_| inputs.next());
                Argument::Tensors(list.iter().map(&mut next).collect())
            }
            Value::Out(_) => Argument::Out(outputs.next().unwrap_or_else(&mut missing)),
            Value::Outs(list) => Argument::Outs(outputs.by_ref().take(list.len()).collect()),
            Value::Str(text) => Argument::Str(text),
            Value::Ints(items) => Argument::Ints(items.clone()),
            Value::Doubles(items) => Argument::Doubles(items.clone()),
            Value::Bools(items) => Argument::Bools(items.clone()),
            Value::None(_) => Argument::None,
            other => scalar(other).map_or(Argument::None, Argument::Scalar),
        });
    }
    Call::new(kernel).run(&mut arguments).map_err(|error| error.to_string())?;
    drop(arguments);
    for (at, (found, expected)) in written.iter().zip(&case.expected).enumerate() {
        compare(&found.view(), &expected.tensor(Path::new("")).view(), case.tolerance)
            .map_err(|reason| format!("output {at}: {reason}"))?;
    }
    Ok(())
}

/// Dtype of the first tensor of a case, which is what the table sorts by.
fn dtype(case: &CaseJson) -> &str {
    let first = case.args.iter().find_map(|arg| match arg {
        Value::Tensor(json) | Value::Out(json) => Some(json),
        Value::Tensors(list) => list.iter().flatten().next(),
        _ => None,
    });
    first.map_or("-", |json| &json.dtype)
}

#[test]
fn operators_give_what_pytorch_gives() {
    let mut files: Vec<_> = fs::read_dir(data().join("operators"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    assert!(files.len() >= 80, "the operators are here");
    let (mut failed, mut passed, mut missing) = (0, 0, Vec::new());
    for (list, kernels) in KERNEL_LISTS {
        for file in &files {
            let text = fs::read_to_string(file).unwrap();
            let operators: Vec<OperatorJson> = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            for operator in &operators {
                let (name, overload) =
                    operator.operator.split_once('.').unwrap_or((&operator.operator, ""));
                let Some(kernel) = find_kernel(kernels, name, overload) else {
                    missing.push(operator.operator.clone());
                    continue;
                };
                let mut table: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
                for (at, case) in operator.cases.iter().enumerate() {
                    let place = format!("{}#{at}", operator.operator);
                    if SKIPPED.iter().any(|(skipped, _)| *skipped == place) {
                        continue;
                    }
                    let entry = table.entry(dtype(case)).or_default();
                    entry.1 += 1;
                    match check_case(kernel, case) {
                        Ok(()) => entry.0 += 1,
                        Err(reason) => println!("{list}: {place}: {reason}"),
                    }
                }
                let row: Vec<_> =
                    table.iter().map(|(dtype, (ok, all))| format!("{dtype} {ok}/{all}")).collect();
                println!("{list:<10} {:<46} {}", operator.operator, row.join("  "));
                for (ok, all) in table.values() {
                    passed += ok;
                    failed += all - ok;
                }
            }
        }
    }
    println!("{passed} cases passed, {failed} failed; no kernel for {missing:?}");
    for (place, reason) in SKIPPED {
        println!("skipped: {place}: {reason}");
    }
    assert_eq!(failed, 0, "cases that differ from PyTorch");
    assert!(missing.is_empty(), "operators without a kernel: {missing:?}");
}
