//! Attention for few query rows per key-value head, vectorized along `head_dim`.
//!
//! Blocks of keys are processed for all heads before the next block, because the heads of a
//! position are usually adjacent in a KV cache, which is then read once and in order. Within a
//! block, all keys are read before all values, so that the hardware prefetcher follows few streams.

use super::{Attention, BlockBuffers, RowIndex, TensorDataMut, reciprocal};
use crate::{Float, Simd, math::exp};

/// Keys per block. The keys and values of all heads of a block fit the cache. The rows of a head
/// are strided, so each is a stream of its own to the hardware prefetcher; more rows exceed its
/// streams.
const BLOCK_KEYS: usize = 16;

/// Scratch buffer per query row, in elements: the query, its accumulators, maximum and total, and
/// its scores.
pub(super) fn scratch_len(head_dim: usize) -> Option<usize> {
    head_dim.checked_mul(2)?.checked_add(2 + BLOCK_KEYS)
}

#[inline(always)]
pub(super) fn run<S: Simd>(
    simd: S,
    attention: &Attention<'_>,
    out: &mut TensorDataMut<'_>,
    BlockBuffers { keys, values }: BlockBuffers<'_>,
    scratch: &mut [f32],
) {
    let (group, head_dim) = (attention.rows_per_kv_head(), attention.head_dim);
    let rows = attention.kv_heads * group;
    let (scores, rest) = scratch.split_at_mut(rows * BLOCK_KEYS);
    let (queries, rest) = rest.split_at_mut(rows * head_dim);
    let (sums, rest) = rest.split_at_mut(rows * head_dim);
    let (max, total) = rest.split_at_mut(rows);
    for batch in 0..attention.batches {
        for (row, query) in queries.chunks_exact_mut(head_dim).enumerate() {
            let start = attention.query_start(batch, row / group, row % group);
            attention.query.data.read_row(start, query);
            query.iter_mut().for_each(|x| *x *= attention.scale);
        }
        sums.fill(0.0);
        max.fill(f32::NEG_INFINITY);
        total[..rows].fill(0.0);
        for position in (0..attention.kv_len).step_by(BLOCK_KEYS) {
            let block = BLOCK_KEYS.min(attention.kv_len - position);
            let visible = |row: usize| {
                attention.visible_keys(row % group).saturating_sub(position).min(block)
            };
            for head in 0..attention.kv_heads {
                let first = RowIndex { batch, head, position };
                let (keys, stride) = attention.key.block(first, block, head_dim, keys);
                for row in head * group..(head + 1) * group {
                    let scores = &mut scores[row * BLOCK_KEYS..][..BLOCK_KEYS];
                    let (scores, hidden) = scores.split_at_mut(visible(row));
                    hidden.fill(f32::NEG_INFINITY);
                    score(simd, keys, stride, &queries[row * head_dim..][..head_dim], scores);
                    if let Some(mask) = attention.mask_row(row % group, position) {
                        scores.iter_mut().zip(mask).for_each(|(score, mask)| *score += mask);
                    }
                }
            }
            for (row, sums) in sums.chunks_exact_mut(head_dim).enumerate() {
                let scores = &mut scores[row * BLOCK_KEYS..][..BLOCK_KEYS];
                rescale(simd, scores, &mut max[row], &mut total[row], sums);
            }
            for head in 0..attention.kv_heads {
                let first = RowIndex { batch, head, position };
                let (values, stride) = attention.value.block(first, block, head_dim, values);
                for row in head * group..(head + 1) * group {
                    let weights = &scores[row * BLOCK_KEYS..][..visible(row)];
                    let sums = &mut sums[row * head_dim..][..head_dim];
                    add_values(simd, values, stride, weights, sums);
                }
            }
        }
        for (row, sums) in sums.chunks_exact(head_dim).enumerate() {
            let start = attention.query_start(batch, row / group, row % group);
            out.write_row(start, sums, reciprocal(total[row]));
        }
    }
}

