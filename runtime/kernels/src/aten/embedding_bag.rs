//! `aten::_embedding_bag.out`: sum, mean or maximum of table rows per bag.
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
//! Half types are computed in `f32`. Tolerance: 1e-5.
//! Errors: an index out of range; offsets that do not start at zero, decrease, or exceed `n`; other
//! modes, ranks or dtypes. Source: ATen `_embedding_bag`.

use core::ops::Range;

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{CHUNK, Reader, Writer},
    loop_nest::{out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_embedding_bag.out",
    &[
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
    ],
    embedding_bag_out,
)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

/// The rows of each bag.
struct Bags<'a> {
    indices: Reader<'a, i64>,
    len: usize,
    offsets: Reader<'a, i64>,
    count: usize,
    /// Where the last bag stops.
    end: usize,
    padding: Option<usize>,
}

impl<'a> Bags<'a> {
    /// The bags of a call, of a table with so many rows.
    fn new(args: &Args<'a>, rows: usize, stops_early: bool) -> Result<Self, Error> {
        let invalid = |index, expected| Error::InvalidArgument { index, expected };
        let (indices, offsets) = (args.tensor(1)?, args.tensor(2)?);
        for (tensor, index) in [(&indices, 1), (&offsets, 2)] {
            whole(tensor.dtype(), index)?;
            if tensor.rank() != 1 {
                return Err(invalid(index, "a vector"));
            }
        }
        let (len, given) = (indices.numel(), offsets.numel());
        let is_last_given = args.bool(7)?;
        let count = given.checked_sub(usize::from(is_last_given));
        let count = count.ok_or(invalid(2, "the last offset, if it is included"))?;
        let padding = usize::try_from(args.int(8)?).ok();
        let (indices, offsets) = (Reader::new(indices, 1)?, Reader::new(offsets, 2)?);
        let mut bags = Self { indices, len, offsets, count, end: len, padding };
        let mut before = 0;
        for at in 0..given {
            let offset = bags.offset(at).filter(|&offset| before <= offset && offset <= len);
            before = offset.filter(|&offset| at > 0 || offset == 0).ok_or(invalid(
                2,
                "offsets that begin with zero and rise up to the number of indices",
            ))?;
        }
        if is_last_given && stops_early {
            bags.end = before;
        }
        if (0..len).any(|at| bags.row(at).is_none_or(|row| row >= rows)) {
            return Err(invalid(1, "indices in range"));
        }
        Ok(bags)
    }

    fn offset(&self, at: usize) -> Option<usize> {
        usize::try_from(self.offsets.get(at)).ok()
    }

    fn row(&self, at: usize) -> Option<usize> {
        usize::try_from(self.indices.get(at)).ok()
    }

    /// The indices of a bag, where the last one stops at `end`.
    fn range(&self, bag: usize, end: usize) -> Range<usize> {
        let next = if bag + 1 < self.count { self.offset(bag + 1) } else { None };
        self.offset(bag).unwrap_or(0)..next.unwrap_or(end)
    }

    /// The indices that a bag reads and their rows, without the padding.
    fn rows(&self, bag: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.range(bag, end).filter_map(|at| Some((at, self.row(at)?)));
        rows.filter(|&(_, row)| Some(row) != self.padding)
    }
}

/// The table, and what is taken of it.
struct Table<'a, A> {
    weight: Reader<'a, A>,
    steps: [usize; 2],
    shares: Option<Reader<'a, A>>,
    mode: Mode,
}

impl<A: Float> Table<'_, A> {
    /// Writes what a bag gives to the columns from `start` on, and the rows of the largest elements
    /// to `places`.
    fn gather(
        &self,
        bags: &Bags<'_>,
        bag: usize,
        start: usize,
        best: &mut [A],
        places: &mut [i64],
    ) {
        let mut buffer = [A::default(); CHUNK];
        let part = &mut buffer[..best.len()];
        let mut is_first = true;
        for (at, row) in bags.rows(bag, bags.end) {
            self.weight.read(row * self.steps[0] + start * self.steps[1], self.steps[1], part);
            let share = self.shares.map_or(A::ONE, |shares| shares.get(at));
            for ((best, place), &x) in best.iter_mut().zip(&mut *places).zip(&*part) {
                if self.mode != Mode::Max {
                    *best = *best + x * share;
                } else if is_first || x > *best {
                    (*best, *place) = (x, i64::try_from(row).unwrap_or(i64::MAX));
                }
            }
            is_first = false;
        }
    }
}

