//! `aten::view_copy.out`, `aten::view_copy.dtype_out`: reshape, or elements as another dtype.
//!
//! | argument | type                                   | shape                |
//! |----------|----------------------------------------|----------------------|
//! | `self`   | tensor, any dtype                      | any                  |
//! | `size`   | ints; one may be -1, which is inferred |                      |
//! | `dtype`  | dtype of `out`: `dtype_out`            |                      |
//! | `out`    | as `self`, or of the dtype             | `size`, or as `self` |
//!
//! Elements keep their row-major order for any dim order of `self` and `out`. `dtype_out` keeps the
//! bytes: the last dimension shrinks or grows if the dtypes have different sizes. Tolerance: exact.
//! Errors: sizes with another number of elements are [`Error::InvalidArgument`] at index 1; a last
//! dimension that is no multiple of the ratio of the dtypes is one at index 0.
//! Source: ATen `view_copy`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype, dim_args::inferred_sizes_arg, strided_copy::StridedCopy,
    strided_view::reshape_copy,
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::view_copy.out", &[Arg::Tensor, Arg::IntList, Arg::Out], view_copy),
    Kernel::new("aten::view_copy.dtype_out", &[Arg::Tensor, Arg::OptDtype, Arg::Out], view_dtype),
];

fn view_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let sizes = inferred_sizes_arg(args, 1, input.numel())?;
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), input.dtype(), 2)?;
    out.resize(&sizes)?;
    reshape_copy(&mut out, &input)
}

fn view_dtype(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dtype = args.opt_dtype(1)?;
    let mut out = args.out(2)?;
    check_dtype(dtype.unwrap_or(out.dtype()), out.dtype(), 2)?;
    let (from, to) = (input.dtype().size(), out.dtype().size());
    let wrong = |expected| Error::InvalidArgument { index: 0, expected };
    let mut sizes = Dims::new(input.sizes()).ok_or(wrong("fewer dimensions"))?;
    if from != to {
        let last = sizes.last_mut().ok_or(wrong("a tensor with dimensions"))?;
        let bytes = last.checked_mul(from).filter(|bytes| bytes.is_multiple_of(to));
        *last =
            bytes.ok_or(wrong("a last dimension that is a multiple of the dtypes' ratio"))? / to;
    }
    out.resize(&sizes)?;
    if input.dim_order() == out.dim_order() && (from == to || input.is_contiguous()) {
        out.bytes_mut()?.copy_from_slice(input.bytes());
        return Ok(());
    }
    if from != to {
        return Err(Error::NotSupported { what: "dtypes of other sizes in other dim orders" });
    }
    let copy = StridedCopy::new(&sizes, &out.strides(), &input.strides())?;
    copy.run(from, (out.bytes_mut()?, 0), (input.bytes(), 0))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |size, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(size)], expected);
        };
        run(&[3, -1], Ok((&[3, 2], &[0, 1, 2, 3, 4, 5])));
        run(&[6], Ok((&[6], &[0, 1, 2, 3, 4, 5])));
        let invalid =
            Error::InvalidArgument { index: 1, expected: "sizes with the same number of elements" };
        for size in [&[4, -1][..], &[-1, -1], &[0, -1], &[5], &[-2], &[i64::MAX, i64::MAX]] {
            run(size, Err(invalid));
        }
        check(
            &KERNELS[0],
            vec![Argument::Tensor(&iota(&[0, 3])), ints(&[i64::MAX, i64::MAX, 0])],
            Ok((&[i64::MAX as usize, i64::MAX as usize, 0], &[])),
        );
    }

    #[test]
    fn mismatched_out_dtype_is_rejected() {
        let x = Tensor::zeros(ScalarType::Float, &[2]);
        let error = Error::InvalidType { index: 2, found: ScalarType::Int };
        check(&KERNELS[0], vec![Argument::Tensor(&x), ints(&[2])], Err(error));
    }

    #[test]
    fn row_major_order_is_kept_in_any_dim_order() {
        // Sizes 2 × 3 in column-major order.
        let column_major = |x: &Tensor| {
            Tensor::from_bytes(ScalarType::Int, &[2, 3], &[1, 0], x.view().bytes()).unwrap()
        };
        let x = column_major(&iota(&[6]));
        let inputs = vec![Argument::Tensor(&x), ints(&[6])];
        check(&KERNELS[0], inputs, Ok((&[6], &[0, 2, 4, 1, 3, 5])));
        let mut out = Tensor::zeros(ScalarType::Int, &[3, 2]);
        out.set_dim_order(&[1, 0]).unwrap();
        let mut arguments = [Argument::Tensor(&x), ints(&[3, 2]), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i32>().unwrap(), [0, 4, 3, 2, 1, 5]);
    }

    #[test]
    fn bytes_as_another_dtype() {
        let run = |x: &Tensor, dtype: ScalarType, rank: usize| {
            let mut out = Tensor::zeros(dtype, &vec![0; rank]);
            let code = Argument::Scalar(Scalar::Int(dtype as i64));
            let mut arguments = [Argument::Tensor(x), code, Argument::Out(&mut out)];
            Call::new(&KERNELS[1]).run(&mut arguments).map(|()| out)
        };
        let x = Tensor::new(&[2, 2], &[1.0_f32, -0.0, 2.0, f32::INFINITY]).unwrap();
        let bits = run(&x, ScalarType::Int, 2).unwrap();
        assert_eq!(bits.data::<i32>().unwrap(), [0x3f80_0000, i32::MIN, 0x4000_0000, 0x7f80_0000]);
        for (dtype, sizes) in [(ScalarType::Byte, [2, 8]), (ScalarType::Long, [2, 1])] {
            let out = run(&x, dtype, 2).unwrap();
            assert_eq!((out.sizes(), out.view().bytes()), (&sizes[..], x.view().bytes()));
        }
        assert!(run(&Tensor::from_slice(&[1.0_f32; 3]), ScalarType::Double, 1).is_err());
        assert!(run(&Tensor::new(&[], &[1.0_f32]).unwrap(), ScalarType::Double, 0).is_err());
    }
}
