//! `aten::_embedding_bag.out`, `aten::_embedding_bag_forward_only.out`: sum, mean or maximum of
//! table rows per bag.
//!
//! | argument              | type                                   | shape                    |
//! |-----------------------|----------------------------------------|--------------------------|
//! | `weight`              | floating-point tensor                  | `[rows, k]`              |
//! | `indices`             | i32 or i64 tensor                      | `[n]`                    |
//! | `offsets`             | i32 or i64 tensor: start of each bag   | `[bags]` or `[bags + 1]` |
//! | `scale_grad_by_freq`  | bool, ignored                          |                          |
//! | `mode`                | int: 0 sum, 1 mean, 2 max              |                          |
//! | `sparse`              | bool, ignored                          |                          |
//! | `per_sample_weights`  | optional, as `weight`; only sum        | `[n]`                    |
//! | `include_last_offset` | bool                                   |                          |
//! | `padding_idx`         | int: row to skip; none if negative     |                          |
//! | `out0`                | as `weight`                            | `[bags, k]`              |
//! | `out1`                | i32 or i64 tensor: bag of each index   | `[n]`                    |
//! | `out2`                | as `out1`: size of each bag; 0 for sum | `[bags]`                 |
//! | `out3`                | as `out1`: row of each maximum         | `[bags, k]` or `[bags]`  |
//!
//! With `include_last_offset`, the last offset starts no bag. For sum and mean, `out3` equals
//! `out2`. An empty bag gives zeros. A maximum is the first among equal elements; NaN is the
//! maximum only if it comes first.
//! As in ATen, the fast path for `f32`, `f16` and `bf16` without `padding_idx` differs: a sum
//! leaves `out1` empty, and in a sum or mean with `include_last_offset` the last bag ends at the
//! last offset. Otherwise the last bag ends at the end of `indices`.
//! In a sum, `_embedding_bag_forward_only` has one size for each offset, also for an included last
//! one.
//! Half types are computed in `f32`. Tolerance: 1e-5.
//! Errors: an index out of range; offsets that do not start at zero, decrease, or exceed `n`; other
//! modes, ranks or dtypes. Source: ATen `_embedding_bag`.

use core::ops::Range;

use afferent_core::{Arg, Args, Error, Kernel, ScalarType};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{CHUNK, Reader, Writer},
    loop_nest::{out_strides, strides_of},
};

const ARGS: &[Arg] = &[
    Arg::Tensor,
    Arg::Tensor,
    Arg::Tensor,
    Arg::Bool,
    Arg::Int,
    Arg::Bool,
    Arg::OptTensor,
    Arg::Bool,
    Arg::Int,
    Arg::Out,
    Arg::Out,
    Arg::Out,
    Arg::Out,
];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::_embedding_bag.out", ARGS, |_, args| embedding_bag_out(args, false)),
    Kernel::new("aten::_embedding_bag_forward_only.out", ARGS, |_, args| {
        embedding_bag_out(args, true)
    }),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

/// Bags as ranges of `indices`.
struct Bags<'a> {
    indices: Reader<'a, i64>,
    /// Number of indices.
    len: usize,
    offsets: Reader<'a, i64>,
    /// Number of bags.
    count: usize,
    /// End of the last bag in sums and means.
    last_end: usize,
    padding_idx: Option<usize>,
}

impl<'a> Bags<'a> {
    /// Bags of the arguments, for a table of `rows` rows. With `ends_at_last_offset`, an included
    /// last offset is the end of the last bag.
    fn new(args: &Args<'a>, rows: usize, ends_at_last_offset: bool) -> Result<Self, Error> {
        let invalid = |index, expected| Error::InvalidArgument { index, expected };
        let (indices, offsets) = (args.tensor(1)?, args.tensor(2)?);
        for (tensor, index) in [(&indices, 1), (&offsets, 2)] {
            check_index_dtype(tensor.dtype(), index)?;
            if tensor.rank() != 1 {
                return Err(invalid(index, "a 1-d tensor"));
            }
        }
        let (len, num_offsets) = (indices.numel(), offsets.numel());
        let include_last_offset = args.bool(7)?;
        let count = num_offsets.checked_sub(usize::from(include_last_offset));
        let count = count.ok_or(invalid(2, "at least one offset with `include_last_offset`"))?;
        let padding_idx = usize::try_from(args.int(8)?).ok();
        let (indices, offsets) = (Reader::new(indices, 1)?, Reader::new(offsets, 2)?);
        let mut bags = Self { indices, len, offsets, count, last_end: len, padding_idx };
        let mut previous = 0;
        for i in 0..num_offsets {
            let offset = bags.offset(i).filter(|&offset| previous <= offset && offset <= len);
            previous = offset.filter(|&offset| i > 0 || offset == 0).ok_or(invalid(
                2,
                "offsets from 0 that do not decrease or exceed the number of indices",
            ))?;
        }
        if include_last_offset && ends_at_last_offset {
            bags.last_end = previous;
        }
        if (0..len).any(|i| bags.row(i).is_none_or(|row| row >= rows)) {
            return Err(invalid(1, "indices in range"));
        }
        Ok(bags)
    }

