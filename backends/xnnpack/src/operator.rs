//! The operator interface: reshape for the input shapes, then run.

use afferent_core::{Element, Error, Workers};
use afferent_simd::Isa;

use crate::{memory::MemoryBudget, shape::Shape};

/// An operator with packed weights, as `xnn_operator_t`.
pub(crate) trait Operator: Send {
    /// Returns the output shape and prepares everything that depends on shapes. The memory of that
    /// counts against `budget`. By default the output has the shape of the first input.
    ///
    /// # Errors
    /// If the shapes do not match each other or the operator, or the budget is exceeded.
    fn reshape(&mut self, inputs: &[Shape], _budget: &mut MemoryBudget) -> Result<Shape, Error> {
        unary_input(inputs).copied()
    }

    /// Computes the output. `out` holds the bytes of the shape that `reshape` returned last.
    ///
    /// # Errors
    /// If the inputs do not have the shapes of the last `reshape`.
    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error>;
}

/// Resources of a run.
pub(crate) struct RunContext<'c> {
    pub(crate) isa: Isa,
    pub(crate) workers: Option<&'c dyn Workers>,
    pub(crate) scratch: &'c mut Scratch,
    /// True if GEMMs read their weight panels from the last to the first. It alternates from run
    /// to run, because the panels that were read last may still be in the cache.
    pub(crate) reverse_panels: bool,
}

/// Scratch buffers that operators share. Each grows to the largest size that an operator needs.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Accumulators and GEMM workspace of the q8 and q4 operators.
    pub(crate) words: Vec<i32>,
    /// Zero points of dynamically quantized rows.
    pub(crate) zero_points: Vec<i8>,
    /// Dynamically quantized inputs.
    pub(crate) quantized: Vec<i8>,
    pub(crate) floats: Vec<f32>,
    /// Dequantized operands of an operator that wraps another one.
    pub(crate) dequantized: Vec<f32>,
    /// Limit for the growth of all buffers.
    pub(crate) budget: MemoryBudget,
}

impl Scratch {
    /// Allocated bytes.
    pub(crate) fn bytes(&self) -> usize {
        let Self { words, zero_points, quantized, floats, dequantized, .. } = self;
        size_of_val(&words[..])
            + size_of_val(&zero_points[..])
            + size_of_val(&quantized[..])
            + size_of_val(&floats[..])
            + size_of_val(&dequantized[..])
    }
}

/// Input tensor of an operator.
#[derive(Clone, Copy)]
pub(crate) struct Input<'d> {
    pub(crate) shape: &'d Shape,
    pub(crate) bytes: &'d [u8],
}

impl<'d> Input<'d> {
    /// Filler for unused elements of an array of inputs.
    pub(crate) const EMPTY: Self = Self { shape: &Shape::SCALAR, bytes: &[] };

    pub(crate) fn data<T: Element>(&self) -> Result<&'d [T], Error> {
        bytemuck::try_cast_slice(self.bytes).map_err(|_| UNALIGNED)
    }
}

/// Maximum number of inputs of a node.
pub(crate) const MAX_INPUTS: usize = 5;

const UNALIGNED: Error = Error::Internal { reason: "delegate tensors must be aligned" };

const INPUT_COUNT: Error =
    Error::Internal { reason: "an operator has the number of inputs that its node type states" };

/// Returns the first input.
pub(crate) fn unary_input<T>(inputs: &[T]) -> Result<&T, Error> {
    inputs.first().ok_or(INPUT_COUNT)
}

/// Returns the two inputs.
pub(crate) fn binary_inputs<T>(inputs: &[T]) -> Result<[&T; 2], Error> {
    match inputs {
        [a, b] => Ok([a, b]),
        _ => Err(INPUT_COUNT),
    }
}

/// Casts the bytes of an output to elements.
pub(crate) fn output_as<T: Element>(out: &mut [u8]) -> Result<&mut [T], Error> {
    bytemuck::try_cast_slice_mut(out).map_err(|_| UNALIGNED)
}
