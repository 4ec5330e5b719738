//! The order in which a pointwise operator visits elements.

use afferent_core::Dims;

use crate::shared::pointwise::input::Layout;

/// Runs of elements that are adjacent in the output and evenly spaced in each of `K` inputs, in
/// the order of the output's memory.
///
/// Dimensions over which every tensor steps evenly are merged, so that tensors of one shape and
/// one dim order make a single run.
pub(super) struct Walk<const K: usize> {
    /// Sizes from the outermost loop to the run.
    sizes: Dims,
    /// For each input the steps that belong to `sizes`; 0 where it broadcasts.
    strides: [Dims; K],
    starts: [usize; K],
}

impl<const K: usize> Walk<K> {
    /// The walk over an output of `sizes`, which are not zero, laid out in `dim_order`.
    ///
    /// The sizes of `inputs` broadcast to `sizes`.
    pub(super) fn new(sizes: &[usize], dim_order: &[u8], inputs: [Layout; K]) -> Self {
        let mut walk = Self {
            sizes: Dims::filled(0, 0),
            strides: [Dims::filled(0, 0); K],
            starts: inputs.each_ref().map(|input| input.start),
        };
        for dim in dim_order.iter().map(|&dim| usize::from(dim)) {
            let steps = inputs.each_ref().map(|input| {
                let dim = (dim + input.sizes.len()).checked_sub(sizes.len());
                dim.filter(|&dim| input.sizes[dim] != 1).map_or(0, |dim| input.strides[dim])
            });
            if sizes[dim] != 1 {
                walk.push(sizes[dim], steps);
            }
        }
        if walk.sizes.is_empty() {
            walk.push(1, [1; K]);
        }
        walk
    }

    fn push(&mut self, size: usize, steps: [usize; K]) {
        let outer = self.strides.iter().map(|strides| strides.last().copied());
        let even = outer.zip(steps).all(|(outer, step)| outer == Some(step.wrapping_mul(size)));
        if let (true, Some(last)) = (even, self.sizes.last_mut()) {
            *last *= size;
            for (strides, step) in self.strides.iter_mut().zip(steps) {
                if let Some(last) = strides.last_mut() {
                    *last = step;
                }
            }
            return;
        }
        // There are as many as dimensions of a tensor, so these fit.
        let _ = self.sizes.push(size);
        for (strides, step) in self.strides.iter_mut().zip(steps) {
            let _ = strides.push(step);
        }
    }

    /// Elements in a run.
    pub(super) fn run_len(&self) -> usize {
        self.sizes.last().copied().unwrap_or(1)
    }

    /// For each input the step from one element of a run to the next.
    pub(super) fn run_strides(&self) -> [usize; K] {
        self.strides.each_ref().map(|strides| strides.last().copied().unwrap_or(0))
    }

    /// Calls `f` with the place of the first element of each run, in the output and in the inputs.
    pub(super) fn for_each_run(&self, mut f: impl FnMut(usize, [usize; K])) {
        let loops = self.sizes.len().saturating_sub(1);
        let mut position = Dims::filled(loops, 0);
        let mut at = self.starts;
        let mut out_at = 0;
        loop {
            f(out_at, at);
            out_at += self.run_len();
            let mut dim = loops;
            loop {
                if dim == 0 {
                    return;
                }
                dim -= 1;
                position[dim] += 1;
                let more = position[dim] < self.sizes[dim];
                for (at, strides) in at.iter_mut().zip(&self.strides) {
                    *at += strides[dim];
                    if !more {
                        *at -= strides[dim] * self.sizes[dim];
                    }
                }
                if more {
                    break;
                }
                position[dim] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sizes: &[usize], order: &[u8], input: &[usize], expected: (usize, &[(usize, usize)])) {
        let strides = Dims::strides(input, &afferent_core::CONTIGUOUS[..input.len()]);
        let layout = Layout { sizes: Dims::new(input).unwrap(), strides, start: 0 };
        let walk = Walk::new(sizes, order, [layout]);
        let mut runs = Vec::new();
        walk.for_each_run(|out, [at]| runs.push((out, at)));
        assert_eq!((walk.run_len(), &*runs), expected);
    }

    #[test]
    fn equal_layouts_are_one_run() {
        check(&[2, 3, 4], &[0, 1, 2], &[2, 3, 4], (24, &[(0, 0)]));
        check(&[], &[], &[], (1, &[(0, 0)]));
        check(&[1, 1], &[0, 1], &[1], (1, &[(0, 0)]));
    }

    #[test]
    fn broadcasting_repeats_runs() {
        check(&[2, 3], &[0, 1], &[3], (3, &[(0, 0), (3, 0)]));
        check(&[2, 3], &[0, 1], &[2, 1], (3, &[(0, 0), (3, 1)]));
        check(&[2, 3], &[0, 1], &[], (6, &[(0, 0)]));
    }

    #[test]
    fn another_dim_order_steps() {
        check(&[2, 3], &[1, 0], &[2, 3], (2, &[(0, 0), (2, 1), (4, 2)]));
    }
}
