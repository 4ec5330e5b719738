//! Bilinear resize of NHWC images, f32.

use afferent_core::Error;
use afferent_simd::resize::{Interpolation, interpolate_columns, interpolate_rows};

use crate::{
    error::SHAPE_MISMATCH,
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
};

pub(crate) struct StaticResizeBilinear2d {
    /// Output rows and columns.
    size: [usize; 2],
    align_corners: bool,
    half_pixel_centers: bool,
    /// Interpolation of each output column.
    columns: Vec<Interpolation>,
}

impl StaticResizeBilinear2d {
    pub(crate) fn new(size: [usize; 2], align_corners: bool, half_pixel_centers: bool) -> Self {
        Self { size, align_corners, half_pixel_centers, columns: Vec::new() }
    }

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

/// Rows of the input whose columns have been interpolated: the last two that were needed.
struct RowCache<'b> {
    buffers: [&'b mut [f32]; 2],
    /// Index of the input row in each buffer.
    rows: [Option<usize>; 2],
}

impl RowCache<'_> {
    /// Ensures that a buffer holds `row` and returns its index. The buffer `kept` does not change.
    fn ensure(
        &mut self,
        row: usize,
        kept: Option<usize>,
        interpolate: impl FnOnce(&mut [f32]) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        if let Some(buffer) = self.rows.iter().position(|cached| *cached == Some(row)) {
            return Ok(buffer);
        }
        // Rows ascend: the smaller one is not needed again.
        let older = usize::from(self.rows[1] < self.rows[0]);
        let buffer = kept.map_or(older, |kept| 1 - kept);
        interpolate(self.buffers[buffer])?;
        self.rows[buffer] = Some(row);
        Ok(buffer)
    }
}

impl Operator for StaticResizeBilinear2d {
    fn reshape(&mut self, inputs: &[Shape], budget: &mut MemoryBudget) -> Result<Shape, Error> {
        let [batch, height, width, channels] = unary_input(inputs)?.nhwc()?;
        if height == 0 || width == 0 {
            return Err(SHAPE_MISMATCH);
        }
        let out = Shape::of([batch, self.size[0], self.size[1], channels]);
        out.numel()?;
        if self.columns.is_empty() {
            budget.reserve::<Interpolation>(self.size[1])?;
        }
        self.columns = (0..self.size[1]).map(|col| self.interpolate(1, col, width)).collect();
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
        let (row_len, out_len) = (width * channels, self.size[1] * channels);
        if channels == 0 {
            return Ok(());
        }
        let images =
            x.chunks_exact(height * row_len).zip(out.chunks_exact_mut(self.size[0] * out_len));
        let scratch = grow(&mut cx.scratch.floats, 2 * out_len, &mut cx.scratch.budget)?;
        for (image, out) in images {
            let (first, second) = scratch.split_at_mut(out_len);
            let mut cache = RowCache { buffers: [first, second], rows: [None; 2] };
            let interpolate = |row: usize, to: &mut [f32]| {
                let x = &image[row * row_len..][..row_len];
                interpolate_columns(cx.isa, &self.columns, channels, x, to).or(Err(SHAPE_MISMATCH))
            };
            for (at, out) in out.chunks_exact_mut(out_len).enumerate() {
                let Interpolation { first, second, weight } = self.interpolate(0, at, height);
                let upper = cache.ensure(first, None, |to| interpolate(first, to))?;
                let lower = cache.ensure(second, Some(upper), |to| interpolate(second, to))?;
                let rows = [upper, lower].map(|buffer| &*cache.buffers[buffer]);
                interpolate_rows(cx.isa, rows, weight, out);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, floats, run};

    /// Resizes by the definition: four weighted corners for each pixel.
    fn expected(op: &StaticResizeBilinear2d, x: &[f32], [n, h, w, c]: [usize; 4]) -> Vec<f32> {
        let [rows, cols] = op.size;
        let pixel = |at: usize| {
            let (channel, col, row, image) =
                (at % c, at / c % cols, at / (c * cols) % rows, at / (c * cols * rows));
            let (v, u) = (op.interpolate(0, row, h), op.interpolate(1, col, w));
            let value = |y: usize, x_at: usize| x[((image * h + y) * w + x_at) * c + channel];
            let between = |y| value(y, u.first) * (1.0 - u.weight) + value(y, u.second) * u.weight;
            between(v.first) * (1.0 - v.weight) + between(v.second) * v.weight
        };
        (0..n * rows * cols * c).map(pixel).collect()
    }

    #[test]
    fn every_size_matches_the_definition() {
        for shape in [[1, 1, 1, 3], [2, 4, 5, 1], [1, 7, 3, 16], [2, 9, 8, 19], [1, 6, 6, 70]] {
            for size in [[1, 1], [2, 3], [4, 5], [8, 10], [13, 7], [30, 2]] {
                for (align_corners, half_pixel_centers) in
                    [(true, false), (false, true), (false, false)]
                {
                    let mut op =
                        StaticResizeBilinear2d::new(size, align_corners, half_pixel_centers);
                    let x = floats(shape.iter().product());
                    let (found, to) = run(&mut op, &x, Shape::of(shape), f32::NAN, 1);
                    assert_eq!(to, Shape::of([shape[0], size[0], size[1], shape[3]]));
                    close(&found, &expected(&op, &x, shape));
                }
            }
        }
    }
}
