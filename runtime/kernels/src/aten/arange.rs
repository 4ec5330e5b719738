//! `aten::arange.out`, `aten::arange.start_out`: evenly spaced values.
//!
//! | argument | type                                  | shape                      |
//! |----------|---------------------------------------|----------------------------|
//! | `start`  | scalar; only `start_out`, otherwise 0 |                            |
//! | `end`    | scalar, exclusive                     |                            |
//! | `step`   | scalar; only `start_out`, otherwise 1 |                            |
//! | `out`    | real tensor, not `bool`               | `[⌈(end - start) / step⌉]` |
//!
//! Computes `out[i] = start + i · step` in 64 bits, then converts to the dtype of `out`. Tolerance:
//! 1 ulp; integers are exact.
//! Errors: [`Error::InvalidArgument`] if `step` is 0 or has the wrong sign, or the range is not
//! finite.
//! Source: ATen `arange`.

use afferent_core::{Arg, Args, Error, Kernel, Scalar, ScalarType};

use crate::shared::dtype::{Number, with_dtype};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::arange.out", &[Arg::Scalar, Arg::Out], |_, args| {
        let end = args.scalar(0)?;
        arange(args, 1, [Scalar::Int(0), end, Scalar::Int(1)])
    }),
    Kernel::new(
        "aten::arange.start_out",
        &[Arg::Scalar, Arg::Scalar, Arg::Scalar, Arg::Out],
        |_, args| {
            let range = [args.scalar(0)?, args.scalar(1)?, args.scalar(2)?];
            arange(args, 3, range)
        },
    ),
];

fn arange(args: &mut Args<'_>, index: u8, range: [Scalar; 3]) -> Result<(), Error> {
    let mut out = args.out(usize::from(index))?;
    let dtype = out.dtype();
    let len = if dtype == ScalarType::Long {
        int_len(range.map(Scalar::to_i64))
    } else {
        float_len(range.map(Scalar::to_f64))
    };
    let expected = "a finite range with a step toward `end`";
    let len = len.ok_or(Error::InvalidArgument { index: 0, expected })?;
    out.resize(&[len])?;
    let [start, _, step] = range;
    with_dtype!(real, dtype, index, T => {
        let data = out.data_mut::<T>()?;
        if dtype.is_float() {
            let (start, step) = (start.to_f64(), step.to_f64());
            for (i, element) in data.iter_mut().enumerate() {
                *element = T::from_f64(start + i as f64 * step);
            }
        } else {
            let (mut next, step) = (start.to_i64(), step.to_i64());
            for element in data {
                *element = T::from_i64(next);
                next = next.wrapping_add(step);
            }
        }
        Ok(())
    })
}

fn float_len([start, end, step]: [f64; 3]) -> Option<usize> {
    let len = libm::ceil((end - start) / step);
    let is_toward_end = (step > 0.0 && end >= start) || (step < 0.0 && end <= start);
    // Above 2⁵³ the length is not exact, and exceeds any memory.
    (is_toward_end && (0.0..=9e15).contains(&len))
        .then(|| usize::try_from(len as u64).ok())
        .flatten()
}

fn int_len([start, end, step]: [i64; 3]) -> Option<usize> {
    let is_toward_end = (step > 0 && end >= start) || (step < 0 && end <= start);
    let distance = (i128::from(end) - i128::from(start)).unsigned_abs();
    let len = distance.div_ceil(i128::from(step).unsigned_abs().max(1));
    is_toward_end.then(|| usize::try_from(len).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::check;

    #[test]
    fn values() {
        use Scalar::{Double, Int};
        let run = |range: [Scalar; 3], expected| {
            check(&KERNELS[1], range.map(Argument::Scalar).into(), expected);
        };
        run([Int(1), Int(6), Int(2)], Ok((&[3], &[1, 3, 5])));
        run([Int(2), Int(-1), Int(-1)], Ok((&[3], &[2, 1, 0])));
        run([Double(0.0), Double(2.5), Int(1)], Ok((&[3], &[0, 1, 2])));
        run([Int(3), Int(3), Int(1)], Ok((&[0], &[])));
        check(&KERNELS[0], vec![Argument::Scalar(Int(2))], Ok((&[2], &[0, 1])));
        let expected = "a finite range with a step toward `end`";
        let invalid = Err(Error::InvalidArgument { index: 0, expected });
        run([Int(0), Int(3), Int(0)], invalid);
        run([Int(0), Int(3), Int(-1)], invalid);
        run([Int(0), Double(f64::INFINITY), Int(1)], invalid);
        run([Int(0), Double(f64::NAN), Int(1)], invalid);
    }

    #[test]
    fn i64_ranges_are_exact() {
        assert_eq!(int_len([i64::MIN, i64::MAX, i64::MAX]), Some(3));
        assert_eq!(int_len([i64::MAX - 2, i64::MAX, 1]), Some(2));
        assert_eq!(int_len([i64::MAX, i64::MIN, i64::MIN]), Some(2));
    }
}
