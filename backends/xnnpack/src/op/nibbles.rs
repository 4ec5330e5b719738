//! Fully connected layers with weights of 4 bits, of rows that are quantised when they come.

use std::array;

use afferent_core::Error;
use afferent_simd::{
    Isa,
    qgemm::q4::{CHUNK_LEN, ChunkedShape, Q4Gemm, RawChunk, pack, packed_len},
};

use super::{
    Cx, Input, Op, Scratch, elements,
    keep::{Form, Keep, Kept},
    linear::connected,
    only,
    quantise::quantise,
    some, zeros,
};
use crate::shape::{MISFIT, Room, Shape, TOO_LARGE};

/// A fully connected layer.
pub(crate) struct Nibbles {
    inner: usize,
    cols: usize,
    clamp: (f32, f32),
    /// Packed weights, behind which are the sums of the columns.
    weights: Kept<i32>,
    scales: Vec<f32>,
    bias: Vec<f32>,
}

/// Weights as the file has them: two in a byte, each row in whole bytes.
pub(crate) struct Weights<'w> {
    pub(crate) bytes: &'w [u8],
    /// Of each block of each column.
    pub(crate) scales: &'w [f32],
    /// Numbers of a column that have a scale of their own: all of them, or a multiple of [`CHUNK_LEN`].
    pub(crate) block: usize,
    /// Whether rows of the file are rows of the matrix, not columns.
    pub(crate) transposed: bool,
}

impl Nibbles {
    /// None when scales of blocks are no `bf16`.
    pub(crate) fn new(
        keep: &Keep<'_>,
        (inner, cols): (usize, usize),
        weights: &Weights<'_>,
        bias: Option<&[f32]>,
        clamp: (f32, f32),
    ) -> Result<Option<Self>, Error> {
        let &Weights { bytes, scales, block, transposed } = weights;
        let isa = Isa::best();
        let (chunks, whole) = (inner.div_ceil(CHUNK_LEN), cols.next_multiple_of(isa.lanes()));
        let blocks = inner.checked_div(block).unwrap_or(0);
        if blocks > 1 && scales.iter().any(|scale| scale.to_bits() & 0xffff != 0) {
            return Ok(None);
        }
        // Of columns with one scale each, it is the factor of all their chunks.
        let factor = |chunk: usize, col: usize| match blocks {
            1 => 1.0,
            _ => scales[col * blocks + chunk * CHUNK_LEN / block],
        };
        let raw = |chunk: usize, col: usize| match transposed {
            true => gathered(bytes, (inner, cols), (chunk, col)),
            false => {
                let column = &bytes[col * inner.div_ceil(2)..][..inner.div_ceil(2)];
                cut(&column[chunk * CHUNK_LEN / 2..], inner - chunk * CHUNK_LEN)
            }
        };
        let len = packed_len(isa, ChunkedShape { chunks, cols }).ok_or(TOO_LARGE)?;
        let form = if transposed { Form::NibbleRows } else { Form::Nibbles };
        let all = len.checked_add(whole).ok_or(TOO_LARGE)?;
        let weights = keep.numbers(form, &[inner, cols], all, |to: &mut [i32]| {
            let (to, sums) = to.split_at_mut(len);
            let sums: &mut [f32] = bytemuck::cast_slice_mut(sums);
            let one = |chunk, col| (raw(chunk, col), factor(chunk, col));
            pack(isa, ChunkedShape { chunks, cols }, one, to, sums);
            if blocks == 1 {
                sums.iter_mut().zip(scales).for_each(|(sum, scale)| *sum *= scale);
            }
            Ok(())
        })?;
        keep.take::<[f32; 2]>(whole)?;
        let padded = |numbers: &[f32]| {
            let mut all = zeros(whole)?;
            all.iter_mut().zip(numbers).for_each(|(to, from)| *to = *from);
            Ok(all)
        };
        let scales = if blocks == 1 { padded(scales)? } else { vec![1.0; whole] };
        let bias = padded(bias.unwrap_or_default())?;
        Ok(Some(Self { inner, cols, clamp, weights, scales, bias }))
    }
}

/// A chunk of which only `len` numbers are there.
fn cut(bytes: &[u8], len: usize) -> RawChunk {
    if let Some(chunk) = bytes.first_chunk().filter(|_| len >= CHUNK_LEN) {
        return *chunk;
    }
    let byte = |at: usize| match len.saturating_sub(2 * at) {
        0 => ZEROS,
        1 => bytes[at] & 0x0f | ZEROS & 0xf0,
        _ => bytes[at],
    };
    array::from_fn(byte)
}

/// Two zeros.
const ZEROS: u8 = 0x88;

/// A chunk of a column of a matrix whose rows lie together.
fn gathered(bytes: &[u8], (inner, cols): (usize, usize), (chunk, col): (usize, usize)) -> RawChunk {
    let nibble = |k: usize| match k {
        k if k >= inner => ZEROS & 15,
        k => bytes[k * cols.div_ceil(2) + col / 2] >> (col % 2 * 4) & 15,
    };
    let pair = |k: usize| nibble(k) | nibble(k + 1) << 4;
    array::from_fn(|at| pair(chunk * CHUNK_LEN + 2 * at))
}

impl Op for Nibbles {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        connected(only(inputs)?, self.inner, self.cols)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (x, out) = (only(inputs)?.data::<f32>()?, elements::<f32>(out)?);
        if out.is_empty() || x.is_empty() {
            return if out.is_empty() { Ok(()) } else { Err(MISFIT) };
        }
        let (rows, chunks) = (out.len() / self.cols, self.inner.div_ceil(CHUNK_LEN));
        let Scratch { words, bytes, floats, room, .. } = &mut *cx.scratch;
        let len = rows * chunks * CHUNK_LEN;
        let (bytes, one) = some(bytes, len + chunks * CHUNK_LEN, room)?.split_at_mut(len);
        let offsets = some(words, rows * chunks, room)?;
        let (zero_points, steps) = some(floats, 2 * rows, room)?.split_at_mut(rows);
        let places = bytes.as_chunks_mut::<CHUNK_LEN>().0;
        for (row, x) in x.chunks_exact(self.inner).take(rows).enumerate() {
            let (step, zero_point) = cx.isa.call(|| {
                one[self.inner..].fill(0);
                let found = quantise(x, &mut one[..self.inner]);
                for (at, chunk) in one.as_chunks::<CHUNK_LEN>().0.iter().enumerate() {
                    let at = at * rows + row;
                    places[at] = *chunk;
                    offsets[at] = -8 * chunk.iter().map(|x| i32::from(*x)).sum::<i32>();
                }
                found
            });
            (zero_points[row], steps[row]) = (zero_point as f32, step);
        }
        let sums = self.weights.len() - self.scales.len();
        let (weights, sums) = self.weights.split_at(sums);
        let product = Q4Gemm {
            x: bytes,
            chunk_offsets: offsets,
            zero_points,
            row_scale: steps,
            chunks,
            cols: self.cols,
            weights,
            scale: &self.scales,
            column_sums: bytemuck::cast_slice(sums),
            bias: &self.bias,
            clamp: self.clamp,
        };
        product.run(cx.isa, out, cx.workers).or(Err(MISFIT))
    }
}
