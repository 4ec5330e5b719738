//! Strided copies between tensors, for operators that only move elements.

use afferent_core::{Element, Error};
use afferent_simd::Isa;

use crate::{
    error::SHAPE_MISMATCH,
    loop_nest::{Loop, advance},
    operator::{Input, output_as, unary_input},
    shape::{MAX_TENSOR_DIMS, Shape},
};

/// Loops over source and destination, outermost first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StridedCopy {
    loops: [Loop; MAX_TENSOR_DIMS],
    /// Offsets of the first element in source and destination.
    start: [usize; 2],
}

impl Default for StridedCopy {
    fn default() -> Self {
        Self { loops: [Loop::ONCE; MAX_TENSOR_DIMS], start: [0; 2] }
    }
}

impl StridedCopy {
    /// Copy of `len` contiguous elements.
    pub(crate) fn contiguous(len: usize) -> Self {
        let mut copy = Self::default();
        copy.loops[MAX_TENSOR_DIMS - 1] = Loop { len, strides: [1, 1] };
        copy
    }

    /// Copy of a block of the given sizes. `from` and `to` are the strides of each dimension in
    /// source and destination.
    pub(crate) fn new(sizes: &[usize], from: &[usize], to: &[usize], start: [usize; 2]) -> Self {
        let mut loops = [Loop::ONCE; MAX_TENSOR_DIMS];
        let first = MAX_TENSOR_DIMS - sizes.len();
        for (dim, to_loop) in loops[first..].iter_mut().enumerate() {
            *to_loop = Loop { len: sizes[dim], strides: [from[dim], to[dim]] };
        }
        Self { loops, start }
    }

    /// Copies the single input of an operator, whose elements have 1 or 4 bytes.
    pub(crate) fn run(
        &self,
        isa: Isa,
        inputs: &[Input<'_>],
        element_size: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        if element_size == 1 {
            self.copy(isa, input.data::<i8>()?, output_as(out)?)
        } else {
            self.copy(isa, input.data::<f32>()?, output_as(out)?)
        }
    }

    fn copy<T: Element>(&self, isa: Isa, from: &[T], to: &mut [T]) -> Result<(), Error> {
        if self.loops.iter().any(|dim| dim.len == 0) {
            return Ok(());
        }
        // The inner loop writes contiguously, the one next to it reads contiguously.
        let mut loops: Vec<Loop> = self.loops.iter().copied().filter(|dim| dim.len > 1).collect();
        let inner = loops.pop().unwrap_or(Loop { len: 1, strides: [1, 1] });
        let outer = loops.iter().position(|dim| dim.strides[0] == 1 && inner.strides[0] != 1);
        let outer = outer.map_or(Loop::ONCE, |at| loops.remove(at));
        let last = |side: usize| {
            let all = loops.iter().chain([&inner, &outer]);
            all.fold(self.start[side], |last, dim| last + (dim.len - 1) * dim.strides[side])
        };
        if last(0) >= from.len() || last(1) >= to.len() {
            return Err(SHAPE_MISMATCH);
        }
        let mut indices = [0; MAX_TENSOR_DIMS];
        let mut offsets = self.start;
        loop {
            copy_2d(isa, &from[offsets[0]..], &mut to[offsets[1]..], inner, outer);
            if !advance(&loops, &mut indices[..loops.len()], &mut offsets) {
                return Ok(());
            }
        }
    }
}

/// Strides of a contiguous tensor.
pub(crate) fn contiguous_strides(shape: &Shape) -> [usize; MAX_TENSOR_DIMS] {
    let mut strides = [0; MAX_TENSOR_DIMS];
    let mut stride = 1;
    for dim in (0..shape.len()).rev() {
        strides[dim] = stride;
        stride *= shape[dim];
    }
    strides
}

/// Copies two loops: as a memory copy, as planes that are interleaved or separated, or in tiles.
fn copy_2d<T: Element>(isa: Isa, from: &[T], to: &mut [T], inner: Loop, outer: Loop) {
    let Loop { len: inner, strides: inner_strides } = inner;
    let Loop { len: outer, strides: outer_strides } = outer;
    if outer == 1 && inner_strides == [1, 1] {
        to[..inner].copy_from_slice(&from[..inner]);
        return;
    }
    if inner_strides[1] == 1 && outer_strides == [1, inner] {
        let stride = inner_strides[0];
        match inner {
            2 => return isa.call(|| interleave(planes::<T, 2>(from, stride, outer), to)),
            3 => return isa.call(|| interleave(planes::<T, 3>(from, stride, outer), to)),
            4 => return isa.call(|| interleave(planes::<T, 4>(from, stride, outer), to)),
            _ => {}
        }
    }
    if inner_strides == [outer, 1] && outer_strides[0] == 1 && outer_strides[1] >= inner {
        match outer {
            2 => return isa.call(|| deinterleave::<T, 2>(from, to, outer_strides[1], inner)),
            3 => return isa.call(|| deinterleave::<T, 3>(from, to, outer_strides[1], inner)),
            4 => return isa.call(|| deinterleave::<T, 4>(from, to, outer_strides[1], inner)),
            _ => {}
        }
    }
    const TILE: usize = 16;
    for first in (0..outer).step_by(TILE) {
        let last = outer.min(first + TILE);
        for start in (0..inner).step_by(TILE) {
            let end = inner.min(start + TILE);
            for i in first..last {
                let (mut source, mut target) = (
                    i * outer_strides[0] + start * inner_strides[0],
                    i * outer_strides[1] + start * inner_strides[1],
                );
                for _ in start..end {
                    to[target] = from[source];
                    source += inner_strides[0];
                    target += inner_strides[1];
                }
            }
        }
    }
}

/// First `len` elements of `N` planes that are `stride` elements apart.
#[inline(always)]
fn planes<T, const N: usize>(from: &[T], stride: usize, len: usize) -> [&[T]; N] {
    std::array::from_fn(|plane| &from[plane * stride..][..len])
}

/// Writes the elements of planes of equal length in turn.
#[inline(always)]
pub(crate) fn interleave<T: Element, const N: usize>(planes: [&[T]; N], to: &mut [T]) {
    let len = planes[0].len();
    for (at, to) in to.as_chunks_mut::<N>().0[..len].iter_mut().enumerate() {
        for (to, plane) in to.iter_mut().zip(planes) {
            *to = plane[at];
        }
    }
}

/// Writes every `N`th element to one of `N` planes of `len` elements that are `stride` apart.
#[inline(always)]
fn deinterleave<T: Element, const N: usize>(from: &[T], to: &mut [T], stride: usize, len: usize) {
    let from = &from.as_chunks::<N>().0[..len];
    for (plane, to) in to.chunks_mut(stride).enumerate().take(N) {
        from.iter().zip(&mut to[..len]).for_each(|(from, to)| *to = from[plane]);
    }
}
