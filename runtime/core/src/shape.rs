//! Sizes, dim order, strides and broadcasting.

use core::ops::{Deref, DerefMut};

use crate::Error;

/// Maximum rank of a tensor, as in ExecuTorch.
pub const MAX_DIMS: usize = 16;

/// Dim order of a row-major tensor of maximum rank. Its first `n` entries serve rank `n`.
pub const CONTIGUOUS_DIM_ORDER: [u8; MAX_DIMS] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Number of elements of a tensor of these sizes; `None` if it overflows.
#[inline]
pub fn numel(sizes: &[usize]) -> Option<usize> {
    // A size of zero makes the tensor empty, even if the product of the others overflows.
    if sizes.contains(&0) {
        return Some(0);
    }
    sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))
}

/// Returns true if `a` and `b` are equal. For a few dimensions this is faster than `==`, which
/// calls `memcmp`.
#[inline]
pub fn dims_equal<T: PartialEq>(a: &[T], b: &[T]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

/// Up to [`MAX_DIMS`] numbers, one for each dimension: sizes, strides or indices.
#[derive(Debug, Clone, Copy)]
pub struct Dims {
    len: usize,
    items: [usize; MAX_DIMS],
}

impl Dims {
    /// `len` copies of `value`.
    ///
    /// # Panics
    /// If `len` exceeds [`MAX_DIMS`].
    #[inline]
    pub fn filled(len: usize, value: usize) -> Self {
        assert!(len <= MAX_DIMS, "a tensor has at most 16 dimensions");
        Self { len, items: [value; MAX_DIMS] }
    }

    /// Copy of `items`; `None` if there are more than [`MAX_DIMS`].
    #[inline]
    pub fn new(items: &[usize]) -> Option<Self> {
        let mut dims = Self { len: items.len(), items: [0; MAX_DIMS] };
        dims.items.get_mut(..items.len())?.copy_from_slice(items);
        Some(dims)
    }

    /// Appends `item`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if there are [`MAX_DIMS`] items already.
    #[inline]
    pub fn push(&mut self, item: usize) -> Result<(), Error> {
        let free = self.items.get_mut(self.len);
        *free.ok_or(Error::InvalidTensor { reason: "more than 16 dimensions" })? = item;
        self.len += 1;
        Ok(())
    }

    /// Inserts `item` before `at`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if there are [`MAX_DIMS`] items already or `at` is past the end.
    pub fn insert(&mut self, at: usize, item: usize) -> Result<(), Error> {
        if at > self.len {
            return Err(Error::InvalidTensor { reason: "a dimension past the end" });
        }
        self.push(item)?;
        self.items[at..self.len].rotate_right(1);
        Ok(())
    }

    /// Removes the item at `at`, if there is one.
    #[inline]
    pub fn remove(&mut self, at: usize) {
        if at < self.len {
            self.items[at..self.len].rotate_left(1);
            self.len -= 1;
        }
    }

    /// Strides, in elements, of a tensor of `sizes` laid out in `dim_order`.
    #[inline]
    pub fn strides(sizes: &[usize], dim_order: &[u8]) -> Self {
        let mut strides = Self { len: sizes.len().min(MAX_DIMS), items: [0; MAX_DIMS] };
        let mut step = 1;
        for &dim in dim_order.iter().rev() {
            let dim = usize::from(dim);
            if let (Some(stride), Some(&size)) = (strides.items.get_mut(dim), sizes.get(dim)) {
                *stride = step;
                // The product may overflow for an empty tensor, whose strides are not used.
                step = usize::wrapping_mul(step, size.max(1));
            }
        }
        strides
    }
}

impl Deref for Dims {
    type Target = [usize];

    #[inline]
    fn deref(&self) -> &[usize] {
        // Without a path that panics, for firmware. `len` is at most `MAX_DIMS`.
        self.items.get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for Dims {
    #[inline]
    fn deref_mut(&mut self) -> &mut [usize] {
        self.items.get_mut(..self.len).unwrap_or_default()
    }
}

impl PartialEq for Dims {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// Shape that `a` and `b` broadcast to; `None` if they do not broadcast.
///
/// NumPy's rule, which PyTorch follows: sizes are compared from the right; those of a pair are
/// equal, or one of them is 1.
#[inline]
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let mut out = Dims::filled(rank, 1);
    for (sizes, first) in [(a, rank - a.len()), (b, rank - b.len())] {
        for (i, &size) in sizes.iter().enumerate() {
            let merged = &mut out[first + i];
            if *merged == 1 {
                *merged = size;
            } else if size != 1 && size != *merged {
                return None;
            }
        }
    }
    Some(out)
}

/// Returns true if elements in `dim_order` are in row-major order. The position of a dimension of size 1
/// has no effect.
///
/// ```
/// use afferent_core::is_row_major;
///
/// assert!(is_row_major(&[1, 1, 64, 80], &[0, 2, 1, 3]));
/// assert!(!is_row_major(&[1, 3, 64, 80], &[0, 2, 1, 3]));
/// ```
pub fn is_row_major(sizes: &[usize], dim_order: &[u8]) -> bool {
    let has_steps = |dim: &&u8| sizes.get(usize::from(**dim)) != Some(&1);
    dim_order.iter().filter(has_steps).is_sorted()
}

/// Returns true if `order` is a permutation of the dimensions `0..rank`.
pub fn is_dim_order(order: &[u8], rank: usize) -> bool {
    if rank > MAX_DIMS || order.len() != rank {
        return false;
    }
    let mut seen = 0_u32;
    for &dim in order {
        if usize::from(dim) >= rank {
            return false;
        }
        seen |= 1 << dim;
    }
    seen.count_ones() as usize == rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_follow_the_dim_order() {
        assert_eq!(*Dims::strides(&[2, 3, 4], &[0, 1, 2]), [12, 4, 1]);
        assert_eq!(*Dims::strides(&[2, 3, 4, 5], &[0, 2, 3, 1]), [60, 1, 15, 3]);
        assert_eq!(*Dims::strides(&[0, 3], &[0, 1]), [3, 1]);
    }

    #[test]
    fn broadcasting() {
        let check = |a: &[usize], b: &[usize], expected: Option<&[usize]>| {
            assert_eq!(broadcast_shapes(a, b).as_deref(), expected, "{a:?} with {b:?}");
        };
        check(&[], &[], Some(&[]));
        check(&[3], &[], Some(&[3]));
        check(&[2, 1], &[3], Some(&[2, 3]));
        check(&[0], &[1], Some(&[0]));
        check(&[0], &[2], None);
        check(&[2], &[3], None);
    }

    #[test]
    fn insert_and_remove_shift_the_rest() {
        let mut dims = Dims::new(&[1, 2, 3]).unwrap();
        dims.insert(1, 9).unwrap();
        assert_eq!(*dims, [1, 9, 2, 3]);
        dims.remove(0);
        assert_eq!(*dims, [9, 2, 3]);
        assert!(dims.insert(4, 0).is_err());
    }

    #[test]
    fn numel_overflows_unless_empty() {
        assert_eq!(numel(&[usize::MAX, 2]), None);
        assert_eq!(numel(&[usize::MAX, 2, 0]), Some(0));
        assert_eq!(numel(&[]), Some(1));
    }
}
