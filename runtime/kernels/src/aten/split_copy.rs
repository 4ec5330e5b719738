//! `aten::split_copy.Tensor_out`: split into chunks of equal size.
//!
//! | argument     | type               | shape                                              |
//! |--------------|--------------------|----------------------------------------------------|
//! | `self`       | tensor, any dtype  | at least 1 dimension                               |
//! | `split_size` | int                |                                                    |
//! | `dim`        | int                |                                                    |
//! | `out`        | tensors, as `self` | `dim`: `split_size`; the last chunk may be smaller |
//!
//! Tolerance: exact.
//! Errors: another number of outputs, or a `split_size` below 1 for a nonempty dimension, is
//! [`Error::InvalidArgument`].
//! Source: ATen `split_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{dim_args::existing_dim_arg, strided_view::split_arg};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::split_copy.Tensor_out",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::OutList],
    split_copy,
)];

fn split_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dim = existing_dim_arg(args, 2, input.rank())?;
    let size = input.sizes()[dim];
    let chunk = usize::try_from(args.int(1)?).ok().filter(|&chunk| chunk > 0 || size == 0);
    let chunk = chunk.ok_or(Error::InvalidArgument { index: 1, expected: "a positive size" })?;
    let count = if size == 0 { 1 } else { size.div_ceil(chunk) };
    if args.out_list_len(3)? != count {
        return Err(Error::InvalidArgument { index: 3, expected: "one tensor per chunk" });
    }
    split_arg(args, 3, &input, dim, |item| chunk.min(size.saturating_sub(item * chunk)))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar};

    use super::*;
    use crate::shared::testing::iota;

    /// Sizes and elements of an output.
    type Chunk<'a> = (&'a [usize], &'a [i32]);

    #[track_caller]
    fn run(size: i64, expected: Result<[Chunk<'_>; 2], Error>) {
        let x = iota(&[2, 3]);
        let mut outs = [iota(&[1; 2][..2]), iota(&[1; 2][..2])];
        let list = Argument::Outs(outs.iter_mut().collect());
        let mut arguments = [Argument::Tensor(&x), int(size), int(-1), list];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        drop(arguments);
        let outs = outs.each_ref().map(|out| (out.sizes(), out.data().unwrap()));
        assert_eq!(result.map(|()| outs), expected);
    }

    fn int(value: i64) -> Argument<'static> {
        Argument::Scalar(Scalar::Int(value))
    }

    #[test]
    fn values() {
        run(2, Ok([(&[2, 2], &[0, 1, 3, 4]), (&[2, 1], &[2, 5])]));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(1, invalid(3, "one tensor per chunk"));
        run(i64::MAX, invalid(3, "one tensor per chunk"));
        run(0, invalid(1, "a positive size"));
        run(i64::MIN, invalid(1, "a positive size"));
    }
}
