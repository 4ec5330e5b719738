//! `et_copy::_h2d_copy.out`: copy from the host to a device.
//!
//! | argument | type              | shape     |
//! |----------|-------------------|-----------|
//! | `self`   | tensor, any dtype | any       |
//! | `out`    | as `self`         | as `self` |
//!
//! Plain copy: all tensors of a kernel are in host memory. Exact.
//! Source: ExecuTorch `et_copy_ops.yaml`.

use afferent_core::{Arg, Kernel};

use crate::shared::strided_view::clone_arg;

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("et_copy::_h2d_copy.out", &[Arg::Tensor, Arg::Out], |_, args| {
        clone_arg(args, 1)
    })];

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        check(&KERNELS[0], vec![Argument::Tensor(&iota(&[2]))], Ok((&[2], &[0, 1])));
    }
}
