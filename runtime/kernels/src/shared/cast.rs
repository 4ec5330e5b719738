//! Casts between dtypes through an intermediate type, without a function for each pair of dtypes.

use afferent_core::{Args, Error, Scalar, ScalarType};

use crate::shared::{
    dtype::{Number, is_built, with_dtype},
    strided_copy::{OUT_OF_BOUNDS, Row, StridedCopy},
};

/// Elements converted at a time.
const CHUNK_LEN: usize = 64;

/// Intermediate type of a cast: `i64` for integer sources, `f64` for others. See [`cast_strided`]
/// for `u64`.
trait Intermediate: Copy + Default {
    fn of<T: Number>(element: T) -> Self;
    fn to<T: Number>(self) -> T;
}

impl Intermediate for i64 {
    fn of<T: Number>(element: T) -> Self {
        element.to_i64()
    }
    fn to<T: Number>(self) -> T {
        T::from_i64(self)
    }
}

impl Intermediate for f32 {
    fn of<T: Number>(element: T) -> Self {
        element.to_f32()
    }
    fn to<T: Number>(self) -> T {
        T::from_f32(self)
    }
}

impl Intermediate for f64 {
    fn of<T: Number>(element: T) -> Self {
        element.to_f64()
    }
    fn to<T: Number>(self) -> T {
        T::from_f64(self)
    }
}

/// Reads elements from an offset with a stride; `None` if one is out of bounds.
type Load<W> = fn(&[u8], usize, usize, &mut [W]) -> Option<()>;

/// Writes elements to an offset with a stride; `None` if one is out of bounds.
type Store<W> = fn(&mut [u8], usize, usize, &[W]) -> Option<()>;

fn load<T: Number, W: Intermediate>(
    src: &[u8],
    at: usize,
    stride: usize,
    into: &mut [W],
) -> Option<()> {
    let src: &[T] = bytemuck::try_cast_slice(src).ok()?;
    if stride == 1 {
        let src = src.get(at..at.checked_add(into.len())?)?;
        into.iter_mut().zip(src).for_each(|(wide, &element)| *wide = W::of(element));
        return Some(());
    }
    let mut at = at;
    for wide in into {
        *wide = W::of(*src.get(at)?);
        at = at.wrapping_add(stride);
    }
    Some(())
}

fn store<T: Number, W: Intermediate>(
    dst: &mut [u8],
    at: usize,
    stride: usize,
    from: &[W],
) -> Option<()> {
    let dst: &mut [T] = bytemuck::try_cast_slice_mut(dst).ok()?;
    if stride == 1 {
        let dst = dst.get_mut(at..at.checked_add(from.len())?)?;
        dst.iter_mut().zip(from).for_each(|(element, &wide)| *element = wide.to());
        return Some(());
    }
    let mut at = at;
    for &wide in from {
        *dst.get_mut(at)? = wide.to();
        at = at.wrapping_add(stride);
    }
    Some(())
}

fn load_fn<W: Intermediate>(dtype: ScalarType) -> Result<Load<W>, Error> {
    with_dtype!(all, dtype, 0, T => Ok(load::<T, W> as Load<W>))
}

fn store_fn<W: Intermediate>(dtype: ScalarType) -> Result<Store<W>, Error> {
    with_dtype!(all, dtype, 0, T => Ok(store::<T, W> as Store<W>))
}

/// Runs `copy` from `src` to `dst` with a cast. Both come with the offset of the first element and
/// with their dtype.
pub(crate) fn cast_strided(
    copy: &StridedCopy,
    (dst, to, to_dtype): (&mut [u8], usize, ScalarType),
    (src, from, from_dtype): (&[u8], usize, ScalarType),
) -> Result<(), Error> {
    let (dst, src) = ((dst, to), (src, from));
    let is_u64 = from_dtype == ScalarType::UInt64;
    if !is_built(ScalarType::Double) && from_dtype.is_float() {
        return cast_through::<f32>(copy, dst, src, (load_fn(from_dtype)?, store_fn(to_dtype)?));
    }
    if from_dtype.is_float() || is_u64 && to_dtype == ScalarType::Double {
        cast_through::<f64>(copy, dst, src, (load_fn(from_dtype)?, store_fn(to_dtype)?))
    } else if is_u64 && to_dtype.is_float() {
        // Not every `u64` fits `i64`, and a cast through `f64` would round twice.
        let store = with_dtype!(float, to_dtype, 0, T => Ok(store::<T, f32> as Store<f32>))?;
        cast_through(copy, dst, src, (load::<u64, f32>, store))
    } else {
        cast_through::<i64>(copy, dst, src, (load_fn(from_dtype)?, store_fn(to_dtype)?))
    }
}

