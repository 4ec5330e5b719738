//! Fully connected layer with int8 weights, statically or dynamically quantized.

use afferent_core::Error;
use afferent_simd::igemm::InputRows;

use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    pack::q8::{GemmDims, PackedQ8, QuantizationMode},
    shape::Shape,
};

pub(crate) struct FullyConnectedQ8 {
    pub(crate) packed: PackedQ8,
    pub(crate) mode: QuantizationMode,
}

impl Operator for FullyConnectedQ8 {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let GemmDims { inputs: inner, outputs, .. } = self.packed.dims;
        unary_input(inputs)?.fully_connected(inner, outputs)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let GemmDims { inputs: inner, outputs, .. } = self.packed.dims;
        if inner == 0 || out.is_empty() {
            return if out.is_empty() { Ok(()) } else { Err(SHAPE_MISMATCH) };
        }
        let input_rows = InputRows::Strided { stride: inner };
        match &self.mode {
            QuantizationMode::Static(quantization) => {
                let input = (input.data()?, input_rows);
                self.packed.run_static(cx, input, quantization, output_as(out)?)
            }
            QuantizationMode::Dynamic { clamp } => {
                let (x, out) = (input.data()?, output_as::<f32>(out)?);
                let rows = out.len() / outputs;
                self.packed.run_dynamic(cx, (x, input_rows), rows, *clamp, out)
            }
        }
    }
}
