//! Arguments of one call.

#![expect(unsafe_code, reason = "lends several tensors of one table at a time")]

use core::cell::{Cell, UnsafeCell};

use crate::{Arg, Dims, EValue, Error, Scalar, ScalarType, TensorMut, TensorSlot, TensorView};

/// Kinds of the arguments of a call.
#[derive(Debug, Clone, Copy)]
pub enum Signature {
    /// Signature of a kernel: one kind for each argument.
    Kernel(&'static [Arg]),
    /// Signature of a delegate: input tensors, then output tensors.
    Delegate {
        /// Number of inputs.
        inputs: usize,
    },
}

/// Arguments of one call of a kernel or a delegate.
///
/// An argument is addressed by its index in the operator's schema. Inputs stay borrowed for the
/// whole call; outputs are borrowed one at a time.
pub struct Args<'a> {
    values: &'a [Cell<EValue<'a>>],
    slots: &'a [UnsafeCell<TensorSlot<'a>>],
    ids: &'a [u32],
    signature: Signature,
}

impl<'a> Args<'a> {
    /// Arguments of a call with `signature`; `ids` are indices into `values`.
    ///
    /// # Safety
    /// While the result or anything borrowed from it lives, nothing else accesses `slots`. No
    /// tensor that the call writes according to `signature` is, or shares memory with, another
    /// tensor of the call.
    pub unsafe fn new(
        values: &'a [Cell<EValue<'a>>],
        slots: &'a [UnsafeCell<TensorSlot<'a>>],
        ids: &'a [u32],
        signature: Signature,
    ) -> Self {
        Self { values, slots, ids, signature }
    }

    /// Number of arguments.
    #[inline]
    pub fn len(&self) -> usize {
        match self.signature {
            Signature::Kernel(args) => args.len().min(self.ids.len()),
            Signature::Delegate { .. } => self.ids.len(),
        }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn arg(&self, index: usize) -> Option<Arg> {
        match self.signature {
            Signature::Kernel(args) => args.get(index).copied(),
            Signature::Delegate { inputs } if index < inputs => Some(Arg::Tensor),
            Signature::Delegate { .. } => Some(Arg::Out),
        }
    }

    #[inline]
    fn value(&self, index: usize) -> EValue<'a> {
        let cell = self.ids.get(index).and_then(|&id| self.values.get(id as usize));
        cell.map_or(EValue::None, Cell::get)
    }

    /// Input tensor at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is absent, not a tensor, or not an input.
    #[cfg_attr(feature = "alloc", inline)]
    #[cfg_attr(not(feature = "alloc"), inline(never))] // one copy in firmware
    pub fn tensor(&self, index: usize) -> Result<TensorView<'a>, Error> {
        match (self.arg(index), self.value(index)) {
            (Some(Arg::Tensor | Arg::OptTensor), EValue::Tensor(slot)) => self.read(slot, index),
            _ => Err(invalid(index, "a tensor")),
        }
    }

    /// Input tensor at `index`, whose elements may be on a device. [`Args::tensor`] reads them back.
    ///
    /// # Errors
    /// As [`Args::tensor`].
    pub fn slot(&self, index: usize) -> Result<&'a TensorSlot<'a>, Error> {
        let (Some(Arg::Tensor | Arg::OptTensor), EValue::Tensor(slot)) =
            (self.arg(index), self.value(index))
        else {
            return Err(invalid(index, "a tensor"));
        };
        let cell = self.slots.get(slot as usize).ok_or(invalid(index, "a tensor"))?;
        // SAFETY: `new` requires that no input tensor is also an output, and that nothing outside
        // the call accesses the slots.
        Ok(unsafe { &*cell.get() })
    }

    /// Input tensor at `index`; `None` if it is absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a tensor, or not an input.
    #[inline]
    pub fn opt_tensor(&self, index: usize) -> Result<Option<TensorView<'a>>, Error> {
        match (self.arg(index), self.value(index)) {
            (Some(Arg::OptTensor), EValue::None) => Ok(None),
            _ => self.tensor(index).map(Some),
        }
    }

    /// List of input tensors at `index`. Elements may be absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a list of input tensors.
    pub fn tensor_list(&self, index: usize) -> Result<TensorList<'a>, Error> {
        match (self.arg(index), self.value(index)) {
            (
                Some(Arg::TensorList | Arg::OptTensorList),
                EValue::TensorList(ids) | EValue::OptionalTensorList(ids),
            ) => Ok(TensorList { values: self.values, slots: self.slots, ids, index }),
            _ => Err(invalid(index, "a list of tensors")),
        }
    }

    #[inline]
    fn read(&self, slot: u32, index: usize) -> Result<TensorView<'a>, Error> {
        match read(self.slots, slot) {
            Some(view) => Ok(view),
            None => Err(invalid(index, "a tensor with memory")),
        }
    }

    /// Output tensor at `index`, or an in-place argument, which may also be read.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the call does not write a tensor at `index`.
    #[inline]
    pub fn out(&mut self, index: usize) -> Result<TensorMut<'_, 'a>, Error> {
        // SAFETY: `new` requires that a written tensor is no other argument of the call, `out_cell`
        // checked that it is writable, and `self` stays borrowed.
        Ok(unsafe { TensorMut::new(self.out_cell(index)?) })
    }

    /// Output tensors at `indices`.
    ///
    /// # Errors
    /// As [`Args::out`], and if `indices` are not strictly ascending.
    pub fn outs<const N: usize>(
        &mut self,
        indices: [usize; N],
    ) -> Result<[TensorMut<'_, 'a>; N], Error> {
        if !indices.is_sorted_by(|a, b| a < b) {
            return Err(Error::Internal { reason: "output indices must be ascending" });
        }
        let Some(&first) = indices.first() else {
            return Err(Error::Internal { reason: "at least one output index is required" });
        };
        let mut cells = [self.out_cell(first)?; N];
        for (cell, index) in cells.iter_mut().zip(indices) {
            *cell = self.out_cell(index)?;
        }
        // SAFETY: `new` requires that a written tensor is no other argument of the call,
        // `writable_slot` checked that it is writable, and the indices are distinct.
        Ok(cells.map(|cell| unsafe { TensorMut::new(cell) }))
    }

    #[cfg_attr(feature = "alloc", inline)]
    #[cfg_attr(not(feature = "alloc"), inline(never))] // one copy in firmware
    fn out_cell(&self, index: usize) -> Result<&'a UnsafeCell<TensorSlot<'a>>, Error> {
        match (self.arg(index), self.value(index)) {
            (Some(Arg::Out | Arg::InOut), EValue::Tensor(slot)) => self.writable_slot(slot, index),
            _ => Err(invalid(index, "an output tensor")),
        }
    }

    /// Slot of an output tensor, checked to be writable.
    #[inline]
    fn writable_slot(
        &self,
        slot: u32,
        index: usize,
    ) -> Result<&'a UnsafeCell<TensorSlot<'a>>, Error> {
        let Some(cell) = self.slots.get(slot as usize) else {
            return Err(invalid(index, "an output tensor"));
        };
        // SAFETY: `new` requires that nothing else accesses the slots; an earlier borrow of this
        // tensor by the call has ended, because `self` is borrowed again.
        let slot = unsafe { &*cell.get() };
        let (start, end) = slot.address_range();
        if slot.is_writable() || start == end {
            Ok(cell)
        } else {
            Err(invalid(index, "a writable tensor, not a constant or an input"))
        }
    }

    /// Number of tensors in the output list at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a list of output tensors.
    pub fn out_list_len(&self, index: usize) -> Result<usize, Error> {
        self.out_ids(index).map(<[u32]>::len)
    }

    /// Tensor `item` of the output list at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such list or item.
    pub fn out_list(&mut self, index: usize, item: usize) -> Result<TensorMut<'_, 'a>, Error> {
        let id = self.out_ids(index)?.get(item);
        match id.and_then(|&id| self.values.get(id as usize)).map(Cell::get) {
            Some(EValue::Tensor(slot)) => {
                let cell = self.writable_slot(slot, index)?;
                // SAFETY: as in `out`.
                Ok(unsafe { TensorMut::new(cell) })
            }
            _ => Err(invalid(index, "a longer list of output tensors")),
        }
    }

    fn out_ids(&self, index: usize) -> Result<&'a [u32], Error> {
        match (self.arg(index), self.value(index)) {
            (Some(Arg::OutList), EValue::TensorList(ids)) => Ok(ids),
            _ => Err(invalid(index, "a list of output tensors")),
        }
    }

    /// Makes the tensor at `index` a view with `sizes` of the tensor at `source`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `index` is not a view argument or `source` not an input
    /// tensor; [`Error::InvalidTensor`] if the two differ in dtype or number of bytes.
    pub fn set_view(&mut self, index: usize, source: usize, sizes: &[usize]) -> Result<(), Error> {
        let (Some(Arg::View), EValue::Tensor(view), Some(Arg::Tensor), EValue::Tensor(from)) =
            (self.arg(index), self.value(index), self.arg(source), self.value(source))
        else {
            return Err(invalid(index, "a tensor that can become a view"));
        };
        let (Some(view), Some(from)) =
            (self.slots.get(view as usize), self.slots.get(from as usize))
        else {
            return Err(invalid(index, "a tensor that can become a view"));
        };
        if core::ptr::eq(view, from) {
            return Err(invalid(index, "a tensor other than the source"));
        }
        // SAFETY: `new` requires that nothing else accesses the slots; the two are distinct, and
        // a tensor that may become a view is never lent.
        let view = unsafe { &mut *view.get() };
        // SAFETY: as above; input tensors may be borrowed from this slot, but only for reading.
        let from = unsafe { &*from.get() };
        view.alias(from, sizes)
    }

    /// Sets the output scalar at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not an output scalar.
    pub fn set_scalar(&mut self, index: usize, value: Scalar) -> Result<(), Error> {
        let cell = self.ids.get(index).and_then(|&id| self.values.get(id as usize));
        match (self.arg(index), cell) {
            (Some(Arg::OutScalar), Some(cell)) => {
                cell.set(value.to_value());
                Ok(())
            }
            _ => Err(invalid(index, "an output scalar")),
        }
    }

    /// Number at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is absent or not a number.
    #[inline]
    pub fn scalar(&self, index: usize) -> Result<Scalar, Error> {
        self.opt_scalar(index)?.ok_or_else(|| invalid(index, "a number"))
    }

    /// Number at `index`; `None` if it is absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a number.
    #[inline]
    pub fn opt_scalar(&self, index: usize) -> Result<Option<Scalar>, Error> {
        match self.value(index) {
            EValue::None => Ok(None),
            EValue::Int(value) => Ok(Some(Scalar::Int(value))),
            EValue::Double(value) => Ok(Some(Scalar::Double(value))),
            EValue::Bool(value) => Ok(Some(Scalar::Bool(value))),
            _ => Err(invalid(index, "a number")),
        }
    }

    /// Integer at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is absent or not an integer.
    #[inline]
    pub fn int(&self, index: usize) -> Result<i64, Error> {
        self.opt_int(index)?.ok_or(invalid(index, "an int"))
    }

    /// Integer at `index`; `None` if it is absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not an integer.
    #[inline]
    pub fn opt_int(&self, index: usize) -> Result<Option<i64>, Error> {
        match self.value(index) {
            EValue::None => Ok(None),
            EValue::Int(value) => Ok(Some(value)),
            EValue::Bool(value) => Ok(Some(i64::from(value))),
            _ => Err(invalid(index, "an int")),
        }
    }

    /// Floating-point number at `index`. Integers and booleans are converted.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is absent or not a number.
    #[inline]
    pub fn double(&self, index: usize) -> Result<f64, Error> {
        self.scalar(index).map(Scalar::to_f64)
    }

    /// Floating-point number at `index`; `None` if it is absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a number.
    pub fn opt_double(&self, index: usize) -> Result<Option<f64>, Error> {
        Ok(self.opt_scalar(index)?.map(Scalar::to_f64))
    }

    /// Boolean at `index`. A number is true if it is not zero.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is absent or not a number.
    #[inline]
    pub fn bool(&self, index: usize) -> Result<bool, Error> {
        self.scalar(index).map(Scalar::to_bool)
    }

    /// String at `index`; `None` if it is absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a string.
    pub fn opt_str(&self, index: usize) -> Result<Option<&'a str>, Error> {
        match self.value(index) {
            EValue::None => Ok(None),
            EValue::Str(text) => Ok(Some(text)),
            _ => Err(invalid(index, "a string")),
        }
    }

    /// Dtype at `index`; `None` if it is absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not the code of a dtype.
    #[inline]
    pub fn opt_dtype(&self, index: usize) -> Result<Option<ScalarType>, Error> {
        let code = self.opt_int(index)?;
        let unknown = invalid(index, "the code of a dtype");
        code.map(|code| ScalarType::from_code(code).ok_or(unknown)).transpose()
    }

    /// List of integers at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is absent or not a list of integers.
    pub fn int_list(&self, index: usize) -> Result<IntList<'a>, Error> {
        self.opt_int_list(index)?.ok_or(invalid(index, "a list of ints"))
    }

    /// List of integers at `index`; `None` if it is absent. A single integer is a list of one.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a list of integers.
    pub fn opt_int_list(&self, index: usize) -> Result<Option<IntList<'a>>, Error> {
        let ids = match self.value(index) {
            EValue::None => return Ok(None),
            EValue::IntList(ids) => ids,
            EValue::Int(_) => &self.ids[index..=index],
            _ => return Err(invalid(index, "a list of ints")),
        };
        let list = IntList { values: self.values, ids };
        if list.ids.iter().any(|&id| list.at(id).is_none()) {
            return Err(invalid(index, "a list of ints"));
        }
        Ok(Some(list))
    }

    /// List of floating-point numbers at `index`; `None` if it is absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a list of floating-point numbers.
    pub fn opt_double_list(&self, index: usize) -> Result<Option<&'a [f64]>, Error> {
        match self.value(index) {
            EValue::None => Ok(None),
            EValue::DoubleList(items) => Ok(Some(items)),
            _ => Err(invalid(index, "a list of doubles")),
        }
    }

    /// List of booleans at `index`, one byte each; nonzero means true.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a list of booleans.
    pub fn bool_list(&self, index: usize) -> Result<&'a [u8], Error> {
        match self.value(index) {
            EValue::BoolList(items) => Ok(items),
            _ => Err(invalid(index, "a list of bools")),
        }
    }
}