    fn offset(&self, bag: usize) -> Option<usize> {
        usize::try_from(self.offsets.get(bag)).ok()
    }

    fn row(&self, i: usize) -> Option<usize> {
        usize::try_from(self.indices.get(i)).ok()
    }

    /// Range of `indices` of a bag. The last bag ends at `last_end`.
    fn range(&self, bag: usize, last_end: usize) -> Range<usize> {
        let next = if bag + 1 < self.count { self.offset(bag + 1) } else { None };
        self.offset(bag).unwrap_or(0)..next.unwrap_or(last_end)
    }

    /// Positions in `indices` of a bag and their table rows, without the padding row.
    fn rows(&self, bag: usize, last_end: usize) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.range(bag, last_end).filter_map(|i| Some((i, self.row(i)?)));
        rows.filter(|&(_, row)| Some(row) != self.padding_idx)
    }
}

/// Embedding table and the reduction of its rows.
struct Table<'a, A> {
    weight: Reader<'a, A>,
    strides: [usize; 2],
    per_sample_weights: Option<Reader<'a, A>>,
    mode: Mode,
}

impl<A: Float> Table<'_, A> {
    /// Reduces the rows of a bag in the columns from `start` on: adds them to `values`, or writes
    /// their maxima to `values` and the rows of the maxima to `max_rows`.
    fn reduce_bag(
        &self,
        bags: &Bags<'_>,
        bag: usize,
        start: usize,
        values: &mut [A],
        max_rows: &mut [i64],
    ) {
        let mut buffer = [A::default(); CHUNK];
        let elements = &mut buffer[..values.len()];
        let mut is_first = true;
        for (i, row) in bags.rows(bag, bags.last_end) {
            let offset = row * self.strides[0] + start * self.strides[1];
            self.weight.read(offset, self.strides[1], elements);
            let sample_weight = self.per_sample_weights.map_or(A::ONE, |weights| weights.get(i));
            for ((value, max_row), &x) in values.iter_mut().zip(&mut *max_rows).zip(&*elements) {
                if self.mode != Mode::Max {
                    *value = *value + x * sample_weight;
                } else if is_first || x > *value {
                    (*value, *max_row) = (x, i64::try_from(row).unwrap_or(i64::MAX));
                }
            }
            is_first = false;
        }
    }
}

fn embedding_bag_out(args: &mut Args<'_>, is_forward_only: bool) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if let Some(weights) = args.opt_tensor(6)? {
        check_dtype(weights.dtype(), dtype, 6)?;
    }
    check_dtype(args.out(9)?.dtype(), dtype, 9)?;
    for index in 10..13 {
        check_index_dtype(args.out(usize::from(index))?.dtype(), index)?;
    }
    with_float_accumulator!(dtype, 0, A => embedding_bag::<A>(args, is_forward_only))
}

/// Returns an error for argument `index` unless `found` is `i32` or `i64`.
fn check_index_dtype(found: ScalarType, index: u8) -> Result<(), Error> {
    match found {
        ScalarType::Int | ScalarType::Long => Ok(()),
        _ => Err(Error::InvalidType { index, found }),
    }
}

