//! Iteration over the elements of broadcast tensors.

use afferent_core::Dims;

use crate::shared::pointwise::input::Layout;

/// Iterates over inner loops in the memory order of the output. In an inner loop, elements are
/// contiguous in the output and strided in each of `K` inputs.
///
/// Dimensions are merged where the strides of all tensors allow it: tensors with the same sizes and
/// dim order have a single inner loop.
pub(super) struct BroadcastIterator<const K: usize> {
    /// Sizes from the outermost to the inner loop.
    sizes: Dims,
    /// Strides of each input in the loops; 0 where it broadcasts.
    strides: [Dims; K],
    offsets: [usize; K],
}

impl<const K: usize> BroadcastIterator<K> {
    /// Iterator over a non-empty output of `sizes` with `dim_order`. The sizes of `inputs`
    /// broadcast to `sizes`.
    pub(super) fn new(sizes: &[usize], dim_order: &[u8], inputs: [Layout; K]) -> Self {
        let mut iterator = Self {
            sizes: Dims::filled(0, 0),
            strides: [Dims::filled(0, 0); K],
            offsets: inputs.each_ref().map(|input| input.offset),
        };
        for dim in dim_order.iter().map(|&dim| usize::from(dim)) {
            let strides = inputs.each_ref().map(|input| {
                let dim = (dim + input.sizes.len()).checked_sub(sizes.len());
                dim.filter(|&dim| input.sizes[dim] != 1).map_or(0, |dim| input.strides[dim])
            });
            if sizes[dim] != 1 {
                iterator.push(sizes[dim], strides);
            }
        }
        if iterator.sizes.is_empty() {
            iterator.push(1, [1; K]);
        }
        iterator
    }

    /// Adds a loop inside the others, merged with the one around it if possible.
    fn push(&mut self, size: usize, new: [usize; K]) {
        let outer = self.strides.iter().map(|strides| strides.last().copied());
        let is_mergeable =
            outer.zip(new).all(|(outer, stride)| outer == Some(stride.wrapping_mul(size)));
        if let (true, Some(last)) = (is_mergeable, self.sizes.last_mut()) {
            *last *= size;
            for (strides, stride) in self.strides.iter_mut().zip(new) {
                if let Some(last) = strides.last_mut() {
                    *last = stride;
                }
            }
            return;
        }
        // A tensor has at most as many dimensions as `Dims` holds.
        let _ = self.sizes.push(size);
        for (strides, stride) in self.strides.iter_mut().zip(new) {
            let _ = strides.push(stride);
        }
    }

    /// Elements of an inner loop.
    pub(super) fn inner_len(&self) -> usize {
        self.sizes.last().copied().unwrap_or(1)
    }

    /// Stride of each input in the inner loop.
    pub(super) fn inner_strides(&self) -> [usize; K] {
        self.strides.each_ref().map(|strides| strides.last().copied().unwrap_or(0))
    }

    /// Calls `f` for each inner loop with the offsets of its first element in the output and in the
    /// inputs.
    pub(super) fn for_each_inner(&self, mut f: impl FnMut(usize, [usize; K])) {
        let loops = self.sizes.len().saturating_sub(1);
        let mut index = Dims::filled(loops, 0);
        let mut offsets = self.offsets;
        let mut out_offset = 0;
        loop {
            f(out_offset, offsets);
            out_offset += self.inner_len();
            let mut dim = loops;
            loop {
                if dim == 0 {
                    return;
                }
                dim -= 1;
                index[dim] += 1;
                let continues = index[dim] < self.sizes[dim];
                for (offset, strides) in offsets.iter_mut().zip(&self.strides) {
                    *offset += strides[dim];
                    if !continues {
                        *offset -= strides[dim] * self.sizes[dim];
                    }
                }
                if continues {
                    break;
                }
                index[dim] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sizes: &[usize], order: &[u8], input: &[usize], expected: (usize, &[(usize, usize)])) {
        let strides = Dims::strides(input, &afferent_core::CONTIGUOUS_DIM_ORDER[..input.len()]);
        let layout = Layout { sizes: Dims::new(input).unwrap(), strides, offset: 0 };
        let iterator = BroadcastIterator::new(sizes, order, [layout]);
        let mut inner = Vec::new();
        iterator.for_each_inner(|out, [at]| inner.push((out, at)));
        assert_eq!((iterator.inner_len(), &*inner), expected);
    }

    #[test]
    fn equal_layouts_have_one_inner_loop() {
        check(&[2, 3, 4], &[0, 1, 2], &[2, 3, 4], (24, &[(0, 0)]));
        check(&[], &[], &[], (1, &[(0, 0)]));
        check(&[1, 1], &[0, 1], &[1], (1, &[(0, 0)]));
    }

    #[test]
    fn broadcasting_repeats_inner_loops() {
        check(&[2, 3], &[0, 1], &[3], (3, &[(0, 0), (3, 0)]));
        check(&[2, 3], &[0, 1], &[2, 1], (3, &[(0, 0), (3, 1)]));
        check(&[2, 3], &[0, 1], &[], (6, &[(0, 0)]));
    }

    #[test]
    fn another_dim_order_is_strided() {
        check(&[2, 3], &[1, 0], &[2, 3], (2, &[(0, 0), (2, 1), (4, 2)]));
    }
}
