//! Element access in the accumulator type, for tensors of any dtype.
//!
//! Kernels compute in `f32` (also for half types), `f64`, or `i64` (for integers and `bool`), and
//! load and store up to [`CHUNK`] elements at a time through a function pointer that depends on the
//! dtype. This compiles each kernel three times, and not once per dtype.

use afferent_core::{Error, ScalarType, TensorMut, TensorView};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    complex::component_dtype,
    dtype::with_dtype,
};

/// Maximum number of elements converted at a time.
pub(crate) const CHUNK: usize = 128;

/// Loads elements from an offset with a stride.
type Load<A> = fn(&[u8], usize, usize, &mut [A]);

/// Stores elements to an offset with a stride.
type Store<A> = fn(&mut [u8], usize, usize, &[A]);

/// Reads elements of a tensor as `A`. Offsets are in elements of its memory.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a, A> {
    bytes: &'a [u8],
    load: Load<A>,
    /// True if the dtype of the tensor is `A`.
    is_direct: bool,
}

impl<'a, A: Accumulator> Reader<'a, A> {
    /// Reads `tensor`, argument `index`.
    pub(crate) fn new(tensor: TensorView<'a>, index: u8) -> Result<Self, Error> {
        Self::of(tensor.dtype(), tensor, index)
    }

    /// Like [`Reader::new`], but reads complex elements as two real ones, and `Bits16` as `u16`.
    pub(crate) fn of_components(tensor: TensorView<'a>, index: u8) -> Result<Self, Error> {
        Self::of(storage_dtype(tensor.dtype()), tensor, index)
    }

    fn of(dtype: ScalarType, tensor: TensorView<'a>, index: u8) -> Result<Self, Error> {
        let load = with_dtype!(all, dtype, index, T => Ok(load::<T, A> as Load<A>))?;
        Ok(Self { bytes: tensor.bytes(), load, is_direct: dtype == A::DTYPE })
    }

    /// Borrows all elements; `None` if they need a conversion.
    pub(crate) fn all(&self) -> Option<&'a [A]> {
        bytemuck::try_cast_slice(self.bytes).ok().filter(|_| self.is_direct)
    }

    /// Borrows `len` elements from `start` on; `None` if they need a conversion or are out of
    /// bounds.
    pub(crate) fn slice(&self, start: usize, len: usize) -> Option<&'a [A]> {
        self.all()?.get(start..start.checked_add(len)?)
    }

    /// Fills `into` with elements from `start` on with stride `stride`. Elements out of bounds
    /// leave `into` unchanged.
    pub(crate) fn read(&self, start: usize, stride: usize, into: &mut [A]) {
        (self.load)(self.bytes, start, stride, into);
    }

    /// Element at `offset`; zero if out of bounds.
    pub(crate) fn get(&self, offset: usize) -> A {
        if let Some(all) = self.all() {
            return all.get(offset).copied().unwrap_or_default();
        }
        let mut one = [A::default()];
        self.read(offset, 1, &mut one);
        one[0]
    }

    /// Calls `f` with chunks of `len` elements from `start` on with stride `stride`.
    pub(crate) fn for_each_chunk(
        &self,
        start: usize,
        stride: usize,
        len: usize,
        mut f: impl FnMut(&[A]),
    ) {
        if let Some(all) = self.slice(start, len).filter(|_| stride == 1) {
            return all.chunks(CHUNK).for_each(f);
        }
        let mut buffer = [A::default(); CHUNK];
        let mut done = 0;
        while done < len {
            let chunk = &mut buffer[..CHUNK.min(len - done)];
            self.read(start + done * stride, stride, chunk);
            f(chunk);
            done += chunk.len();
        }
    }
}

/// Writes elements of a tensor from `A`. Offsets are in elements of its memory.
pub(crate) struct Writer<'a, A> {
    bytes: &'a mut [u8],
    store: Store<A>,
    /// True if the dtype of the tensor is `A`.
    is_direct: bool,
}

impl<'a, A: Accumulator> Writer<'a, A> {
    /// Writes `tensor`, argument `index`.
    pub(crate) fn new(tensor: &'a mut TensorMut<'_, '_>, index: u8) -> Result<Self, Error> {
        Self::of(tensor.dtype(), tensor, index)
    }

