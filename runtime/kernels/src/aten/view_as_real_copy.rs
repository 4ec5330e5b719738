//! `aten::view_as_real_copy.out`: complex tensor as pairs of real numbers.
//!
//! | argument | type                          | shape             |
//! |----------|-------------------------------|-------------------|
//! | `self`   | complex tensor                | any               |
//! | `out`    | tensor of the component dtype | as `self`, then 2 |
//!
//! Computes `out[…, 0] = Re self[…]`, `out[…, 1] = Im self[…]`. Tolerance: exact.
//! Errors: other dtypes are [`Error::InvalidType`].
//! Source: ATen `view_as_real_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{strided_copy::StridedCopy, strided_view::StridedView};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::view_as_real_copy.out", &[Arg::Tensor, Arg::Out], view_as_real_copy)];

fn view_as_real_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut out = args.out(1)?;
    let real = match input.dtype() {
        ScalarType::ComplexHalf => ScalarType::Half,
        ScalarType::ComplexFloat => ScalarType::Float,
        ScalarType::ComplexDouble => ScalarType::Double,
        found => return Err(Error::InvalidType { index: 0, found }),
    };
    if out.dtype() != real {
        return Err(Error::InvalidType { index: 1, found: out.dtype() });
    }
    let mut from = StridedView::of(&input);
    for stride in from.strides.iter_mut() {
        *stride = stride.wrapping_mul(2);
    }
    from.sizes.push(2)?;
    from.strides.push(1)?;
    out.resize(&from.sizes)?;
    let copy = StridedCopy::new(&from.sizes, &out.strides(), &from.strides)?;
    copy.run(real.size(), (out.bytes_mut()?, 0), (input.bytes(), 0))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let components: &[f32] = &[1.0, -2.0, 3.0, 4.0];
        let bytes: Vec<u8> =
            components.iter().flat_map(|component| component.to_ne_bytes()).collect();
        let x = Tensor::from_bytes(ScalarType::ComplexFloat, &[2], &[0], &bytes).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[1, 2]);
        let mut arguments = [Argument::Tensor(&x), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!((out.sizes(), out.data().unwrap()), (&[2, 2][..], components));
        let floats = Tensor::from_slice(components);
        let mut arguments = [Argument::Tensor(&floats), Argument::Out(&mut out)];
        let error = Error::InvalidType { index: 0, found: ScalarType::Float };
        assert_eq!(Call::new(&KERNELS[0]).run(&mut arguments), Err(error));
    }
}
