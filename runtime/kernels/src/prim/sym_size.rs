//! `aten::sym_size.int` and `aten::sym_numel`: size of a dimension and number of elements.
//!
//! | argument | type                 | shape |
//! |----------|----------------------|-------|
//! | `self`   | tensor, any dtype    | any   |
//! | `dim`    | int; `sym_size` only |       |
//! | `out`    | int output           |       |
//!
//! Errors: a dimension out of range is [`Error::InvalidArgument`] at index 1.
//! Source: ExecuTorch `kernels/prim_ops`.

use afferent_core::{Arg, Args, Error, Kernel, Scalar};

use crate::shared::dim_args::existing_dim_arg;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::sym_numel", &[Arg::Tensor, Arg::OutScalar], |_, args| {
        let numel = args.tensor(0)?.numel();
        set_size(args, 1, numel)
    }),
    Kernel::new("aten::sym_size.int", &[Arg::Tensor, Arg::Int, Arg::OutScalar], |_, args| {
        let input = args.tensor(0)?;
        let dim = existing_dim_arg(args, 1, input.rank())?;
        set_size(args, 2, input.sizes()[dim])
    }),
];

/// Sets output `index` to a size.
fn set_size(args: &mut Args<'_>, index: usize, value: usize) -> Result<(), Error> {
    args.set_scalar(index, Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar};

    use super::*;
    use crate::shared::testing::iota;

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let mut out = Scalar::Int(0);
        let mut arguments = [Argument::Tensor(&x), Argument::OutScalar(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out, Scalar::Int(6));
        let mut size = |dim| {
            let dim = Argument::Scalar(Scalar::Int(dim));
            let mut arguments = [Argument::Tensor(&x), dim, Argument::OutScalar(&mut out)];
            Call::new(&KERNELS[1]).run(&mut arguments).map(|()| out)
        };
        assert_eq!(size(0), Ok(Scalar::Int(2)));
        assert_eq!(size(-1), Ok(Scalar::Int(3)));
        assert_eq!(
            size(2),
            Err(Error::InvalidArgument { index: 1, expected: "a dimension of the tensor" })
        );
    }
}
