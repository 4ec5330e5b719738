//! Packed 4-bit weights of fully connected layers, with scales per channel or blockwise.

use std::array;

use afferent_core::Error;
use afferent_simd::{
    Isa,
    qgemm::q4::{CHUNK_LEN, ChunkedShape, RawChunk, pack, packed_len},
};

use super::weight_cache::{CachedWeights, PackedLayout, WeightPacker};
use crate::{error::TENSOR_TOO_LARGE, memory::try_zeroed};

/// Two weights that are zero: zero point 8 in both halves of the byte.
const ZERO_PAIR: u8 = 0x88;

/// 4-bit filter: two weights in a byte, each row of the constant in whole bytes.
pub(crate) struct FilterQ4<'w> {
    pub(crate) bytes: &'w [u8],
    /// One scale per block, output channel by output channel.
    pub(crate) scales: &'w [f32],
    /// Input channels per scale: all of them, or a multiple of [`CHUNK_LEN`].
    pub(crate) block_size: usize,
    /// True for `[input channels, output channels]`, false for
    /// `[output channels, input channels]`.
    pub(crate) transposed: bool,
}

/// Packed 4-bit weights.
pub(crate) struct PackedQ4 {
    /// Input channels.
    pub(crate) inner: usize,
    /// Output channels.
    pub(crate) cols: usize,
    /// Panels, followed by the sum of the weights of each column as f32.
    weights: CachedWeights<i32>,
    /// Scale per column; 1 if the panels contain the scales of blocks.
    pub(crate) scales: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

impl PackedQ4 {
    /// Returns `None` if the scales of blocks are not exact in bf16.
    pub(crate) fn new(
        packer: &WeightPacker<'_>,
        (inner, cols): (usize, usize),
        filter: &FilterQ4<'_>,
        bias: Option<&[f32]>,
    ) -> Result<Option<Self>, Error> {
        let &FilterQ4 { bytes, scales, block_size, transposed } = filter;
        let isa = Isa::best();
        let (chunks, padded_cols) = (inner.div_ceil(CHUNK_LEN), cols.next_multiple_of(isa.lanes()));
        let shape = ChunkedShape { chunks, cols };
        let blocks = inner.checked_div(block_size).unwrap_or(0);
        if blocks > 1 && scales.iter().any(|scale| scale.to_bits() & 0xffff != 0) {
            return Ok(None);
        }
        // A single scale per column is applied at the end.
        let chunk_scale = |chunk: usize, col: usize| match blocks {
            1 => 1.0,
            _ => scales[col * blocks + chunk * CHUNK_LEN / block_size],
        };
        let raw = |chunk: usize, col: usize| match transposed {
            true => gather_chunk(bytes, (inner, cols), (chunk, col)),
            false => {
                let column = &bytes[col * inner.div_ceil(2)..][..inner.div_ceil(2)];
                padded_chunk(&column[chunk * CHUNK_LEN / 2..], inner - chunk * CHUNK_LEN)
            }
        };
        let len = packed_len(isa, shape).ok_or(TENSOR_TOO_LARGE)?;
        let layout = if transposed { PackedLayout::Q4Gio } else { PackedLayout::Q4Goi };
        let all = len.checked_add(padded_cols).ok_or(TENSOR_TOO_LARGE)?;
        let weights = packer.get_or_pack(layout, &[inner, cols], all, |to: &mut [i32]| {
            let (to, sums) = to.split_at_mut(len);
            let sums: &mut [f32] = bytemuck::cast_slice_mut(sums);
            let chunk = |chunk, col| (raw(chunk, col), chunk_scale(chunk, col));
            pack(isa, shape, chunk, to, sums);
            if blocks == 1 {
                sums.iter_mut().zip(scales).for_each(|(sum, scale)| *sum *= scale);
            }
            Ok(())
        })?;
        packer.reserve::<[f32; 2]>(padded_cols)?;
        let padded = |values: &[f32]| {
            let mut all = try_zeroed(padded_cols)?;
            all.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
            Ok::<_, Error>(all)
        };
        let scales = if blocks == 1 { padded(scales)? } else { vec![1.0; padded_cols] };
        let bias = padded(bias.unwrap_or_default())?;
        Ok(Some(Self { inner, cols, weights, scales, bias }))
    }

    /// Panels of the weights, and the sum of the weights of each column.
    pub(crate) fn panels_and_sums(&self) -> (&[i32], &[f32]) {
        let (panels, sums) = self.weights.split_at(self.weights.len() - self.scales.len());
        (panels, bytemuck::cast_slice(sums))
    }
}

/// Chunk of a contiguous column with `len` remaining weights, zero-padded.
fn padded_chunk(bytes: &[u8], len: usize) -> RawChunk {
    if let Some(chunk) = bytes.first_chunk().filter(|_| len >= CHUNK_LEN) {
        return *chunk;
    }
    let byte = |at: usize| match len.saturating_sub(2 * at) {
        0 => ZERO_PAIR,
        1 => bytes[at] & 0x0f | ZERO_PAIR & 0xf0,
        _ => bytes[at],
    };
    array::from_fn(byte)
}

/// Chunk of a column of an `[inner, cols]` filter, zero-padded.
fn gather_chunk(
    bytes: &[u8],
    (inner, cols): (usize, usize),
    (chunk, col): (usize, usize),
) -> RawChunk {
    let weight = |k: usize| match k {
        k if k >= inner => ZERO_PAIR & 15,
        k => bytes[k * cols.div_ceil(2) + col / 2] >> (col % 2 * 4) & 15,
    };
    let pair = |k: usize| weight(k) | weight(k + 1) << 4;
    array::from_fn(|at| pair(chunk * CHUNK_LEN + 2 * at))
}
