//! Indirection buffer of a convolution.

use afferent_core::Error;
use afferent_simd::igemm::PADDING_OFFSET;

use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    error::TENSOR_TOO_LARGE,
    memory::{MAX_MEMORY_BYTES, MemoryBudget},
    shape::Shape,
};

/// Input offset of each kernel element of each output pixel, for one input shape.
///
/// The layout is `[batch, output rows, output columns, kernel rows, kernel columns]`. Elements in
/// the padding are [`PADDING_OFFSET`].
#[derive(Default)]
pub(crate) struct IndirectionBuffer {
    input: Shape,
    offsets: Vec<u32>,
}

impl IndirectionBuffer {
    pub(crate) fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Fills the buffer for images of shape `input` whose pixels are `pixel_stride` elements apart.
    /// A buffer for the same shape is kept.
    ///
    /// # Errors
    /// If the budget is exceeded or the input is too large for 32-bit offsets.
    pub(crate) fn fill(
        &mut self,
        params: &Conv2dParams,
        input: &Shape,
        pixel_stride: usize,
        budget: &mut MemoryBudget,
    ) -> Result<(), Error> {
        let [batch, height, width, _] = input.nhwc()?;
        let [_, rows, cols, _] = params.output_shape(input)?.nhwc()?;
        let elements =
            batch.checked_mul(height * width).and_then(|pixels| pixels.checked_mul(pixel_stride));
        elements.filter(|count| *count < MAX_MEMORY_BYTES - 1).ok_or(TENSOR_TOO_LARGE)?;
        let Conv2dParams { kind, window, .. } = params;
        let len = (batch * rows).checked_mul(cols).and_then(|len| len.checked_mul(window.taps()));
        let len = len.ok_or(TENSOR_TOO_LARGE)?;
        budget.reserve::<u32>(len)?;
        if self.input == *input {
            return Ok(());
        }
        self.input = Shape::default();
        self.offsets.clear();
        self.offsets.try_reserve_exact(len).map_err(|_| TENSOR_TOO_LARGE)?;
        let input_index = |dim, output, tap, size| match kind {
            Conv2dKind::Transposed { .. } => window.transposed_input_index(dim, output, tap, size),
            _ => window.input_index(dim, output, tap, size),
        };
        for image in 0..batch {
            for row in 0..rows {
                for col in 0..cols {
                    for i in 0..window.kernel[0] {
                        let y = input_index(0, row, i, height);
                        self.offsets.extend((0..window.kernel[1]).map(|j| {
                            match (y, input_index(1, col, j, width)) {
                                (Some(y), Some(x)) => {
                                    (((image * height + y) * width + x) * pixel_stride) as u32
                                }
                                _ => PADDING_OFFSET,
                            }
                        }));
                    }
                }
            }
        }
        self.input = *input;
        Ok(())
    }
}
