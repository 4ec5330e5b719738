//! Adaptive pooling: the output size determines the windows.

use afferent_core::{Args, Error, ScalarType, TensorView};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, sum, with_accumulator, with_float_accumulator},
    elements::{Reader, Writer},
    loop_nest::out_strides,
    pooling::{last_three, plane_loops, spatial_sizes, with_spatial_sizes},
};

/// Minimum length of rows that [`sum`] adds in lanes. Shorter rows are added sequentially, as in
/// PyTorch: the average of quantized values is often a rounding tie, which the order of additions
/// decides.
const LANE_SUM_MIN_LEN: usize = 16;

/// Spatial sizes of the input and the output.
struct AdaptivePool {
    input: [usize; 3],
    output: [usize; 3],
}

impl AdaptivePool {
    /// Reads the output sizes from argument 1 for the input `x`.
    fn new(args: &Args<'_>, x: &TensorView<'_>, spatial_dims: usize) -> Result<Self, Error> {
        let input = spatial_sizes(x.sizes(), spatial_dims, 0)?;
        let sizes = args.int_list(1)?.to_dims().filter(|sizes| sizes.len() == spatial_dims);
        let expected = "one size for each spatial dimension";
        let sizes = sizes.ok_or(Error::InvalidArgument { index: 1, expected })?;
        Ok(Self { input, output: last_three(&sizes, spatial_dims, 1) })
    }

    /// Calls `f` for each window with its output position and its input bounds in each dimension.
    fn for_each(&self, mut f: impl FnMut([usize; 3], [[usize; 2]; 3])) {
        let bounds = |dim: usize, at| window_bounds(at, self.output[dim], self.input[dim]);
        for depth in 0..self.output[0] {
            for row in 0..self.output[1] {
                for column in 0..self.output[2] {
                    let window = [bounds(0, depth), bounds(1, row), bounds(2, column)];
                    f([depth, row, column], window);
                }
            }
        }
    }
}

/// Calls `f` with the depth and height of each row of a window.
fn for_each_row([depths, rows, _]: [[usize; 2]; 3], mut f: impl FnMut(usize, usize)) {
    for depth in depths[0]..depths[1] {
        for row in rows[0]..rows[1] {
            f(depth, row);
        }
    }
}

/// Offset of `index` in a tensor with the strides `strides`.
fn dot(index: [usize; 3], strides: [usize; 3]) -> usize {
    index.iter().zip(strides).map(|(at, stride)| at * stride).sum()
}

/// Adaptive average pooling over the last `spatial_dims` dimensions. The arguments are `self`,
/// `output_size`, `out`.
pub(crate) fn adaptive_avg_pool(args: &mut Args<'_>, spatial_dims: usize) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if !dtype.is_float() && dtype != ScalarType::Long {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    check_dtype(args.out(2)?.dtype(), dtype, 2)?;
    with_accumulator!(dtype, A => avg_pool_in::<A>(args, spatial_dims))
}

fn avg_pool_in<A: Accumulator>(args: &mut Args<'_>, spatial_dims: usize) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let pool = AdaptivePool::new(args, &x, spatial_dims)?;
    let mut out = args.out(2)?;
    out.resize(&with_spatial_sizes(x.sizes(), pool.output, spatial_dims)?)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (planes, strides) = plane_loops(&x, &out, spatial_dims)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 2)?);
    planes.for_each([0, 0], |[from, to]| {
        pool.for_each(|position, window| {
            let [first, end] = window[2];
            let mut total = A::default();
            for_each_row(window, |depth, row| {
                let at = from + dot([depth, row, first], strides.from);
                x.for_each_chunk(at, strides.from[2], end - first, |chunk| {
                    total = match chunk.len() {
                        ..LANE_SUM_MIN_LEN => {
                            chunk.iter().fold(total, |total, value| total.add(*value))
                        }
                        _ => total.add(sum(chunk)),
                    };
                });
            });
            let count = window.iter().fold(1.0, |count, [first, end]| count * (end - first) as f64);
            out.set(to + dot(position, strides.to), total.div(A::from_double(count)));
        });
    });
    Ok(())
}

/// Adaptive max pooling over the last `spatial_dims` dimensions. The arguments are `self`,
/// `output_size`, `out`, `indices`.
pub(crate) fn adaptive_max_pool(args: &mut Args<'_>, spatial_dims: usize) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(2)?.dtype(), dtype, 2)?;
    check_dtype(args.out(3)?.dtype(), ScalarType::Long, 3)?;
    with_float_accumulator!(dtype, 0, A => max_pool_in::<A>(args, spatial_dims))
}

fn max_pool_in<A: Accumulator>(args: &mut Args<'_>, spatial_dims: usize) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let pool = AdaptivePool::new(args, &x, spatial_dims)?;
    let sizes = with_spatial_sizes(x.sizes(), pool.output, spatial_dims)?;
    let [mut out, mut indices] = args.outs([2, 3])?;
    out.resize(&sizes)?;
    indices.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if out_strides(&out) != out_strides(&indices) {
        return Err(Error::NotSupported { what: "outputs with different dim orders" });
    }
    let (planes, strides) = plane_loops(&x, &out, spatial_dims)?;
    let x = Reader::<A>::new(x, 0)?;
    let (mut out, mut indices) = (Writer::new(&mut out, 2)?, Writer::new(&mut indices, 3)?);
    let [_, height, width] = pool.input;
    planes.for_each([0, 0], |[from, to]| {
        pool.for_each(|position, window| {
            let [first, end] = window[2];
            let mut best = None;
            for_each_row(window, |depth, row| {
                let from = from + dot([depth, row, first], strides.from);
                let mut at = (depth * height + row) * width + first;
                x.for_each_chunk(from, strides.from[2], end - first, |chunk| {
                    for &value in chunk {
                        if best.is_none_or(|(best, _)| value > best || value.is_nan()) {
                            best = Some((value, at));
                        }
                        at += 1;
                    }
                });
            });
            let (value, at) = best.unwrap_or_default();
            out.set(to + dot(position, strides.to), value);
            indices.set(to + dot(position, strides.to), i64::try_from(at).unwrap_or(i64::MAX));
        });
    });
    Ok(())
}

/// Bounds of window `at`: `at * input / output` rounded down, and `(at + 1) * input / output`
/// rounded up.
fn window_bounds(at: usize, output: usize, input: usize) -> [usize; 2] {
    // Division with remainder avoids an overflow of the products.
    let (quotient, remainder) = (input / output, input % output);
    let scaled = |at: usize| at as u128 * remainder as u128;
    let start = at * quotient + usize::try_from(scaled(at) / output as u128).unwrap_or(0);
    let end =
        (at + 1) * quotient + usize::try_from(scaled(at + 1).div_ceil(output as u128)).unwrap_or(0);
    [start, end.min(input)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_the_input() {
        assert_eq!(window_bounds(0, 2, 5), [0, 3]);
        assert_eq!(window_bounds(1, 2, 5), [2, 5]);
        assert_eq!(window_bounds(6, 7, 3), [2, 3]);
        assert_eq!(window_bounds(usize::MAX - 1, usize::MAX, usize::MAX)[1], usize::MAX);
    }
}
