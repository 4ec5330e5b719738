//! `aten::clone.out`, `alias_copy.out`, `detach_copy.out`, `lift_fresh_copy.out`: copy.
//!
//! | argument        | type                  | shape     |
//! |-----------------|-----------------------|-----------|
//! | `self`          | tensor, any dtype     | any       |
//! | `memory_format` | ignored; only `clone` |           |
//! | `out`           | as `self`             | as `self` |
//!
//! `out` keeps its dim order. Tolerance: exact.
//! Errors: another dtype of `out` is [`Error::InvalidType`].
//! Source: ATen `clone`.

use afferent_core::{Arg, Kernel};

use crate::shared::strided_view::clone_arg;

const ARGS: &[Arg] = &[Arg::Tensor, Arg::Out];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::clone.out", &[Arg::Tensor, Arg::Ignored, Arg::Out], |_, args| {
        clone_arg(args, 2)
    }),
    Kernel::new("aten::alias_copy.out", ARGS, |_, args| clone_arg(args, 1)),
    Kernel::new("aten::detach_copy.out", ARGS, |_, args| clone_arg(args, 1)),
    Kernel::new("aten::lift_fresh_copy.out", ARGS, |_, args| clone_arg(args, 1)),
];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Error, ScalarType, Tensor};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let (x, floats) = (iota(&[2, 2]), Tensor::zeros(ScalarType::Float, &[2, 2]));
        for kernel in KERNELS {
            let inputs = |x| {
                let ignored = (kernel.args.len() == 3).then_some(Argument::None);
                [Argument::Tensor(x)].into_iter().chain(ignored).collect()
            };
            check(kernel, inputs(&x), Ok((&[2, 2], &[0, 1, 2, 3])));
            let error =
                Error::InvalidType { index: kernel.args.len() as u8 - 1, found: ScalarType::Int };
            check(kernel, inputs(&floats), Err(error));
        }
    }

    #[test]
    fn dim_order_of_out_is_kept() {
        let x = iota(&[2, 2]);
        let mut out = Tensor::zeros(ScalarType::Int, &[2, 2]);
        out.set_dim_order(&[1, 0]).unwrap();
        let mut arguments = [Argument::Tensor(&x), Argument::None, Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i32>().unwrap(), [0, 2, 1, 3]);
    }
}
