//! Dispatch on the dtype, casts as in PyTorch, and type promotion.

use afferent_core::{Bool, Element, Error, Scalar, ScalarType, bf16, f16};

/// True if the build has code for `dtype`, by the features of the crate.
pub(crate) const fn is_built(dtype: ScalarType) -> bool {
    use ScalarType as S;
    match dtype {
        S::Float | S::Bool => true,
        S::Double => cfg!(feature = "double"),
        S::Half | S::BFloat16 => cfg!(feature = "half"),
        S::ComplexHalf | S::ComplexFloat | S::ComplexDouble => cfg!(feature = "complex"),
        _ => cfg!(feature = "integers"),
    }
}

/// Evaluates `$body` with `$T` as the Rust type of `$dtype`. The first token names the supported
/// dtypes: `all`, `real` (all but `bool`), `int` (integers), `int_or_bool`, `float` (floating
/// point).
///
/// Any other dtype, and one that is not built, gives [`Error::InvalidType`] for argument `$index`.
macro_rules! with_dtype {
    (all, $dtype:expr, $index:expr, $T:ident => $body:expr) => {
        $crate::shared::dtype::with_dtype!(@match $dtype, $index, $T => $body,
            Byte u8, Char i8, Short i16, Int i32, Long i64, UInt16 u16, UInt32 u32, UInt64 u64,
            Half f16, BFloat16 bf16, Float f32, Double f64, Bool Bool)
    };
    (real, $dtype:expr, $index:expr, $T:ident => $body:expr) => {
        $crate::shared::dtype::with_dtype!(@match $dtype, $index, $T => $body,
            Byte u8, Char i8, Short i16, Int i32, Long i64, UInt16 u16, UInt32 u32, UInt64 u64,
            Half f16, BFloat16 bf16, Float f32, Double f64)
    };
    (int, $dtype:expr, $index:expr, $T:ident => $body:expr) => {
        $crate::shared::dtype::with_dtype!(@match $dtype, $index, $T => $body,
            Byte u8, Char i8, Short i16, Int i32, Long i64, UInt16 u16, UInt32 u32, UInt64 u64)
    };
    (int_or_bool, $dtype:expr, $index:expr, $T:ident => $body:expr) => {
        $crate::shared::dtype::with_dtype!(@match $dtype, $index, $T => $body,
            Byte u8, Char i8, Short i16, Int i32, Long i64, UInt16 u16, UInt32 u32, UInt64 u64,
            Bool Bool)
    };
    (float, $dtype:expr, $index:expr, $T:ident => $body:expr) => {
        $crate::shared::dtype::with_dtype!(@match $dtype, $index, $T => $body,
            Half f16, BFloat16 bf16, Float f32, Double f64)
    };
    (@match $dtype:expr, $index:expr, $T:ident => $body:expr, $($variant:ident $rust:ident),*) => {
        match $dtype {
            $(afferent_core::ScalarType::$variant
                if $crate::shared::dtype::is_built(afferent_core::ScalarType::$variant) =>
            {
                #[allow(unused_imports, reason = "each arm names one of them")]
                use afferent_core::{Bool, bf16, f16};
                type $T = $rust;
                $body
            })*
            found => Err(afferent_core::Error::InvalidType { index: $index, found }),
        }
    };
}

pub(crate) use with_dtype;

/// Element type with the casts of PyTorch.
pub(crate) trait Number: Element + Copy + Default {
    /// Casts from `f64`; integers truncate.
    fn from_f64(value: f64) -> Self;
    /// Casts from `f32`; integers truncate.
    fn from_f32(value: f32) -> Self;
    /// Casts from `i64`; narrower integers wrap.
    fn from_i64(value: i64) -> Self;
    /// Casts to `f64`.
    fn to_f64(self) -> f64;
    /// Casts to `f32`, rounded to the nearest value.
    fn to_f32(self) -> f32;
    /// Casts to `i64`, truncated.
    fn to_i64(self) -> i64;

    /// Casts from a scalar argument.
    fn from_scalar(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Int(value) => Self::from_i64(value),
            Scalar::Double(value) => Self::from_f64(value),
            Scalar::Bool(value) => Self::from_i64(i64::from(value)),
        }
    }
}

/// Truncates `value`. NaN and values out of range give the smallest integer, as on x86.
fn truncate_i32(value: f64) -> i32 {
    if value > f64::from(i32::MIN) - 1.0 && value < -f64::from(i32::MIN) {
        value as i32
    } else {
        i32::MIN
    }
}

