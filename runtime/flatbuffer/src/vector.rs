//! Vectors of scalars, converted on access.

use core::{fmt, iter::Map, slice::ChunksExact};

type Iter<'a, T> = Map<ChunksExact<'a, u8>, fn(&[u8]) -> T>;

/// Vector of scalars of a file. Each access converts an element to `T`.
///
/// | `T`     | contents                                                                     |
/// |---------|------------------------------------------------------------------------------|
/// | `u32`   | value indices; an absent tensor is `EValue::ABSENT`, which is `u32::MAX`      |
/// | `usize` | sizes                                                                        |
/// | `f64`   | floating-point numbers                                                       |
#[derive(Clone, Copy)]
pub struct Vector<'a, T> {
    bytes: &'a [u8],
    /// Bytes of an element in the file.
    width: usize,
    convert: fn(&[u8]) -> T,
}

impl<'a, T> Vector<'a, T> {
    /// Vector over `bytes` with elements of `width` bytes; `width` must not be 0.
    pub const fn new(bytes: &'a [u8], width: usize, convert: fn(&[u8]) -> T) -> Self {
        Self { bytes, width, convert }
    }

    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// True if the vector has no elements.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element at `index`.
    pub fn get(&self, index: usize) -> Option<T> {
        let start = index.checked_mul(self.width)?;
        self.bytes.get(start..start.checked_add(self.width)?).map(self.convert)
    }

    /// Iterates over the elements in order.
    pub fn iter(&self) -> Iter<'a, T> {
        self.bytes.chunks_exact(self.width).map(self.convert)
    }

    /// The vector without its first element.
    pub fn skip_first(self) -> Self {
        Self { bytes: self.bytes.get(self.width..).unwrap_or_default(), ..self }
    }

    /// The same elements with another conversion.
    pub fn convert<U>(self, convert: fn(&[u8]) -> U) -> Vector<'a, U> {
        Vector { bytes: self.bytes, width: self.width, convert }
    }
}

impl<'a, T> IntoIterator for Vector<'a, T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for Vector<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: fmt::Debug> fmt::Debug for Vector<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Scalar type of FlatBuffers, little-endian in the file.
pub trait Scalar: Sized {
    /// Size in the file, in bytes.
    const WIDTH: usize;

    /// Reads the scalar at the start of `bytes`; returns 0 if `bytes` is too short.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! scalars {
    ($($scalar:ty),*) => {
        $(impl Scalar for $scalar {
            const WIDTH: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(Self::default(), |&bytes| Self::from_le_bytes(bytes))
            }
        })*
    };
}

scalars!(u8, i16, u16, u32, i32, i64, u64, f32, f64);

/// Converts an `i32` or `i64` that is known to fit; a value that does not fit becomes 0.
pub fn to_usize(bytes: &[u8]) -> usize {
    usize::try_from(to_i64(bytes)).unwrap_or_default()
}

/// As [`to_usize`], but a value that does not fit becomes `u32::MAX` (`EValue::ABSENT`).
pub fn to_u32(bytes: &[u8]) -> u32 {
    u32::try_from(to_i64(bytes)).unwrap_or(u32::MAX)
}

fn to_i64(bytes: &[u8]) -> i64 {
    if bytes.len() == 4 { i32::read(bytes).into() } else { i64::read(bytes) }
}
