//! `et_copy::_h2d_copy.out` and `et_copy::_d2h_copy.out`: a copy to or from a device.
//!
//! | argument | type              | shape     |
//! |----------|-------------------|-----------|
//! | `self`   | tensor, any dtype | any       |
//! | `out`    | as `self`         | as `self` |
//!
//! Both are plain copies, because every tensor that a kernel sees lies in the host's memory. Exact.
//! Source: ExecuTorch `et_copy_ops.yaml`.

use afferent_core::{Arg, Kernel};

use crate::strided::duplicate;

const ARGS: &[Arg] = &[Arg::Tensor, Arg::Out];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("et_copy::_d2h_copy.out", ARGS, |_, args| duplicate(args, 1)),
    Kernel::new("et_copy::_h2d_copy.out", ARGS, |_, args| duplicate(args, 1)),
];

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::testing::{check, iota};

    #[test]
    fn values() {
        for kernel in KERNELS {
            check(kernel, vec![Argument::Tensor(&iota(&[2]))], Ok((&[2], &[0, 1])));
        }
    }
}
