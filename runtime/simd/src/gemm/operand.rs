//! Operands of a GEMM: strided in memory, or packed on demand.

use crate::Isa;

/// Operand of a GEMM: vectors as long as the inner dimension. They are the rows of the left operand
/// and the columns of the right operand.
pub trait Operand: Sync {
    /// Size of the operand.
    fn extent(&self) -> Extent;

    /// The operand in memory; `None` if it exists only in packed form.
    fn strided(&self) -> Option<StridedOperand<'_>>;

    /// Packs a part of the operand: element `k` of vector `i` of the part is written to
    /// `to[k * width + i]`, and zeros fill up to `width`.
    ///
    /// The caller passes `depth * width` elements and a part inside the extent.
    fn pack(&self, isa: Isa, part: PanelRange, to: &mut [f32]);
}

/// Size of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of vectors.
    pub vectors: usize,
    /// Elements per vector.
    pub depth: usize,
}

/// Part of an operand that is packed into one panel.
#[derive(Debug, Clone, Copy)]
pub struct PanelRange {
    /// First vector.
    pub start: usize,
    /// Number of vectors; at most `width`.
    pub count: usize,
    /// First element of each vector.
    pub k: usize,
    /// Elements of each vector.
    pub depth: usize,
    /// Vectors per panel.
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

/// Operand in memory: element `k` of vector `i` is `data[i * stride + k * k_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct StridedOperand<'d> {
    pub(super) data: &'d [f32],
    pub(super) stride: usize,
    pub(super) k_stride: usize,
    count: usize,
    depth: usize,
}

impl<'d> StridedOperand<'d> {
    /// Returns an operand with the given vectors and elements per vector; `None` if some are
    /// outside `data`, or all elements of a vector share one location.
    pub fn new(data: &'d [f32], vectors: Dim, elements: Dim) -> Option<Self> {
        let (Dim { len: count, stride }, Dim { len: depth, stride: k_stride }) =
            (vectors, elements);
        if k_stride == 0 && depth > 1 {
            return None;
        }
        let k_stride = k_stride.max(1);
        if count > 0 && depth > 0 {
            let last_vector = (count - 1).checked_mul(stride)?;
            let last = last_vector.checked_add((depth - 1).checked_mul(k_stride)?)?;
            data.get(last)?;
        }
        Some(Self { data, stride, k_stride, count, depth })
    }
}

impl Operand for StridedOperand<'_> {
    fn extent(&self) -> Extent {
        Extent { vectors: self.count, depth: self.depth }
    }

    fn strided(&self) -> Option<StridedOperand<'_>> {
        Some(*self)
    }

    fn pack(&self, isa: Isa, part: PanelRange, to: &mut [f32]) {
        if part.depth == 0 || part.count == 0 {
            return;
        }
        let from = &self.data[part.start * self.stride + part.k * self.k_stride..];
        isa.call(|| pack(from, self.stride, self.k_stride, part, to));
    }
}

#[inline(always)]
fn pack(from: &[f32], stride: usize, k_stride: usize, part: PanelRange, to: &mut [f32]) {
    let PanelRange { count, width, .. } = part;
    if count < width {
        to.fill(0.0);
    }
    if stride == 1 {
        for (k, to) in to.chunks_exact_mut(width).enumerate() {
            to[..count].copy_from_slice(&from[k * k_stride..][..count]);
        }
        return;
    }
    /// Elements of each vector that are transposed at a time, so that source and destination stay
    /// in the cache.
    const TILE_DEPTH: usize = 16;
    for (tile, to) in to.chunks_mut(TILE_DEPTH * width).enumerate() {
        for vector in 0..count {
            let from = &from[vector * stride + tile * TILE_DEPTH * k_stride..];
            let column = to[vector..].iter_mut().step_by(width);
            if k_stride == 1 {
                column.zip(from).for_each(|(to, from)| *to = *from);
            } else {
                column.zip(from.iter().step_by(k_stride)).for_each(|(to, from)| *to = *from);
            }
        }
    }
}
