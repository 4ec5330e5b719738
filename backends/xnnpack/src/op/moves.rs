//! Operations that only move elements: transposition, padding, slices, concatenation, copies.

use afferent_core::{Element, Error};
use afferent_simd::Isa;

use super::{Cx, Input, Op, elements, only};
use crate::shape::{MISFIT, MOST_DIMS, Room, Shape, advance};

/// The bytes of an element, and what fills new ones.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fill {
    Byte(i8),
    Word(f32),
}

/// What happens to one tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// The elements stay, with other sizes; a size of 0 is what the others leave.
    Reshape(Shape),
    Same,
    Transpose(Vec<usize>),
    Pad {
        before: Shape,
        after: Shape,
    },
    Slice {
        offsets: Vec<i64>,
        sizes: Vec<usize>,
    },
}

/// Elements moved from one tensor to another.
pub(crate) struct Move {
    change: Change,
    fill: Fill,
    walk: Walk,
}

/// Loops over both tensors: sizes, steps, and where they begin.
#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    loops: [(usize, [usize; 2]); MOST_DIMS],
    start: [usize; 2],
}

impl Move {
    pub(crate) fn new(change: Change, fill: Fill) -> Self {
        Self { change, fill, walk: Walk::default() }
    }
}

impl Op for Move {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        let input = only(inputs)?;
        let numel = input.numel()?;
        let order: Vec<usize> = (0..input.len()).collect();
        let (out, order, skip) = match &self.change {
            Change::Same | Change::Reshape(_) => {
                self.walk = Walk::over([numel], [1], [1], [0; 2]);
                return match &self.change {
                    Change::Reshape(to) => reshaped(numel, *to),
                    _ => Ok(*input),
                };
            }
            Change::Transpose(order) => {
                let sizes: Option<Vec<usize>> =
                    order.iter().map(|dim| input.get(*dim).copied()).collect();
                let out = sizes.filter(|_| order.len() == input.len());
                let out = out.and_then(|sizes| Shape::new(&sizes)).ok_or(MISFIT)?;
                (out, order.clone(), [0; MOST_DIMS])
            }
            Change::Slice { offsets, sizes } => {
                let (out, skip) = sliced(input, offsets, sizes)?;
                (out, order, skip)
            }
            Change::Pad { before, after } => {
                return self.padded(input, *before, *after);
            }
        };
        let from = steps(input);
        self.walk = Walk::default();
        let rank = out.len();
        let to = steps(&out);
        let start = (0..rank).map(|dim| skip[dim] * from[order[dim]]).sum();
        self.walk.start = [start, 0];
        for dim in 0..MOST_DIMS {
            self.walk.loops[dim] = match (dim + rank).checked_sub(MOST_DIMS) {
                Some(dim) => (out[dim], [from[order[dim]], to[dim]]),
                None => (1, [0; 2]),
            };
        }
        out.numel()?;
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let pads = matches!(self.change, Change::Pad { .. });
        match self.fill {
            Fill::Byte(value) => {
                let out = elements::<i8>(out)?;
                if pads {
                    out.fill(value);
                }
                self.walk.copy(cx.isa, input.data()?, out)
            }
            Fill::Word(value) => {
                let out = elements::<f32>(out)?;
                if pads {
                    out.fill(value);
                }
                self.walk.copy(cx.isa, input.data()?, out)
            }
        }
    }
}

impl Move {
    fn padded(&mut self, input: &Shape, before: Shape, after: Shape) -> Result<Shape, Error> {
        if before.len() != input.len() || after.len() != input.len() {
            return Err(MISFIT);
        }
        let mut out = *input;
        for dim in 0..input.len() {
            let more =
                before[dim].checked_add(after[dim]).and_then(|more| more.checked_add(input[dim]));
            out = out.with(dim, more.ok_or(MISFIT)?);
        }
        out.numel()?;
        let (from, to) = (steps(input), steps(&out));
        self.walk = Walk::default();
        self.walk.start = [0, (0..input.len()).map(|dim| before[dim] * to[dim]).sum()];
        for dim in 0..MOST_DIMS {
            self.walk.loops[dim] = match (dim + input.len()).checked_sub(MOST_DIMS) {
                Some(dim) => (input[dim], [from[dim], to[dim]]),
                None => (1, [0; 2]),
            };
        }
        Ok(out)
    }
}

/// Steps between neighbours of a dense tensor.
fn steps(shape: &Shape) -> [usize; MOST_DIMS] {
    let mut steps = [0; MOST_DIMS];
    let mut step = 1;
    for dim in (0..shape.len()).rev() {
        steps[dim] = step;
        step *= shape[dim];
    }
    steps
}

