//! Elements of one dtype as elements of another, without a function for each pair of dtypes.

use afferent_core::{Args, Error, Scalar, ScalarType};

use crate::shared::{
    dtype::{Number, with_dtype},
    strided_copy::{OUT_OF_BOUNDS, Row, StridedCopy},
};

/// Elements that are converted at a time.
const CHUNK: usize = 64;

/// What stands between two dtypes: `i64` where the source holds integers, otherwise `f64`; see
/// [`cast_strided`] for `u64`.
trait Wide: Copy + Default {
    fn of<T: Number>(element: T) -> Self;
    fn to<T: Number>(self) -> T;
}

impl Wide for i64 {
    fn of<T: Number>(element: T) -> Self {
        element.to_i64()
    }
    fn to<T: Number>(self) -> T {
        T::from_i64(self)
    }
}

impl Wide for f32 {
    fn of<T: Number>(element: T) -> Self {
        element.to_f32()
    }
    fn to<T: Number>(self) -> T {
        T::from_f32(self)
    }
}

impl Wide for f64 {
    fn of<T: Number>(element: T) -> Self {
        element.to_f64()
    }
    fn to<T: Number>(self) -> T {
        T::from_f64(self)
    }
}

/// Reads elements from a place on, with a step; `None` when they leave the tensor.
type Load<W> = fn(&[u8], usize, usize, &mut [W]) -> Option<()>;

/// Writes elements from a place on, with a step; `None` when they leave the tensor.
type Store<W> = fn(&mut [u8], usize, usize, &[W]) -> Option<()>;

fn load<T: Number, W: Wide>(src: &[u8], at: usize, step: usize, into: &mut [W]) -> Option<()> {
    let src: &[T] = bytemuck::try_cast_slice(src).ok()?;
    if step == 1 {
        let src = src.get(at..at.checked_add(into.len())?)?;
        into.iter_mut().zip(src).for_each(|(wide, &element)| *wide = W::of(element));
        return Some(());
    }
    let mut at = at;
    for wide in into {
        *wide = W::of(*src.get(at)?);
        at = at.wrapping_add(step);
    }
    Some(())
}

fn store<T: Number, W: Wide>(dst: &mut [u8], at: usize, step: usize, from: &[W]) -> Option<()> {
    let dst: &mut [T] = bytemuck::try_cast_slice_mut(dst).ok()?;
    if step == 1 {
        let dst = dst.get_mut(at..at.checked_add(from.len())?)?;
        dst.iter_mut().zip(from).for_each(|(element, &wide)| *element = wide.to());
        return Some(());
    }
    let mut at = at;
    for &wide in from {
        *dst.get_mut(at)? = wide.to();
        at = at.wrapping_add(step);
    }
    Some(())
}

fn loader<W: Wide>(dtype: ScalarType) -> Result<Load<W>, Error> {
    with_dtype!(all, dtype, 0, T => Ok(load::<T, W> as Load<W>))
}

fn storer<W: Wide>(dtype: ScalarType) -> Result<Store<W>, Error> {
    with_dtype!(all, dtype, 0, T => Ok(store::<T, W> as Store<W>))
}

/// Copies `block` from `src` to `dst`, each with the place of the first element and its dtype.
pub(crate) fn cast_strided(
    block: &StridedCopy,
    (dst, to, to_dtype): (&mut [u8], usize, ScalarType),
    (src, from, from_dtype): (&[u8], usize, ScalarType),
) -> Result<(), Error> {
    let (dst, src) = ((dst, to), (src, from));
    let is_u64 = from_dtype == ScalarType::UInt64;
    if from_dtype.is_float() || is_u64 && to_dtype == ScalarType::Double {
        convert_by::<f64>(block, dst, src, (loader(from_dtype)?, storer(to_dtype)?))
    } else if is_u64 && to_dtype.is_float() {
        // `i64` does not hold every `u64`, and by way of `f64` it would be rounded twice.
        let store = with_dtype!(float, to_dtype, 0, T => Ok(store::<T, f32> as Store<f32>))?;
        convert_by(block, dst, src, (load::<u64, f32>, store))
    } else {
        convert_by::<i64>(block, dst, src, (loader(from_dtype)?, storer(to_dtype)?))
    }
}

fn convert_by<W: Wide>(
    block: &StridedCopy,
    (dst, to): (&mut [u8], usize),
    (src, from): (&[u8], usize),
    (load, store): (Load<W>, Store<W>),
) -> Result<(), Error> {
    let mut wide = [W::default(); CHUNK];
    block.rows(to, from, |row, mut to, mut from| {
        let mut left = row.len;
        while left > 0 {
            let wide = &mut wide[..left.min(CHUNK)];
            load(src, from, row.from, wide).ok_or(OUT_OF_BOUNDS)?;
            store(dst, to, row.to, wide).ok_or(OUT_OF_BOUNDS)?;
            to = to.wrapping_add(row.to.wrapping_mul(wide.len()));
            from = from.wrapping_add(row.from.wrapping_mul(wide.len()));
            left -= wide.len();
        }
        Ok(())
    })
}

/// The element of `dtype` that stands for `scalar`, the argument `index`: its bytes, then zeros.
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

/// Fills `dst` with copies of `element`, of which each dtype takes its first bytes.
pub(crate) fn fill(dst: &mut [u8], dtype: ScalarType, element: [u8; 16]) -> Result<(), Error> {
    crate::shared::strided_copy::with_element_size!(dtype.size(), N => {
        let element = element.first_chunk::<N>().ok_or(OUT_OF_BOUNDS)?;
        dst.as_chunks_mut::<N>().0.fill(*element);
        Ok(())
    })
}

/// Adds elements of one dtype: `len` of them from a place on, with a step, to others.
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
        *sum = if T::DTYPE.is_float() {
            // The sum of two shorter floats is rounded once, since a double holds it exactly
            // enough.
            T::from_f64(sum.to_f64() + term.to_f64())
        } else {
            T::from_i64(sum.to_i64().wrapping_add(term.to_i64()))
        };
        to = to.wrapping_add(row.to);
        from = from.wrapping_add(row.from);
    }
    Some(())
}

/// Adds `block` of `src` to `dst`, each with the place of the first element.
pub(crate) fn add_strided(
    block: &StridedCopy,
    dtype: ScalarType,
    (dst, to): (&mut [u8], usize),
    (src, from): (&[u8], usize),
) -> Result<(), Error> {
    let add = with_dtype!(all, dtype, 0, T => Ok(add_row::<T> as Add))?;
    block.rows(to, from, |row, to, from| add(&row, (dst, to), (src, from)).ok_or(OUT_OF_BOUNDS))
}

/// Gives the argument `index` the sizes `sizes` and the elements `value`, converted.
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
