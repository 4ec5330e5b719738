//! Dtypes of ExecuTorch and the Rust types of their elements.

use core::fmt;

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

/// Element type of a tensor. The codes are those of ExecuTorch `scalar_type.fbs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of ExecuTorch; `name` gives the short ones")]
pub enum ScalarType {
    Byte = 0,
    Char = 1,
    Short = 2,
    Int = 3,
    Long = 4,
    Half = 5,
    Float = 6,
    Double = 7,
    ComplexHalf = 8,
    ComplexFloat = 9,
    ComplexDouble = 10,
    Bool = 11,
    QInt8 = 12,
    QUInt8 = 13,
    QInt32 = 14,
    BFloat16 = 15,
    QUInt4x2 = 16,
    QUInt2x4 = 17,
    Bits1x8 = 18,
    Bits2x4 = 19,
    Bits4x2 = 20,
    Bits8 = 21,
    Bits16 = 22,
    Float8E5m2 = 23,
    Float8E4m3fn = 24,
    Float8E5m2fnuz = 25,
    Float8E4m3fnuz = 26,
    UInt16 = 27,
    UInt32 = 28,
    UInt64 = 29,
}

/// Every dtype, at the index of its number: (dtype, bytes of an element, short name).
const TABLE: [(ScalarType, usize, &str); 30] = {
    use ScalarType as S;
    [
        (S::Byte, 1, "u8"),
        (S::Char, 1, "i8"),
        (S::Short, 2, "i16"),
        (S::Int, 4, "i32"),
        (S::Long, 8, "i64"),
        (S::Half, 2, "f16"),
        (S::Float, 4, "f32"),
        (S::Double, 8, "f64"),
        (S::ComplexHalf, 4, "c32"),
        (S::ComplexFloat, 8, "c64"),
        (S::ComplexDouble, 16, "c128"),
        (S::Bool, 1, "bool"),
        (S::QInt8, 1, "qi8"),
        (S::QUInt8, 1, "qu8"),
        (S::QInt32, 4, "qi32"),
        (S::BFloat16, 2, "bf16"),
        (S::QUInt4x2, 1, "qu4x2"),
        (S::QUInt2x4, 1, "qu2x4"),
        (S::Bits1x8, 1, "bits1x8"),
        (S::Bits2x4, 1, "bits2x4"),
        (S::Bits4x2, 1, "bits4x2"),
        (S::Bits8, 1, "bits8"),
        (S::Bits16, 2, "bits16"),
        (S::Float8E5m2, 1, "f8e5m2"),
        (S::Float8E4m3fn, 1, "f8e4m3fn"),
        (S::Float8E5m2fnuz, 1, "f8e5m2fnuz"),
        (S::Float8E4m3fnuz, 1, "f8e4m3fnuz"),
        (S::UInt16, 2, "u16"),
        (S::UInt32, 4, "u32"),
        (S::UInt64, 8, "u64"),
    ]
};

impl ScalarType {
    /// Dtype with this code; `None` if there is none.
    pub fn from_code(code: i64) -> Option<Self> {
        let entry = TABLE.get(usize::try_from(code).ok()?)?;
        Some(entry.0)
    }

    /// Dtype with this short name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|entry| entry.2 == name).map(|entry| entry.0)
    }

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        TABLE[self as usize].1
    }

    /// Short name, for example `f32`.
    pub const fn name(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// Returns true if elements are real floating-point numbers.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Half | Self::Float | Self::Double | Self::BFloat16)
    }

    /// Returns true if elements are integers. `bool` does not count as an integer.
    #[inline]
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::Byte
                | Self::Char
                | Self::Short
                | Self::Int
                | Self::Long
                | Self::UInt16
                | Self::UInt32
                | Self::UInt64
        )
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Rust type of the elements of a dtype.
pub trait Element: Pod + PartialEq + fmt::Debug + Send + Sync {
    /// The dtype.
    const DTYPE: ScalarType;
}

/// Element of a `bool` tensor: one byte; nonzero means true.
///
/// Rust's `bool` does not serve: any byte other than 0 and 1 in a file would be undefined behavior.
#[derive(Debug, Clone, Copy, Default, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// Converts to `bool`.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(impl Element for $rust {
            const DTYPE: ScalarType = ScalarType::$dtype;
        })*
    };
}

elements! {
    u8 => Byte, i8 => Char, i16 => Short, i32 => Int, i64 => Long,
    f16 => Half, bf16 => BFloat16, f32 => Float, f64 => Double, Bool => Bool,
    u16 => UInt16, u32 => UInt32, u64 => UInt64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_order_and_names_are_unique() {
        for (code, (dtype, size, name)) in TABLE.iter().enumerate() {
            assert_eq!(*dtype as usize, code);
            assert!(size.is_power_of_two());
            assert_eq!(ScalarType::from_name(name), Some(*dtype), "{name}");
        }
        assert_eq!(ScalarType::from_code(30), None);
        assert_eq!(ScalarType::from_code(-1), None);
    }
}