/// Dot products of a query with as many keys as there are scores, `stride` elements apart.
#[inline(always)]
fn score<S: Simd>(simd: S, keys: &[f32], stride: usize, query: &[f32], scores: &mut [f32]) {
    let whole = scores.len() - scores.len() % 4;
    for (key, scores) in (0..whole).step_by(4).zip(scores.chunks_exact_mut(4)) {
        scores.copy_from_slice(&dots::<S, 4>(simd, &keys[key * stride..], stride, query));
    }
    for (key, score) in (whole..).zip(&mut scores[whole..]) {
        [*score] = dots::<S, 1>(simd, &keys[key * stride..], stride, query);
    }
}

/// Dot products of a query with `R` keys.
#[inline(always)]
fn dots<S: Simd, const R: usize>(simd: S, keys: &[f32], stride: usize, query: &[f32]) -> [f32; R] {
    let mut rows = [keys; R];
    for (key, row) in rows.iter_mut().enumerate() {
        *row = &keys[key * stride..][..query.len()];
    }
    let mut products = [simd.zero(); R];
    let whole = query.len() - query.len() % S::LANES;
    for (at, query) in (0..whole).step_by(S::LANES).zip(query.chunks_exact(S::LANES)) {
        let query = simd.load(query);
        for (product, row) in products.iter_mut().zip(&rows) {
            *product = query.mul_add(simd.load(&row[at..]), *product);
        }
    }
    if whole < query.len() {
        let query = simd.load_partial(&query[whole..]);
        for (product, row) in products.iter_mut().zip(&rows) {
            *product = query.mul_add(simd.load_partial(&row[whole..]), *product);
        }
    }
    let mut dots = [0.0; R];
    for (dot, product) in dots.iter_mut().zip(products) {
        *dot = product.sum();
    }
    dots
}

/// Replaces the scores of a block by weights, and rescales the total and the sums of earlier blocks
/// to the new maximum score.
#[inline(always)]
fn rescale<S: Simd>(simd: S, scores: &mut [f32], max: &mut f32, total: &mut f32, sums: &mut [f32]) {
    let old_max = *max;
    let larger = |max: S::F32, scores: &[f32]| max.max(simd.load(scores));
    *max = scores.chunks_exact(S::LANES).fold(simd.splat(old_max), larger).max_lane();
    // If all keys are masked, a finite base makes the weights zero instead of NaN.
    let base = simd.splat(if *max == f32::NEG_INFINITY { 0.0 } else { *max });
    let mut added = simd.zero();
    for scores in scores.chunks_exact_mut(S::LANES) {
        let weights = exp(simd, simd.load(scores) - base);
        simd.store(weights, scores);
        added = added + weights;
    }
    let change = exp(simd, simd.splat(old_max) - base);
    let mut factor = [0.0; 1];
    simd.store_partial(change, &mut factor);
    *total = *total * factor[0] + added.sum();
    if factor[0] != 1.0 {
        sums.iter_mut().for_each(|sum| *sum *= factor[0]);
    }
}

/// Adds the weighted values, `stride` elements apart, to `sums`.
#[inline(always)]
fn add_values<S: Simd>(simd: S, values: &[f32], stride: usize, weights: &[f32], sums: &mut [f32]) {
    let whole = sums.len() - sums.len() % (4 * S::LANES);
    let (quads, rest) = sums.split_at_mut(whole);
    for (at, sums) in (0..whole).step_by(4 * S::LANES).zip(quads.chunks_exact_mut(4 * S::LANES)) {
        let mut totals = [simd.zero(); 4];
        for (total, sums) in totals.iter_mut().zip(sums.chunks_exact(S::LANES)) {
            *total = simd.load(sums);
        }
        for (key, &weight) in weights.iter().enumerate() {
            let values = &values[key * stride + at..][..4 * S::LANES];
            let weight = simd.splat(weight);
            for (total, values) in totals.iter_mut().zip(values.chunks_exact(S::LANES)) {
                *total = weight.mul_add(simd.load(values), *total);
            }
        }
        for (sums, total) in sums.chunks_exact_mut(S::LANES).zip(totals) {
            simd.store(total, sums);
        }
    }
    for (at, sums) in (whole..).step_by(S::LANES).zip(rest.chunks_mut(S::LANES)) {
        let mut total = simd.load_partial(sums);
        for (key, &weight) in weights.iter().enumerate() {
            let values = &values[key * stride + at..][..sums.len()];
            total = simd.splat(weight).mul_add(simd.load_partial(values), total);
        }
        simd.store_partial(total, sums);
    }
}
