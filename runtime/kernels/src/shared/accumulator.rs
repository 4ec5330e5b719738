//! The types that kernels compute in: `f32`, which also serves the half types, `f64`, and `i64` for
//! integers and `bool`.

use afferent_core::{Bool, Element, Error, Scalar, ScalarType, bf16, f16};
use bytemuck::Pod;

use crate::shared::dtype::Number;

/// A number that kernels compute in. Integers wrap.
pub(crate) trait Accumulator: Element + Pod + Default + PartialOrd {
    const ONE: Self;
    /// Not greater than any number.
    const LOWEST: Self;
    /// Not less than any number.
    const HIGHEST: Self;

    /// The number that an element stands for.
    fn from_element<T: Operand>(element: T) -> Self;
    /// As an element.
    fn to_element<T: Operand>(self) -> T;
    /// The nearest number; integers truncate.
    fn from_double(value: f64) -> Self;
    /// The number of a scalar argument.
    fn from_arg(value: Scalar) -> Self;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The quotient; of integers truncated, and zero where the divisor is zero.
    fn div(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
}

/// A floating-point number that kernels compute in.
pub(crate) trait Float:
    Accumulator
    + core::ops::Add<Output = Self>
    + core::ops::Sub<Output = Self>
    + core::ops::Mul<Output = Self>
    + core::ops::Div<Output = Self>
{
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    fn powf(self, exponent: Self) -> Self;
    fn floor(self) -> Self;
    fn abs(self) -> Self;
    /// The nearest whole number, the even one of two.
    fn rint(self) -> Self;
    fn to_double(self) -> f64;
}

macro_rules! float {
    ($rust:ident, $exp:ident, $ln:ident, $sqrt:ident, $pow:ident, $floor:ident, $abs:ident,
     $rint:ident) => {
        impl Float for $rust {
            fn exp(self) -> Self {
                libm::$exp(self)
            }
            fn ln(self) -> Self {
                libm::$ln(self)
            }
            fn sqrt(self) -> Self {
                libm::$sqrt(self)
            }
            fn powf(self, exponent: Self) -> Self {
                libm::$pow(self, exponent)
            }
            fn floor(self) -> Self {
                libm::$floor(self)
            }
            fn abs(self) -> Self {
                libm::$abs(self)
            }
            fn rint(self) -> Self {
                libm::$rint(self)
            }
            fn to_double(self) -> f64 {
                self.into()
            }
        }
    };
}

float!(f32, expf, logf, sqrtf, powf, floorf, fabsf, rintf);
float!(f64, exp, log, sqrt, pow, floor, fabs, rint);

/// An element and the number that stands for it in a sum.
pub(crate) trait Operand: Number {
    type Acc: Accumulator;

