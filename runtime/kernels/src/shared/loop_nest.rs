//! Nested loops over dimensions of several tensors, each with its own strides.

use afferent_core::{Dims, Error, TensorMut, TensorView};

/// Loop nest over dimensions, with the strides of `N` tensors in each of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoopNest<const N: usize> {
    sizes: Dims,
    strides: [Dims; N],
}

impl<const N: usize> LoopNest<N> {
    /// Empty loop nest: one iteration.
    pub(crate) fn new() -> Self {
        Self { sizes: Dims::filled(0, 0), strides: [Dims::filled(0, 0); N] }
    }

    /// Adds an innermost loop. It is merged with the loop around it if the strides of all tensors
    /// allow it.
    pub(crate) fn push(&mut self, size: usize, strides: [usize; N]) -> Result<(), Error> {
        if size == 1 {
            return Ok(());
        }
        if let Some(last) = self.sizes.len().checked_sub(1) {
            let is_mergeable =
                |(outer, inner): (&Dims, &usize)| outer[last] == inner.saturating_mul(size);
            if self.strides.iter().zip(&strides).all(is_mergeable) {
                self.sizes[last] = self.sizes[last].saturating_mul(size);
                for (to, from) in self.strides.iter_mut().zip(strides) {
                    to[last] = from;
                }
                return Ok(());
            }
        }
        self.sizes.push(size)?;
        for (to, from) in self.strides.iter_mut().zip(strides) {
            to.push(from)?;
        }
        Ok(())
    }

    /// Removes the innermost loop and returns its size and strides. An empty loop nest returns size
    /// 1 and strides 1.
    pub(crate) fn pop(&mut self) -> (usize, [usize; N]) {
        let Some(last) = self.sizes.len().checked_sub(1) else {
            return (1, [1; N]);
        };
        let (size, strides) = (self.sizes[last], self.strides.map(|strides| strides[last]));
        self.sizes.remove(last);
        self.strides.iter_mut().for_each(|strides| strides.remove(last));
        (size, strides)
    }

    /// Calls `f` in each iteration with the offsets in all tensors. The first offsets are
    /// `offsets`.
    pub(crate) fn for_each(&self, mut offsets: [usize; N], mut f: impl FnMut([usize; N])) {
        if self.sizes.contains(&0) {
            return;
        }
        let mut counts = Dims::filled(self.sizes.len(), 0);
        'next: loop {
            f(offsets);
            for dim in (0..counts.len()).rev() {
                counts[dim] += 1;
                let wraps = counts[dim] == self.sizes[dim];
                for (at, strides) in offsets.iter_mut().zip(&self.strides) {
                    // Returns to the start of the loop; the subtraction does not underflow.
                    *at = if wraps {
                        *at - strides[dim] * (counts[dim] - 1)
                    } else {
                        *at + strides[dim]
                    };
                }
                if !wraps {
                    continue 'next;
                }
                counts[dim] = 0;
            }
            return;
        }
    }
}

/// Strides of a tensor, or zeros if it is empty: strides of an empty tensor may overflow.
fn strides(sizes: &[usize], dim_order: &[u8]) -> Dims {
    if sizes.contains(&0) { Dims::filled(sizes.len(), 0) } else { Dims::strides(sizes, dim_order) }
}

/// Strides of an input tensor; zeros if it is empty.
pub(crate) fn strides_of(tensor: &TensorView<'_>) -> Dims {
    strides(tensor.sizes(), tensor.dim_order())
}

/// Strides of an output tensor; zeros if it is empty.
pub(crate) fn out_strides(tensor: &TensorMut<'_, '_>) -> Dims {
    strides(tensor.sizes(), tensor.dim_order())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_merge_and_keep_the_order() {
        let check = |dims: &[(usize, usize)], loops: usize, expected: &[usize]| {
            let mut all = LoopNest::<1>::new();
            for &(size, stride) in dims {
                all.push(size, [stride]).unwrap();
            }
            assert_eq!(all.sizes.len(), loops);
            let mut seen = vec![];
            all.for_each([0], |[at]| seen.push(at));
            assert_eq!(seen, expected);
        };
        check(&[], 0, &[0]);
        check(&[(2, 3), (1, 7), (3, 1)], 1, &[0, 1, 2, 3, 4, 5]);
        check(&[(2, 1), (3, 2)], 2, &[0, 2, 4, 1, 3, 5]);
        check(&[(2, 1), (0, 2)], 2, &[]);
    }
}
