//! `aten::reflection_pad1d.out`, `reflection_pad2d.out`, `reflection_pad3d.out`: padding by
//! reflection.
//!
//! | argument  | type                                        | shape                         |
//! |-----------|---------------------------------------------|-------------------------------|
//! | `self`    | tensor, any dtype                           | at least 1, 2 or 3 dimensions |
//! | `padding` | ints: (before, after) pairs, last dim first |                               |
//! | `out`     | as `self`                                   | padded                        |
//!
//! Padding is less than the size. Negative padding crops. Tolerance: exact.
//! Errors: any other `padding` is [`Error::InvalidArgument`] at index 1.
//! Source: ATen `reflection_pad1d`, `reflection_pad2d`, `reflection_pad3d`.

use afferent_core::{Arg, Kernel};

use crate::shared::padding::{PaddingMode, pad};

const ARGS: &[Arg] = &[Arg::Tensor, Arg::IntList, Arg::Out];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::reflection_pad1d.out", ARGS, |_, args| pad(args, 1, PaddingMode::Reflect)),
    Kernel::new("aten::reflection_pad2d.out", ARGS, |_, args| pad(args, 2, PaddingMode::Reflect)),
    Kernel::new("aten::reflection_pad3d.out", ARGS, |_, args| pad(args, 3, PaddingMode::Reflect)),
];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Error};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn pad1d() {
        let x = iota(&[2, 3]);
        let run = |padding, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(padding)], expected);
        };
        run(&[2, 1], Ok((&[2, 6], &[2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4])));
        run(&[-1, 0], Ok((&[2, 2], &[1, 2, 4, 5])));
        let invalid = |expected| Err(Error::InvalidArgument { index: 1, expected });
        run(&[3, 0], invalid("padding that the size and the mode allow"));
        run(&[1], invalid("a pair of paddings for each of the last dimensions"));
        run(&[i64::MAX, i64::MAX], invalid("padding that the size and the mode allow"));
    }

    #[test]
    fn pad2d() {
        let x = iota(&[1, 3, 3]);
        let inputs = vec![Argument::Tensor(&x), ints(&[2, 1, 2, 0])];
        let expected = [
            8, 7, 6, 7, 8, 7, 5, 4, 3, 4, 5, 4, 2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4, 8, 7, 6, 7, 8,
            7,
        ];
        check(&KERNELS[1], inputs, Ok((&[1, 5, 6], &expected)));
    }
}
