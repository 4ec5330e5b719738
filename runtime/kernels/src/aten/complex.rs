//! `aten::complex.out`, `aten::polar.out`: complex tensor of two real ones.
//!
//! | argument          | type                               | shape                     |
//! |-------------------|------------------------------------|---------------------------|
//! | `real` or `abs`   | f16 (`complex`), f32 or f64 tensor | any                       |
//! | `imag` or `angle` | of the same dtype                  | broadcasts with the other |
//! | `out`             | complex tensor of the dtype        | broadcast shape           |
//!
//! Computes `real + i imag`, or `abs · (cos angle + i sin angle)`. Tolerance: exact for `complex`,
//! 1e-6 for `polar`.
//! Errors: other dtypes are [`Error::InvalidType`]. Source: ATen `complex`, `polar`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::{Float, check_dtype},
    complex::{Complex, component_dtype, map, with_complex},
};

const ARGS: &[Arg] = &[Arg::Tensor, Arg::Tensor, Arg::Out];

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::complex.out", ARGS, complex), Kernel::new("aten::polar.out", ARGS, polar)];

fn complex(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = check_dtypes(args)?;
    with_complex!(dtype, A => map::<A, 2>(args, 2, |[[real, _], [imag, _]]| [real, imag]))
}

fn polar(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = check_dtypes(args)?;
    if dtype == ScalarType::ComplexHalf {
        return Err(Error::InvalidType { index: 2, found: dtype });
    }
    with_complex!(dtype, A => map::<A, 2>(args, 2, |[[abs, _], [angle, _]]| of_polar(abs, angle)))
}

fn of_polar<A: Float>(abs: A, angle: A) -> Complex<A> {
    let (sin, cos) = libm::sincos(angle.to_double());
    [abs * A::from_double(cos), abs * A::from_double(sin)]
}

/// Dtype of the output, after a check that the inputs have the dtype of its parts.
fn check_dtypes(args: &mut Args<'_>) -> Result<ScalarType, Error> {
    let found = args.out(2)?.dtype();
    let component = component_dtype(found).ok_or(Error::InvalidType { index: 2, found })?;
    check_dtype(args.tensor(0)?.dtype(), component, 0)?;
    check_dtype(args.tensor(1)?.dtype(), component, 1)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Tensor};

    use super::*;

    #[track_caller]
    fn check(kernel: usize, a: &[f64], b: &[f64], expected: &[f64]) {
        let (a, b) = (Tensor::new(&[a.len(), 1], a).unwrap(), Tensor::from_slice(b));
        let mut out = Tensor::zeros(ScalarType::ComplexDouble, &[0, 0]);
        let mut arguments = [Argument::Tensor(&a), Argument::Tensor(&b), Argument::Out(&mut out)];
        Call::new(&KERNELS[kernel]).run(&mut arguments).unwrap();
        let found: &[f64] = bytemuck::cast_slice(out.view().bytes());
        assert_eq!(found.len(), expected.len());
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close, "{found:?}");
    }

    #[test]
    fn values() {
        check(0, &[1.0, 2.0], &[3.0], &[1.0, 3.0, 2.0, 3.0]);
        let angles = [0.0, core::f64::consts::FRAC_PI_2, core::f64::consts::PI];
        check(1, &[2.0], &angles, &[2.0, 0.0, 0.0, 2.0, -2.0, 0.0]);
    }

    #[test]
    fn mixed_dtypes_are_rejected() {
        let (a, b) = (Tensor::from_slice(&[1.0_f32]), Tensor::from_slice(&[1.0_f64]));
        let mut out = Tensor::zeros(ScalarType::ComplexFloat, &[1]);
        let mut arguments = [Argument::Tensor(&a), Argument::Tensor(&b), Argument::Out(&mut out)];
        let error = Error::InvalidType { index: 1, found: ScalarType::Double };
        assert_eq!(Call::new(&KERNELS[0]).run(&mut arguments), Err(error));
    }
}
