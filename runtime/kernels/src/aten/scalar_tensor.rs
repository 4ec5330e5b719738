//! `aten::scalar_tensor.out`: scalar as a tensor.
//!
//! | argument | type        | shape |
//! |----------|-------------|-------|
//! | `s`      | scalar      |       |
//! | `out`    | real tensor | `[]`  |
//!
//! `s` is cast to the dtype of `out`. Tolerance: exact.
//! Source: ATen `scalar_tensor`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::cast::fill_out;

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::scalar_tensor.out", &[Arg::Scalar, Arg::Out], scalar_tensor)];

fn scalar_tensor(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let value = args.scalar(0)?;
    fill_out(args, 1, &[], value)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::check;

    #[test]
    fn values() {
        let value = Argument::Scalar(Scalar::Double(3.7));
        check(&KERNELS[0], vec![value], Ok((&[], &[3])));
    }
}
