//! `aten::constant_pad_nd.out`: padding with a constant.
//!
//! | argument | type                                        | shape  |
//! |----------|---------------------------------------------|--------|
//! | `self`   | real tensor                                 | any    |
//! | `pad`    | ints: (before, after) pairs, last dim first |        |
//! | `value`  | scalar                                      |        |
//! | `out`    | as `self`                                   | padded |
//!
//! `value` is cast to the dtype of `self`. Negative padding crops. Tolerance: exact.
//! Errors: [`Error::InvalidArgument`] at index 1 for a `pad` of odd length, with too many pairs, or
//! that crops more than the size.
//! Source: ATen `constant_pad_nd`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    cast::{fill, scalar_bytes},
    padding::{PaddingMode, copy_segments, pad_arg},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::constant_pad_nd.out",
    &[Arg::Tensor, Arg::IntList, Arg::Scalar, Arg::Out],
    constant_pad_nd,
)];

fn constant_pad_nd(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let value = scalar_bytes(args.scalar(2)?, input.dtype(), 2)?;
    let (sizes, segments) = pad_arg(args, 1, &input, PaddingMode::Constant)?;
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), input.dtype(), 3)?;
    out.resize(&sizes)?;
    // Without padding, all elements are copied and none is filled.
    if segments.iter().zip(sizes.iter()).any(|(segments, &size)| segments[0].len < size) {
        fill(out.bytes_mut()?, input.dtype(), value)?;
    }
    copy_segments(&mut out, &input, &segments)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 2]);
        let run = |pad, expected| {
            let value = Argument::Scalar(Scalar::Double(9.5));
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(pad), value], expected);
        };
        run(&[1, 0], Ok((&[2, 3], &[9, 0, 1, 9, 2, 3])));
        run(&[-1, 1, 0, -1], Ok((&[1, 2], &[1, 9])));
        run(&[], Ok((&[2, 2], &[0, 1, 2, 3])));
        run(&[-1, 1], Ok((&[2, 2], &[1, 9, 3, 9])));
        run(&[0, 0, -2, 1], Ok((&[1, 2], &[9, 9])));
        let invalid = |expected| Err(Error::InvalidArgument { index: 1, expected });
        run(&[1], invalid("a pair of paddings for each of the last dimensions"));
        run(&[0; 6], invalid("a pair of paddings for each of the last dimensions"));
        run(&[-3, 9], invalid("padding that the size and the mode allow"));
        run(&[i64::MIN, i64::MAX], invalid("padding that the size and the mode allow"));
    }
}
