//! `aten::_to_copy.out`: copy with cast.
//!
//! | argument        | type              | shape     |
//! |-----------------|-------------------|-----------|
//! | `self`          | tensor, any dtype | any       |
//! | `non_blocking`  | ignored           |           |
//! | `memory_format` | ignored           |           |
//! | `out`           | any dtype         | as `self` |
//!
//! Elements are cast to the dtype of `out` as in PyTorch on x86: integers wrap, floating-point
//! values truncate toward zero. `out` keeps its dim order. Tolerance: exact.
//! Source: ATen `_to_copy`.

use afferent_core::{Arg, Kernel};

use crate::shared::strided_view::cast_arg;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_to_copy.out",
    &[Arg::Tensor, Arg::Ignored, Arg::Ignored, Arg::Out],
    |_, args| cast_arg(args, 3),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Call, Element, Tensor, f16};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn elements_are_cast() {
        let run = |x: &Tensor, expected| {
            let inputs = vec![Argument::Tensor(x), Argument::None, Argument::None];
            check(&KERNELS[0], inputs, Ok((&[3], expected)));
        };
        run(&Tensor::from_slice(&[1.5_f32, -1.5, 1e10]), &[1, -1, i32::MIN]);
        run(&Tensor::from_slice(&[1_i64 << 32, -1, 5]), &[0, -1, 5]);
        run(&Tensor::from_slice(&[true, false, true].map(Bool::from)), &[1, 0, 1]);
        run(&iota(&[3]), &[0, 1, 2]);
    }

    #[track_caller]
    fn check_one<A: Element, B: Element + PartialEq + core::fmt::Debug>(x: A, expected: B) {
        let (x, mut out) = (Tensor::from_slice(&[x]), Tensor::zeros(B::DTYPE, &[1]));
        let (ignored, format) = (Argument::None, Argument::None);
        let mut arguments = [Argument::Tensor(&x), ignored, format, Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<B>().unwrap(), [expected]);
    }

    #[test]
    fn large_unsigned_integers_keep_their_value() {
        check_one(1_u64 << 63, 9_223_372_036_854_775_808.0_f64);
        check_one((1_u64 << 63) + (1 << 39) + 1, 9_223_373_136_366_403_584.0_f32);
        check_one(65_520_u64, f16::INFINITY);
        check_one(1_u64 << 63, i64::MIN);
        check_one(1e19_f64, 10_000_000_000_000_000_000_u64);
        check_one(1e19_f32, 9_999_999_980_506_447_872_u64);
        check_one(-1.5_f64, u64::MAX);
        check_one(300.0_f32, 44_u8);
    }

    #[test]
    fn out_of_range_floats_are_cast_as_on_x86() {
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            check_one(x, i64::MIN);
            check_one(x, i32::MIN);
            check_one(x, 0_i16);
            check_one(x, 0_u32);
            check_one(f64::from(x), 0_i8);
        }
        check_one(3e9_f64, i32::MIN);
        check_one(3e9_f64, 3_000_000_000_u32);
        check_one(-2_147_483_648.9_f64, i32::MIN);
        check_one(2_147_483_647.9_f64, i32::MAX);
        check_one(-1.0_f32, u32::MAX);
    }
}
