//! `aten::split_with_sizes_copy.out`: split into chunks of given sizes.
//!
//! | argument      | type               | shape                               |
//! |---------------|--------------------|-------------------------------------|
//! | `self`        | tensor, any dtype  | at least 1 dimension                |
//! | `split_sizes` | ints, not negative |                                     |
//! | `dim`         | int                |                                     |
//! | `out`         | tensors, as `self` | `dim`: its element of `split_sizes` |
//!
//! The sum of `split_sizes` is the size of `dim`. Tolerance: exact.
//! Errors: another sum or another number of outputs is [`Error::InvalidArgument`].
//! Source: ATen `split_with_sizes_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{dim_args::existing_dim_arg, strided_view::split_arg};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::split_with_sizes_copy.out",
    &[Arg::Tensor, Arg::IntList, Arg::Int, Arg::OutList],
    split_with_sizes_copy,
)];

fn split_with_sizes_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dim = existing_dim_arg(args, 2, input.rank())?;
    let chunks = args.int_list(1)?;
    let sum = chunks.iter().try_fold(0_usize, |sum, chunk| {
        usize::try_from(chunk).ok().and_then(|chunk| sum.checked_add(chunk))
    });
    if sum != Some(input.sizes()[dim]) {
        let expected = "sizes whose sum is the size of the dimension";
        return Err(Error::InvalidArgument { index: 1, expected });
    }
    if args.out_list_len(3)? != chunks.len() {
        return Err(Error::InvalidArgument { index: 3, expected: "one tensor per chunk" });
    }
    split_arg(args, 3, &input, dim, |item| {
        chunks.get(item).and_then(|chunk| usize::try_from(chunk).ok()).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar};

    use super::*;
    use crate::shared::testing::{ints, iota};

    /// Sizes and elements of an output.
    type Chunk<'a> = (&'a [usize], &'a [i32]);

    #[track_caller]
    fn run(sizes: &[i64], expected: Result<[Chunk<'_>; 2], Error>) {
        let x = iota(&[2, 3]);
        let mut outs = [iota(&[1; 2][..2]), iota(&[1; 2][..2])];
        let list = Argument::Outs(outs.iter_mut().collect());
        let mut arguments =
            [Argument::Tensor(&x), ints(sizes), Argument::Scalar(Scalar::Int(1)), list];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        drop(arguments);
        let outs = outs.each_ref().map(|out| (out.sizes(), out.data().unwrap()));
        assert_eq!(result.map(|()| outs), expected);
    }

    #[test]
    fn values() {
        run(&[1, 2], Ok([(&[2, 1], &[0, 3]), (&[2, 2], &[1, 2, 4, 5])]));
        run(&[0, 3], Ok([(&[2, 0], &[]), (&[2, 3], &[0, 1, 2, 3, 4, 5])]));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(&[3], invalid(3, "one tensor per chunk"));
        run(&[4, -1], invalid(1, "sizes whose sum is the size of the dimension"));
        run(&[i64::MAX, i64::MAX, 5], invalid(1, "sizes whose sum is the size of the dimension"));
    }
}
