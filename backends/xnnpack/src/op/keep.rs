//! Constants as operations read them, made once for all who use the same file.

use std::{cell::RefCell, hash::Hasher, marker::PhantomData, ops::Deref, sync::Arc};

use afferent_core::{AlignedBytes, Element, Error, SharedBytes, WeightCache};
use twox_hash::XxHash3_64;

use crate::{
    graph::{Quant, Value},
    shape::{Room, TOO_LARGE},
};

/// Raised whenever something is packed otherwise than before.
pub(crate) const LAYOUT: u32 = 4;

/// What is made of weights.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Panels of numbers, of weights column after column.
    Columns,
    /// The same, row after row.
    Rows,
    /// The same, of a kernel for each channel.
    Taps,
    /// Panels of numbers of 16 bits, of weights column after column.
    HalfColumns,
    /// The same, row after row.
    HalfRows,
    /// Panels of numbers of 24 bits, of weights column after column.
    FixedColumns,
    /// The same, row after row.
    FixedRows,
    /// Panels of integers.
    Integers,
    /// Panels of integers, row after row.
    IntegerRows,
    /// Integers of channels, tap after tap.
    Channels,
    /// Panels of 4 bits.
    Nibbles,
    /// The same, row after row.
    NibbleRows,
    /// Numbers as they lie in the constant.
    Numbers,
}

/// Where what is made of one constant is kept, if anywhere, and the room for what nobody shares,
/// if that is bounded: any number of nodes may name one constant.
#[derive(Clone, Copy, Default)]
pub(crate) struct Keep<'k> {
    shared: Option<(&'k dyn WeightCache, &'k Value<'k>)>,
    room: Option<&'k RefCell<Room>>,
}

/// Numbers that are kept.
pub(crate) struct Kept<T> {
    bytes: SharedBytes,
    of: PhantomData<T>,
}

impl<'k> Keep<'k> {
    pub(crate) fn of(
        prepared: Option<&'k dyn WeightCache>,
        value: &'k Value<'k>,
        room: &'k RefCell<Room>,
    ) -> Self {
        Self { shared: prepared.map(|prepared| (prepared, value)), room: Some(room) }
    }

    /// Takes the room of `len` items that nobody shares.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn take<T>(&self, len: usize) -> Result<(), Error> {
        self.room.map_or(Ok(()), |room| room.borrow_mut().take::<T>(len))
    }

    /// `len` numbers that `make` writes into zeros, unless somebody did. They depend on nothing but
    /// the value, the instruction set, the form and its `sizes`.
    ///
    /// # Errors
    /// When there is no room or no memory for them, and those of `make`.
    pub(crate) fn numbers<T: Element>(
        &self,
        form: Form,
        sizes: &[usize],
        len: usize,
        mut make: impl FnMut(&mut [T]) -> Result<(), Error>,
    ) -> Result<Kept<T>, Error> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(TOO_LARGE)?;
        let mut make = |bytes: &mut [u8]| make(bytemuck::cast_slice_mut(bytes));
        let source = self.shared.and_then(|(_, value)| value.data).unwrap_or_default();
        // Of what is shared, what is beyond the constant: padding must not make much of little.
        let taken = bytes.saturating_sub(source.len());
        self.take::<u8>(taken)?;
        let made: Result<SharedBytes, Error> = match self.shared {
            Some((prepared, value)) => {
                prepared.get_or_pack(source, number(value, form, sizes), bytes, &mut make)
            }
            None => AlignedBytes::try_zeroed(bytes).ok_or(TOO_LARGE).and_then(|mut memory| {
                make(memory.as_mut_slice())?;
                Ok(Arc::new(memory) as SharedBytes)
            }),
        };
        if made.is_err() {
            self.room.iter().for_each(|room| room.borrow_mut().give(taken));
        }
        Ok(Kept { bytes: made?, of: PhantomData })
    }
}

/// A number that stands for a form of a value.
fn number(value: &Value<'_>, form: Form, sizes: &[usize]) -> u64 {
    let mut all = XxHash3_64::new();
    let mut add = |words: &[usize]| {
        all.write(&(words.len() as u64).to_le_bytes());
        words.iter().for_each(|word| all.write(&(*word as u64).to_le_bytes()));
    };
    add(&[value.dtype as usize, form as usize]);
    add(&value.shape);
    add(sizes);
    match &value.quant {
        Quant::None => add(&[0]),
        Quant::Tensor { scale, zero_point } => {
            add(&[1, scale.to_bits() as usize, zero_point.cast_unsigned() as usize]);
        }
        Quant::Channel { dim, .. } => add(&[2, *dim]),
        Quant::Blocks { size, .. } => add(&[3, *size]),
        Quant::Dynamic { dims } => add(&[4, *dims]),
    }
    if let Quant::Channel { scales, .. } | Quant::Blocks { scales, .. } = &value.quant {
        all.write(bytemuck::cast_slice(scales));
    }
    all.finish()
}

impl<T: Element> Deref for Kept<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice((*self.bytes).as_ref())
    }
}
