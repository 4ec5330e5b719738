//! Strided copies between tensors, for operators that only move elements.

use afferent_core::{Element, Error};
use afferent_simd::{Isa, transpose::transpose};

use crate::{
    error::SHAPE_MISMATCH,
    loop_nest::{Loop, advance},
    operator::{Input, output_as, unary_input},
    shape::{MAX_TENSOR_DIMS, Shape},
};

/// Loops over source and destination, outermost first. Loops that continue each other are one.
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
        // Index of the outermost loop.
        let mut first = MAX_TENSOR_DIMS;
        for dim in (0..sizes.len()).rev() {
            let outer = Loop { len: sizes[dim], strides: [from[dim], to[dim]] };
            match loops.get_mut(first).and_then(|inner| inner.extended_by(outer)) {
                Some(extended) => loops[first] = extended,
                None => {
                    first -= 1;
                    loops[first] = outer;
                }
            }
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
            copy_2d(isa, &from[offsets[0]..], &mut to[offsets[1]..], inner, outer)?;
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

/// Copies two loops: as a memory copy, as planes that are interleaved or separated, as a transposed
/// matrix, or in tiles.
fn copy_2d<T: Element>(
    isa: Isa,
    from: &[T],
    to: &mut [T],
    inner_loop: Loop,
    outer_loop: Loop,
) -> Result<(), Error> {
    let Loop { len: inner, strides: inner_strides } = inner_loop;
    let Loop { len: outer, strides: outer_strides } = outer_loop;
    if outer == 1 && inner_strides == [1, 1] {
        to[..inner].copy_from_slice(&from[..inner]);
        return Ok(());
    }
    if copy_planes(isa, from, to, inner_loop, outer_loop) {
        return Ok(());
    }
    // Rows of the source are contiguous along the outer loop, rows of the destination along the
    // inner one.
    let is_transposed = inner_strides[1] == 1
        && outer_strides[0] == 1
        && inner_strides[0] >= outer
        && outer_strides[1] >= inner;
    if is_transposed
        && let (Ok(from), Ok(to)) =
            (bytemuck::try_cast_slice(from), bytemuck::try_cast_slice_mut(&mut *to))
        && size_of::<T>() == size_of::<f32>()
    {
        let (from, to) = ((from, inner_strides[0]), (to, outer_strides[1]));
        return transpose(isa, [inner, outer], from, to).or(Err(SHAPE_MISMATCH));
    }
    copy_tiles(from, to, inner_loop, outer_loop);
    Ok(())
}

/// Interleaves or separates two to four planes; false if the loops do something else.
fn copy_planes<T: Element>(isa: Isa, from: &[T], to: &mut [T], inner: Loop, outer: Loop) -> bool {
    let (planes_stride, to_stride) = (inner.strides[0], outer.strides[1]);
    let interleaves = inner.strides[1] == 1 && outer.strides == [1, inner.len];
    let separates =
        inner.strides == [outer.len, 1] && outer.strides[0] == 1 && to_stride >= inner.len;
    match (inner.len, outer.len) {
        (2, len) if interleaves => {
            isa.call(|| interleave(planes::<T, 2>(from, planes_stride, len), to));
        }
        (3, len) if interleaves => {
            isa.call(|| interleave(planes::<T, 3>(from, planes_stride, len), to));
        }
        (4, len) if interleaves => {
            isa.call(|| interleave(planes::<T, 4>(from, planes_stride, len), to));
        }
        (len, 2) if separates => isa.call(|| deinterleave::<T, 2>(from, to, to_stride, len)),
        (len, 3) if separates => isa.call(|| deinterleave::<T, 3>(from, to, to_stride, len)),
        (len, 4) if separates => isa.call(|| deinterleave::<T, 4>(from, to, to_stride, len)),
        _ => return false,
    }
    true
}

/// Copies two loops in square tiles.
fn copy_tiles<T: Element>(from: &[T], to: &mut [T], inner: Loop, outer: Loop) {
    const TILE: usize = 16;
    for first in (0..outer.len).step_by(TILE) {
        let last = outer.len.min(first + TILE);
        for start in (0..inner.len).step_by(TILE) {
            let end = inner.len.min(start + TILE);
            for i in first..last {
                let [mut source, mut target] =
                    [0, 1].map(|side| i * outer.strides[side] + start * inner.strides[side]);
                for _ in start..end {
                    to[target] = from[source];
                    source += inner.strides[0];
                    target += inner.strides[1];
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Permutes a tensor of the given sizes and compares every element.
    fn check<T: Element + PartialEq + std::fmt::Debug>(
        sizes: &[usize],
        perm: &[usize],
        value: impl Fn(usize) -> T,
    ) {
        let shape = Shape::new(sizes).unwrap();
        let sizes_out: Vec<usize> = perm.iter().map(|dim| sizes[*dim]).collect();
        let out = Shape::new(&sizes_out).unwrap();
        let strides = contiguous_strides(&shape);
        let from_strides: Vec<usize> = perm.iter().map(|dim| strides[*dim]).collect();
        let copy = StridedCopy::new(&out, &from_strides, &contiguous_strides(&out), [0, 0]);
        let from: Vec<T> = (0..shape.numel().unwrap()).map(&value).collect();
        for isa in Isa::available() {
            let mut to = vec![value(usize::MAX >> 40); from.len()];
            copy.copy(isa, &from, &mut to).unwrap();
            for (at, found) in to.iter().enumerate() {
                let (mut rest, mut source) = (at, 0);
                for (size, stride) in sizes_out.iter().zip(&from_strides).rev() {
                    source += rest % size * stride;
                    rest /= size;
                }
                assert_eq!(*found, from[source], "{isa:?}: {sizes:?}, {perm:?}, element {at}");
            }
        }
    }

    #[test]
    fn permutations_move_every_element() {
        for sizes in [
            [1, 3, 5, 7],
            [2, 16, 7, 7],
            [1, 20, 14, 14],
            [2, 17, 1, 33],
            [3, 1, 9, 2],
            [1, 4, 8, 40],
            [2, 2, 33, 18],
        ] {
            for perm in [
                [0, 2, 3, 1],
                [0, 3, 1, 2],
                [0, 2, 1, 3],
                [3, 2, 1, 0],
                [1, 0, 3, 2],
                [2, 3, 0, 1],
                [0, 1, 2, 3],
            ] {
                check(&sizes, &perm, |at| at as f32);
                check(&sizes, &perm, |at| at as i8);
            }
        }
    }

    #[test]
    fn loops_that_continue_each_other_are_joined() {
        let shape = Shape::of([2, 7, 5, 16]);
        let (from, to) = ([560, 5, 1, 35], contiguous_strides(&shape));
        let copy = StridedCopy::new(&shape, &from, &to, [0, 0]);
        let joined = [
            Loop { len: 2, strides: [560, 560] },
            Loop { len: 35, strides: [1, 16] },
            Loop { len: 16, strides: [35, 1] },
        ];
        assert_eq!(copy.loops[MAX_TENSOR_DIMS - 3..], joined);
        assert_eq!(copy.loops[..MAX_TENSOR_DIMS - 3], [Loop::ONCE; MAX_TENSOR_DIMS - 3]);
    }
}