/// Like [`truncate_i32`], to 64 bits.
fn truncate_i64(value: f64) -> i64 {
    let end = -(i64::MIN as f64);
    if value >= -end && value < end { value as i64 } else { i64::MIN }
}

macro_rules! integers {
    ($($rust:ty: $truncate:expr),*) => {
        $(impl Number for $rust {
            fn from_f64(value: f64) -> Self {
                // As PyTorch on x86: the cast instruction gives `i32` or `i64`, and a narrower
                // type wraps. Only `u64` has values above those.
                if <$rust>::MAX as u64 == u64::MAX && value > 0.0 {
                    value as $rust
                } else {
                    $truncate(value) as $rust
                }
            }
            fn from_f32(value: f32) -> Self {
                Self::from_f64(f64::from(value))
            }
            fn from_i64(value: i64) -> Self {
                value as $rust
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn to_f32(self) -> f32 {
                self as f32
            }
            fn to_i64(self) -> i64 {
                self as i64
            }
        })*
    };
}

integers!(
    u8: truncate_i32, i8: truncate_i32, i16: truncate_i32, u16: truncate_i32, i32: truncate_i32,
    u32: truncate_i64, i64: truncate_i64, u64: truncate_i64
);

macro_rules! floats {
    ($($rust:ty: $from_f64:expr, $from_f32:expr, $to_f64:expr, $to_f32:expr);*) => {
        $(impl Number for $rust {
            fn from_f64(value: f64) -> Self {
                $from_f64(value)
            }
            fn from_f32(value: f32) -> Self {
                $from_f32(value)
            }
            fn from_i64(value: i64) -> Self {
                // `f64` rounds once. PyTorch casts to the half types through `f32`.
                if size_of::<Self>() == 8 {
                    $from_f64(value as f64)
                } else {
                    $from_f32(value as f32)
                }
            }
            fn to_f64(self) -> f64 {
                $to_f64(self)
            }
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }
            fn to_i64(self) -> i64 {
                truncate_i64($to_f64(self))
            }
        })*
    };
}

// As in PyTorch, `f64` is cast to the half types through `f32`.
floats! {
    f32: |value| value as f32, |value| value, f64::from, |value| value;
    f64: |value| value, f64::from, |value| value, |value| value as f32;
    f16: |value| f16::from_f32(value as f32), f16::from_f32, f16::to_f64, f16::to_f32;
    bf16: |value| bf16::from_f32(value as f32), bf16::from_f32, bf16::to_f64, bf16::to_f32
}

impl Number for Bool {
    fn from_f64(value: f64) -> Self {
        (value != 0.0).into()
    }
    fn from_f32(value: f32) -> Self {
        (value != 0.0).into()
    }
    fn from_i64(value: i64) -> Self {
        (value != 0).into()
    }
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self.get()))
    }
    fn to_f32(self) -> f32 {
        f32::from(u8::from(self.get()))
    }
    fn to_i64(self) -> i64 {
        i64::from(self.get())
    }
}

/// Promoted dtype of `a` and `b`.
///
/// # Errors
/// [`Error::NotSupported`] for dtypes without a promotion.
///
/// Source: `torch.promote_types`.
pub(crate) fn promote(a: ScalarType, b: ScalarType) -> Result<ScalarType, Error> {
    use ScalarType as S;
    if a == b {
        return Ok(a);
    }
    match (a.is_float(), b.is_float()) {
        (true, false) if b.is_integer() || b == S::Bool => return Ok(a),
        (false, true) if a.is_integer() || a == S::Bool => return Ok(b),
        _ => {}
    }
    let rank = |dtype: S| match dtype {
        S::Bool => Some(0),
        S::Byte | S::Char => Some(1),
        S::Short => Some(2),
        S::Int => Some(3),
        S::Long => Some(4),
        S::Half | S::BFloat16 => Some(5),
        S::Float => Some(6),
        S::Double => Some(7),
        _ => None,
    };
    let (Some(rank_a), Some(rank_b)) = (rank(a), rank(b)) else {
        return Err(Error::NotSupported { what: "promotion of these dtypes" });
    };
    Ok(match (a, b) {
        (S::Byte, S::Char) | (S::Char, S::Byte) => S::Short,
        (S::Half, S::BFloat16) | (S::BFloat16, S::Half) => S::Float,
        _ if rank_a > rank_b => a,
        _ => b,
    })
}
