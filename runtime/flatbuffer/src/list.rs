//! Numbers that lie in the file.

use core::{fmt, iter::Map, slice::ChunksExact};

type Iter<'a, T> = Map<ChunksExact<'a, u8>, fn(&[u8]) -> T>;

/// Numbers that lie in the file and come out as `T`.
///
/// | `List` of | holds                                                                        |
/// |-----------|------------------------------------------------------------------------------|
/// | `u32`     | numbers of values; an absent tensor is `EValue::ABSENT`, the largest number  |
/// | `usize`   | sizes                                                                        |
/// | `f64`     | floating-point numbers                                                       |
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    bytes: &'a [u8],
    /// Bytes of a number in the file.
    width: usize,
    convert: fn(&[u8]) -> T,
}

impl<'a, T> List<'a, T> {
    /// `width` must not be 0.
    pub const fn new(bytes: &'a [u8], width: usize, convert: fn(&[u8]) -> T) -> Self {
        Self { bytes, width, convert }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `index`.
    pub fn get(&self, index: usize) -> Option<T> {
        let start = index.checked_mul(self.width)?;
        self.bytes.get(start..start.checked_add(self.width)?).map(self.convert)
    }

    /// All in order.
    pub fn iter(&self) -> Iter<'a, T> {
        self.bytes.chunks_exact(self.width).map(self.convert)
    }

    /// The list without its first number.
    pub fn rest(self) -> Self {
        Self { bytes: self.bytes.get(self.width..).unwrap_or_default(), ..self }
    }

    /// The same bytes, converted otherwise.
    pub fn convert<U>(self, convert: fn(&[u8]) -> U) -> List<'a, U> {
        List { bytes: self.bytes, width: self.width, convert }
    }
}

impl<'a, T> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: fmt::Debug> fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A number of the file that is kept as it is.
pub trait Number: Sized {
    /// Bytes of it in the file.
    const WIDTH: usize;

    /// The number that `bytes` start with, 0 when there are too few.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Number for $number {
            const WIDTH: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(Self::default(), |&bytes| Self::from_le_bytes(bytes))
            }
        })*
    };
}

numbers!(u8, i16, u16, u32, i32, i64, u64, f32, f64);

/// A number of four or eight bytes that was seen to fit.
pub fn to_usize(bytes: &[u8]) -> usize {
    usize::try_from(to_i64(bytes)).unwrap_or_default()
}

/// As [`to_usize`]; a negative number becomes the largest one, `EValue::ABSENT`.
pub fn to_u32(bytes: &[u8]) -> u32 {
    u32::try_from(to_i64(bytes)).unwrap_or(u32::MAX)
}

fn to_i64(bytes: &[u8]) -> i64 {
    if bytes.len() == 4 { i32::read(bytes).into() } else { i64::read(bytes) }
}
