//! `aten::avg_pool2d.out`: mean of each window.
//!
//! | argument            | type                                | shape                    |
//! |---------------------|-------------------------------------|--------------------------|
//! | `self`              | floating-point or i64 tensor        | `[…, h, w]`, rank 3 or 4 |
//! | `kernel_size`       | ints, one for both or two           |                          |
//! | `stride`            | as `kernel_size`; empty: the kernel |                          |
//! | `padding`           | as `kernel_size`                    | at most half the window  |
//! | `ceil_mode`         | bool                                |                          |
//! | `count_include_pad` | bool                                |                          |
//! | `divisor_override`  | int, not 0, or none                 |                          |
//! | `out`               | as `self`                           | `[…, h', w']`            |
//!
//! Divides by `divisor_override`, or by the elements of the window, those of the padding included
//! or not. Half types add in `f32`; i64 truncates. Tolerance: 1e-6 relative.
//! Errors: settings that leave no window, other dtypes. Source: ATen `avg_pool2d`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::{
    accumulator::{Accumulator, CHUNK, Reader, Writer, same_dtype, with_accumulator},
    window::{PictureSteps, Windows, pictures},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::avg_pool2d.out",
    &[
        Arg::Tensor,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::Bool,
        Arg::Bool,
        Arg::OptInt,
        Arg::Out,
    ],
    avg_pool2d_out,
)];

fn avg_pool2d_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if !dtype.is_float() && dtype != ScalarType::Long {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    same_dtype(args.out(7)?.dtype(), dtype, 7)?;
    if args.opt_int(6)? == Some(0) {
        return Err(Error::InvalidArgument { index: 6, expected: "a divisor that is not zero" });
    }
    with_accumulator!(dtype, A => avg_pool2d::<A>(args))
}

fn avg_pool2d<A: Accumulator>(args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let windows = Windows::new(args, None, args.bool(4)?)?;
    let (counts_padding, divisor) = (args.bool(5)?, args.opt_int(6)?);
    let mut out = args.out(7)?;
    out.resize(&windows.out_sizes(x.sizes())?)?;
    let (pictures, steps) = pictures(&x, &out)?;
    let (reader, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 7)?);
    let [rows, columns] = windows.axes;
    let length = |([start, end], [first, last]): ([usize; 2], [usize; 2])| {
        if counts_padding { end - start } else { last.saturating_sub(first) }
    };
    pictures.for_each([0, 0], |[from, to]| {
        for row in 0..rows.output {
            let height = length(rows.ends(row));
            for start in (0..columns.output).step_by(CHUNK) {
                let len = CHUNK.min(columns.output - start);
                let mut sums = sums_of_row(&windows, &reader, from, steps, [row, start, len]);
                for (column, sum) in (start..).zip(&mut sums[..len]) {
                    let area = height.saturating_mul(length(columns.ends(column)));
                    let count = divisor.unwrap_or(i64::try_from(area).unwrap_or(i64::MAX));
                    // A window without elements has the mean zero.
                    *sum = sum.div(A::number(if count == 0 { 1.0 } else { count as f64 }));
                }
                out.write(to + row * steps.to[0] + start * steps.to[1], steps.to[1], &sums[..len]);
            }
        }
    });
    Ok(())
}

/// The sums of `len` windows of a row from `start` on.
fn sums_of_row<A: Accumulator>(
    windows: &Windows,
    x: &Reader<'_, A>,
    from: usize,
    steps: PictureSteps,
    [row, start, len]: [usize; 3],
) -> [A; CHUNK] {
    let [rows, columns] = windows.axes;
    let (mut sums, mut buffer) = ([A::default(); CHUNK], [A::default(); CHUNK]);
    for tap in rows.taps(row, row) {
        let Some(y) = rows.source(tap, row) else { continue };
        for tap in columns.taps(start, start + len - 1) {
            let meeting = columns.meeting(tap, start, len);
            let terms = &mut buffer[..meeting.count];
            let at = from + y * steps.from[0] + meeting.from * steps.from[1];
            x.read(at, columns.stride * steps.from[1], terms);
            for (sum, &term) in sums[meeting.to..].iter_mut().zip(&*terms) {
                *sum = sum.add(term);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn check(counts_padding: bool, divisor: Option<i64>, expected: &[f32]) {
        let x = Tensor::new(&[1, 3, 3], &[1.0_f32; 9]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![2, 2]),
            Argument::Ints(vec![2, 2]),
            Argument::Ints(vec![1, 1]),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Scalar(Scalar::Bool(counts_padding)),
            divisor.map_or(Argument::None, |divisor| Argument::Scalar(Scalar::Int(divisor))),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>().unwrap(), expected);
    }

    #[test]
    fn values() {
        check(true, None, &[0.25, 0.5, 0.5, 1.0]);
        check(false, None, &[1.0, 1.0, 1.0, 1.0]);
        check(false, Some(2), &[0.5, 1.0, 1.0, 2.0]);
    }
}
