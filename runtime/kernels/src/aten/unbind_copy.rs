//! `aten::unbind_copy.int_out`: slices at all indices of a dimension.
//!
//! | argument | type               | shape                |
//! |----------|--------------------|----------------------|
//! | `self`   | tensor, any dtype  | at least 1 dimension |
//! | `dim`    | int                |                      |
//! | `out`    | tensors, as `self` | `self` without `dim` |
//!
//! Tolerance: exact.
//! Errors: another number of outputs is [`Error::InvalidArgument`].
//! Source: ATen `unbind_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::existing_dim_arg,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::unbind_copy.int_out",
    &[Arg::Tensor, Arg::Int, Arg::OutList],
    unbind_copy,
)];

fn unbind_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dim = existing_dim_arg(args, 1, input.rank())?;
    let input_view = StridedView::of(&input);
    let count = input_view.sizes[dim];
    if args.out_list_len(2)? != count {
        return Err(Error::InvalidArgument {
            index: 2,
            expected: "one tensor per index of the dimension",
        });
    }
    let mut sizes = input_view.sizes;
    sizes.remove(dim);
    for item in 0..count {
        args.out_list(2, item)?.resize(&sizes)?;
    }
    for item in 0..count {
        let mut view = input_view;
        view.select(dim, item);
        materialize(&mut args.out_list(2, item)?, 2, &input, &view)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar};

    use super::*;
    use crate::shared::testing::iota;

    /// Sizes and elements of an output.
    type Slice<'a> = (&'a [usize], &'a [i32]);

    #[track_caller]
    fn run(dim: i64, expected: Result<[Slice<'_>; 2], Error>) {
        let x = iota(&[2, 3]);
        let mut outs = [iota(&[1; 2][..1]), iota(&[1; 2][..1])];
        let list = Argument::Outs(outs.iter_mut().collect());
        let mut arguments = [Argument::Tensor(&x), Argument::Scalar(Scalar::Int(dim)), list];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        drop(arguments);
        let outs = outs.each_ref().map(|out| (out.sizes(), out.data().unwrap()));
        assert_eq!(result.map(|()| outs), expected);
    }

    #[test]
    fn values() {
        run(0, Ok([(&[3], &[0, 1, 2]), (&[3], &[3, 4, 5])]));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(1, invalid(2, "one tensor per index of the dimension"));
        run(2, invalid(1, "a dimension of the tensor"));
    }
}
