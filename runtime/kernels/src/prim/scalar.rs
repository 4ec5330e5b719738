//! `executorch_prim::*.Scalar`: arithmetic and comparison of scalars, as in Python.
//!
//! | operators                           | arguments | result                         |
//! |-------------------------------------|-----------|--------------------------------|
//! | `add`, `sub`, `mul`                 | 2 scalars | int for ints, otherwise double |
//! | `floordiv`, `mod` (also `.int`)     | 2 scalars | as above, rounded down         |
//! | `truediv`                           | 2 scalars | double                         |
//! | `eq`, `gt`, `lt`, `ge`, `le`        | 2 scalars | bool                           |
//! | `sym_max`, `sym_min`                | 2 scalars | the larger or the smaller one  |
//! | `sym_ite`                           | 3 scalars | the second or the third        |
//! | `neg`                               | scalar    | same type                      |
//! | `ceil`, `round`, `trunc`, `sym_int` | scalar    | int; `round` half to even      |
//! | `sym_float`                         | scalar    | double                         |
//! | `sym_not`                           | scalar    | bool                           |
//!
//! A bool is converted to the int 0 or 1. Ints wrap.
//! Errors: division of an int by the int 0, and a double out of the range of ints, are
//! [`Error::InvalidArgument`].
//! Source: ExecuTorch `kernels/prim_ops/register_prim_ops.cpp`; Python's operators.

use core::cmp::Ordering;

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, Scalar};

use crate::shared::division::Divide;

const UNARY: &[Arg] = &[Arg::Scalar, Arg::OutScalar];
const BINARY: &[Arg] = &[Arg::Scalar, Arg::Scalar, Arg::OutScalar];
const TERNARY: &[Arg] = &[Arg::Scalar, Arg::Scalar, Arg::Scalar, Arg::OutScalar];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("executorch_prim::add.Scalar", BINARY, |_, args| {
        arithmetic(args, |a, b| Some(a.wrapping_add(b)), |a, b| a + b)
    }),
    Kernel::new("executorch_prim::ceil.Scalar", UNARY, |_, args| to_int(args, libm::ceil)),
    Kernel::new("executorch_prim::eq.Scalar", BINARY, |_, args| {
        compare(args, |order| order == Some(Ordering::Equal))
    }),
    Kernel::new("executorch_prim::floordiv.Scalar", BINARY, floordiv),
    Kernel::new("executorch_prim::floordiv.int", BINARY, floordiv),
    Kernel::new("executorch_prim::ge.Scalar", BINARY, |_, args| {
        compare(args, |order| order.is_some_and(Ordering::is_ge))
    }),
    Kernel::new("executorch_prim::gt.Scalar", BINARY, |_, args| {
        compare(args, |order| order == Some(Ordering::Greater))
    }),
    Kernel::new("executorch_prim::le.Scalar", BINARY, |_, args| {
        compare(args, |order| order.is_some_and(Ordering::is_le))
    }),
    Kernel::new("executorch_prim::lt.Scalar", BINARY, |_, args| {
        compare(args, |order| order == Some(Ordering::Less))
    }),
    Kernel::new("executorch_prim::mod.Scalar", BINARY, fmod),
    Kernel::new("executorch_prim::mod.int", BINARY, fmod),
    Kernel::new("executorch_prim::mul.Scalar", BINARY, |_, args| {
        arithmetic(args, |a, b| Some(a.wrapping_mul(b)), |a, b| a * b)
    }),
    Kernel::new("executorch_prim::neg.Scalar", UNARY, |_, args| {
        let value = match args.scalar(0)? {
            Scalar::Double(value) => Scalar::Double(-value),
            value => Scalar::Int(value.to_i64().wrapping_neg()),
        };
        args.set_scalar(1, value)
    }),
    Kernel::new("executorch_prim::round.Scalar", UNARY, |_, args| to_int(args, libm::rint)),
    Kernel::new("executorch_prim::sub.Scalar", BINARY, |_, args| {
        arithmetic(args, |a, b| Some(a.wrapping_sub(b)), |a, b| a - b)
    }),
    Kernel::new("executorch_prim::sym_float.Scalar", UNARY, |_, args| {
        let value = args.double(0)?;
        args.set_scalar(1, Scalar::Double(value))
    }),
    Kernel::new("executorch_prim::sym_int.Scalar", UNARY, |_, args| to_int(args, libm::trunc)),
    Kernel::new("executorch_prim::sym_ite.Scalar", TERNARY, |_, args| {
        let value = args.scalar(if args.bool(0)? { 1 } else { 2 })?;
        args.set_scalar(3, value)
    }),
    Kernel::new("executorch_prim::sym_max.Scalar", BINARY, |_, args| {
        select(args, |order| order == Some(Ordering::Less))
    }),
    Kernel::new("executorch_prim::sym_min.Scalar", BINARY, |_, args| {
        select(args, |order| order == Some(Ordering::Greater))
    }),
    Kernel::new("executorch_prim::sym_not.Scalar", UNARY, |_, args| {
        let value = !args.bool(0)?;
        args.set_scalar(1, Scalar::Bool(value))
    }),
    Kernel::new("executorch_prim::truediv.Scalar", BINARY, |_, args| {
        let quotient = args.double(0)? / args.double(1)?;
        args.set_scalar(2, Scalar::Double(quotient))
    }),
    Kernel::new("executorch_prim::trunc.Scalar", UNARY, |_, args| to_int(args, libm::trunc)),
];

