//! Weight cache: packs weights once for all delegates that use the same file.

use std::{cell::RefCell, hash::Hasher, marker::PhantomData, ops::Deref, sync::Arc};

use afferent_core::{AlignedBytes, Element, Error, SharedBytes, WeightCache};
use twox_hash::XxHash3_64;

use crate::{
    error::TENSOR_TOO_LARGE,
    memory::MemoryBudget,
    subgraph::{Quantization, Value},
};

/// Version of all packed layouts. Increment it when the bytes of a layout change.
pub(crate) const PACKING_VERSION: u32 = 7;

/// Layout of packed weights.
///
/// `Goi` packs a filter of `[groups, output channels, input channels]`, `Gio` a transposed one of
/// `[groups, input channels, output channels]`.
#[derive(Clone, Copy)]
pub(crate) enum PackedLayout {
    /// f32 panels.
    F32Goi,
    F32Gio,
    /// f32 panels of a depthwise filter with a depth multiplier.
    F32Depthwise,
    /// f32 weights of a grouped convolution: kernel, group input channels, output channels.
    F32Grouped,
    /// Panels of f16 or bf16.
    F16Goi,
    F16Gio,
    /// Panels of 24-bit fixed-point numbers.
    Fixed24Goi,
    Fixed24Gio,
    /// int8 panels.
    Q8Goi,
    Q8Gio,
    /// int8 weights of a depthwise convolution.
    Q8Depthwise,
    /// 4-bit panels.
    Q4Goi,
    Q4Gio,
    /// f32 in the order of the constant.
    F32Unpacked,
}

/// Packs the weights of one value, through the weight cache if there is one.
///
/// Without a cache, the operator owns its packed weights. Memory that is not shared counts against
/// the budget, because any number of nodes may use one value.
#[derive(Clone, Copy, Default)]
pub(crate) struct WeightPacker<'k> {
    shared: Option<(&'k dyn WeightCache, &'k Value<'k>)>,
    budget: Option<&'k RefCell<MemoryBudget>>,
}

/// Packed weights, shared or owned.
pub(crate) struct CachedWeights<T> {
    bytes: SharedBytes,
    element: PhantomData<T>,
}

impl<'k> WeightPacker<'k> {
    pub(crate) fn new(
        cache: Option<&'k dyn WeightCache>,
        value: &'k Value<'k>,
        budget: &'k RefCell<MemoryBudget>,
    ) -> Self {
        Self { shared: cache.map(|cache| (cache, value)), budget: Some(budget) }
    }

    /// Reserves memory for `len` elements that are not shared.
    ///
    /// # Errors
    /// If the budget is exceeded.
    pub(crate) fn reserve<T>(&self, len: usize) -> Result<(), Error> {
        self.budget.map_or(Ok(()), |budget| budget.borrow_mut().reserve::<T>(len))
    }

    /// Returns the packed weights of the value, packing them on first use. `pack` writes `len`
    /// elements into zeroed memory; they must depend only on the value, the instruction set,
    /// `layout` and `sizes`.
    ///
    /// # Errors
    /// If the budget or the allocator refuses, and the errors of `pack`.
    pub(crate) fn get_or_pack<T: Element>(
        &self,
        layout: PackedLayout,
        sizes: &[usize],
        len: usize,
        mut pack: impl FnMut(&mut [T]) -> Result<(), Error>,
    ) -> Result<CachedWeights<T>, Error> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(TENSOR_TOO_LARGE)?;
        let mut pack = |bytes: &mut [u8]| pack(bytemuck::cast_slice_mut(bytes));
        let source = self.shared.and_then(|(_, value)| value.data).unwrap_or_default();
        // Shared weights count only as far as they exceed the constant, because padding can make
        // them much larger.
        let reserved = bytes.saturating_sub(source.len());
        self.reserve::<u8>(reserved)?;
        let packed: Result<SharedBytes, Error> = match self.shared {
            Some((cache, value)) => {
                let packing = packing_id(value, layout, sizes);
                cache.get_or_pack(source, packing, bytes, &mut pack)
            }
            None => {
                AlignedBytes::try_zeroed(bytes).ok_or(TENSOR_TOO_LARGE).and_then(|mut memory| {
                    pack(memory.as_mut_slice())?;
                    Ok(Arc::new(memory) as SharedBytes)
                })
            }
        };
        if packed.is_err() {
            self.budget.iter().for_each(|budget| budget.borrow_mut().release(reserved));
        }
        Ok(CachedWeights { bytes: packed?, element: PhantomData })
    }
}

/// Hash of everything but the data that determines packed weights.
fn packing_id(value: &Value<'_>, layout: PackedLayout, sizes: &[usize]) -> u64 {
    let mut hasher = XxHash3_64::new();
    let mut add = |words: &[usize]| {
        hasher.write(&(words.len() as u64).to_le_bytes());
        words.iter().for_each(|word| hasher.write(&(*word as u64).to_le_bytes()));
    };
    add(&[value.datatype as usize, layout as usize]);
    add(&value.shape);
    add(sizes);
    match &value.quantization {
        Quantization::None => add(&[0]),
        Quantization::PerTensor { scale, zero_point } => {
            add(&[1, scale.to_bits() as usize, zero_point.cast_unsigned() as usize]);
        }
        Quantization::PerChannel { dim, .. } => add(&[2, *dim]),
        Quantization::Blockwise { block_size, .. } => add(&[3, *block_size]),
        Quantization::Dynamic { dims } => add(&[4, *dims]),
    }
    if let Quantization::PerChannel { scales, .. } | Quantization::Blockwise { scales, .. } =
        &value.quantization
    {
        hasher.write(bytemuck::cast_slice(scales));
    }
    hasher.finish()
}

impl<T: Element> Deref for CachedWeights<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice((*self.bytes).as_ref())
    }
}