fn embedding_bag<A: Float>(args: &mut Args<'_>, is_forward_only: bool) -> Result<(), Error> {
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let (weight, sample_weights) = (args.tensor(0)?, args.opt_tensor(6)?);
    let &[rows, width] = weight.sizes() else { return Err(invalid(0, "a matrix")) };
    let mode = match args.int(4)? {
        0 => Mode::Sum,
        1 => Mode::Mean,
        2 => Mode::Max,
        _ => return Err(invalid(4, "0, 1 or 2")),
    };
    let strides = strides_of(&weight);
    let has_contiguous_rows = strides[1] == 1 || width == 0;
    // Conditions of the fast path of ATen, whose results differ.
    let is_fast_path =
        weight.dtype() != ScalarType::Double && has_contiguous_rows && args.int(8)? < 0;
    let bags = Bags::new(args, rows, is_fast_path && mode != Mode::Max)?;
    if sample_weights.is_some_and(|weights| mode != Mode::Sum || *weights.sizes() != [bags.len]) {
        return Err(invalid(6, "one weight per index, only with mode sum"));
    }
    let per_sample_weights = sample_weights.map(|weights| Reader::new(weights, 6)).transpose()?;
    let weight = Reader::<A>::new(weight, 0)?;
    let table = Table { weight, strides: [strides[0], strides[1]], per_sample_weights, mode };

    let num_offsets = args.tensor(2)?.numel();
    let [mut out, mut offset2bag, mut bag_sizes, mut max_indices] = args.outs([9, 10, 11, 12])?;
    out.resize(&[bags.count, width])?;
    offset2bag.resize(&[if is_fast_path && mode == Mode::Sum { 0 } else { bags.len }])?;
    let is_max = mode == Mode::Max;
    // Without a backward pass, ATen does not compute the sizes of the bags of a sum.
    let has_no_sizes = is_forward_only && mode == Mode::Sum;
    let sizes_len = if has_no_sizes { num_offsets } else { bags.count };
    bag_sizes.resize(&[sizes_len])?;
    if is_max {
        max_indices.resize(&[bags.count, width])?;
    } else {
        max_indices.resize(&[sizes_len])?;
    }
    let (to_strides, max_strides) = (out_strides(&out), out_strides(&max_indices));
    let offset2bag_len = offset2bag.numel();
    let (mut out, mut offset2bag) = (Writer::new(&mut out, 9)?, Writer::new(&mut offset2bag, 10)?);
    let mut bag_sizes = Writer::new(&mut bag_sizes, 11)?;
    let mut max_indices = Writer::new(&mut max_indices, 12)?;
    (0..offset2bag_len).for_each(|i| offset2bag.set(i, 0));
    for bag in bags.count..sizes_len {
        bag_sizes.set(bag, 0);
        max_indices.set(bag, 0);
    }
    for bag in 0..bags.count {
        let count = if mode == Mode::Sum { 0 } else { bags.rows(bag, bags.len).count() };
        let bag_size = i64::try_from(count).unwrap_or(i64::MAX);
        bag_sizes.set(bag, bag_size);
        if !is_max {
            max_indices.set(bag, bag_size);
        }
        for i in bags.range(bag, bags.len).filter(|&i| i < offset2bag_len) {
            offset2bag.set(i, i64::try_from(bag).unwrap_or(i64::MAX));
        }
        for start in (0..width).step_by(CHUNK) {
            let len = CHUNK.min(width - start);
            let (mut values, mut max_rows) = ([A::default(); CHUNK], [0; CHUNK]);
            table.reduce_bag(&bags, bag, start, &mut values[..len], &mut max_rows[..len]);
            if mode == Mode::Mean {
                let divisor = A::from_double(count.max(1) as f64);
                values.iter_mut().for_each(|x| *x = *x / divisor);
            }
            let to = bag * to_strides[0] + start * to_strides[1];
            out.write(to, to_strides[1], &values[..len]);
            if is_max {
                let to = bag * max_strides[0] + start * max_strides[1];
                max_indices.write(to, max_strides[1], &max_rows[..len]);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    /// Values of `out0` to `out3`.
    type Outputs = (Vec<f32>, Vec<i64>, Vec<i64>, Vec<i64>);

    struct Case<'a> {
        mode: i64,
        offsets: &'a [i64],
        per_sample_weights: Option<&'a [f32]>,
        include_last_offset: bool,
        padding_idx: i64,
    }

    const DEFAULT: Case<'static> = Case {
        mode: 0,
        offsets: &[0, 3],
        per_sample_weights: None,
        include_last_offset: false,
        padding_idx: -1,
    };

    /// Reduces the rows 2, 0, 2, 1 of a table of three rows.
    fn run(case: &Case<'_>) -> Result<Outputs, Error> {
        let weight = Tensor::new(&[3, 2], &[1.0_f32, 8.0, 2.0, 16.0, 4.0, 4.0]).unwrap();
        let (indices, offsets) =
            (Tensor::from_slice(&[2_i64, 0, 2, 1]), Tensor::from_slice(case.offsets));
        let weights = case.per_sample_weights.map(Tensor::from_slice);
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
        let [mut offset2bag, mut bag_sizes] =
            [(); 2].map(|()| Tensor::zeros(ScalarType::Long, &[0]));
        let rank = if case.mode == 2 { 2 } else { 1 };
        let mut max_indices = Tensor::zeros(ScalarType::Long, &[0; 2][..rank]);
        let mut arguments = [
            Argument::Tensor(&weight),
            Argument::Tensor(&indices),
            Argument::Tensor(&offsets),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Scalar(Scalar::Int(case.mode)),
            Argument::Scalar(Scalar::Bool(false)),
            weights.as_ref().map_or(Argument::None, Argument::Tensor),
            Argument::Scalar(Scalar::Bool(case.include_last_offset)),
            Argument::Scalar(Scalar::Int(case.padding_idx)),
            Argument::Out(&mut out),
            Argument::Out(&mut offset2bag),
            Argument::Out(&mut bag_sizes),
            Argument::Out(&mut max_indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        let to_vec = |tensor: &Tensor| tensor.data::<i64>().unwrap().to_vec();
        Ok((
            out.data().unwrap().to_vec(),
            to_vec(&offset2bag),
            to_vec(&bag_sizes),
            to_vec(&max_indices),
        ))
    }

    #[track_caller]
    fn check(
        case: &Case<'_>,
        out: &[f32],
        offset2bag: &[i64],
        bag_sizes: &[i64],
        max_indices: &[i64],
    ) {
        let expected =
            (out.to_vec(), offset2bag.to_vec(), bag_sizes.to_vec(), max_indices.to_vec());
        assert_eq!(run(case), Ok(expected));
    }

    #[test]
    fn modes() {
        check(&DEFAULT, &[9.0, 16.0, 2.0, 16.0], &[], &[0, 0], &[0, 0]);
        let mean = Case { mode: 1, ..DEFAULT };
        check(&mean, &[3.0, 16.0 / 3.0, 2.0, 16.0], &[0, 0, 0, 1], &[3, 1], &[3, 1]);
        let max = Case { mode: 2, ..DEFAULT };
        check(&max, &[4.0, 8.0, 2.0, 16.0], &[0, 0, 0, 1], &[3, 1], &[2, 0, 1, 1]);
    }

    #[test]
    fn options() {
        let weighted = Case { per_sample_weights: Some(&[1.0, 2.0, 0.5, -1.0]), ..DEFAULT };
        check(&weighted, &[8.0, 22.0, -2.0, -16.0], &[], &[0, 0], &[0, 0]);
        let padded = Case { mode: 2, offsets: &[0, 3, 3], padding_idx: 2, ..DEFAULT };
        let (offset2bag, max_indices) = ([0, 0, 0, 2], [0, 0, 0, 0, 1, 1]);
        check(&padded, &[1.0, 8.0, 0.0, 0.0, 2.0, 16.0], &offset2bag, &[1, 0, 1], &max_indices);
        let last_offset = Case { mode: 1, include_last_offset: true, ..DEFAULT };
        check(&last_offset, &[2.25, 4.0], &[0; 4], &[4], &[4]);
        let padded = Case { include_last_offset: true, padding_idx: 7, ..DEFAULT };
        check(&padded, &[11.0, 32.0], &[0; 4], &[0], &[0]);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for offsets in [&[1_i64, 3][..], &[0, 3, 2], &[0, 5], &[0, -1]] {
            assert!(run(&Case { offsets, ..DEFAULT }).is_err(), "{offsets:?}");
        }
        let weights = Some(&[1.0; 4][..]);
        for case in [
            Case { mode: 3, ..DEFAULT },
            Case { mode: 1, per_sample_weights: weights, ..DEFAULT },
            Case { per_sample_weights: Some(&[1.0; 3]), ..DEFAULT },
            Case { offsets: &[], include_last_offset: true, ..DEFAULT },
        ] {
            assert!(run(&case).is_err());
        }
    }
}