fn cast_through<W: Intermediate>(
    copy: &StridedCopy,
    (dst, to): (&mut [u8], usize),
    (src, from): (&[u8], usize),
    (load, store): (Load<W>, Store<W>),
) -> Result<(), Error> {
    let mut wide = [W::default(); CHUNK_LEN];
    copy.for_each_row(to, from, |row, mut to, mut from| {
        let mut left = row.len;
        while left > 0 {
            let wide = &mut wide[..left.min(CHUNK_LEN)];
            load(src, from, row.from_stride, wide).ok_or(OUT_OF_BOUNDS)?;
            store(dst, to, row.to_stride, wide).ok_or(OUT_OF_BOUNDS)?;
            to = to.wrapping_add(row.to_stride.wrapping_mul(wide.len()));
            from = from.wrapping_add(row.from_stride.wrapping_mul(wide.len()));
            left -= wide.len();
        }
        Ok(())
    })
}

/// Bytes of `scalar`, argument `index`, as an element of `dtype`, padded with zeros.
pub(crate) fn scalar_bytes(
    scalar: Scalar,
    dtype: ScalarType,
    index: u8,
) -> Result<[u8; 16], Error> {
    let mut bytes = [0; 16];
    with_dtype!(all, dtype, index, T => {
        let element = T::from_scalar(scalar);
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&element));
        Ok(bytes)
    })
}

/// Fills `dst` with copies of `element`, the bytes that [`scalar_bytes`] returned for `dtype`.
pub(crate) fn fill(dst: &mut [u8], dtype: ScalarType, element: [u8; 16]) -> Result<(), Error> {
    crate::shared::strided_copy::with_element_size!(dtype.size(), N => {
        let element = element.first_chunk::<N>().ok_or(OUT_OF_BOUNDS)?;
        dst.as_chunks_mut::<N>().0.fill(*element);
        Ok(())
    })
}

/// Sum of elements; integers wrap.
pub(crate) fn wrapping_sum<T: Number>(a: T, b: T) -> T {
    if T::DTYPE.is_float() {
        // For narrower types, rounding the `f64` sum equals rounding the exact sum.
        T::from_f64(a.to_f64() + b.to_f64())
    } else {
        T::from_i64(a.to_i64().wrapping_add(b.to_i64()))
    }
}

/// Adds a row of elements, each side with the offset of the first one, to elements of the same
/// dtype; `None` if one is out of bounds.
type Add = fn(&Row, (&mut [u8], usize), (&[u8], usize)) -> Option<()>;

fn add_row<T: Number>(
    row: &Row,
    (dst, mut to): (&mut [u8], usize),
    (src, mut from): (&[u8], usize),
) -> Option<()> {
    let dst: &mut [T] = bytemuck::try_cast_slice_mut(dst).ok()?;
    let src: &[T] = bytemuck::try_cast_slice(src).ok()?;
    for _ in 0..row.len {
        let (sum, &term) = (dst.get_mut(to)?, src.get(from)?);
        *sum = wrapping_sum(*sum, term);
        to = to.wrapping_add(row.to_stride);
        from = from.wrapping_add(row.from_stride);
    }
    Some(())
}

/// Runs `copy` from `src` to `dst`, but adds to the elements of `dst`. Both come with the offset of
/// the first element.
pub(crate) fn add_strided(
    copy: &StridedCopy,
    dtype: ScalarType,
    (dst, to): (&mut [u8], usize),
    (src, from): (&[u8], usize),
) -> Result<(), Error> {
    let add = with_dtype!(all, dtype, 0, T => Ok(add_row::<T> as Add))?;
    copy.for_each_row(to, from, |row, to, from| {
        add(&row, (dst, to), (src, from)).ok_or(OUT_OF_BOUNDS)
    })
}

/// Resizes argument `index` to `sizes` and fills it with `value`.
pub(crate) fn fill_out(
    args: &mut Args<'_>,
    index: u8,
    sizes: &[usize],
    value: Scalar,
) -> Result<(), Error> {
    let mut out = args.out(usize::from(index))?;
    let dtype = out.dtype();
    let element = scalar_bytes(value, dtype, index)?;
    out.resize(sizes)?;
    fill(out.bytes_mut()?, dtype, element)
}
