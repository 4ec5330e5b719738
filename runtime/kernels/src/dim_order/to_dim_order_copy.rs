//! `dim_order_ops::_to_dim_order_copy.out`: a copy of another dtype or layout.
//!
//! | argument       | type              | shape         |
//! |----------------|-------------------|---------------|
//! | `self`         | tensor, any dtype | any           |
//! | `non_blocking` | ignored           |               |
//! | `dim_order`    | ints or none      | that of `out` |
//! | `out`          | any dtype         | as `self`     |
//!
//! Elements keep their positions and are converted as a cast in PyTorch does; of a complex
//! number a real one is the real part, and a `bool` whether it is not zero. Exact.
//! Errors: a `dim_order` that `out` does not have is [`Error::InvalidArgument`] at index 2.
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
            // Where the real part is zero, the other one decides whether the number is.
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
    fn a_dim_order_that_the_output_lacks_is_refused() {
        let x = iota(&[2, 2]);
        let expected = "the dim order of the output";
        let mut out = iota(&[2, 2]);
        let order = ints(&[1, 0]);
        let mut arguments = [Argument::Tensor(&x), Argument::None, order, Argument::Out(&mut out)];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        assert_eq!(result, Err(Error::InvalidArgument { index: 2, expected }));
    }
}
