//! `aten::_conj_physical.out`: complex conjugate.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real or complex tensor       | any       |
//! | `out`    | tensor, castable from `self` | as `self` |
//!
//! Computes `re - i im`; copies real tensors. Tolerance: exact.
//! Source: ATen `_conj_physical`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    complex::{common_complex, conj, map, with_complex},
    pointwise::{Input, Pointwise, numbers},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::_conj_physical.out", &[Arg::Tensor, Arg::Out], conj_physical_out)];

fn conj_physical_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = Input::arg(args, 0)?;
    if let Some(dtype) = common_complex(&[input.dtype()]) {
        check_dtype(args.out(1)?.dtype(), dtype, 1)?;
        return with_complex!(dtype, A => map::<A, 1>(args, 1, |[x]| conj(x)));
    }
    let call = Pointwise::in_dtype([input], input.dtype());
    call.run(args, 1, numbers!(|[x]| x, F => |[x]| x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        check(&KERNELS[0], [tensor(&[1.5_f32, f32::NAN])], Ok(&[1.5_f32, f32::NAN]));
        check(&KERNELS[0], [tensor(&[i64::MIN, 2])], Ok(&[i64::MIN, 2]));
    }
}
