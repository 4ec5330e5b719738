//! Accumulator types of kernels: `f32` (also for half types), `f64`, and `i64` (for integers and
//! `bool`).

use afferent_core::{Bool, Element, Error, Scalar, ScalarType, bf16, f16};
use bytemuck::Pod;

use crate::shared::dtype::Number;

/// Type that a kernel computes in. Integer arithmetic wraps.
pub(crate) trait Accumulator: Element + Pod + Default + PartialOrd {
    const ONE: Self;
    /// Identity of `max`: negative infinity, or the smallest integer.
    const LOWEST: Self;
    /// Identity of `min`: infinity, or the largest integer.
    const HIGHEST: Self;

    /// Converts from an element of a tensor.
    fn from_element<T: Operand>(element: T) -> Self;
    /// Converts to an element of a tensor.
    fn to_element<T: Operand>(self) -> T;
    /// Converts from `f64`; integers truncate.
    fn from_double(value: f64) -> Self;
    /// Converts from a scalar argument.
    fn from_arg(value: Scalar) -> Self;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Quotient. Integers truncate, and division by zero gives zero.
    fn div(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
}

/// Floating-point accumulator.
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
    /// Rounds to the nearest integer, ties to even.
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

/// Element type with its accumulator type.
pub(crate) trait Operand: Number {
    type Acc: Accumulator;

    /// Converts to the accumulator type.
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

/// Evaluates `$body` with `$A` as the accumulator type of `$dtype`.
macro_rules! with_accumulator {
    ($dtype:expr, $A:ident => $body:expr) => {
        match $dtype {
            afferent_core::ScalarType::Double if cfg!(feature = "double") => {
                type $A = f64;
                $body
            }
            dtype if dtype.is_float() && $crate::shared::dtype::is_built(dtype) => {
                type $A = f32;
                $body
            }
            dtype if !dtype.is_float() && cfg!(feature = "integers") => {
                type $A = i64;
                $body
            }
            found => Err(afferent_core::Error::InvalidType { index: 0, found }),
        }
    };
}

/// Like [`with_accumulator`], for floating-point dtypes only. Any other dtype is
/// [`InvalidType`](afferent_core::Error::InvalidType) for argument `$index`.
macro_rules! with_float_accumulator {
    ($dtype:expr, $index:expr, $A:ident => $body:expr) => {
        match $dtype {
            afferent_core::ScalarType::Double if cfg!(feature = "double") => {
                type $A = f64;
                $body
            }
            dtype if dtype.is_float() && $crate::shared::dtype::is_built(dtype) => {
                type $A = f32;
                $body
            }
            found => Err(afferent_core::Error::InvalidType { index: $index, found }),
        }
    };
}

pub(crate) use {with_accumulator, with_float_accumulator};

/// Sum of `values`, with 8 partial sums.
pub(crate) fn sum<A: Accumulator>(values: &[A]) -> A {
    sum_of(values, |x| x)
}

/// Sum of `f` over `values`, with 8 partial sums.
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

/// Returns an error for argument `index` unless `found` is `expected`.
pub(crate) fn check_dtype(found: ScalarType, expected: ScalarType, index: u8) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::InvalidType { index, found }) }
}

/// Evaluates `$body` with `$T` as a Rust type that can add and multiply elements of `$dtype`.
///
/// Unsigned dtypes map to the signed type of the same width: wrapping sums and products have the
/// same bits.
macro_rules! with_operand {
    ($dtype:expr, $index:expr, $T:ident => $body:expr) => {
        match $dtype {
            afferent_core::ScalarType::Float => {
                type $T = f32;
                $body
            }
            afferent_core::ScalarType::Double if cfg!(feature = "double") => {
                type $T = f64;
                $body
            }
            afferent_core::ScalarType::Half if cfg!(feature = "half") => {
                type $T = afferent_core::f16;
                $body
            }
            afferent_core::ScalarType::BFloat16 if cfg!(feature = "half") => {
                type $T = afferent_core::bf16;
                $body
            }
            afferent_core::ScalarType::Byte | afferent_core::ScalarType::Char
                if cfg!(feature = "integers") =>
            {
                type $T = i8;
                $body
            }
            afferent_core::ScalarType::Short | afferent_core::ScalarType::UInt16
                if cfg!(feature = "integers") =>
            {
                type $T = i16;
                $body
            }
            afferent_core::ScalarType::Int | afferent_core::ScalarType::UInt32
                if cfg!(feature = "integers") =>
            {
                type $T = i32;
                $body
            }
            afferent_core::ScalarType::Long | afferent_core::ScalarType::UInt64
                if cfg!(feature = "integers") =>
            {
                type $T = i64;
                $body
            }
            found => Err(afferent_core::Error::InvalidType { index: $index, found }),
        }
    };
}

pub(crate) use with_operand;