    /// The number that stands for the element.
    fn widen(self) -> Self::Acc {
        Self::Acc::from_element(self)
    }
}

macro_rules! operands {
    ($($sum:ty: $($rust:ty),*;)*) => {
        $($(impl Operand for $rust {
            type Acc = $sum;
        })*)*
    };
}

operands! {
    i64: u8, i8, i16, i32, i64, u16, u32, u64, Bool;
    f32: f16, bf16, f32;
    f64: f64;
}

macro_rules! float_accumulator {
    ($rust:ident, $of:ident, $into:ident) => {
        impl Accumulator for $rust {
            const ONE: Self = 1.0;
            const LOWEST: Self = Self::NEG_INFINITY;
            const HIGHEST: Self = Self::INFINITY;

            fn from_element<T: Operand>(element: T) -> Self {
                element.$of()
            }
            fn to_element<T: Operand>(self) -> T {
                T::$into(self)
            }
            fn from_double(value: f64) -> Self {
                value as $rust
            }
            fn from_arg(value: Scalar) -> Self {
                value.to_f64() as $rust
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn is_nan(self) -> bool {
                self != self
            }
        }
    };
}

float_accumulator!(f32, to_f32, from_f32);
float_accumulator!(f64, to_f64, from_f64);

impl Accumulator for i64 {
    const ONE: Self = 1;
    const LOWEST: Self = Self::MIN;
    const HIGHEST: Self = Self::MAX;

    fn from_element<T: Operand>(element: T) -> Self {
        element.to_i64()
    }
    fn to_element<T: Operand>(self) -> T {
        T::from_i64(self)
    }
    fn from_double(value: f64) -> Self {
        value as Self
    }
    fn from_arg(value: Scalar) -> Self {
        value.to_i64()
    }
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    fn div(self, other: Self) -> Self {
        if other == 0 { 0 } else { self.wrapping_div(other) }
    }
    fn is_nan(self) -> bool {
        false
    }
}

/// Runs `$body` with `$A` standing for the accumulator of `$dtype`.
macro_rules! with_accumulator {
    ($dtype:expr, $A:ident => $body:expr) => {
        match $dtype {
            afferent_core::ScalarType::Double => {
                type $A = f64;
                $body
            }
            dtype if dtype.is_float() => {
                type $A = f32;
                $body
            }
            _ => {
                type $A = i64;
                $body
            }
        }
    };
}

/// As [`with_accumulator`] for floating-point dtypes; others are an error for argument `$index`.
macro_rules! with_float_accumulator {
    ($dtype:expr, $index:expr, $A:ident => $body:expr) => {
        match $dtype {
            afferent_core::ScalarType::Double => {
                type $A = f64;
                $body
            }
            dtype if dtype.is_float() => {
                type $A = f32;
                $body
            }
            found => Err(afferent_core::Error::InvalidType { index: $index, found }),
        }
    };
}

pub(crate) use {with_accumulator, with_float_accumulator};

/// The sum of `values`, in several lanes.
pub(crate) fn sum<A: Accumulator>(values: &[A]) -> A {
    sum_of(values, |x| x)
}

/// The sum of `f` over `values`, in several lanes.
pub(crate) fn sum_of<A: Accumulator>(values: &[A], f: impl Fn(A) -> A) -> A {
    let mut lanes = [A::default(); 8];
    let (blocks, rest) = values.as_chunks::<8>();
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane = lane.add(f(x));
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = lane.add(f(x));
    }
    let [a, b, c, d, e, g, h, i] = lanes;
    a.add(e).add(c.add(h)).add(b.add(g).add(d.add(i)))
}

/// An error unless `found` is `wanted`, for the argument `index`.
pub(crate) fn check_dtype(found: ScalarType, wanted: ScalarType, index: u8) -> Result<(), Error> {
    if found == wanted { Ok(()) } else { Err(Error::InvalidType { index, found }) }
}

/// Runs `$body` with `$T` standing for a Rust type in which the elements of `$dtype` can be added
/// and multiplied; signed integers also stand for unsigned ones, whose bits come out the same.
macro_rules! with_operand {
    ($dtype:expr, $index:expr, $T:ident => $body:expr) => {
        match $dtype {
            afferent_core::ScalarType::Float => {
                type $T = f32;
                $body
            }
            afferent_core::ScalarType::Double => {
                type $T = f64;
                $body
            }
            afferent_core::ScalarType::Half => {
                type $T = afferent_core::f16;
                $body
            }
            afferent_core::ScalarType::BFloat16 => {
                type $T = afferent_core::bf16;
                $body
            }
            afferent_core::ScalarType::Byte | afferent_core::ScalarType::Char => {
                type $T = i8;
                $body
            }
            afferent_core::ScalarType::Short | afferent_core::ScalarType::UInt16 => {
                type $T = i16;
                $body
            }
            afferent_core::ScalarType::Int | afferent_core::ScalarType::UInt32 => {
                type $T = i32;
                $body
            }
            afferent_core::ScalarType::Long | afferent_core::ScalarType::UInt64 => {
                type $T = i64;
                $body
            }
            found => Err(afferent_core::Error::InvalidType { index: $index, found }),
        }
    };
}

pub(crate) use with_operand;