/// `to`, with what its other sizes leave where it is 0.
fn reshaped(numel: usize, to: Shape) -> Result<Shape, Error> {
    let known =
        to.iter().filter(|size| **size > 0).try_fold(1_usize, |all, size| all.checked_mul(*size));
    let known = known.ok_or(MISFIT)?;
    let mut open = (0..to.len()).filter(|dim| to[*dim] == 0);
    let out = match (open.next(), open.next()) {
        (None, _) => to,
        (Some(dim), None) => to.with(dim, numel / known),
        _ => return Err(MISFIT),
    };
    if out.numel()? == numel { Ok(out) } else { Err(MISFIT) }
}

/// The sizes of a slice, and where it begins.
fn sliced(
    input: &Shape,
    offsets: &[i64],
    sizes: &[usize],
) -> Result<(Shape, [usize; MOST_DIMS]), Error> {
    if offsets.len() != input.len() || sizes.len() != input.len() {
        return Err(MISFIT);
    }
    let (mut out, mut skip) = (*input, [0; MOST_DIMS]);
    for dim in 0..input.len() {
        let from_end = i64::try_from(input[dim]).map_err(|_| MISFIT)?;
        let offset = if offsets[dim] < 0 { offsets[dim] + from_end } else { offsets[dim] };
        skip[dim] = usize::try_from(offset).map_err(|_| MISFIT)?;
        let room = input[dim].checked_sub(skip[dim]).ok_or(MISFIT)?;
        let size = if sizes[dim] == 0 { room } else { sizes[dim] };
        if size > room {
            return Err(MISFIT);
        }
        out = out.with(dim, size);
    }
    Ok((out, skip))
}

impl Walk {
    fn over(sizes: [usize; 1], from: [usize; 1], to: [usize; 1], start: [usize; 2]) -> Self {
        let mut walk = Self { loops: [(1, [0; 2]); MOST_DIMS], start };
        walk.loops[MOST_DIMS - 1] = (sizes[0], [from[0], to[0]]);
        walk
    }

    fn copy<T: Element>(&self, isa: Isa, from: &[T], to: &mut [T]) -> Result<(), Error> {
        if self.loops.iter().any(|(len, _)| *len == 0) {
            return Ok(());
        }
        // The innermost loop writes neighbours, the one around it reads neighbours.
        let mut loops: Vec<(usize, [usize; 2])> =
            self.loops.iter().copied().filter(|(len, _)| *len > 1).collect();
        let inner = loops.pop().unwrap_or((1, [1, 1]));
        let around = loops.iter().position(|(_, steps)| steps[0] == 1 && inner.1[0] != 1);
        let around = around.map_or((1, [0, 0]), |at| loops.remove(at));
        let end = |side: usize| {
            let all = loops.iter().chain([&inner, &around]);
            all.fold(self.start[side], |end, (len, steps)| end + (len - 1) * steps[side])
        };
        if end(0) >= from.len() || end(1) >= to.len() {
            return Err(MISFIT);
        }
        let mut at = [0; MOST_DIMS];
        let mut start = self.start;
        loop {
            block(isa, &from[start[0]..], &mut to[start[1]..], inner, around);
            if !advance(&loops, &mut at[..loops.len()], &mut start) {
                return Ok(());
            }
        }
    }
}

/// Two loops, in tiles where neighbours that are read are not neighbours that are written.
fn block<T: Element>(
    isa: Isa,
    from: &[T],
    to: &mut [T],
    (inner, inner_steps): (usize, [usize; 2]),
    (around, around_steps): (usize, [usize; 2]),
) {
    if around == 1 && inner_steps == [1, 1] {
        to[..inner].copy_from_slice(&from[..inner]);
        return;
    }
    if inner_steps[1] == 1 && around_steps == [1, inner] {
        match inner {
            2 => return isa.call(|| interleave(planes::<T, 2>(from, inner_steps[0], around), to)),
            3 => return isa.call(|| interleave(planes::<T, 3>(from, inner_steps[0], around), to)),
            4 => return isa.call(|| interleave(planes::<T, 4>(from, inner_steps[0], around), to)),
            _ => {}
        }
    }
    if inner_steps == [around, 1] && around_steps[0] == 1 && around_steps[1] >= inner {
        match around {
            2 => return isa.call(|| separate::<T, 2>(from, to, around_steps[1], inner)),
            3 => return isa.call(|| separate::<T, 3>(from, to, around_steps[1], inner)),
            4 => return isa.call(|| separate::<T, 4>(from, to, around_steps[1], inner)),
            _ => {}
        }
    }
    const TILE: usize = 16;
    for first in (0..around).step_by(TILE) {
        let last = around.min(first + TILE);
        for start in (0..inner).step_by(TILE) {
            let end = inner.min(start + TILE);
            for i in first..last {
                let (mut source, mut target) = (
                    i * around_steps[0] + start * inner_steps[0],
                    i * around_steps[1] + start * inner_steps[1],
                );
                for _ in start..end {
                    to[target] = from[source];
                    source += inner_steps[0];
                    target += inner_steps[1];
                }
            }
        }
    }
}

