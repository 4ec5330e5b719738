//! `aten::abs.out`: absolute value.
//!
//! | argument | type                                                          | shape     |
//! |----------|---------------------------------------------------------------|-----------|
//! | `self`   | real or complex tensor                                        | any       |
//! | `out`    | tensor, castable from `self`; if complex, its component dtype | as `self` |
//!
//! Computes `|x|`; the least integer of a dtype wraps to itself. Tolerance: exact; 2 ulp
//! if complex.
//! Source: ATen `abs`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};
use afferent_simd::math;

use crate::shared::{
    accumulator::{Accumulator, Float, check_dtype},
    complex::{component_dtype, map, numbers as parts, with_complex},
    loop_nest::{out_strides, strides_of},
    pointwise::{Input, Pointwise, numbers},
    simd::isa_or_fallback,
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::abs.out", &[Arg::Tensor, Arg::Out], abs_out)];

fn abs_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if let Some(component) = component_dtype(dtype) {
        check_dtype(args.out(1)?.dtype(), component, 1)?;
        if dtype == ScalarType::ComplexFloat && adjacent_magnitudes(args)? {
            return Ok(());
        }
        return with_complex!(dtype, A => map::<A, 1>(args, 1, |[[re, im]]| {
            [A::from_double(libm::hypot(re.to_double(), im.to_double())), 0.0]
        }));
    }
    let call = Pointwise::new([Input::arg(args, 0)?])?;
    call.run(args, 1, numbers!(|[x]| x.wrapping_abs(), F => |[x]| x.abs()))
}

/// Elements whose parts are separated at a time.
const BLOCK: usize = 256;

/// Computes the magnitudes of a tensor whose elements have the order of the output; false if they have
/// another one.
fn adjacent_magnitudes(args: &mut Args<'_>) -> Result<bool, Error> {
    let x = args.tensor(0)?;
    let mut out = args.out(1)?;
    out.resize(x.sizes())?;
    if strides_of(&x) != out_strides(&out) {
        return Ok(false);
    }
    let mut block = [[0.0; BLOCK]; 2];
    let parts = parts::<f32>(&x)?.as_chunks::<2>().0.chunks(BLOCK);
    for (parts, out) in parts.zip(out.data_mut::<f32>()?.chunks_mut(BLOCK)) {
        let [re, im] = &mut block;
        for ((re, im), part) in re.iter_mut().zip(im).zip(parts) {
            [*re, *im] = *part;
        }
        math::hypot(isa_or_fallback(), &block[0], &block[1], out);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Tensor};

    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        check(&KERNELS[0], [tensor(&[-1.5_f32, f32::NEG_INFINITY])], Ok(&[1.5_f32, f32::INFINITY]));
        check(&KERNELS[0], [tensor(&[-1_i8, i8::MIN])], Ok(&[1_i8, i8::MIN]));
    }

    #[test]
    fn magnitudes() {
        let inf = f32::INFINITY;
        let parts = [3.0, -4.0, 1e38, 1e38, -inf, f32::NAN, 0.0, 1e-45, f32::NAN, 0.0, 0.0, -0.0];
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_ne_bytes()).collect();
        let expected = [5.0, 1.414_213_6e38, inf, 1e-45, f32::NAN, 0.0];
        // An output in rows, also of an input in columns.
        for (dim_order, order) in [([0, 1], [0, 1, 2, 3, 4, 5]), ([1, 0], [0, 2, 4, 1, 3, 5])] {
            let x = Tensor::from_bytes(ScalarType::ComplexFloat, &[2, 3], &dim_order, &bytes);
            let mut out = Tensor::zeros(ScalarType::Float, &[2, 3]);
            let (x, expected) = (x.unwrap(), order.map(|at| expected[at]));
            let mut arguments = vec![Argument::Tensor(&x), Argument::Out(&mut out)];
            Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
            drop(arguments);
            for (found, expected) in out.data::<f32>().unwrap().iter().zip(expected) {
                let is_near = (found - expected).abs() <= 2e-7 * expected;
                let is_same = *found == expected || found.is_nan() && expected.is_nan();
                assert!(is_near || is_same, "{found:?} is not {expected:?}");
            }
        }
    }
}