fn floordiv(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    arithmetic(args, |a, b| (b != 0).then(|| a.floor_divide(b)), Divide::floor_divide)
}

fn fmod(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    arithmetic(args, |a, b| (b != 0).then(|| a.remainder(b)), Divide::remainder)
}

/// Sets the result of two scalars: of `ints` unless one of them is a double. `None` is an error.
fn arithmetic(
    args: &mut Args<'_>,
    ints: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
) -> Result<(), Error> {
    let result = match (args.scalar(0)?, args.scalar(1)?) {
        (a @ Scalar::Double(_), b) | (a, b @ Scalar::Double(_)) => {
            Scalar::Double(doubles(a.to_f64(), b.to_f64()))
        }
        (a, b) => {
            let expected = "a divisor that is not zero";
            let result = ints(a.to_i64(), b.to_i64());
            Scalar::Int(result.ok_or(Error::InvalidArgument { index: 1, expected })?)
        }
    };
    args.set_scalar(2, result)
}

/// Compares the first two arguments; `None` if one is NaN.
fn order(args: &Args<'_>) -> Result<Option<Ordering>, Error> {
    Ok(match (args.scalar(0)?, args.scalar(1)?) {
        (a @ Scalar::Double(_), b) | (a, b @ Scalar::Double(_)) => {
            a.to_f64().partial_cmp(&b.to_f64())
        }
        (a, b) => Some(a.to_i64().cmp(&b.to_i64())),
    })
}

/// Sets a bool that depends on the order of two scalars.
fn compare(args: &mut Args<'_>, is: fn(Option<Ordering>) -> bool) -> Result<(), Error> {
    let result = is(order(args)?);
    args.set_scalar(2, Scalar::Bool(result))
}

/// Sets the second scalar if `is_second` is true for their order, otherwise the first one.
fn select(args: &mut Args<'_>, is_second: fn(Option<Ordering>) -> bool) -> Result<(), Error> {
    let selected = args.scalar(usize::from(is_second(order(args)?)))?;
    args.set_scalar(2, selected)
}

/// Sets the integer `round(value)`.
fn to_int(args: &mut Args<'_>, round: fn(f64) -> f64) -> Result<(), Error> {
    let value = match args.scalar(0)? {
        Scalar::Double(value) => {
            let rounded = round(value);
            // From -2⁶³ to 2⁶³ exclusive. Both bounds are exact doubles.
            if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                let expected = "a number in the range of a 64-bit int";
                return Err(Error::InvalidArgument { index: 0, expected });
            }
            rounded as i64
        }
        value => value.to_i64(),
    };
    args.set_scalar(1, Scalar::Int(value))
}

#[cfg(test)]
mod tests {
    use Scalar::{Bool, Double, Int};
    use afferent_core::{Argument, Call};

    use super::*;

