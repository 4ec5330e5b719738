//! `dim_order_ops::_to_dim_order_copy.out`: copy with another dtype or dim order.
//!
//! | argument       | type              | shape              |
//! |----------------|-------------------|--------------------|
//! | `self`         | tensor, any dtype | any                |
//! | `non_blocking` | ignored           |                    |
//! | `dim_order`    | ints, optional    | dim order of `out` |
//! | `out`          | any dtype         | as `self`          |
//!
//! Elements keep their indices and are cast as in PyTorch. A complex element is cast to a real
//! dtype by its real part, and to `bool` as true unless both parts are zero. Exact.
//! Errors: a `dim_order` other than that of `out` is [`Error::InvalidArgument`] at index 2.
//! Source: ExecuTorch `op__to_dim_order_copy.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    complex::{common_complex, map, with_complex},
    dim_args::check_dim_order_arg,
    strided_view::cast_arg,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "dim_order_ops::_to_dim_order_copy.out",
    &[Arg::Tensor, Arg::Ignored, Arg::OptIntList, Arg::Out],
    to_dim_order_copy,
)];

fn to_dim_order_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    check_dim_order_arg(args, 2, 3)?;
    let (from, to) = (args.tensor(0)?.dtype(), args.out(3)?.dtype());
    match common_complex(&[from, to]) {
        Some(dtype) if from != to => with_complex!(dtype, A => map::<A, 1>(args, 3, |[x]| {
            let [re, im] = x;
            // Only the real part is cast. For `bool`, a zero real part is replaced by the imaginary
            // part.
            if to == ScalarType::Bool && re == A::default() { [im, re] } else { x }
        })),
        _ => cast_arg(args, 3),
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Call, Tensor};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[0.5_f32, 1.5, -2.5, 3.0]).unwrap();
        let run = |order: Argument<'static>, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), Argument::None, order], expected);
        };
        run(ints(&[0, 1]), Ok((&[2, 2], &[0, 1, -2, 3])));
        run(Argument::None, Ok((&[2, 2], &[0, 1, -2, 3])));
    }

    #[test]
    fn a_complex_number_is_true_unless_both_parts_are_zero() {
        let parts = [0.0_f32, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, f32::NAN];
        let bytes = bytemuck::cast_slice(&parts);
        let x = Tensor::from_bytes(ScalarType::ComplexFloat, &[4], &[0], bytes).unwrap();
        let mut out = Tensor::zeros(ScalarType::Bool, &[4]);
        let (ignored, order) = (Argument::None, Argument::None);
        let mut arguments = [Argument::Tensor(&x), ignored, order, Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data(), Ok(&[true, false, true, true].map(Bool::from)[..]));
    }

    #[test]
    fn another_dim_order_is_rejected() {
        let x = iota(&[2, 2]);
        let expected = "the dim order of the output";
        let mut out = iota(&[2, 2]);
        let order = ints(&[1, 0]);
        let mut arguments = [Argument::Tensor(&x), Argument::None, order, Argument::Out(&mut out)];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        assert_eq!(result, Err(Error::InvalidArgument { index: 2, expected }));
    }
}
