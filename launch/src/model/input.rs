//! Inputs of a method on the command line.

use std::path::Path;

use afferent_core::ScalarType;
use afferent_inspect::{OwnedValue, describe, npy};
use afferent_runtime::program::{MethodPlan, Value};
use anyhow::{Context, bail};

/// Parses the values of `--input`, one for each input of the method.
pub(super) fn parse_inputs(
    texts: &[String],
    plan: &MethodPlan<'_>,
) -> anyhow::Result<Vec<OwnedValue>> {
    let inputs: Vec<u32> = plan.inputs().iter().collect();
    if texts.len() != inputs.len() {
        let descriptions: Vec<_> = inputs.iter().map(|value| describe(plan, *value)).collect();
        bail!(
            "method {:?} takes {} inputs ({}), but --input is given {} times",
            plan.name(),
            inputs.len(),
            descriptions.join("; "),
            texts.len()
        );
    }
    let parsed = texts.iter().zip(inputs);
    parsed.map(|(text, value)| parse(text, tensor_dtype(plan, value))).collect()
}

fn parse(text: &str, expects: Option<ScalarType>) -> anyhow::Result<OwnedValue> {
    let invalid = || format!("input {text:?} is not a value of this kind");
    Ok(match text.split_once(':') {
        Some(("int", number)) => OwnedValue::Int(number.parse().with_context(invalid)?),
        Some(("double", number)) => OwnedValue::Double(number.parse().with_context(invalid)?),
        Some(("bool", word)) => OwnedValue::Bool(word.parse().with_context(invalid)?),
        _ if text == "none" => OwnedValue::None,
        _ => OwnedValue::Tensor(npy::read(Path::new(text), expects)?),
    })
}

fn tensor_dtype(plan: &MethodPlan<'_>, value: u32) -> Option<ScalarType> {
    match plan.value(value as usize) {
        Value::Tensor(meta) => Some(meta.layout.dtype),
        _ => None,
    }
}
