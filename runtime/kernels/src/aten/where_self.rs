//! `aten::where.self_out`: elementwise choice between two tensors.
//!
//! | argument    | type                                   | shape                       |
//! |-------------|----------------------------------------|-----------------------------|
//! | `condition` | `bool` or u8 tensor                    | any                         |
//! | `self`      | real tensor                            | broadcasts with `condition` |
//! | `other`     | real tensor                            | broadcasts with `condition` |
//! | `out`       | tensor, castable from the common dtype | broadcast of all inputs     |
//!
//! Computes `self` where `condition` is nonzero and `other` elsewhere, in the common dtype of both.
//! Tolerance: exact.
//! Errors: another `condition` dtype is [`Error::InvalidType`] at index 0.
//! Source: ATen `where`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::pointwise::{Input, Pointwise, numbers, result_type};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::where.self_out",
    &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::Out],
    where_self_out,
)];

fn where_self_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let [condition, a, b] = [Input::arg(args, 0)?, Input::arg(args, 1)?, Input::arg(args, 2)?];
    if !matches!(condition.dtype(), ScalarType::Bool | ScalarType::Byte) {
        return Err(Error::InvalidType { index: 0, found: condition.dtype() });
    }
    let dtype = result_type(&[a, b])?;
    let select = numbers!(
        |[condition, a, b]| if condition != 0 { a } else { b },
        F => |[condition, a, b]| if condition != 0.0 { a } else { b }
    );
    Pointwise::in_dtype([condition, a, b], dtype).run(args, 3, select)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{bools, check, shaped, tensor};

    #[test]
    fn values() {
        let condition = || shaped(&[2, 1], &bools(&[true, false]));
        let (a, b) = (tensor(&[1.0_f32, f32::NAN]), tensor(&[3_i64, 4]));
        check(&KERNELS[0], [condition(), a, b], Ok(&[1.0_f32, f32::NAN, 3.0, 4.0]));
        let (a, b) = (tensor(&[i64::MAX]), tensor(&[i64::MIN]));
        check(&KERNELS[0], [condition(), a, b], Ok(&[i64::MAX, i64::MIN]));
    }

    #[test]
    fn condition_must_be_bool() {
        let error = Error::InvalidType { index: 0, found: ScalarType::Float };
        let x = || tensor(&[1.0_f32]);
        check::<f32, 3>(&KERNELS[0], [x(), x(), x()], Err(error));
    }
}