/// List of integers. Each may have been computed while the method runs.
#[derive(Clone, Copy)]
pub struct IntList<'a> {
    values: &'a [Cell<EValue<'a>>],
    ids: &'a [u32],
}

impl<'a> IntList<'a> {
    fn at(&self, id: u32) -> Option<i64> {
        match self.values.get(id as usize)?.get() {
            EValue::Int(value) => Some(value),
            EValue::Bool(value) => Some(i64::from(value)),
            _ => None,
        }
    }

    /// Number of integers.
    #[inline]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Integer at `item`.
    #[inline]
    pub fn get(&self, item: usize) -> Option<i64> {
        self.at(*self.ids.get(item)?)
    }

    /// Iterates over the integers.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = i64> + Clone + 'a {
        self.ids.iter().map(move |&id| self.at(id).unwrap_or_default())
    }

    /// The integers as sizes; `None` if one is negative or there are more than 16.
    #[inline]
    pub fn to_dims(self) -> Option<Dims> {
        let mut dims = Dims::filled(0, 0);
        for value in self.iter() {
            dims.push(usize::try_from(value).ok()?).ok()?;
        }
        Some(dims)
    }
}

/// List of input tensors.
#[derive(Clone, Copy)]
pub struct TensorList<'a> {
    values: &'a [Cell<EValue<'a>>],
    slots: &'a [UnsafeCell<TensorSlot<'a>>],
    ids: &'a [u32],
    index: usize,
}

