//! `aten::_local_scalar_dense`: element of a one-element tensor as a scalar.
//!
//! | argument | type                       | shape                    |
//! |----------|----------------------------|--------------------------|
//! | `self`   | tensor, any dtype          | one element              |
//! | `out`    | int, double or bool output | from the dtype of `self` |
//!
//! Errors: another number of elements is [`Error::InvalidArgument`] at index 0.
//! Source: ExecuTorch `kernels/prim_ops`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, Scalar, ScalarType};

use crate::shared::dtype::{Number, with_dtype};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::_local_scalar_dense", &[Arg::Tensor, Arg::OutScalar], local_scalar_dense)];

fn local_scalar_dense(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dtype = input.dtype();
    let scalar = with_dtype!(all, dtype, 0, T => {
        let [element] = *input.data::<T>()? else {
            return Err(Error::InvalidArgument { index: 0, expected: "one element" });
        };
        Ok(if dtype.is_float() {
            Scalar::Double(element.to_f64())
        } else if dtype == ScalarType::Bool {
            Scalar::Bool(element.to_i64() != 0)
        } else {
            Scalar::Int(element.to_i64())
        })
    })?;
    args.set_scalar(1, scalar)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn run(x: &Tensor, expected: Result<Scalar, Error>) {
        let mut out = Scalar::Int(0);
        let mut arguments = [Argument::Tensor(x), Argument::OutScalar(&mut out)];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        assert_eq!(result.map(|()| out), expected);
    }

    #[test]
    fn values() {
        run(&Tensor::from_slice(&[-7_i8]), Ok(Scalar::Int(-7)));
        run(&Tensor::from_slice(&[0.5_f32]), Ok(Scalar::Double(0.5)));
        run(&Tensor::from_slice(&[Bool::from(true)]), Ok(Scalar::Bool(true)));
        let error = Error::InvalidArgument { index: 0, expected: "one element" };
        run(&Tensor::from_slice(&[1, 2]), Err(error));
        run(&Tensor::from_slice::<f64>(&[]), Err(error));
    }
}
