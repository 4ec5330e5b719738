//! Inputs of a method on the command line.

use std::path::Path;

use afferent_core::{Bool, Element, ScalarType, Tensor, bf16, f16};
use afferent_inspect::{OwnedValue, describe, in_dim_order, mismatch, npy};
use afferent_runtime::program::{MethodPlan, TensorMeta, Value};
use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Name of the argument for an input.
const INPUT: &str = "input";
/// Name of the argument that ends the inputs of a call.
const NEXT: &str = "next";

const INPUT_HELP: &str = "Input, in order: an NPY file, a number, true or false, none";

const INPUT_LONG_HELP: &str = "\
Input: an NPY file, a number, true or false, or none; once for each input, in order

An NPY file in C order is stored in the dim order of the method, such as channels-last. A number is \
an int, a double or a tensor of rank 0, whatever the method takes; int:N, double:X and bool:true \
name the kind. NPY has no bf16: for a bf16 input, numbers of f4 are rounded, and V2 \
(ml_dtypes.bfloat16) and u2 hold the bits. u2 also holds the bits of an f16 input.";

/// Values of `--input`, separated into calls by `--next`.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub(super) calls: Vec<Vec<String>>,
}

impl FromArgMatches for Inputs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut inputs = Self::default();
        inputs.update_from_arg_matches(matches)?;
        Ok(inputs)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let positions = |name| matches.indices_of(name).into_iter().flatten();
        let mut ends: Vec<usize> = positions(NEXT).collect();
        ends.push(usize::MAX);
        let texts = matches.get_many::<String>(INPUT).into_iter().flatten();
        let mut inputs = positions(INPUT).zip(texts).peekable();
        let mut call = |end: usize| {
            let in_call = std::iter::from_fn(|| inputs.next_if(|(at, _)| *at < end));
            in_call.map(|(_, text)| text.clone()).collect()
        };
        self.calls = ends.into_iter().map(&mut call).collect();
        Ok(())
    }
}

