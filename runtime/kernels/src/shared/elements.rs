//! Elements of any dtype, read and written as numbers of the type that a kernel computes in.
//!
//! Kernels compute in `f32` (which also serves the half types), `f64`, or `i64` for integers and
//! `bool`. A kernel is then compiled three times instead of once a dtype: it reads and writes up to
//! [`CHUNK`] elements at a time through one function of the dtype.

use afferent_core::{Error, ScalarType, TensorMut, TensorView};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    complex::component_dtype,
    dtype::with_dtype,
};

/// The most elements that are converted at a time.
pub(crate) const CHUNK: usize = 128;

/// Reads elements from a place on, with a stride.
type Load<A> = fn(&[u8], usize, usize, &mut [A]);

/// Writes elements from a place on, with a stride.
type Store<A> = fn(&mut [u8], usize, usize, &[A]);

/// Elements of a tensor in the order of memory, read as `A`.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a, A> {
    bytes: &'a [u8],
    load: Load<A>,
    /// Whether the elements are `A` in memory.
    is_direct: bool,
}

impl<'a, A: Accumulator> Reader<'a, A> {
    /// Reads `tensor`, the argument `index` of the call.
    pub(crate) fn new(tensor: TensorView<'a>, index: u8) -> Result<Self, Error> {
        Self::of(tensor.dtype(), tensor, index)
    }

    /// As [`Reader::new`], but of complex elements the parts, and of 16 bits the integer.
    pub(crate) fn of_components(tensor: TensorView<'a>, index: u8) -> Result<Self, Error> {
        Self::of(stored_dtype(tensor.dtype()), tensor, index)
    }

    fn of(dtype: ScalarType, tensor: TensorView<'a>, index: u8) -> Result<Self, Error> {
        let load = with_dtype!(all, dtype, index, T => Ok(load::<T, A> as Load<A>))?;
        Ok(Self { bytes: tensor.bytes(), load, is_direct: dtype == A::DTYPE })
    }

    /// `len` elements from `start` on where they lie, if they are `A` there and in the tensor.
    pub(crate) fn slice(&self, start: usize, len: usize) -> Option<&'a [A]> {
        let data: &[A] = bytemuck::try_cast_slice(self.bytes).ok().filter(|_| self.is_direct)?;
        data.get(start..start.checked_add(len)?)
    }

    /// Reads as many elements as `into` holds, from `start` on, `stride` apart.
    ///
    /// What lies outside the tensor leaves `into` as it is.
    pub(crate) fn read(&self, start: usize, stride: usize, into: &mut [A]) {
        (self.load)(self.bytes, start, stride, into);
    }

    /// The element at `at`; zero outside the tensor.
    pub(crate) fn get(&self, at: usize) -> A {
        let mut one = [A::default()];
        self.read(at, 1, &mut one);
        one[0]
    }

    /// Calls `f` for `len` elements in chunks.
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
            let part = &mut buffer[..CHUNK.min(len - done)];
            self.read(start + done * stride, stride, part);
            f(part);
            done += part.len();
        }
    }
}

/// Elements of a tensor in the order of memory, written as `A`.
pub(crate) struct Writer<'a, A> {
    bytes: &'a mut [u8],
    store: Store<A>,
    /// Whether the elements are `A` in memory.
    is_direct: bool,
}

impl<'a, A: Accumulator> Writer<'a, A> {
    /// Writes `tensor`, the argument `index` of the call.
    pub(crate) fn new(tensor: &'a mut TensorMut<'_, '_>, index: u8) -> Result<Self, Error> {
        Self::of(tensor.dtype(), tensor, index)
    }

    /// As [`Writer::new`], but of complex elements the parts, and of 16 bits the integer.
    pub(crate) fn of_components(
        tensor: &'a mut TensorMut<'_, '_>,
        index: u8,
    ) -> Result<Self, Error> {
        Self::of(stored_dtype(tensor.dtype()), tensor, index)
    }

    fn of(dtype: ScalarType, tensor: &'a mut TensorMut<'_, '_>, index: u8) -> Result<Self, Error> {
        let store = with_dtype!(all, dtype, index, T => Ok(store::<T, A> as Store<A>))?;
        let is_direct = dtype == A::DTYPE;
        Ok(Self { bytes: tensor.bytes_mut()?, store, is_direct })
    }

    /// As [`Reader::slice`], to write.
    pub(crate) fn slice_mut(&mut self, start: usize, len: usize) -> Option<&mut [A]> {
        let data = bytemuck::try_cast_slice_mut(self.bytes).ok().filter(|_| self.is_direct)?;
        data.get_mut(start..start.checked_add(len)?)
    }

    /// Writes `values` from `start` on, `stride` apart; what lies outside the tensor is dropped.
    pub(crate) fn write(&mut self, start: usize, stride: usize, values: &[A]) {
        (self.store)(self.bytes, start, stride, values);
    }

    /// Writes the element at `at`.
    pub(crate) fn set(&mut self, at: usize, value: A) {
        self.write(at, 1, &[value]);
    }
}

/// The dtype of the numbers that `dtype` stores: of complex ones the parts, of bits an integer.
fn stored_dtype(dtype: ScalarType) -> ScalarType {
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

/// The elements of `tensor`, which holds numbers of the width of `T`.
pub(crate) fn elements<'a, T: Operand>(tensor: &TensorView<'a>) -> Result<&'a [T], Error> {
    let cast = bytemuck::try_cast_slice(tensor.bytes());
    cast.map_err(|_| Error::Internal { reason: "elements are as wide as their dtype" })
}

/// The elements of `tensor`, which holds numbers of the width of `T`, to write.
pub(crate) fn elements_mut<'s, T: Operand>(
    tensor: &'s mut TensorMut<'_, '_>,
) -> Result<&'s mut [T], Error> {
    let cast = bytemuck::try_cast_slice_mut(tensor.bytes_mut()?);
    cast.map_err(|_| Error::Internal { reason: "elements are as wide as their dtype" })
}
