//! Windows that share a picture out evenly: the adaptive pools.

use afferent_core::{Args, Error, ScalarType, TensorView};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, sum, with_accumulator, with_float_accumulator},
    elements::{Reader, Writer},
    loop_nest::out_strides,
    pooling::{last_three, plane_loops, spatial_sizes, with_spatial_sizes},
};

/// Shorter rows are added one by one, as PyTorch does: means of quantised pictures often lie half way
/// between two steps, and are then rounded alike.
const ONE_BY_ONE: usize = 16;

/// Sizes of the pictures that are read and written.
struct Shares {
    input: [usize; 3],
    output: [usize; 3],
}

impl Shares {
    /// Of `x` over `dims` dimensions, with the sizes of the result at 1.
    fn new(args: &Args<'_>, x: &TensorView<'_>, dims: usize) -> Result<Self, Error> {
        let input = spatial_sizes(x.sizes(), dims, 0)?;
        let sizes = args.int_list(1)?.to_dims().filter(|sizes| sizes.len() == dims);
        let expected = "a size for each dimension of the pictures";
        let sizes = sizes.ok_or(Error::InvalidArgument { index: 1, expected })?;
        Ok(Self { input, output: last_three(&sizes, dims, 1) })
    }

    /// Calls `f` for each window, with its place among the windows and its bounds.
    fn for_each(&self, mut f: impl FnMut([usize; 3], [[usize; 2]; 3])) {
        let bounds = |dim: usize, at| share(at, self.output[dim], self.input[dim]);
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

/// Calls `f` with depth and height of each row of a window.
fn lines([depths, rows, _]: [[usize; 2]; 3], mut f: impl FnMut(usize, usize)) {
    for depth in depths[0]..depths[1] {
        for row in rows[0]..rows[1] {
            f(depth, row);
        }
    }
}

fn dot(place: [usize; 3], steps: [usize; 3]) -> usize {
    place.iter().zip(steps).map(|(at, step)| at * step).sum()
}

/// Means over `dims` dimensions. The arguments are `self`, `output_size`, `out`.
pub(crate) fn adaptive_avg_pool(args: &mut Args<'_>, dims: usize) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if !dtype.is_float() && dtype != ScalarType::Long {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    check_dtype(args.out(2)?.dtype(), dtype, 2)?;
    with_accumulator!(dtype, A => means_in::<A>(args, dims))
}

fn means_in<A: Accumulator>(args: &mut Args<'_>, dims: usize) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let shares = Shares::new(args, &x, dims)?;
    let mut out = args.out(2)?;
    out.resize(&with_spatial_sizes(x.sizes(), shares.output, dims)?)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (pictures, steps) = plane_loops(&x, &out, dims)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 2)?);
    pictures.for_each([0, 0], |[from, to]| {
        shares.for_each(|place, window| {
            let [first, end] = window[2];
            let mut total = A::default();
            lines(window, |depth, row| {
                let at = from + dot([depth, row, first], steps.from);
                x.for_each_chunk(at, steps.from[2], end - first, |chunk| {
                    total = match chunk.len() {
                        ..ONE_BY_ONE => chunk.iter().fold(total, |total, value| total.add(*value)),
                        _ => total.add(sum(chunk)),
                    };
                });
            });
            let count = window.iter().fold(1.0, |count, [first, end]| count * (end - first) as f64);
            out.set(to + dot(place, steps.to), total.div(A::from_double(count)));
        });
    });
    Ok(())
}

/// Largest elements over `dims` dimensions, and where they stand. The arguments are `self`,
/// `output_size`, `out`, `indices`.
pub(crate) fn adaptive_max_pool(args: &mut Args<'_>, dims: usize) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(2)?.dtype(), dtype, 2)?;
    check_dtype(args.out(3)?.dtype(), ScalarType::Long, 3)?;
    with_float_accumulator!(dtype, 0, A => largest_in::<A>(args, dims))
}

fn largest_in<A: Accumulator>(args: &mut Args<'_>, dims: usize) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let shares = Shares::new(args, &x, dims)?;
    let sizes = with_spatial_sizes(x.sizes(), shares.output, dims)?;
    let [mut out, mut indices] = args.outs([2, 3])?;
    out.resize(&sizes)?;
    indices.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if out_strides(&out) != out_strides(&indices) {
        return Err(Error::NotSupported { what: "outputs of different dim orders" });
    }
    let (pictures, steps) = plane_loops(&x, &out, dims)?;
    let x = Reader::<A>::new(x, 0)?;
    let (mut out, mut indices) = (Writer::new(&mut out, 2)?, Writer::new(&mut indices, 3)?);
    let [_, height, width] = shares.input;
    pictures.for_each([0, 0], |[from, to]| {
        shares.for_each(|place, window| {
            let [first, end] = window[2];
            let mut best = None;
            lines(window, |depth, row| {
                let from = from + dot([depth, row, first], steps.from);
                let mut at = (depth * height + row) * width + first;
                x.for_each_chunk(from, steps.from[2], end - first, |chunk| {
                    for &value in chunk {
                        if best.is_none_or(|(best, _)| value > best || value.is_nan()) {
                            best = Some((value, at));
                        }
                        at += 1;
                    }
                });
            });
            let (value, at) = best.unwrap_or_default();
            out.set(to + dot(place, steps.to), value);
            indices.set(to + dot(place, steps.to), i64::try_from(at).unwrap_or(i64::MAX));
        });
    });
    Ok(())
}

/// Begin and end of share `at` of `shares` among `size` elements.
fn share(at: usize, shares: usize, size: usize) -> [usize; 2] {
    // Equal to the products divided, without an overflow.
    let (whole, rest) = (size / shares, size % shares);
    let part = |at: usize| at as u128 * rest as u128;
    let begin = at * whole + usize::try_from(part(at) / shares as u128).unwrap_or(0);
    let end =
        (at + 1) * whole + usize::try_from(part(at + 1).div_ceil(shares as u128)).unwrap_or(0);
    [begin, end.min(size)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything() {
        assert_eq!(share(0, 2, 5), [0, 3]);
        assert_eq!(share(1, 2, 5), [2, 5]);
        assert_eq!(share(6, 7, 3), [2, 3]);
        assert_eq!(share(usize::MAX - 1, usize::MAX, usize::MAX)[1], usize::MAX);
    }
}