fn embedding_bag_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if let Some(shares) = args.opt_tensor(6)? {
        check_dtype(shares.dtype(), dtype, 6)?;
    }
    check_dtype(args.out(9)?.dtype(), dtype, 9)?;
    for index in 10..13 {
        whole(args.out(usize::from(index))?.dtype(), index)?;
    }
    with_float_accumulator!(dtype, 0, A => embedding_bag::<A>(args))
}

/// Refuses any dtype but `i32` and `i64`.
fn whole(found: ScalarType, index: u8) -> Result<(), Error> {
    match found {
        ScalarType::Int | ScalarType::Long => Ok(()),
        _ => Err(Error::InvalidType { index, found }),
    }
}

fn embedding_bag<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let (weight, shares) = (args.tensor(0)?, args.opt_tensor(6)?);
    let &[rows, width] = weight.sizes() else { return Err(invalid(0, "a matrix")) };
    let mode = match args.int(4)? {
        0 => Mode::Sum,
        1 => Mode::Mean,
        2 => Mode::Max,
        _ => return Err(invalid(4, "0, 1 or 2")),
    };
    let from = strides_of(&weight);
    let lies_in_rows = from[1] == 1 || width == 0;
    let is_quick = weight.dtype() != ScalarType::Double && lies_in_rows && args.int(8)? < 0;
    let bags = Bags::new(args, rows, is_quick && mode != Mode::Max)?;
    if shares.is_some_and(|shares| mode != Mode::Sum || *shares.sizes() != [bags.len]) {
        return Err(invalid(6, "a weight of each index, of a sum only"));
    }
    let shares = shares.map(|shares| Reader::new(shares, 6)).transpose()?;
    let table =
        Table { weight: Reader::<A>::new(weight, 0)?, steps: [from[0], from[1]], shares, mode };

    let [mut out, mut homes, mut counts, mut places] = args.outs([9, 10, 11, 12])?;
    out.resize(&[bags.count, width])?;
    homes.resize(&[if is_quick && mode == Mode::Sum { 0 } else { bags.len }])?;
    counts.resize(&[bags.count])?;
    let is_max = mode == Mode::Max;
    places.resize(&[bags.count, width][..if is_max { 2 } else { 1 }])?;
    let (to, places_to) = (out_strides(&out), out_strides(&places));
    let homed = homes.numel();
    let (mut out, mut homes) = (Writer::new(&mut out, 9)?, Writer::new(&mut homes, 10)?);
    let (mut counts, mut places) = (Writer::new(&mut counts, 11)?, Writer::new(&mut places, 12)?);
    (0..homed).for_each(|at| homes.set(at, 0));
    for bag in 0..bags.count {
        let count = if mode == Mode::Sum { 0 } else { bags.rows(bag, bags.len).count() };
        let counted = i64::try_from(count).unwrap_or(i64::MAX);
        counts.set(bag, counted);
        if !is_max {
            places.set(bag, counted);
        }
        for at in bags.range(bag, bags.len).filter(|&at| at < homed) {
            homes.set(at, i64::try_from(bag).unwrap_or(i64::MAX));
        }
        for start in (0..width).step_by(CHUNK) {
            let len = CHUNK.min(width - start);
            let (mut best, mut found) = ([A::default(); CHUNK], [0; CHUNK]);
            table.gather(&bags, bag, start, &mut best[..len], &mut found[..len]);
            if mode == Mode::Mean {
                let divisor = A::from_double(count.max(1) as f64);
                best.iter_mut().for_each(|x| *x = *x / divisor);
            }
            out.write(bag * to[0] + start * to[1], to[1], &best[..len]);
            if is_max {
                places.write(
                    bag * places_to[0] + start * places_to[1],
                    places_to[1],
                    &found[..len],
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    /// What a call gives.
    type Given = (Vec<f32>, Vec<i64>, Vec<i64>, Vec<i64>);

    struct Case<'a> {
        mode: i64,
        offsets: &'a [i64],
        shares: Option<&'a [f32]>,
        is_last_given: bool,
        padding: i64,
    }

    const PLAIN: Case<'static> =
        Case { mode: 0, offsets: &[0, 3], shares: None, is_last_given: false, padding: -1 };

    /// Takes the rows 2, 0, 2, 1 of three.
    fn run(case: &Case<'_>) -> Result<Given, Error> {
        let weight = Tensor::new(&[3, 2], &[1.0_f32, 8.0, 2.0, 16.0, 4.0, 4.0]).unwrap();
        let (indices, offsets) =
            (Tensor::from_slice(&[2_i64, 0, 2, 1]), Tensor::from_slice(case.offsets));
        let shares = case.shares.map(Tensor::from_slice);
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
        let [mut homes, mut counts] = [(); 2].map(|()| Tensor::zeros(ScalarType::Long, &[0]));
        let rank = if case.mode == 2 { 2 } else { 1 };
        let mut places = Tensor::zeros(ScalarType::Long, &[0; 2][..rank]);
        let mut arguments = [
            Argument::Tensor(&weight),
            Argument::Tensor(&indices),
            Argument::Tensor(&offsets),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Scalar(Scalar::Int(case.mode)),
            Argument::Scalar(Scalar::Bool(false)),
            shares.as_ref().map_or(Argument::None, Argument::Tensor),
            Argument::Scalar(Scalar::Bool(case.is_last_given)),
            Argument::Scalar(Scalar::Int(case.padding)),
            Argument::Out(&mut out),
            Argument::Out(&mut homes),
            Argument::Out(&mut counts),
            Argument::Out(&mut places),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        let whole = |tensor: &Tensor| tensor.data::<i64>().unwrap().to_vec();
        Ok((out.data().unwrap().to_vec(), whole(&homes), whole(&counts), whole(&places)))
    }

    #[track_caller]
    fn check(case: &Case<'_>, out: &[f32], homes: &[i64], counts: &[i64], places: &[i64]) {
        let expected = (out.to_vec(), homes.to_vec(), counts.to_vec(), places.to_vec());
        assert_eq!(run(case), Ok(expected));
    }

    #[test]
    fn modes() {
        check(&PLAIN, &[9.0, 16.0, 2.0, 16.0], &[], &[0, 0], &[0, 0]);
        let mean = Case { mode: 1, ..PLAIN };
        check(&mean, &[3.0, 16.0 / 3.0, 2.0, 16.0], &[0, 0, 0, 1], &[3, 1], &[3, 1]);
        let max = Case { mode: 2, ..PLAIN };
        check(&max, &[4.0, 8.0, 2.0, 16.0], &[0, 0, 0, 1], &[3, 1], &[2, 0, 1, 1]);
    }

    #[test]
    fn options() {
        let shares = Case { shares: Some(&[1.0, 2.0, 0.5, -1.0]), ..PLAIN };
        check(&shares, &[8.0, 22.0, -2.0, -16.0], &[], &[0, 0], &[0, 0]);
        let padded = Case { mode: 2, offsets: &[0, 3, 3], padding: 2, ..PLAIN };
        let (homes, places) = ([0, 0, 0, 2], [0, 0, 0, 0, 1, 1]);
        check(&padded, &[1.0, 8.0, 0.0, 0.0, 2.0, 16.0], &homes, &[1, 0, 1], &places);
        let early = Case { mode: 1, is_last_given: true, ..PLAIN };
        check(&early, &[2.25, 4.0], &[0; 4], &[4], &[4]);
        let padded = Case { is_last_given: true, padding: 7, ..PLAIN };
        check(&padded, &[11.0, 32.0], &[0; 4], &[0], &[0]);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for offsets in [&[1_i64, 3][..], &[0, 3, 2], &[0, 5], &[0, -1]] {
            assert!(run(&Case { offsets, ..PLAIN }).is_err(), "{offsets:?}");
        }
        let shares = Some(&[1.0; 4][..]);
        for case in [
            Case { mode: 3, ..PLAIN },
            Case { mode: 1, shares, ..PLAIN },
            Case { shares: Some(&[1.0; 3]), ..PLAIN },
            Case { offsets: &[], is_last_given: true, ..PLAIN },
        ] {
            assert!(run(&case).is_err());
        }
    }
}
