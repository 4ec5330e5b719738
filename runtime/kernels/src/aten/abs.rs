//! `aten::abs.out`: absolute value.
//!
//! | argument | type                                                          | shape     |
//! |----------|---------------------------------------------------------------|-----------|
//! | `self`   | real or complex tensor                                        | any       |
//! | `out`    | tensor, castable from `self`; if complex, its component dtype | as `self` |
//!
//! Computes `|x|`; the least integer of a dtype wraps to itself. Tolerance: exact.
//! Source: ATen `abs`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Float, check_dtype},
    complex::{component_dtype, map, with_complex},
    pointwise::{Input, Pointwise, numbers},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::abs.out", &[Arg::Tensor, Arg::Out], abs_out)];

fn abs_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if let Some(component) = component_dtype(dtype) {
        check_dtype(args.out(1)?.dtype(), component, 1)?;
        return with_complex!(dtype, A => map::<A, 1>(args, 1, |[[re, im]]| {
            [A::from_double(libm::hypot(re.to_double(), im.to_double())), 0.0]
        }));
    }
    let call = Pointwise::new([Input::arg(args, 0)?])?;
    call.run(args, 1, numbers!(|[x]| x.wrapping_abs(), F => |[x]| x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        check(&KERNELS[0], [tensor(&[-1.5_f32, f32::NEG_INFINITY])], Ok(&[1.5_f32, f32::INFINITY]));
        check(&KERNELS[0], [tensor(&[-1_i8, i8::MIN])], Ok(&[1_i8, i8::MIN]));
    }
}
