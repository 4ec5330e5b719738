//! The operators of the official runtime, and the dtypes that each takes, against our lists.

use std::{collections::BTreeMap, fs};

use afferent_core::{Error, ScalarType, find_kernel};
use afferent_kernels::KERNELS;

use crate::{
    Value,
    archive::{archives, read},
    case::TensorJson,
    data,
    operators::{OperatorJson, call},
};

/// The operators of each list of the official runtime, and the dtypes of their first tensor.
fn official() -> BTreeMap<String, BTreeMap<String, String>> {
    let text = fs::read_to_string(data().join("official.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn split(operator: &str) -> (&str, &str) {
    operator.split_once('.').unwrap_or((operator, ""))
}

#[test]
fn every_official_operator_is_in_our_lists() {
    let mut missing = Vec::new();
    for (path, operators) in official() {
        let found = |operator: &&String| {
            let (name, overload) = split(operator);
            find_kernel(KERNELS, name, overload).is_some()
        };
        let count = operators.keys().filter(found).count();
        println!("{path}: {count} of {} operators", operators.len());
        missing.extend(operators.into_keys().filter(|operator| !found(&operator)));
    }
    assert!(missing.is_empty(), "operators without a kernel: {missing:?}");
}

/// Whether the call takes `to` where a tensor of the case has the dtype `from`: as all, as the
/// tensors that are read, or as the first tensor only.
fn takes(operator: &str, args: &[Value], from: &str, to: &str) -> Result<(), Error> {
    let (name, overload) = split(operator);
    let kernel = find_kernel(KERNELS, name, overload).ok_or(Error::NotSupported { what: "" })?;
    let mut result = Ok(());
    for variant in 0..3 {
        let mut args = args.to_vec();
        let mut is_first = true;
        for arg in &mut args {
            let mut change = |tensor: &mut TensorJson| {
                if tensor.dtype == from && (variant < 2 || is_first) {
                    // Zeros stand for the elements, whose bytes are of another dtype.
                    (tensor.dtype, tensor.data) = (to.to_owned(), None);
                }
                is_first = false;
            };
            match arg {
                Value::Tensor(tensor) => change(tensor),
                Value::Tensors(list) => list.iter_mut().flatten().for_each(change),
                Value::Out(tensor) if variant == 0 => change(tensor),
                Value::Outs(list) if variant == 0 => list.iter_mut().for_each(change),
                Value::Dtype(dtype) if *dtype == from && variant == 0 => to.clone_into(dtype),
                _ => {}
            }
        }
        result = match call(kernel, &args) {
            Err(
                error @ (Error::InvalidType { .. }
                | Error::NotSupported { .. }
                | Error::DtypeMismatch { .. }),
            ) => Err(error),
            _ => return Ok(()),
        };
    }
    result
}

#[test]
fn every_official_dtype_is_taken() {
    let mut cases: BTreeMap<String, Vec<Vec<Value>>> = BTreeMap::new();
    for operator in archives("operators").iter().flat_map(|file| read::<OperatorJson>(file)) {
        let args = operator.cases.into_iter().map(|case| case.args);
        cases.entry(operator.operator).or_default().extend(args);
    }
    let (mut taken, mut refused, mut untried) = (0, Vec::new(), Vec::new());
    for (operator, dtypes) in official().into_values().flatten() {
        let Some(cases) = cases.get(&operator) else {
            untried.push(operator);
            continue;
        };
        for dtype in dtypes.split(' ').filter(|dtype| ScalarType::from_name(dtype).is_some()) {
            let mut last = Ok(());
            let is_taken = cases.iter().any(|args| {
                let first = args.iter().find_map(|arg| match arg {
                    Value::Tensor(tensor) | Value::Out(tensor) => Some(tensor),
                    Value::Tensors(list) => list.iter().flatten().next(),
                    _ => None,
                });
                let Some(first) = first else { return true };
                last = takes(&operator, args, &first.dtype, dtype);
                last.is_ok()
            });
            if is_taken {
                taken += 1;
            } else {
                refused.push(format!("{operator} {dtype}: {last:?}"));
            }
        }
    }
    println!("{taken} operators with a dtype are taken; without a case: {untried:?}");
    refused.iter().for_each(|line| println!("{line}"));
    assert!(refused.is_empty(), "{} operators with a dtype are refused", refused.len());
    assert!(taken > 1000, "the operators are here");
}