impl Args for Inputs {
    fn augment_args(command: Command) -> Command {
        let input = Arg::new(INPUT)
            .long(INPUT)
            .value_name("X.npy")
            .action(ArgAction::Append)
            .allow_negative_numbers(true)
            .help(INPUT_HELP)
            .long_help(INPUT_LONG_HELP);
        let next = Arg::new(NEXT)
            .long(NEXT)
            .action(ArgAction::Append)
            .num_args(0)
            .default_missing_value("")
            .help("Start the inputs of another call, which sees the state that the last one left");
        command.arg(input).arg(next)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl Inputs {
    /// Parses the inputs of each call.
    pub(super) fn parse(&self, plan: &MethodPlan<'_>) -> anyhow::Result<Vec<Vec<OwnedValue>>> {
        let is_single = self.calls.len() == 1;
        let parse = |(at, texts): (usize, &Vec<String>)| {
            let values = parse_inputs(texts, plan);
            if is_single { values } else { values.with_context(|| format!("call {at}")) }
        };
        self.calls.iter().enumerate().map(parse).collect()
    }
}

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
    let parsed = texts.iter().zip(inputs).enumerate().map(|(at, (text, value))| {
        parse(text, &plan.value(value as usize)).with_context(|| {
            let expected = describe(plan, value);
            format!("input {at} is {text:?}, but method {:?} takes {expected} there", plan.name())
        })
    });
    parsed.collect()
}

/// Parses one value for an input of kind `expected`.
fn parse(text: &str, expected: &Value<'_>) -> anyhow::Result<OwnedValue> {
    let (kind, word) = text.split_once(':').unwrap_or(("", text));
    Ok(match (kind, expected) {
        ("int", _) => OwnedValue::Int(word.parse().context("int:N needs an integer")?),
        ("double", _) => OwnedValue::Double(word.parse().context("double:X needs a number")?),
        ("bool", _) => OwnedValue::Bool(word.parse().context("bool:B needs true or false")?),
        (_, _) if text == "none" => OwnedValue::None,
        (_, Value::Tensor(meta)) => OwnedValue::Tensor(tensor(text, meta)?),
        (_, Value::Int(_) | Value::None) => {
            OwnedValue::Int(text.parse().context("it is not an integer")?)
        }
        (_, Value::Double(_)) => OwnedValue::Double(text.parse().context("it is not a number")?),
        (_, Value::Bool(_)) => {
            OwnedValue::Bool(text.parse().context("it is neither true nor false")?)
        }
        _ => bail!("the command line has no text for such a value"),
    })
}

/// Tensor in an NPY file, or of rank 0 from a number.
fn tensor(text: &str, meta: &TensorMeta<'_>) -> anyhow::Result<Tensor> {
    let path = Path::new(text);
    let rank_0 = meta.layout.sizes.is_empty() && !path.exists();
    if let Some(scalar) = rank_0.then(|| scalar(text, meta.layout.dtype)).flatten() {
        return Ok(scalar);
    }
    let tensor = npy::read(path, Some(meta.layout.dtype))?;
    if let Some(found) = mismatch(&tensor, meta) {
        bail!("the file holds {found}");
    }
    Ok(in_dim_order(&tensor, meta.layout.dim_order)?)
}

/// Tensor of rank 0 with the number in `text`; `None` if it is not a number of this dtype.
fn scalar(text: &str, dtype: ScalarType) -> Option<Tensor> {
    fn of<T: Element>(value: Option<T>) -> Option<Tensor> {
        Tensor::new(&[], &[value?]).ok()
    }
    match dtype {
        ScalarType::Half => of(text.parse::<f32>().ok().map(f16::from_f32)),
        ScalarType::BFloat16 => of(text.parse::<f32>().ok().map(bf16::from_f32)),
        ScalarType::Float => of(text.parse::<f32>().ok()),
        ScalarType::Double => of(text.parse::<f64>().ok()),
        ScalarType::Bool => of(text.parse::<bool>().ok().map(Bool::from)),
        ScalarType::Byte => of(text.parse::<u8>().ok()),
        ScalarType::Char => of(text.parse::<i8>().ok()),
        ScalarType::Short => of(text.parse::<i16>().ok()),
        ScalarType::Int => of(text.parse::<i32>().ok()),
        ScalarType::Long => of(text.parse::<i64>().ok()),
        ScalarType::UInt16 => of(text.parse::<u16>().ok()),
        ScalarType::UInt32 => of(text.parse::<u32>().ok()),
        ScalarType::UInt64 => of(text.parse::<u64>().ok()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(args: &[&str]) -> Vec<Vec<String>> {
        let command = Inputs::augment_args(Command::new("run"));
        let matches = command.get_matches_from([&["run"], args].concat());
        Inputs::from_arg_matches(&matches).unwrap().calls
    }

    #[test]
    fn next_separates_calls() {
        assert_eq!(calls(&[]), [[""; 0]]);
        assert_eq!(calls(&["--input", "a", "--input=-3"]), [["a", "-3"]]);
        let args = ["--input", "a", "--next", "--input", "b", "--next", "--next", "--input", "c"];
        assert_eq!(calls(&args), [&["a"][..], &["b"], &[], &["c"]]);
        assert_eq!(calls(&["--next"]), [[""; 0], [""; 0]]);
    }

    #[test]
    fn numbers_become_tensors_of_rank_0() {
        let number = |text, dtype| scalar(text, dtype);
        assert_eq!(number("-3", ScalarType::Long).unwrap().data::<i64>().unwrap(), [-3]);
        assert_eq!(
            number("1.5", ScalarType::Half).unwrap().data::<f16>().unwrap()[0].to_f32(),
            1.5
        );
        assert!(number("true", ScalarType::Bool).unwrap().data::<Bool>().unwrap()[0].get());
        assert!(number("1.5", ScalarType::Int).is_none());
        assert!(number("300", ScalarType::Byte).is_none());
        assert!(number("x.npy", ScalarType::Float).is_none());
    }
}
