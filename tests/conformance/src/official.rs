//! Operators of the official runtime and their dtypes, compared with our kernel lists.

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

/// Operators of each kernel list of the official runtime, with the dtypes of their first tensor.
fn official() -> BTreeMap<String, BTreeMap<String, String>> {
    let text = fs::read_to_string(data().join("official.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Splits an operator into name and overload.
fn split(operator: &str) -> (&str, &str) {
    operator.split_once('.').unwrap_or((operator, ""))
}

#[test]
fn every_official_operator_has_a_kernel() {
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

/// Calls the operator with dtype `to` in place of `from`, in three variants: in all tensors, in the
/// inputs only, and in the first tensor only. Returns the error of the last variant if each of them
/// rejects the dtype.
fn try_dtype(operator: &str, args: &[Value], from: &str, to: &str) -> Result<(), Error> {
    let (name, overload) = split(operator);
    let kernel = find_kernel(KERNELS, name, overload).ok_or(Error::NotSupported { what: "" })?;
    let mut result = Ok(());
    for variant in 0..3 {
        let mut args = args.to_vec();
        let mut is_first = true;
        for arg in &mut args {
            let mut change = |tensor: &mut TensorJson| {
                if tensor.dtype == from && (variant < 2 || is_first) {
                    // The elements are bytes of another dtype: use zeros.
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
fn every_official_dtype_is_supported() {
    let mut cases: BTreeMap<String, Vec<Vec<Value>>> = BTreeMap::new();
    for operator in archives("operators").iter().flat_map(|file| read::<OperatorJson>(file)) {
        let args = operator.cases.into_iter().map(|case| case.args);
        cases.entry(operator.operator).or_default().extend(args);
    }
    let (mut supported, mut rejected, mut untested) = (0, Vec::new(), Vec::new());
    for (operator, dtypes) in official().into_values().flatten() {
        let Some(cases) = cases.get(&operator) else {
            untested.push(operator);
            continue;
        };
        for dtype in dtypes.split(' ').filter(|dtype| ScalarType::from_name(dtype).is_some()) {
            let mut last = Ok(());
            let is_supported = cases.iter().any(|args| {
                let first = args.iter().find_map(|arg| match arg {
                    Value::Tensor(tensor) | Value::Out(tensor) => Some(tensor),
                    Value::Tensors(list) => list.iter().flatten().next(),
                    _ => None,
                });
                let Some(first) = first else { return true };
                last = try_dtype(&operator, args, &first.dtype, dtype);
                last.is_ok()
            });
            if is_supported {
                supported += 1;
            } else {
                rejected.push(format!("{operator} {dtype}: {last:?}"));
            }
        }
    }
    println!(
        "{supported} pairs of operator and dtype pass; operators without a case: {untested:?}"
    );
    rejected.iter().for_each(|line| println!("{line}"));
    assert!(rejected.is_empty(), "{} pairs of operator and dtype are rejected", rejected.len());
    assert!(supported > 1000, "the data has too few operators");
}