    #[track_caller]
    fn check(name: &str, inputs: &[Scalar], expected: Result<Scalar, Error>) {
        let named = |kernel: &&Kernel| kernel.name.split("::").last() == Some(name);
        let kernel = KERNELS.iter().find(named).unwrap();
        let mut out = Int(0);
        let mut arguments: Vec<_> = inputs.iter().map(|&input| Argument::Scalar(input)).collect();
        arguments.push(Argument::OutScalar(&mut out));
        let result = Call::new(kernel).run(&mut arguments);
        drop(arguments);
        assert_eq!(result.map(|()| out), expected, "{name} {inputs:?}");
    }

    #[test]
    fn binary_operators() {
        for (name, a, b, expected) in [
            ("add.Scalar", Int(2), Int(3), Int(5)),
            ("add.Scalar", Int(i64::MAX), Int(1), Int(i64::MIN)),
            ("add.Scalar", Int(2), Double(0.5), Double(2.5)),
            ("sub.Scalar", Int(2), Int(3), Int(-1)),
            ("mul.Scalar", Double(2.0), Int(3), Double(6.0)),
            ("floordiv.Scalar", Int(-7), Int(2), Int(-4)),
            ("floordiv.Scalar", Int(7), Int(-2), Int(-4)),
            ("floordiv.Scalar", Int(i64::MIN), Int(-1), Int(i64::MIN)),
            ("floordiv.Scalar", Int(i64::MIN), Int(3), Int(-3_074_457_345_618_258_603)),
            ("floordiv.Scalar", Int(i64::MAX), Int(-2), Int(-4_611_686_018_427_387_904)),
            ("floordiv.Scalar", Double(-7.0), Int(2), Double(-4.0)),
            ("floordiv.Scalar", Double(-1.0), Double(f64::INFINITY), Double(-1.0)),
            ("floordiv.Scalar", Double(1.0), Double(f64::NEG_INFINITY), Double(-1.0)),
            ("floordiv.Scalar", Double(1.0), Double(0.1), Double(9.0)),
            ("floordiv.int", Int(7), Int(2), Int(3)),
            ("truediv.Scalar", Int(7), Int(2), Double(3.5)),
            ("mod.Scalar", Int(-7), Int(3), Int(2)),
            ("mod.Scalar", Int(i64::MIN), Int(-1), Int(0)),
            ("mod.int", Int(7), Int(-3), Int(-2)),
            ("eq.Scalar", Int(2), Double(2.0), Bool(true)),
            ("eq.Scalar", Bool(true), Bool(true), Bool(true)),
            ("gt.Scalar", Int(i64::MAX), Int(i64::MAX - 1), Bool(true)),
            ("lt.Scalar", Double(f64::NAN), Int(1), Bool(false)),
            ("ge.Scalar", Double(f64::NAN), Int(1), Bool(false)),
            ("le.Scalar", Int(1), Int(1), Bool(true)),
            ("sym_max.Scalar", Int(1), Double(1.5), Double(1.5)),
            ("sym_min.Scalar", Int(1), Int(2), Int(1)),
        ] {
            check(name, &[a, b], Ok(expected));
        }
        let error = Error::InvalidArgument { index: 1, expected: "a divisor that is not zero" };
        check("mod.Scalar", &[Int(1), Int(0)], Err(error));
        check("floordiv.int", &[Int(1), Int(0)], Err(error));
    }

    #[test]
    fn unary_and_ternary_operators() {
        for (name, a, expected) in [
            ("neg.Scalar", Int(i64::MIN), Int(i64::MIN)),
            ("neg.Scalar", Double(1.5), Double(-1.5)),
            ("ceil.Scalar", Double(1.2), Int(2)),
            ("round.Scalar", Double(2.5), Int(2)),
            ("trunc.Scalar", Double(-1.7), Int(-1)),
            ("sym_int.Scalar", Int(3), Int(3)),
            ("sym_float.Scalar", Int(3), Double(3.0)),
            ("sym_not.Scalar", Int(0), Bool(true)),
        ] {
            check(name, &[a], Ok(expected));
        }
        let error =
            Error::InvalidArgument { index: 0, expected: "a number in the range of a 64-bit int" };
        check("ceil.Scalar", &[Double(f64::NAN)], Err(error));
        check("trunc.Scalar", &[Double(1e19)], Err(error));
        check("sym_ite.Scalar", &[Bool(false), Int(1), Double(2.0)], Ok(Double(2.0)));
    }
}
