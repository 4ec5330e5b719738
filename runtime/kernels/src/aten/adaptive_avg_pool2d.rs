//! `aten::_adaptive_avg_pool2d.out`: means over windows that share a picture out evenly.
//!
//! | argument      | type                  | shape                    |
//! |---------------|-----------------------|--------------------------|
//! | `self`        | floating-point tensor | `[…, h, w]`, rank 3 or 4 |
//! | `output_size` | two ints              |                          |
//! | `out`         | as `self`             | `[…, h', w']`            |
//!
//! Output `i` of `n` is the mean from `⌊i h / n⌋` to `⌈(i + 1) h / n⌉`. Half types add in `f32`.
//! Tolerance: 1e-6 relative. Errors: an empty picture, other dtypes.
//! Source: ATen `_adaptive_avg_pool2d`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::{
    accumulator::{Float, same_dtype, sum, with_float_accumulator},
    elements::{Reader, Writer},
    window::{picture_sizes, pictures, with_picture},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_adaptive_avg_pool2d.out",
    &[Arg::Tensor, Arg::IntList, Arg::Out],
    adaptive_avg_pool2d_out,
)];

fn adaptive_avg_pool2d_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    same_dtype(args.out(2)?.dtype(), dtype, 2)?;
    with_float_accumulator!(dtype, 0, A => adaptive_avg_pool2d::<A>(args))
}

fn adaptive_avg_pool2d<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let wrong = Error::InvalidArgument { index: 1, expected: "a height and a width" };
    let input = picture_sizes(x.sizes())?;
    let sizes = args.int_list(1)?.to_dims().ok_or(wrong)?;
    let &[height, width] = &*sizes else { return Err(wrong) };
    if input.contains(&0) {
        return Err(Error::InvalidArgument { index: 0, expected: "pictures with elements" });
    }
    let mut out = args.out(2)?;
    out.resize(&with_picture(x.sizes(), [height, width])?)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (pictures, steps) = pictures(&x, &out)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 2)?);
    pictures.for_each([0, 0], |[from, to]| {
        for row in 0..height {
            let rows = share(row, height, input[0]);
            for column in 0..width {
                let [first, end] = share(column, width, input[1]);
                let mut total = A::default();
                for y in rows[0]..rows[1] {
                    let at = from + y * steps.from[0] + first * steps.from[1];
                    x.chunks(at, steps.from[1], end - first, |chunk| total = total + sum(chunk));
                }
                let count = A::number((rows[1] - rows[0]) as f64 * (end - first) as f64);
                out.set(to + row * steps.to[0] + column * steps.to[1], total / count);
            }
        }
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
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 1, 3], &[1.0_f32, 2.0, 6.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut arguments =
            [Argument::Tensor(&x), Argument::Ints(vec![1, 2]), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[1.5, 4.0][..]));
    }
}
