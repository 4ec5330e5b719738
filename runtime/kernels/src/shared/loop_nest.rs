//! Nested loops over dimensions of tensors with any dim order.

use afferent_core::{Dims, Error, TensorMut, TensorView};

/// Loops over some dimensions, with the step that each of `N` tensors takes in them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoopNest<const N: usize> {
    sizes: Dims,
    steps: [Dims; N],
}

impl<const N: usize> LoopNest<N> {
    /// No loop: one pass.
    pub(crate) fn new() -> Self {
        Self { sizes: Dims::filled(0, 0), steps: [Dims::filled(0, 0); N] }
    }

    /// Adds a loop inside the others; merged with its neighbour where the steps allow it.
    pub(crate) fn push(&mut self, size: usize, steps: [usize; N]) -> Result<(), Error> {
        if size == 1 {
            return Ok(());
        }
        if let Some(last) = self.sizes.len().checked_sub(1) {
            let follows =
                |(outer, inner): (&Dims, &usize)| outer[last] == inner.saturating_mul(size);
            if self.steps.iter().zip(&steps).all(follows) {
                self.sizes[last] = self.sizes[last].saturating_mul(size);
                for (to, from) in self.steps.iter_mut().zip(steps) {
                    to[last] = from;
                }
                return Ok(());
            }
        }
        self.sizes.push(size)?;
        for (to, from) in self.steps.iter_mut().zip(steps) {
            to.push(from)?;
        }
        Ok(())
    }

    /// Takes the innermost loop out: its size and steps; without loops, one pass.
    pub(crate) fn pop(&mut self) -> (usize, [usize; N]) {
        let Some(last) = self.sizes.len().checked_sub(1) else {
            return (1, [1; N]);
        };
        let (size, steps) = (self.sizes[last], self.steps.map(|steps| steps[last]));
        self.sizes.remove(last);
        self.steps.iter_mut().for_each(|steps| steps.remove(last));
        (size, steps)
    }

    /// Calls `f` with the position of each tensor, which starts at `position`.
    pub(crate) fn for_each(&self, mut position: [usize; N], mut f: impl FnMut([usize; N])) {
        if self.sizes.contains(&0) {
            return;
        }
        let mut counts = Dims::filled(self.sizes.len(), 0);
        'next: loop {
            f(position);
            for dim in (0..counts.len()).rev() {
                counts[dim] += 1;
                let wraps = counts[dim] == self.sizes[dim];
                for (at, steps) in position.iter_mut().zip(&self.steps) {
                    // The position before the last step is inside the tensor.
                    *at =
                        if wraps { *at - steps[dim] * (counts[dim] - 1) } else { *at + steps[dim] };
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

/// The strides of `sizes`, or zeros for a tensor without elements, whose strides may overflow.
fn strides(sizes: &[usize], dim_order: &[u8]) -> Dims {
    if sizes.contains(&0) { Dims::filled(sizes.len(), 0) } else { Dims::strides(sizes, dim_order) }
}

/// The strides of a tensor to read; zeros when it is empty.
pub(crate) fn strides_of(tensor: &TensorView<'_>) -> Dims {
    strides(tensor.sizes(), tensor.dim_order())
}

/// The strides of a tensor to write; zeros when it is empty.
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
            for &(size, step) in dims {
                all.push(size, [step]).unwrap();
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
