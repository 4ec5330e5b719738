//! `aten::view_as_complex_copy.out`: pairs of real numbers as a complex tensor.
//!
//! | argument | type                        | shape                                |
//! |----------|-----------------------------|--------------------------------------|
//! | `self`   | f16, f32 or f64 tensor      | `[…, 2]`                             |
//! | `out`    | complex tensor of the dtype | as `self` without its last dimension |
//!
//! Computes `Re out[…] = self[…, 0]`, `Im out[…] = self[…, 1]`. Tolerance: exact.
//! Errors: other dtypes are [`Error::InvalidType`]; other sizes [`Error::InvalidArgument`] at index
//! 0.
//! Source: ATen `view_as_complex_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype, complex::component_dtype, strided_copy::StridedCopy,
    strided_view::StridedView,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::view_as_complex_copy.out",
    &[Arg::Tensor, Arg::Out],
    view_as_complex_copy,
)];

fn view_as_complex_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut out = args.out(1)?;
    let found = out.dtype();
    let real = component_dtype(found).ok_or(Error::InvalidType { index: 1, found })?;
    check_dtype(input.dtype(), real, 0)?;
    let Some((2, sizes)) = input.sizes().split_last() else {
        return Err(Error::InvalidArgument { index: 0, expected: "a last dimension of size 2" });
    };
    out.resize(sizes)?;
    let from = StridedView::of(&input);
    let mut to = out.strides();
    for stride in to.iter_mut() {
        *stride = stride.wrapping_mul(2);
    }
    to.push(1)?;
    let copy = StridedCopy::new(&from.sizes, &to, &from.strides)?;
    copy.run(real.size(), (out.bytes_mut()?, 0), (input.bytes(), 0))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[1.0_f32, -2.0, 3.0, 4.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::ComplexFloat, &[1]);
        let mut arguments = [Argument::Tensor(&x), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!((out.sizes(), out.view().bytes()), (&[2][..], x.view().bytes()));
        for sizes in [&[2, 3][..], &[]] {
            let x = Tensor::zeros(ScalarType::Float, sizes);
            let mut arguments = [Argument::Tensor(&x), Argument::Out(&mut out)];
            assert!(Call::new(&KERNELS[0]).run(&mut arguments).is_err(), "{sizes:?}");
        }
    }
}
