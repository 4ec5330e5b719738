//! `aten::searchsorted.Tensor_out`, `aten::searchsorted.Scalar_out`: positions of values in sorted
//! sequences.
//!
//! | argument          | type                                | shape                      |
//! |-------------------|-------------------------------------|----------------------------|
//! | `sorted_sequence` | real tensor, not u64                | `[n]`, or `[…, n]`         |
//! | `self`            | real tensor, not u64, or scalar     | any; `[…, m]` for `[…, n]` |
//! | `out_int32`       | bool                                |                            |
//! | `right`           | bool                                |                            |
//! | `side`            | optional string: `left` or `right`  |                            |
//! | `sorter`          | optional i64 tensor                 | as `sorted_sequence`       |
//! | `out`             | i64 tensor, or i32 with `out_int32` | as `self`                  |
//!
//! Returns the first position at which the value can be inserted, or the last one with `right`.
//! `sorter` has the indices that sort each sequence. NaN is greater than all elements. Compares in
//! the common dtype. Tolerance: exact.
//! Errors: mismatched sizes, indices of `sorter` that are out of range, a `side` that contradicts
//! `right`. Source: ATen `searchsorted`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::search::{Sequences, search};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::searchsorted.Tensor_out",
        &[Arg::Tensor, Arg::Tensor, Arg::Bool, Arg::Bool, Arg::OptStr, Arg::OptTensor, Arg::Out],
        searchsorted,
    ),
    Kernel::new(
        "aten::searchsorted.Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Bool, Arg::Bool, Arg::OptStr, Arg::OptTensor, Arg::Out],
        searchsorted,
    ),
];

fn searchsorted(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let right = args.bool(3)?;
    let right = match args.opt_str(4)? {
        None => right,
        Some("right") => true,
        Some("left") if !right => false,
        Some(_) => {
            let expected = "`left` or `right`, and not `left` if `right` is true";
            return Err(Error::InvalidArgument { index: 4, expected });
        }
    };
    let sequences = Sequences { index: 0, sorter: args.opt_tensor(5)?.map(|sorter| (sorter, 5)) };
    search(args, &sequences, 1, right, 6)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Tensor};

    use super::*;
    use afferent_core::Scalar;

    fn run(
        sequence: &Tensor,
        values: &Tensor,
        right: bool,
        sorter: Option<&Tensor>,
    ) -> Result<Vec<i64>, Error> {
        let mut out =
            Tensor::zeros(afferent_core::ScalarType::Long, &vec![0; values.sizes().len()]);
        let mut arguments = [
            Argument::Tensor(sequence),
            Argument::Tensor(values),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Scalar(Scalar::Bool(right)),
            Argument::None,
            sorter.map_or(Argument::None, Argument::Tensor),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn positions() {
        let sequence = Tensor::from_slice(&[1.0_f32, 2.0, 2.0, 4.0]);
        let values = Tensor::from_slice(&[0.0_f32, 2.0, 4.0, 5.0, f32::NAN]);
        assert_eq!(run(&sequence, &values, false, None), Ok(vec![0, 1, 3, 4, 4]));
        assert_eq!(run(&sequence, &values, true, None), Ok(vec![0, 3, 4, 4, 4]));
        let sequences = Tensor::new(&[2, 2], &[1_i32, 3, 5, 7]).unwrap();
        let values = Tensor::new(&[2, 1], &[3_i32, 3]).unwrap();
        assert_eq!(run(&sequences, &values, false, None), Ok(vec![1, 0]));
        let unsorted = Tensor::from_slice(&[4.0_f32, 1.0, 2.0]);
        let sorter = Tensor::from_slice(&[1_i64, 2, 0]);
        let values = Tensor::from_slice(&[2.0_f32, 9.0]);
        assert_eq!(run(&unsorted, &values, false, Some(&sorter)), Ok(vec![1, 3]));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let sequences = Tensor::new(&[2, 2], &[1_i32, 3, 5, 7]).unwrap();
        for sizes in [&[3, 1][..], &[2], &[1, 2, 1]] {
            let values = Tensor::zeros(afferent_core::ScalarType::Int, sizes);
            assert!(run(&sequences, &values, false, None).is_err(), "{sizes:?}");
        }
        let (sequence, value) = (Tensor::from_slice(&[1_i32, 2]), Tensor::from_slice(&[1_i32]));
        for sorter in [&[0_i64, 2][..], &[0, -1], &[0]] {
            let sorter = Tensor::from_slice(sorter);
            assert!(run(&sequence, &value, false, Some(&sorter)).is_err());
        }
    }
}
