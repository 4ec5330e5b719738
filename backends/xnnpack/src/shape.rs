//! Sizes of tensors.

use std::ops::Deref;

use afferent_core::Error;

use crate::{
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    memory::MAX_MEMORY_BYTES,
};

/// Maximum rank of a tensor (`XNN_MAX_TENSOR_DIMS`).
pub(crate) const MAX_TENSOR_DIMS: usize = 6;

/// Sizes of a tensor, outermost dimension first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    sizes: [usize; MAX_TENSOR_DIMS],
    rank: usize,
}

impl Shape {
    /// Shape of rank 0.
    pub(crate) const SCALAR: Self = Self { sizes: [0; MAX_TENSOR_DIMS], rank: 0 };

    /// Returns `None` if there are more than [`MAX_TENSOR_DIMS`] sizes.
    pub(crate) fn new(sizes: &[usize]) -> Option<Self> {
        let mut shape = Self { sizes: [0; MAX_TENSOR_DIMS], rank: sizes.len() };
        shape.sizes.get_mut(..sizes.len())?.copy_from_slice(sizes);
        Some(shape)
    }

    /// Shape of an array whose length is checked at compile time.
    pub(crate) fn of<const N: usize>(sizes: [usize; N]) -> Self {
        const { assert!(N <= MAX_TENSOR_DIMS) };
        Self::new(&sizes).unwrap_or_default()
    }

    /// Number of elements.
    ///
    /// # Errors
    /// [`TENSOR_TOO_LARGE`] if the product of the nonzero sizes reaches [`MAX_MEMORY_BYTES`]. A
    /// product of some of the sizes therefore never overflows, even if another size is zero.
    pub(crate) fn numel(&self) -> Result<usize, Error> {
        let product = self.iter().try_fold(1_usize, |all, size| all.checked_mul((*size).max(1)));
        product.filter(|product| *product < MAX_MEMORY_BYTES).ok_or(TENSOR_TOO_LARGE)?;
        Ok(self.iter().product())
    }

    /// Returns the shape with `size` at `dim`.
    pub(crate) fn with(mut self, dim: usize, size: usize) -> Self {
        if let Some(old) = self.sizes[..self.rank].get_mut(dim) {
            *old = size;
        }
        self
    }

    /// Returns `(outer, size, inner)`: the product of the sizes before `dim`, the size at `dim`,
    /// and the product of the sizes after `dim`.
    pub(crate) fn split_around(&self, dim: usize) -> (usize, usize, usize) {
        let (outer, rest) = self.split_at(dim.min(self.rank));
        let inner = rest.get(1..).unwrap_or_default();
        (outer.iter().product(), rest.first().copied().unwrap_or(1), inner.iter().product())
    }

    /// Sizes of a batch of images: batch, height, width, channels.
    pub(crate) fn nhwc(&self) -> Result<[usize; 4], Error> {
        <[usize; 4]>::try_from(&**self).map_err(|_| SHAPE_MISMATCH)
    }

    /// Output shape of a fully connected layer on this input: the last dimension must be
    /// `input_channels` and becomes `output_channels`.
    pub(crate) fn fully_connected(
        &self,
        input_channels: usize,
        output_channels: usize,
    ) -> Result<Self, Error> {
        let last = self.len().checked_sub(1).ok_or(SHAPE_MISMATCH)?;
        if self[last] != input_channels {
            return Err(SHAPE_MISMATCH);
        }
        let out = self.with(last, output_channels);
        out.numel()?;
        Ok(out)
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_size_does_not_hide_overflow() {
        assert_eq!(Shape::of([3, 0, 5]).numel(), Ok(0));
        assert_eq!(Shape::of([0, 1 << 20, 1 << 20]).numel(), Err(TENSOR_TOO_LARGE));
        assert_eq!(Shape::of([1 << 20, 1 << 20, 0]).numel(), Err(TENSOR_TOO_LARGE));
    }
}
