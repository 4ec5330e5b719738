//! `aten::native_dropout.out`: dropout, without random numbers.
//!
//! | argument | type                                 | shape      |
//! |----------|--------------------------------------|------------|
//! | `input`  | real tensor                          | any        |
//! | `p`      | double in `0..=1`                    |            |
//! | `train`  | optional bool; default true          |            |
//! | `out0`   | tensor, castable from `input`        | as `input` |
//! | `out1`   | `bool` tensor: mask of kept elements | as `input` |
//!
//! Keeps all elements if `train` is false or `p` is 0, and none if `p` is 1. Tolerance: exact.
//! Errors: a `p` out of range is [`Error::InvalidArgument`] at index 1; training with a `p` between
//! 0 and 1 is [`Error::NotSupported`].
//! Source: ATen `native_dropout`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, Scalar};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::native_dropout.out",
    &[Arg::Tensor, Arg::Double, Arg::OptBool, Arg::Out, Arg::Out],
    native_dropout_out,
)];

fn native_dropout_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = Input::arg(args, 0)?;
    let p = args.double(1)?;
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::InvalidArgument { index: 1, expected: "a probability" });
    }
    let train = args.opt_scalar(2)?.is_none_or(Scalar::to_bool);
    let keep = match p {
        0.0 => true,
        _ if !train => true,
        1.0 => false,
        _ => return Err(Error::NotSupported { what: "dropout with random numbers" }),
    };
    // Resizes both outputs before it writes one.
    for (index, tensor) in [args.tensor(0)?; 2].into_iter().enumerate() {
        args.out(3 + index)?.resize(tensor.sizes())?;
    }
    let output = numbers!(
        |[x]| if keep { x } else { 0 },
        F => |[x]| if keep { x } else { 0.0 }
    );
    Pointwise::new([input])?.run(args, 3, output)?;
    let mask = numbers!(|_| i64::from(keep), F => |_| F::from(keep));
    Pointwise::new([input])?.with_bool_result().run(args, 4, mask)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Call, Tensor};

    use super::*;
    use crate::shared::pointwise::testing::bools;

    fn dropout(p: f64, train: Option<bool>) -> Result<(Vec<f32>, Vec<Bool>), Error> {
        let x = Tensor::from_slice(&[1.0_f32, -2.0]);
        let (mut y, mut mask) = (Tensor::from_slice(&[0.0_f32]), Tensor::from_slice(&bools(&[])));
        Call::new(&KERNELS[0]).run(&mut [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Double(p)),
            train.map_or(Argument::None, |train| Argument::Scalar(Scalar::Bool(train))),
            Argument::Out(&mut y),
            Argument::Out(&mut mask),
        ])?;
        Ok((y.data()?.to_vec(), mask.data()?.to_vec()))
    }

    #[test]
    fn values() {
        let kept = Ok((vec![1.0, -2.0], bools(&[true, true])));
        assert_eq!(dropout(0.5, Some(false)), kept);
        for train in [Some(true), None] {
            assert_eq!(dropout(0.0, train), kept);
            assert_eq!(dropout(1.0, train), Ok((vec![0.0, 0.0], bools(&[false, false]))));
            let random = Error::NotSupported { what: "dropout with random numbers" };
            assert_eq!(dropout(0.5, train), Err(random));
        }
    }
}
