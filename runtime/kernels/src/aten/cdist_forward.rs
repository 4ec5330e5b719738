//! `aten::_cdist_forward.out`: pairwise distances between the vectors of two batches.
//!
//! | argument       | type                  | shape                       |
//! |----------------|-----------------------|-----------------------------|
//! | `x1`           | floating-point tensor | `[…, n, k]`                 |
//! | `x2`           | as `x1`               | `[…, m, k]`; `…` broadcasts |
//! | `p`            | double, not negative  |                             |
//! | `compute_mode` | optional int, ignored |                             |
//! | `out`          | as `x1`               | `[…, n, m]`                 |
//!
//! Computes the `p`-norm of the difference; for `p` 0, the number of elements that differ.
//! Tolerance: 1e-5 relative.
//! Errors: mismatched sizes, other dtypes. Source: ATen `_cdist_forward`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, TensorView, broadcast_shapes};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    distance::{Vector, distance},
    elements::{Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_cdist_forward.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Double, Arg::OptInt, Arg::Out],
    cdist_forward_out,
)];

fn cdist_forward_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), dtype, 1)?;
    check_dtype(args.out(4)?.dtype(), dtype, 4)?;
    with_float_accumulator!(dtype, 0, A => cdist::<A>(args))
}

fn cdist<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let (a, b, p) = (args.tensor(0)?, args.tensor(1)?, args.double(2)?);
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let &[ref a_batch @ .., rows, len] = a.sizes() else {
        return Err(wrong(0, "a list of vectors"));
    };
    let &[ref b_batch @ .., cols, b_len] = b.sizes() else {
        return Err(wrong(1, "a list of vectors"));
    };
    if b_len != len {
        return Err(wrong(1, "vectors as long as those before"));
    }
    if p.is_nan() || p < 0.0 {
        return Err(wrong(2, "a number that is not negative"));
    }
    let batch = broadcast_shapes(a_batch, b_batch).ok_or(wrong(1, "sizes that broadcast"))?;
    let mut sizes = batch;
    sizes.push(rows)?;
    sizes.push(cols)?;
    let mut out = args.out(4)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (a_steps, b_steps, to) = (strides_of(&a), strides_of(&b), out_strides(&out));
    let mut loops = LoopNest::new();
    for (dim, &size) in batch.iter().enumerate() {
        let steps =
            [repeated(&a, &a_steps, dim, batch.len()), repeated(&b, &b_steps, dim, batch.len())];
        loops.push(size, [steps[0], steps[1], to[dim]])?;
    }
    let (a_rank, b_rank, rank) = (a.rank(), b.rank(), sizes.len());
    loops.push(rows, [a_steps[a_rank - 2], 0, to[rank - 2]])?;
    loops.push(cols, [0, b_steps[b_rank - 2], to[rank - 1]])?;
    let (a, b) = (Reader::<A>::new(a, 0)?, Reader::<A>::new(b, 1)?);
    let mut out = Writer::new(&mut out, 4)?;
    loops.for_each([0; 3], |[a_at, b_at, to]| {
        let a = Vector { data: &a, start: a_at, stride: a_steps[a_rank - 1] };
        let b = Vector { data: &b, start: b_at, stride: b_steps[b_rank - 1] };
        out.set(to, distance(a, b, len, p));
    });
    Ok(())
}

/// The step of a list of vectors in dimension `dim` of `rank` common ones; zero where it repeats.
fn repeated(x: &TensorView<'_>, strides: &Dims, dim: usize, rank: usize) -> usize {
    let own = (dim + x.rank() - 2).checked_sub(rank);
    own.filter(|&dim| x.sizes()[dim] != 1).map_or(0, |dim| strides[dim])
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(p: f64, expected: &[f32]) {
        let a = Tensor::new(&[1, 2], &[0.0_f32, 0.0]).unwrap();
        let b = Tensor::new(&[2, 2], &[3.0_f32, -4.0, 0.0, 1.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
        let mut arguments = [
            Argument::Tensor(&a),
            Argument::Tensor(&b),
            Argument::Scalar(Scalar::Double(p)),
            Argument::None,
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>().unwrap(), expected);
    }

    #[test]
    fn norms() {
        check(0.0, &[2.0, 1.0]);
        check(1.0, &[7.0, 1.0]);
        check(2.0, &[5.0, 1.0]);
        check(f64::INFINITY, &[4.0, 1.0]);
    }
}
