//! Operators by name: how each records its shader runs.
//!
//! A family is a file with the list `OPERATORS`. The names are those of ExecuTorch's operator
//! registry for Vulkan, with overload.

mod attention;
mod binary;
mod convolution;
mod convolution_q8;
mod embedding;
mod fill;
mod gather;
mod linear;
mod linear_quantized;
mod matmul;
mod movement;
mod norm;
mod pad;
mod pooling;
mod quantize;
mod quantize_affine;
mod reduction;
mod resample;
mod rows;
mod softmax;
mod symbolic;
mod training;
mod unary;
mod view;

#[cfg(test)]
mod tests;

use std::fmt;

use crate::{
    graph::Call,
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(crate) use quantize::{DEQUANTIZE, QUANTIZE, REQUANTIZE};
pub(crate) use unary::SILU;
pub(crate) use view::PREPACK;

/// Lists of all families.
const FAMILIES: &[&[Operator]] = &[
    attention::OPERATORS,
    binary::OPERATORS,
    convolution::OPERATORS,
    convolution_q8::OPERATORS,
    embedding::OPERATORS,
    fill::OPERATORS,
    gather::OPERATORS,
    linear::OPERATORS,
    linear_quantized::OPERATORS,
    movement::OPERATORS,
    norm::OPERATORS,
    pad::OPERATORS,
    pooling::OPERATORS,
    quantize::OPERATORS,
    quantize_affine::OPERATORS,
    reduction::OPERATORS,
    resample::OPERATORS,
    softmax::OPERATORS,
    symbolic::OPERATORS,
    training::OPERATORS,
    unary::OPERATORS,
    view::OPERATORS,
];

/// Number of arguments of an operator whose schema is not in the registry.
pub(crate) const ANY: usize = 0;

/// Records an operator: sets the sizes of its outputs and adds shader runs.
type Record = fn(&mut Recorder<'_, '_>, &Call) -> OpResult;

/// Expression of a unary function of `v`, whose type is `f32` or `i32`; the arguments are those of
/// its call.
type Unary = fn(&mut Shader<'_, '_, '_>, &[usize], &str) -> OpResult<String>;

/// Operator with its overload.
pub(crate) struct Operator {
    /// Name in blobs.
    pub(crate) name: &'static str,
    /// Number of arguments of a call: those of the schema and the output, or [`ANY`].
    pub(crate) args: usize,
    pub(crate) record: Record,
    /// For unary functions, which earlier calls may apply to their result.
    pub(crate) unary: Option<Unary>,
    /// True if the operator applies the functions that follow it to its result.
    pub(crate) fuses: bool,
    /// True if the operator clamps its int8 result for a fused call.
    pub(crate) clamps: bool,
    /// Arguments that the operator changes in place.
    pub(crate) writes: &'static [usize],
}

impl Operator {
    const fn new(name: &'static str, args: usize, record: Record) -> Self {
        Self { name, args, record, unary: None, fuses: false, clamps: false, writes: &[] }
    }

    /// The same operator, which applies functions to its result.
    const fn fusing(self) -> Self {
        Self { fuses: true, ..self }
    }

    /// The same operator, which clamps its int8 result.
    const fn clamping(self) -> Self {
        Self { clamps: true, ..self }
    }

    /// The same operator, which changes arguments.
    const fn writing(self, writes: &'static [usize]) -> Self {
        Self { writes, ..self }
    }

    const fn unary(name: &'static str, args: usize, unary: Unary) -> Self {
        Self { unary: Some(unary), ..Self::new(name, args, unary::record).fusing() }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All operators.
fn all() -> impl Iterator<Item = &'static Operator> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Operator with this name.
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    all().find(|operator| operator.name == name)
}

/// Names of the operators that programs may call, with overload.
pub fn operators() -> impl Iterator<Item = &'static str> {
    all().map(|operator| operator.name)
}
