//! `aten::max_pool2d_with_indices.out`: largest element of each window, and where it stands.
//!
//! | argument      | type                                | shape                   |
//! |---------------|-------------------------------------|-------------------------|
//! | `self`        | tensor, any but bool and `u64`      | `[…, h, w]`, rank 3 or 4 |
//! | `kernel_size` | ints, one for both or two           |                         |
//! | `stride`      | as `kernel_size`; empty: the kernel |                         |
//! | `padding`     | as `kernel_size`                    | at most half the window |
//! | `dilation`    | as `kernel_size`                    |                         |
//! | `ceil_mode`   | bool                                |                         |
//! | `out`         | as `self`                           | `[…, h', w']`           |
//! | `indices`     | i64 tensor: `row · w + column`      | as `out`                |
//!
//! The first of equal elements, but the last NaN; NaN wins over every number. Exact.
//! Errors: settings that leave no window, other dtypes. Source: ATen `max_pool2d_with_indices`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::{
    accumulator::{Accumulator, CHUNK, Reader, Writer, same_dtype, with_accumulator},
    loops::out_strides,
    window::{PictureSteps, Windows, pictures},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::max_pool2d_with_indices.out",
    &[
        Arg::Tensor,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::Bool,
        Arg::Out,
        Arg::Out,
    ],
    max_pool2d_out,
)];

fn max_pool2d_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if matches!(dtype, ScalarType::Bool | ScalarType::UInt64) {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    same_dtype(args.out(6)?.dtype(), dtype, 6)?;
    same_dtype(args.out(7)?.dtype(), ScalarType::Long, 7)?;
    with_accumulator!(dtype, A => max_pool2d::<A>(args))
}

fn max_pool2d<A: Accumulator>(args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dtype = x.dtype();
    let windows = Windows::new(args, Some(4), args.bool(5)?)?;
    let sizes = windows.out_sizes(x.sizes())?;
    let [mut out, mut indices] = args.outs([6, 7])?;
    out.resize(&sizes)?;
    indices.resize(&sizes)?;
    if out.dim_order() != indices.dim_order() && out_strides(&out) != out_strides(&indices) {
        return Err(Error::NotSupported { what: "outputs of different dim orders" });
    }
    let (pictures, steps) = pictures(&x, &out)?;
    let reader = Reader::<A>::new(x, 0)?;
    let (mut out, mut indices) = (Writer::new(&mut out, 6)?, Writer::new(&mut indices, 7)?);
    let [rows, columns] = windows.axes;
    let lowest = lowest::<A>(dtype);
    pictures.for_each([0, 0], |[from, to]| {
        for row in 0..rows.output {
            for start in (0..columns.output).step_by(CHUNK) {
                let len = CHUNK.min(columns.output - start);
                let mut best = best_of_row(&windows, &reader, from, steps, [row, start, len]);
                let found = best.0[..len].iter_mut().zip(&mut best.1);
                for (column, (best, place)) in (start..).zip(found) {
                    if *place < 0 {
                        // A dilated window may meet the padding only.
                        let at = rows.first(row) * columns.input + columns.first(column);
                        (*best, *place) = (lowest, i64::try_from(at).unwrap_or(i64::MAX));
                    }
                }
                let to = to + row * steps.to[0] + start * steps.to[1];
                out.write(to, steps.to[1], &best.0[..len]);
                indices.write(to, steps.to[1], &best.1[..len]);
            }
        }
    });
    Ok(())
}

/// The least element of a dtype.
fn lowest<A: Accumulator>(dtype: ScalarType) -> A {
    match dtype {
        ScalarType::Byte | ScalarType::UInt16 | ScalarType::UInt32 => A::default(),
        ScalarType::Char => A::number(f64::from(i8::MIN)),
        ScalarType::Short => A::number(f64::from(i16::MIN)),
        ScalarType::Int => A::number(f64::from(i32::MIN)),
        _ => A::LOWEST,
    }
}

/// The best elements of `len` windows of a row from `start` on, and their positions.
fn best_of_row<A: Accumulator>(
    windows: &Windows,
    x: &Reader<'_, A>,
    from: usize,
    steps: PictureSteps,
    [row, start, len]: [usize; 3],
) -> ([A; CHUNK], [i64; CHUNK]) {
    let [rows, columns] = windows.axes;
    let (mut best, mut places) = ([A::LOWEST; CHUNK], [-1_i64; CHUNK]);
    let mut buffer = [A::default(); CHUNK];
    for tap in rows.taps(row, row) {
        let Some(y) = rows.source(tap, row) else { continue };
        for tap in columns.taps(start, start + len - 1) {
            let meeting = columns.meeting(tap, start, len);
            let candidates = &mut buffer[..meeting.count];
            let at = from + y * steps.from[0] + meeting.from * steps.from[1];
            x.read(at, columns.stride * steps.from[1], candidates);
            let first = y * columns.input + meeting.from;
            let places = (first..).step_by(columns.stride).zip(&mut places[meeting.to..]);
            let winners = best[meeting.to..].iter_mut().zip(places);
            for (&mut x, (best, (at, place))) in candidates.iter_mut().zip(winners) {
                if x > *best || x.is_nan() || *place < 0 {
                    (*best, *place) = (x, i64::try_from(at).unwrap_or(i64::MAX));
                }
            }
        }
    }
    (best, places)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &Tensor, kernel: i64, padding: i64, expected: (&[f32], &[i64])) {
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut indices = Tensor::zeros(ScalarType::Long, &[0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Ints(vec![kernel, kernel]),
            Argument::Ints(vec![]),
            Argument::Ints(vec![padding]),
            Argument::Ints(vec![1]),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut out),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!((out.data().unwrap(), indices.data().unwrap()), expected);
    }

    #[test]
    fn values_and_indices() {
        let x = Tensor::new(&[1, 2, 4], &[1.0_f32, 2.0, 5.0, 5.0, 3.0, 0.0, 5.0, 1.0]).unwrap();
        check(&x, 2, 0, (&[3.0, 5.0], &[4, 2]));
        check(&x, 2, 1, (&[1.0, 5.0, 5.0, 3.0, 5.0, 1.0], &[0, 2, 3, 4, 6, 7]));
        let nothing = Tensor::new(&[1, 1, 1], &[f32::NEG_INFINITY]).unwrap();
        check(&nothing, 1, 0, (&[f32::NEG_INFINITY], &[0]));
    }
}
