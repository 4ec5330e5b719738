//! Operands of a product: how they are packed, and where they lie.

use crate::Isa;

/// StridedOperand of numbers, each as long as the inner dimension of a product.
pub trait Operand: Sync {
    /// How many lines there are, and how long they are.
    fn extent(&self) -> (usize, usize);

    /// The lines where they lie, unless they exist only when packed.
    fn strided(&self) -> Option<StridedOperand<'_>>;

    /// Packs lines: element `k` of line `i` of the part goes to `to[k * width + i]`; what remains
    /// of the width is zero. `to` has `depth * width` places, and the part is inside the extent.
    fn pack(&self, isa: Isa, part: PanelRange, to: &mut [f32]);
}

/// Some elements of some lines.
#[derive(Debug, Clone, Copy)]
pub struct PanelRange {
    /// The first line.
    pub start: usize,
    /// Number of lines; at most `width`.
    pub count: usize,
    /// The first element of each line.
    pub k: usize,
    /// Elements of each line.
    pub depth: usize,
    /// InputRows for lines.
    pub width: usize,
}

/// A dimension of a matrix in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dim {
    /// Number of indices.
    pub len: usize,
    /// Elements from one index to the next.
    pub stride: usize,
}

/// StridedOperand in memory: element `k` of line `i` is `data[i * step + k * k_step]`.
#[derive(Debug, Clone, Copy)]
pub struct StridedOperand<'d> {
    pub(super) data: &'d [f32],
    pub(super) step: usize,
    pub(super) k_step: usize,
    count: usize,
    depth: usize,
}

impl<'d> StridedOperand<'d> {
    /// `count` lines of `depth` elements each; `None` when not all are in `data`, or the elements
    /// of a line lie in one place.
    pub fn new(data: &'d [f32], vectors: Dim, elements: Dim) -> Option<Self> {
        let (Dim { len: count, stride: step }, Dim { len: depth, stride: k_step }) =
            (vectors, elements);
        if k_step == 0 && depth > 1 {
            return None;
        }
        let k_step = k_step.max(1);
        if count > 0 && depth > 0 {
            let last = (count - 1).checked_mul(step)?.checked_add((depth - 1).checked_mul(k_step)?);
            data.get(last?)?;
        }
        Some(Self { data, step, k_step, count, depth })
    }
}

impl Operand for StridedOperand<'_> {
    fn extent(&self) -> (usize, usize) {
        (self.count, self.depth)
    }

    fn strided(&self) -> Option<StridedOperand<'_>> {
        Some(*self)
    }

    fn pack(&self, isa: Isa, part: PanelRange, to: &mut [f32]) {
        if part.depth == 0 || part.count == 0 {
            return;
        }
        let from = &self.data[part.start * self.step + part.k * self.k_step..];
        isa.call(|| pack(from, self.step, self.k_step, part, to));
    }
}

#[inline(always)]
fn pack(from: &[f32], step: usize, k_step: usize, part: PanelRange, to: &mut [f32]) {
    let PanelRange { count, width, .. } = part;
    if count < width {
        to.fill(0.0);
    }
    if step == 1 {
        for (k, to) in to.chunks_exact_mut(width).enumerate() {
            to[..count].copy_from_slice(&from[k * k_step..][..count]);
        }
        return;
    }
    // StridedOperand that lie one after the other are read some elements at a time, so that both
    // sides of the transposition stay in the cache.
    const TILE: usize = 16;
    for (tile, to) in to.chunks_mut(TILE * width).enumerate() {
        for line in 0..count {
            let from = &from[line * step + tile * TILE * k_step..];
            let places = to[line..].iter_mut().step_by(width);
            if k_step == 1 {
                places.zip(from).for_each(|(to, from)| *to = *from);
            } else {
                places.zip(from.iter().step_by(k_step)).for_each(|(to, from)| *to = *from);
            }
        }
    }
}
