//! `aten::bucketize.Tensor_out`, `aten::bucketize.Scalar_out`: index of the bucket of each value.
//!
//! | argument     | type                                | shape     |
//! |--------------|-------------------------------------|-----------|
//! | `self`       | real tensor, not u64, or scalar     | any       |
//! | `boundaries` | sorted real tensor, not u64         | `[n]`     |
//! | `out_int32`  | bool                                |           |
//! | `right`      | bool                                |           |
//! | `out`        | i64 tensor, or i32 with `out_int32` | as `self` |
//!
//! Bucket `i` ends at `boundaries[i]`, which it includes; with `right`, the next one does. NaN is
//! greater than all boundaries. Compares in the common dtype. Tolerance: exact.
//! Errors: `boundaries` of another rank. Source: ATen `bucketize`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::search::{Sequences, search};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::bucketize.Tensor_out",
        &[Arg::Tensor, Arg::Tensor, Arg::Bool, Arg::Bool, Arg::Out],
        bucketize,
    ),
    Kernel::new(
        "aten::bucketize.Scalar_out",
        &[Arg::Scalar, Arg::Tensor, Arg::Bool, Arg::Bool, Arg::Out],
        bucketize,
    ),
];

fn bucketize(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.tensor(1)?.rank() != 1 {
        return Err(Error::InvalidArgument { index: 1, expected: "a 1-d tensor" });
    }
    let right = args.bool(3)?;
    search(args, &Sequences { index: 1, sorter: None }, 0, right, 4)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn buckets() {
        let (x, boundaries) =
            (Tensor::from_slice(&[0.5_f32, 1.0, 3.0]), Tensor::from_slice(&[1_i64, 2]));
        for (right, expected) in [(false, [0, 0, 2]), (true, [0, 1, 2])] {
            let mut out = Tensor::zeros(ScalarType::Int, &[3]);
            let mut arguments = [
                Argument::Tensor(&x),
                Argument::Tensor(&boundaries),
                Argument::Scalar(Scalar::Bool(true)),
                Argument::Scalar(Scalar::Bool(right)),
                Argument::Out(&mut out),
            ];
            Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
            assert_eq!(out.data::<i32>().unwrap(), expected);
        }
        let mut out = Tensor::zeros(ScalarType::Long, &[]);
        let mut arguments = [
            Argument::Scalar(Scalar::Double(1.5)),
            Argument::Tensor(&boundaries),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[1]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i64>().unwrap(), [1]);
    }
}
