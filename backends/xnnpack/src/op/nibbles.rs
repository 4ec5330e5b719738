//! Fully connected layers with weights of 4 bits, of rows that are quantised when they come.

use afferent_core::Error;
use afferent_simd::{
    Isa,
    integer::nibbles::{self, CHUNK, pack, packed_len},
};

use super::{
    Cx, Input, Op, Scratch, elements, integer::Weights, linear::connected, only,
    quantise::quantise, some, zeros,
};
use crate::shape::{MISFIT, Room, Shape, TOO_LARGE};

/// A fully connected layer.
pub(crate) struct Nibbles {
    inner: usize,
    cols: usize,
    clamp: (f32, f32),
    weights: Vec<i32>,
    scales: Vec<f32>,
    sums: Vec<f32>,
    bias: Vec<f32>,
}

impl Nibbles {
    /// `block` numbers of a row have a scale of their own: all of them, or a multiple of [`CHUNK`].
    /// None when scales of blocks are no `bf16`.
    pub(crate) fn new(
        (inner, cols): (usize, usize),
        weights: &Weights<'_>,
        block: usize,
        bias: Option<&[f32]>,
        clamp: (f32, f32),
    ) -> Result<Option<Self>, Error> {
        let isa = Isa::best();
        let (lanes, chunks) = (isa.lanes(), inner.div_ceil(CHUNK));
        let weight = |k: usize, col: usize| match k {
            k if k >= inner => 0,
            k if weights.transposed => weights.integers[k * cols + col],
            k => weights.integers[col * inner + k],
        };
        let blocks = inner.checked_div(block).unwrap_or(0);
        // Of columns with one scale each, it is the factor of all their chunks.
        let of_column = |col: usize| if blocks == 1 { weights.scales[col] } else { 1.0 };
        let of_chunk = |chunk: usize, col: usize| match blocks {
            1 => 1.0,
            _ => weights.scales[col * blocks + chunk * CHUNK / block],
        };
        if blocks > 1 && weights.scales.iter().any(|scale| scale.to_bits() & 0xffff != 0) {
            return Ok(None);
        }
        let mut packed = zeros(packed_len(isa, chunks, cols).ok_or(TOO_LARGE)?)?;
        pack(isa, (chunks, cols), weight, of_chunk, &mut packed);
        let whole = cols.next_multiple_of(lanes);
        let (mut scales, mut sums) = (zeros(whole)?, zeros(whole)?);
        for (col, (scale, sum)) in scales.iter_mut().zip(&mut sums).enumerate().take(cols) {
            let of_chunk = |chunk: usize| {
                let integers = (0..CHUNK).map(|k| i32::from(weight(chunk * CHUNK + k, col)));
                f64::from(of_chunk(chunk, col)) * f64::from(integers.sum::<i32>())
            };
            *scale = of_column(col);
            *sum = ((0..chunks).map(of_chunk).sum::<f64>() * f64::from(*scale)) as f32;
        }
        let mut all = zeros(whole)?;
        all.iter_mut().zip(bias.unwrap_or_default()).for_each(|(to, from)| *to = *from);
        let weights = packed;
        Ok(Some(Self { inner, cols, clamp, weights, scales, sums, bias: all }))
    }
}

impl Op for Nibbles {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        connected(only(inputs)?, self.inner, self.cols)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (x, out) = (only(inputs)?.data::<f32>()?, elements::<f32>(out)?);
        if out.is_empty() || x.is_empty() {
            return Ok(());
        }
        let (rows, chunks) = (out.len() / self.cols, self.inner.div_ceil(CHUNK));
        let Scratch { words, bytes, floats, room, .. } = &mut *cx.scratch;
        let bytes = some(bytes, rows * chunks * CHUNK, room)?;
        let offsets = some(words, rows * chunks, room)?;
        let (zero_points, steps) = some(floats, 2 * rows, room)?.split_at_mut(rows);
        let each = x.chunks_exact(self.inner).zip(bytes.chunks_exact_mut(chunks * CHUNK));
        for (row, (x, to)) in each.enumerate() {
            let offsets = &mut offsets[row * chunks..][..chunks];
            let (step, zero_point) = cx.isa.call(|| {
                to[self.inner..].fill(0);
                let found = quantise(x, &mut to[..self.inner]);
                for (offset, chunk) in offsets.iter_mut().zip(to.as_chunks::<CHUNK>().0) {
                    *offset = -8 * chunk.iter().map(|x| i32::from(*x)).sum::<i32>();
                }
                found
            });
            (zero_points[row], steps[row]) = (zero_point as f32, step);
        }
        let product = nibbles::Nibbles {
            x: bytes,
            offsets,
            zero_points,
            steps,
            chunks,
            cols: self.cols,
            weights: &self.weights,
            scales: &self.scales,
            sums: &self.sums,
            bias: &self.bias,
            clamp: self.clamp,
        };
        product.write(cx.isa, out, cx.workers).ok_or(MISFIT)
    }
}
