//! Bilinear resize of NHWC images, f32.

use afferent_core::Error;

use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
};

pub(crate) struct StaticResizeBilinear2d {
    /// Output rows and columns.
    pub(crate) size: [usize; 2],
    pub(crate) align_corners: bool,
    pub(crate) half_pixel_centers: bool,
}

/// The two input indices between which an output index lies.
struct Interpolation {
    first: usize,
    second: usize,
    /// Weight of `second`.
    weight: f32,
}

impl StaticResizeBilinear2d {
    /// Interpolation for output index `at` along `dim`; `from` is the input size.
    fn interpolate(&self, dim: usize, at: usize, from: usize) -> Interpolation {
        let to = self.size[dim];
        let scale = if self.align_corners && to > 1 {
            (from - 1) as f32 / (to - 1) as f32
        } else {
            from as f32 / to as f32
        };
        let position = if self.half_pixel_centers {
            (at as f32 + 0.5) * scale - 0.5
        } else {
            at as f32 * scale
        };
        let position = position.clamp(0.0, (from - 1) as f32);
        let first = (position as usize).min(from - 1);
        let second = (first + 1).min(from - 1);
        Interpolation { first, second, weight: position - first as f32 }
    }
}

impl Operator for StaticResizeBilinear2d {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let [batch, height, width, channels] = unary_input(inputs)?.nhwc()?;
        if height == 0 || width == 0 {
            return Err(SHAPE_MISMATCH);
        }
        let out = Shape::of([batch, self.size[0], self.size[1], channels]);
        out.numel()?;
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let [_, height, width, channels] = input.shape.nhwc()?;
        let (x, out) = (input.data::<f32>()?, output_as::<f32>(out)?);
        if channels == 0 {
            return Ok(());
        }
        let [rows, cols] = self.size;
        for (pixel, to) in out.chunks_exact_mut(channels).enumerate() {
            let (image, row, col) = (pixel / (rows * cols), pixel / cols % rows, pixel % cols);
            let vertical = self.interpolate(0, row, height);
            let horizontal = self.interpolate(1, col, width);
            let at = |y: usize, x_index: usize| {
                &x[((image * height + y) * width + x_index) * channels..][..channels]
            };
            let corners = [
                at(vertical.first, horizontal.first),
                at(vertical.first, horizontal.second),
                at(vertical.second, horizontal.first),
                at(vertical.second, horizontal.second),
            ];
            cx.isa.call(|| {
                for (channel, to) in to.iter_mut().enumerate() {
                    let [a, b, c, d] = corners.map(|corner| corner[channel]);
                    let upper = a + (b - a) * horizontal.weight;
                    let lower = c + (d - c) * horizontal.weight;
                    *to = upper + (lower - upper) * vertical.weight;
                }
            });
        }
        Ok(())
    }
}
