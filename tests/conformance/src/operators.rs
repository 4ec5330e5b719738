//! Kernel calls, compared with PyTorch.

use std::{collections::BTreeMap, fmt, path::Path};

use afferent_core::{Arg, Argument, Call, Error, Kernel, Scalar, ScalarType, Tensor, find_kernel};
use serde::Deserialize;

use crate::{
    Tolerance, Value,
    archive::{archives, read},
    case::TensorJson,
    compare, kernel_lists,
};

#[derive(Deserialize)]
pub(crate) struct OperatorJson {
    pub(crate) operator: String,
    pub(crate) cases: Vec<CaseJson>,
}

#[derive(Deserialize)]
pub(crate) struct CaseJson {
    pub(crate) args: Vec<Value>,
    expected: Vec<TensorJson>,
    #[serde(default)]
    note: String,
    #[serde(flatten)]
    tolerance: Tolerance,
}

/// Cases that are known to differ, with the reason. All others must pass.
const SKIPPED: &[(&str, &str)] = &[];

/// Scalar argument of a value.
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

/// Creates the tensor arguments of `kernel` in order: inputs and outputs.
fn tensors(kernel: &Kernel, args: &[Value], inputs: &mut Vec<Tensor>, outputs: &mut Vec<Tensor>) {
    let folder = Path::new("");
    for (arg, kind) in args.iter().zip(kernel.args) {
        match arg {
            Value::Tensor(json) if *kind == Arg::InOut => outputs.push(json.tensor(folder)),
            Value::Tensor(json) => inputs.push(json.tensor(folder)),
            Value::Tensors(list) => inputs.extend(list.iter().flatten().map(|t| t.tensor(folder))),
            Value::Out(json) => outputs.push(json.tensor(folder)),
            Value::Outs(list) => outputs.extend(list.iter().map(|json| json.tensor(folder))),
            _ => {}
        }
    }
}

/// Calls `kernel` and returns its outputs.
pub(crate) fn call(kernel: &Kernel, args: &[Value]) -> Result<Vec<Tensor>, Error> {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    tensors(kernel, args, &mut read, &mut written);
    let (mut inputs, mut outputs) = (read.iter(), written.iter_mut());
    let mut missing = || panic!("the tensors were collected from the same arguments");
    let mut arguments: Vec<Argument<'_>> = Vec::new();
    for (arg, kind) in args.iter().zip(kernel.args) {
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
    Call::new(kernel).run(&mut arguments)?;
    drop(arguments);
    Ok(written)
}

/// Runs a case and compares its outputs.
fn check_case(kernel: &Kernel, case: &CaseJson) -> Result<(), String> {
    let written = call(kernel, &case.args).map_err(|error| error.to_string())?;
    for (at, (found, expected)) in written.iter().zip(&case.expected).enumerate() {
        compare(&found.view(), &expected.tensor(Path::new("")).view(), case.tolerance)
            .map_err(|reason| format!("output {at}: {reason}"))?;
    }
    Ok(())
}

/// Dtype of the first tensor of a case, the key of its column in the table.
fn dtype(case: &CaseJson) -> &str {
    let first = case.args.iter().find_map(|arg| match arg {
        Value::Tensor(json) | Value::Out(json) => Some(json),
        Value::Tensors(list) => list.iter().flatten().next(),
        _ => None,
    });
    first.map_or("-", |json| &json.dtype)
}

/// Cases of one operator and dtype: passed, total, skipped, and the largest tolerance.
#[derive(Default)]
struct Cell {
    passed: usize,
    total: usize,
    skipped: usize,
    tolerance: Tolerance,
}

impl Cell {
    /// Extends the largest tolerance.
    fn widen(&mut self, tolerance: Tolerance) {
        self.tolerance.atol = self.tolerance.atol.max(tolerance.atol);
        self.tolerance.rtol = self.tolerance.rtol.max(tolerance.rtol);
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.passed)?;
        if self.passed + self.skipped < self.total {
            write!(f, " of {}", self.total)?;
        }
        if self.skipped > 0 {
            write!(f, " ({} skipped)", self.skipped)?;
        }
        let Tolerance { atol, rtol } = self.tolerance;
        if atol > 0.0 || rtol > 0.0 { write!(f, " ±{atol:.0e},{rtol:.0e}") } else { Ok(()) }
    }
}

/// Runs all cases of one operator and prints its failures and its row. Returns the numbers of
/// passed and failed cases.
fn check_operator(list: &str, kernel: &Kernel, operator: &OperatorJson) -> (usize, usize) {
    let mut table: BTreeMap<&str, Cell> = BTreeMap::new();
    for (at, case) in operator.cases.iter().enumerate() {
        let case_name = format!("{}#{at}", operator.operator);
        let cell = table.entry(dtype(case)).or_default();
        cell.total += 1;
        if SKIPPED.iter().any(|(skipped, _)| *skipped == case_name) {
            cell.skipped += 1;
            continue;
        }
        cell.widen(case.tolerance);
        match check_case(kernel, case) {
            Ok(()) => cell.passed += 1,
            Err(reason) => println!("{list}: {case_name}: {reason} [{}]", case.note),
        }
    }
    let row: Vec<_> = table.iter().map(|(dtype, cell)| format!("{dtype} {cell}")).collect();
    println!("{list:<10} {:<46} {}", operator.operator, row.join("  "));
    let passed = table.values().map(|cell| cell.passed).sum();
    let run: usize = table.values().map(|cell| cell.total - cell.skipped).sum();
    (passed, run - passed)
}

#[test]
fn operators_match_pytorch() {
    let files = archives("operators");
    assert!(files.len() >= 80, "the data has too few operators");
    let operators: Vec<_> = files.iter().flat_map(|file| read::<OperatorJson>(file)).collect();
    for list in kernel_lists() {
        let (mut passed, mut failed, mut missing) = (0, 0, Vec::new());
        for operator in &operators {
            let (name, overload) =
                operator.operator.split_once('.').unwrap_or((&operator.operator, ""));
            let Some(kernel) = find_kernel(list.kernels, name, overload) else {
                missing.push(&operator.operator);
                continue;
            };
            let (ok, broken) = list.run(|| check_operator(&list.name, kernel, operator));
            passed += ok;
            failed += broken;
        }
        for (case_name, reason) in SKIPPED {
            println!("skipped: {case_name}: {reason}");
        }
        println!(
            "{}: {} operators, {passed} cases passed, {failed} failed; no kernel: {missing:?}",
            list.name,
            operators.len()
        );
        assert_eq!(failed, 0, "cases that differ from PyTorch");
        assert!(missing.is_empty(), "operators without a kernel: {missing:?}");
    }
}
