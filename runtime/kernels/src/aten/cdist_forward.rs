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
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let &[ref a_batch @ .., rows, len] = a.sizes() else {
        return Err(invalid(0, "a tensor [..., vectors, elements]"));
    };
    let &[ref b_batch @ .., cols, b_len] = b.sizes() else {
        return Err(invalid(1, "a tensor [..., vectors, elements]"));
    };
    if b_len != len {
        return Err(invalid(1, "vectors of the length of those of `x1`"));
    }
    if p.is_nan() || p < 0.0 {
        return Err(invalid(2, "a number that is not negative"));
    }
    let batch = broadcast_shapes(a_batch, b_batch).ok_or(invalid(1, "sizes that broadcast"))?;
    let mut sizes = batch;
    sizes.push(rows)?;
    sizes.push(cols)?;
    let mut out = args.out(4)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (a_strides, b_strides) = (strides_of(&a), strides_of(&b));
    let to_strides = out_strides(&out);
    let mut loops = LoopNest::new();
    for (dim, &size) in batch.iter().enumerate() {
        let a_stride = batch_stride(&a, &a_strides, dim, batch.len());
        let b_stride = batch_stride(&b, &b_strides, dim, batch.len());
        loops.push(size, [a_stride, b_stride, to_strides[dim]])?;
    }
    let (a_rank, b_rank, rank) = (a.rank(), b.rank(), sizes.len());
    loops.push(rows, [a_strides[a_rank - 2], 0, to_strides[rank - 2]])?;
    loops.push(cols, [0, b_strides[b_rank - 2], to_strides[rank - 1]])?;
    let (a, b) = (Reader::<A>::new(a, 0)?, Reader::<A>::new(b, 1)?);
    let mut out = Writer::new(&mut out, 4)?;
    loops.for_each([0; 3], |[a_offset, b_offset, to]| {
        let a = Vector { data: &a, start: a_offset, stride: a_strides[a_rank - 1] };
        let b = Vector { data: &b, start: b_offset, stride: b_strides[b_rank - 1] };
        out.set(to, distance(a, b, len, p));
    });
    Ok(())
}

/// Stride of `x` in dimension `dim` of the `batch_rank` broadcast batch dimensions; zero where `x`
/// is broadcast.
fn batch_stride(x: &TensorView<'_>, strides: &Dims, dim: usize, batch_rank: usize) -> usize {
    let x_dim = (dim + x.rank() - 2).checked_sub(batch_rank);
    x_dim.filter(|&dim| x.sizes()[dim] != 1).map_or(0, |dim| strides[dim])
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