    /// Like [`Writer::new`], but writes complex elements as two real ones, and `Bits16` as `u16`.
    pub(crate) fn of_components(
        tensor: &'a mut TensorMut<'_, '_>,
        index: u8,
    ) -> Result<Self, Error> {
        Self::of(storage_dtype(tensor.dtype()), tensor, index)
    }

    fn of(dtype: ScalarType, tensor: &'a mut TensorMut<'_, '_>, index: u8) -> Result<Self, Error> {
        let store = with_dtype!(all, dtype, index, T => Ok(store::<T, A> as Store<A>))?;
        let is_direct = dtype == A::DTYPE;
        Ok(Self { bytes: tensor.bytes_mut()?, store, is_direct })
    }

    /// Like [`Reader::slice`], mutable.
    pub(crate) fn slice_mut(&mut self, start: usize, len: usize) -> Option<&mut [A]> {
        let data = bytemuck::try_cast_slice_mut(self.bytes).ok().filter(|_| self.is_direct)?;
        data.get_mut(start..start.checked_add(len)?)
    }

    /// Writes `values` from `start` on with stride `stride`. Elements out of bounds are dropped.
    pub(crate) fn write(&mut self, start: usize, stride: usize, values: &[A]) {
        (self.store)(self.bytes, start, stride, values);
    }

    /// Writes the element at `offset`.
    pub(crate) fn set(&mut self, offset: usize, value: A) {
        if self.is_direct
            && let Ok(data) = bytemuck::try_cast_slice_mut(self.bytes)
        {
            if let Some(element) = data.get_mut(offset) {
                *element = value;
            }
            return;
        }
        self.write(offset, 1, &[value]);
    }
}

/// Dtype of the components: of the parts of complex dtypes, `u16` for `Bits16`.
fn storage_dtype(dtype: ScalarType) -> ScalarType {
    let bits = if dtype == ScalarType::Bits16 { ScalarType::UInt16 } else { dtype };
    component_dtype(dtype).unwrap_or(bits)
}

fn load<T: Operand, A: Accumulator>(bytes: &[u8], start: usize, stride: usize, into: &mut [A]) {
    let data: &[T] = bytemuck::try_cast_slice(bytes).unwrap_or(&[]);
    let data = data.get(start..).unwrap_or(&[]);
    if stride == 1 {
        for (to, &from) in into.iter_mut().zip(data) {
            *to = A::from_element(from);
        }
    } else {
        for (to, &from) in into.iter_mut().zip(data.iter().step_by(stride.max(1))) {
            *to = A::from_element(from);
        }
    }
}

fn store<T: Operand, A: Accumulator>(bytes: &mut [u8], start: usize, stride: usize, values: &[A]) {
    let data: &mut [T] = bytemuck::try_cast_slice_mut(bytes).unwrap_or(&mut []);
    let data = data.get_mut(start..).unwrap_or(&mut []);
    if stride == 1 {
        for (to, &from) in data.iter_mut().zip(values) {
            *to = from.to_element();
        }
    } else {
        for (to, &from) in data.iter_mut().step_by(stride.max(1)).zip(values) {
            *to = from.to_element();
        }
    }
}

/// Elements of `tensor` as `T`, a type of the same size as its dtype.
pub(crate) fn elements<'a, T: Operand>(tensor: &TensorView<'a>) -> Result<&'a [T], Error> {
    let cast = bytemuck::try_cast_slice(tensor.bytes());
    cast.map_err(|_| Error::Internal { reason: "the element size differs from that of the dtype" })
}

/// Mutable elements of `tensor` as `T`, a type of the same size as its dtype.
pub(crate) fn elements_mut<'s, T: Operand>(
    tensor: &'s mut TensorMut<'_, '_>,
) -> Result<&'s mut [T], Error> {
    let cast = bytemuck::try_cast_slice_mut(tensor.bytes_mut()?);
    cast.map_err(|_| Error::Internal { reason: "the element size differs from that of the dtype" })
}
