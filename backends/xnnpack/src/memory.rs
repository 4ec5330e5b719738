//! Memory limit of a delegate, and fallible allocation.

use afferent_core::Error;

use crate::error::{MEMORY_LIMIT, TENSOR_TOO_LARGE};

/// Upper limit of the bytes of all values of a delegate, and of the elements of one tensor.
pub(crate) const MAX_MEMORY_BYTES: usize = 1 << 32;

/// Bytes that a delegate may still allocate.
#[derive(Debug, Default)]
pub(crate) struct MemoryBudget(usize);

impl MemoryBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Reserves the bytes of `len` elements.
    ///
    /// # Errors
    /// [`MEMORY_LIMIT`] if fewer bytes are left.
    pub(crate) fn reserve<T>(&mut self, len: usize) -> Result<(), Error> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(TENSOR_TOO_LARGE)?;
        self.0 = self.0.checked_sub(bytes).ok_or(MEMORY_LIMIT)?;
        Ok(())
    }

    /// Returns reserved bytes to the budget.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes);
    }
}

/// Returns the first `len` elements of a scratch buffer, which grows if it is shorter.
///
/// # Errors
/// If the budget or the allocator refuses the additional elements.
pub(crate) fn grow<'b, T: Copy + Default>(
    buffer: &'b mut Vec<T>,
    len: usize,
    budget: &mut MemoryBudget,
) -> Result<&'b mut [T], Error> {
    if let Some(more) = len.checked_sub(buffer.len()).filter(|more| *more > 0) {
        budget.reserve::<T>(more)?;
        buffer.try_reserve_exact(more).map_err(|_| TENSOR_TOO_LARGE)?;
        buffer.resize(len, T::default());
    }
    Ok(&mut buffer[..len])
}

/// Allocates `len` zeros.
///
/// # Errors
/// If the allocator refuses.
pub(crate) fn try_zeroed<T: Copy + Default>(len: usize) -> Result<Vec<T>, Error> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len).map_err(|_| TENSOR_TOO_LARGE)?;
    zeros.resize(len, T::default());
    Ok(zeros)
}
