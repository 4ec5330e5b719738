//! Inputs of a method: given on the command line, bundled with the program, or random.

use std::path::Path;

use afferent_core::{Bool, Dynamism, Element, Error, ScalarType, Tensor, bf16, f16};
use afferent_runtime::{
    Input, Output,
    program::{MethodPlan, TensorMeta, TestValue, Value},
};
use anyhow::{Context, bail};

use crate::npy;

/// An input of a method.
pub(super) enum Given {
    Tensor(Tensor),
    Int(i64),
    Double(f64),
    Bool(bool),
    None,
}

impl Given {
    fn parse(text: &str, wants: Option<ScalarType>) -> anyhow::Result<Self> {
        let wrong = || format!("input {text:?} is not a number of its kind");
        Ok(match text.split_once(':') {
            Some(("int", number)) => Self::Int(number.parse().with_context(wrong)?),
            Some(("double", number)) => Self::Double(number.parse().with_context(wrong)?),
            Some(("bool", word)) => Self::Bool(word.parse().with_context(wrong)?),
            _ if text == "none" => Self::None,
            _ => Self::Tensor(npy::read(Path::new(text), wants)?),
        })
    }

    /// A value of a bundled test case.
    pub(super) fn bundled(value: TestValue<'_>) -> Result<Self, Error> {
        Ok(match value {
            TestValue::Tensor(layout, data) => {
                let sizes: Vec<usize> = layout.sizes.iter().collect();
                let tensor = Tensor::from_bytes(layout.dtype, &sizes, layout.dim_order, data);
                Self::Tensor(tensor?)
            }
            TestValue::Int(value) => Self::Int(value),
            TestValue::Bool(value) => Self::Bool(value),
            TestValue::Double(value) => Self::Double(value),
        })
    }

    /// The same as an output, to compare with one.
    pub(super) fn output(&self) -> Output<'_> {
        match self {
            Self::Tensor(tensor) => Output::Tensor(tensor.view()),
            Self::Int(value) => Output::Int(*value),
            Self::Double(value) => Output::Double(*value),
            Self::Bool(value) => Output::Bool(*value),
            Self::None => Output::None,
        }
    }

    pub(super) fn input(&self) -> Input<'_> {
        match self {
            Self::Tensor(tensor) => Input::Tensor(tensor.view()),
            Self::Int(value) => Input::Int(*value),
            Self::Double(value) => Input::Double(*value),
            Self::Bool(value) => Input::Bool(*value),
            Self::None => Input::None,
        }
    }
}

/// The inputs of the command line, as many as the method takes.
pub(super) fn given(texts: &[String], plan: &MethodPlan<'_>) -> anyhow::Result<Vec<Given>> {
    let wanted: Vec<u32> = plan.inputs().iter().collect();
    if texts.len() != wanted.len() {
        let wanted: Vec<_> = wanted.iter().map(|value| describe(plan, *value)).collect();
        bail!(
            "method {:?} takes {} inputs ({}), but --input is given {} times",
            plan.name(),
            wanted.len(),
            wanted.join("; "),
            texts.len()
        );
    }
    let given = texts.iter().zip(wanted);
    given.map(|(text, value)| Given::parse(text, dtype(plan, value))).collect()
}

/// Random inputs of the shapes that the program declares, the same for the same seed: floats from
/// -1 to 1, bytes of any value, other integers from 0 to 3, which most tables of a model have.
/// Sizes that may change have their largest extent; numbers are those of the program.
pub(super) fn random(plan: &MethodPlan<'_>, seed: u64) -> anyhow::Result<Vec<Given>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let inputs = plan.inputs().iter().enumerate();
    let given = inputs.map(|(at, value)| match plan.value(value as usize) {
        Value::Tensor(meta) => {
            random_tensor(&meta, &mut rng).map(Given::Tensor).with_context(|| {
                format!("input {at} of method {:?}: give it with --input", plan.name())
            })
        }
        Value::Int(value) => Ok(Given::Int(value)),
        Value::Double(value) => Ok(Given::Double(value)),
        Value::Bool(value) => Ok(Given::Bool(value)),
        _ => Ok(Given::None),
    });
    given.collect()
}

fn random_tensor(meta: &TensorMeta<'_>, rng: &mut fastrand::Rng) -> anyhow::Result<Tensor> {
    /// Bytes up to which an input is made without being asked.
    const LIMIT: usize = 1 << 30;
    if meta.dynamism == Dynamism::Unbounded {
        bail!("its sizes have no bound");
    }
    if meta.layout.nbytes > LIMIT {
        bail!("it has {} bytes", meta.layout.nbytes);
    }
    let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
    let mut tensor = Tensor::zeros(meta.layout.dtype, &sizes);
    tensor.set_dim_order(meta.layout.dim_order)?;
    fn fill<T: Element>(tensor: &mut Tensor, mut next: impl FnMut() -> T) -> anyhow::Result<()> {
        tensor.data_mut::<T>()?.fill_with(&mut next);
        Ok(())
    }
    let mut float = || rng.f32() * 2.0 - 1.0;
    match meta.layout.dtype {
        ScalarType::Half => fill(&mut tensor, || f16::from_f32(float()))?,
        ScalarType::BFloat16 => fill(&mut tensor, || bf16::from_f32(float()))?,
        ScalarType::Float => fill(&mut tensor, float)?,
        ScalarType::Double => fill(&mut tensor, || f64::from(float()))?,
        ScalarType::Byte => fill(&mut tensor, || rng.u8(..))?,
        ScalarType::Char => fill(&mut tensor, || rng.i8(..))?,
        ScalarType::Bool => fill(&mut tensor, || Bool::from(rng.bool()))?,
        ScalarType::Short => fill(&mut tensor, || rng.i16(0..4))?,
        ScalarType::Int => fill(&mut tensor, || rng.i32(0..4))?,
        ScalarType::Long => fill(&mut tensor, || rng.i64(0..4))?,
        ScalarType::UInt16 => fill(&mut tensor, || rng.u16(0..4))?,
        ScalarType::UInt32 => fill(&mut tensor, || rng.u32(0..4))?,
        ScalarType::UInt64 => fill(&mut tensor, || rng.u64(0..4))?,
        other => bail!("there are no random values of {other}"),
    }
    Ok(tensor)
}

/// A value of a method in words, such as `f32[1, 576]`.
pub(super) fn describe(plan: &MethodPlan<'_>, value: u32) -> String {
    match plan.value(value as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<String> = meta.layout.sizes.iter().map(|n| n.to_string()).collect();
            let bound = match meta.dynamism {
                Dynamism::Static => "",
                Dynamism::Bounded => " at most",
                Dynamism::Unbounded => " without bound",
            };
            let order = meta.layout.dim_order;
            let order =
                if order.is_sorted() { String::new() } else { format!(" dim order {order:?}") };
            format!("{}[{}]{bound}{order}", meta.layout.dtype, sizes.join(", "))
        }
        Value::Int(value) => format!("int {value}"),
        Value::Double(value) => format!("double {value}"),
        Value::Bool(value) => format!("bool {value}"),
        Value::Str(text) => format!("string {text:?}"),
        Value::None => "any int, or none".to_owned(),
        _ => "list".to_owned(),
    }
}

/// Dtype of a value, if it is a tensor.
fn dtype(plan: &MethodPlan<'_>, value: u32) -> Option<ScalarType> {
    match plan.value(value as usize) {
        Value::Tensor(meta) => Some(meta.layout.dtype),
        _ => None,
    }
}