/// The first `len` elements of `N` planes that begin `step` apart.
#[inline(always)]
fn planes<T, const N: usize>(from: &[T], step: usize, len: usize) -> [&[T]; N] {
    std::array::from_fn(|plane| &from[plane * step..][..len])
}

/// Writes the elements of planes, which are as long as each other, in turn.
#[inline(always)]
fn interleave<T: Element, const N: usize>(planes: [&[T]; N], to: &mut [T]) {
    let len = planes[0].len();
    for (at, to) in to.as_chunks_mut::<N>().0[..len].iter_mut().enumerate() {
        for (to, plane) in to.iter_mut().zip(planes) {
            *to = plane[at];
        }
    }
}

/// The reverse: each `N`th of the first elements goes to one of `N` planes of `len` elements that
/// begin `step` apart.
#[inline(always)]
fn separate<T: Element, const N: usize>(from: &[T], to: &mut [T], step: usize, len: usize) {
    let from = &from.as_chunks::<N>().0[..len];
    for (plane, to) in to.chunks_mut(step).enumerate().take(N) {
        from.iter().zip(&mut to[..len]).for_each(|(from, to)| *to = from[plane]);
    }
}

/// Tensors one after the other along a dimension.
pub(crate) struct Concatenate {
    pub(crate) axis: usize,
    /// Bytes of an element.
    pub(crate) width: usize,
}

impl Op for Concatenate {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        let first = only(inputs)?;
        let mut all = 0_usize;
        for input in inputs {
            let size = *input.get(self.axis).ok_or(MISFIT)?;
            if input.with(self.axis, 0) != first.with(self.axis, 0) {
                return Err(MISFIT);
            }
            all = all.checked_add(size).ok_or(MISFIT)?;
        }
        let out = first.with(self.axis, all);
        out.numel()?;
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (before, _, _) = only(inputs)?.shape.around(self.axis);
        if out.is_empty() {
            return Ok(());
        }
        // As rotary positions are written: single numbers of the one and the other in turn.
        if let ([a, b], 4) = (inputs, self.width)
            && [a, b].iter().all(|input| input.bytes.len() == 4 * before)
        {
            let (pair, out) = ([a.data::<f32>()?, b.data()?], elements(out)?);
            cx.isa.call(|| interleave(pair, out));
            return Ok(());
        }
        let mut start = 0;
        let step = out.len() / before;
        for input in inputs {
            let (_, size, after) = input.shape.around(self.axis);
            let len = size * after * self.width;
            if len == 0 {
                continue;
            }
            for (from, to) in input.bytes.chunks_exact(len).zip(out.chunks_exact_mut(step)) {
                to.get_mut(start..start + len).ok_or(MISFIT)?.copy_from_slice(from);
            }
            start += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::trial::computed_of;

    #[test]
    fn parts_follow_each_other_along_an_axis() {
        // `before` rows, of which each input has as many numbers as `lens` says.
        let check = |before: usize, lens: &[usize]| {
            let part = |at: usize, len: usize| -> Vec<f32> {
                (0..before * len).map(|number| (100 * at + number) as f32).collect()
            };
            let parts: Vec<_> = lens.iter().enumerate().map(|(at, len)| part(at, *len)).collect();
            let shapes: Vec<_> = lens.iter().map(|len| Shape::of([before, *len])).collect();
            let mut op = Concatenate { axis: 1, width: 4 };
            let to = op.shape(&shapes, &mut Room::of(usize::MAX)).unwrap();
            let inputs: Vec<_> = (shapes.iter().zip(&parts))
                .map(|(shape, part)| Input { shape, bytes: bytemuck::cast_slice(part) })
                .collect();
            let rows = (0..before).flat_map(|row| {
                let of_row =
                    lens.iter().zip(&parts).map(move |(len, part)| &part[row * len..][..*len]);
                of_row.flatten().copied()
            });
            let expected: Vec<f32> = rows.collect();
            assert_eq!(computed_of(&op, &inputs, to, f32::NAN, 1), expected, "{before} {lens:?}");
        };
        for before in [1, 2, 7, 40] {
            [&[1, 1][..], &[1], &[1, 1, 1], &[2, 2], &[1, 2], &[3, 1], &[0, 2], &[5, 4, 1]]
                .iter()
                .for_each(|lens| check(before, lens));
        }
    }
}
