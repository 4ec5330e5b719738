//! `aten::zeros.out`, `aten::ones.out`: tensor of zeros or ones.
//!
//! | argument | type               | shape  |
//! |----------|--------------------|--------|
//! | `size`   | ints, not negative |        |
//! | `out`    | real tensor        | `size` |
//!
//! Tolerance: exact.
//! Errors: sizes that are negative. Source: ATen `zeros`, `ones`.

use afferent_core::{Arg, Kernel, Scalar};

use crate::shared::{cast::fill_out, dim_args::sizes_arg};

const ARGS: &[Arg] = &[Arg::IntList, Arg::Out];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::ones.out", ARGS, |_, args| {
        let sizes = sizes_arg(args, 0)?;
        fill_out(args, 1, &sizes, Scalar::Int(1))
    }),
    Kernel::new("aten::zeros.out", ARGS, |_, args| {
        let sizes = sizes_arg(args, 0)?;
        fill_out(args, 1, &sizes, Scalar::Int(0))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::testing::{check, ints};

    #[test]
    fn values() {
        check(&KERNELS[0], vec![ints(&[2, 1])], Ok((&[2, 1], &[1, 1])));
        check(&KERNELS[1], vec![ints(&[2])], Ok((&[2], &[0, 0])));
    }
}
