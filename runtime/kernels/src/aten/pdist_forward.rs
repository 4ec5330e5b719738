//! `aten::_pdist_forward.out`: pairwise distances between the rows of a matrix.
//!
//! | argument | type                  | shape             |
//! |----------|-----------------------|-------------------|
//! | `self`   | floating-point tensor | `[n, k]`          |
//! | `p`      | double, not negative  |                   |
//! | `out`    | as `self`             | `[n (n - 1) / 2]` |
//!
//! Computes the `p`-norm of row `i` minus row `j` for all `i < j`; for `p` 0, the number of
//! elements that differ. Tolerance: 1e-5 relative.
//! Errors: other ranks or dtypes. Source: ATen `_pdist_forward`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    distance::{Vector, distance},
    elements::{Reader, Writer},
    loop_nest::strides_of,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_pdist_forward.out",
    &[Arg::Tensor, Arg::Double, Arg::Out],
    pdist_forward_out,
)];

fn pdist_forward_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(2)?.dtype(), dtype, 2)?;
    with_float_accumulator!(dtype, 0, A => pdist::<A>(args))
}

fn pdist<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let (x, p) = (args.tensor(0)?, args.double(1)?);
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let &[rows, len] = x.sizes() else { return Err(invalid(0, "a matrix")) };
    if p.is_nan() || p < 0.0 {
        return Err(invalid(1, "a number that is not negative"));
    }
    let pairs = rows.checked_mul(rows.saturating_sub(1)).ok_or(invalid(0, "fewer rows"))? / 2;
    let mut out = args.out(2)?;
    out.resize(&[pairs])?;
    let strides = strides_of(&x);
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 2)?);
    let row = |i: usize| Vector { data: &x, start: i * strides[0], stride: strides[1] };
    let mut to = 0;
    for i in 0..rows {
        for j in i + 1..rows {
            out.set(to, distance(row(i), row(j), len, p));
            to += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[3, 2], &[0.0_f32, 0.0, 3.0, -4.0, 0.0, 1.0]).unwrap();
        let mut out = Tensor::from_slice::<f32>(&[]);
        let mut arguments =
            [Argument::Tensor(&x), Argument::Scalar(Scalar::Double(1.0)), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[7.0, 1.0, 8.0][..]));
    }
}
