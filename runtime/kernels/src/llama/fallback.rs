//! `llama::fallback.out`: copy that keeps an operator out of a delegate.
//!
//! | argument | type              | shape      |
//! |----------|-------------------|------------|
//! | `input`  | tensor, any dtype | any        |
//! | `output` | as `input`        | as `input` |
//!
//! Exact.
//! Errors: another dtype is [`Error::InvalidType`](afferent_core::Error::InvalidType).
//! Source: ExecuTorch `op_fallback.cpp`.

use afferent_core::{Arg, Kernel};

use crate::shared::strided_view::clone_arg;

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("llama::fallback.out", &[Arg::Tensor, Arg::Out], |_, args| clone_arg(args, 1))];

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 2]);
        check(&KERNELS[0], vec![Argument::Tensor(&x)], Ok((&[2, 2], &[0, 1, 2, 3])));
    }
}