impl<'a> TensorList<'a> {
    /// Number of tensors, absent ones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Tensor at `item`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is absent or not a tensor.
    #[inline]
    pub fn get(&self, item: usize) -> Result<TensorView<'a>, Error> {
        self.opt(item)?.ok_or(invalid(self.index, "a list without absent tensors"))
    }

    /// Tensor at `item`; `None` if it is absent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not a tensor.
    #[inline]
    pub fn opt(&self, item: usize) -> Result<Option<TensorView<'a>>, Error> {
        let wrong = invalid(self.index, "a list of tensors");
        let id = *self.ids.get(item).ok_or(wrong)?;
        if id == EValue::ABSENT {
            return Ok(None);
        }
        match self.values.get(id as usize).map(Cell::get) {
            Some(EValue::Tensor(slot)) => read(self.slots, slot).map(Some).ok_or(wrong),
            Some(EValue::None) => Ok(None),
            _ => Err(wrong),
        }
    }
}

#[inline]
fn read<'a>(slots: &'a [UnsafeCell<TensorSlot<'a>>], slot: u32) -> Option<TensorView<'a>> {
    let slot = slots.get(slot as usize)?;
    // SAFETY: `Args::new` requires that no input tensor is also an output, and that nothing
    // outside the call accesses the slots.
    let slot: &'a TensorSlot<'a> = unsafe { &*slot.get() };
    slot.view().ok()
}

#[cold]
fn invalid(index: usize, expected: &'static str) -> Error {
    Error::InvalidArgument { index: u8::try_from(index).unwrap_or(u8::MAX), expected }
}
