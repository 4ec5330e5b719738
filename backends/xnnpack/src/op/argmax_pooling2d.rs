//! 2-D argmax pooling of NHWC images: index of the maximum within each window.
//!
//! Window elements are numbered column by column, as in XNNPACK. Of equal maxima the smallest index
//! is returned; NaN is the maximum.

use afferent_core::Error;

use crate::{
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, output_as, unary_input},
    pooling::for_each_tap,
    shape::Shape,
    window::Window,
};

pub(crate) struct ArgMaxPooling2d {
    pub(crate) window: Window,
}

impl Operator for ArgMaxPooling2d {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        self.window.pooled_shape(*unary_input(inputs)?)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let maxima = grow(&mut cx.scratch.floats, input.shape[3], &mut cx.scratch.budget)?;
        let out = output_as::<i32>(out)?;
        // A window may lie entirely in the padding.
        out.fill(0);
        for_each_tap(
            &self.window,
            cx.isa,
            input,
            out,
            |to: &mut [i32], from: &[f32], tap, is_first| {
                for ((x, max), to) in from.iter().zip(&mut *maxima).zip(to) {
                    let is_larger = *x > *max || x.is_nan() && !max.is_nan();
                    if is_first || is_larger || *x == *max && tap < *to {
                        (*max, *to) = (*x, tap);
                    }
                }
            },
            |_, _| {},
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, valid_window};

    fn pooling() -> ArgMaxPooling2d {
        ArgMaxPooling2d { window: valid_window([2, 3]) }
    }

    #[test]
    fn nan_is_the_maximum() {
        for at in 0..6 {
            let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            x[at] = f32::NAN;
            let (index, _) = run(&mut pooling(), &x, Shape::of([1, 2, 3, 1]), -1_i32, 1);
            assert_eq!(index, [[0, 2, 4, 1, 3, 5][at]]);
        }
    }

    #[test]
    fn indices_count_column_by_column() {
        // The first of several equal maxima wins.
        for (x, expected) in [
            ([0.0_f32, 0.0, 7.0, 0.0, 0.0, 0.0], 4),
            ([0.0, 0.0, 7.0, 7.0, 0.0, 0.0], 1),
            ([-1.0, -1.0, -1.0, -1.0, -1.0, -1.0], 0),
        ] {
            let (index, _) = run(&mut pooling(), &x, Shape::of([1, 2, 3, 1]), -1_i32, 1);
            assert_eq!(index, [expected], "{x:?}");
        }
    }
}
