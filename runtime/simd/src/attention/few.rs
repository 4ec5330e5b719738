//! Attention for few queries of a head: vectors run along the width.
//!
//! Keys are visited block by block for all heads, because the heads of a position are usually
//! adjacent: a cache is read once, in order. Of a block all keys are read, then all values, so that
//! the processor reads ahead while it computes.

use super::{Attention, NumbersMut, reciprocal};
use crate::{Float, Simd, math::exp};

/// Keys in a block: keys and values of all heads should fit a cache. A head's rows lie apart, each a
/// stream from memory, and of 32 the processor reads less far ahead.
const BLOCK: usize = 16;

/// Numbers of scratch memory that each query needs: itself, its sums, their maximum and total, and
/// its scores.
pub(super) fn scratch_len(width: usize) -> Option<usize> {
    width.checked_mul(2)?.checked_add(2 + BLOCK)
}

#[inline(always)]
pub(super) fn run<S: Simd>(
    simd: S,
    attention: &Attention<'_>,
    out: &mut NumbersMut<'_>,
    [keys, values]: [&mut [f32]; 2],
    scratch: &mut [f32],
) {
    let (group, width) = (attention.group(), attention.width);
    let rows = attention.key_heads * group;
    let (scores, rest) = scratch.split_at_mut(rows * BLOCK);
    let (queries, rest) = rest.split_at_mut(rows * width);
    let (sums, rest) = rest.split_at_mut(rows * width);
    let (best, total) = rest.split_at_mut(rows);
    for batch in 0..attention.batches {
        for (at, query) in queries.chunks_exact_mut(width).enumerate() {
            attention.query.numbers.read(attention.at(batch, at / group, at % group), query);
            query.iter_mut().for_each(|x| *x *= attention.scale);
        }
        sums.fill(0.0);
        best.fill(f32::NEG_INFINITY);
        total[..rows].fill(0.0);
        for from in (0..attention.keys).step_by(BLOCK) {
            let block = BLOCK.min(attention.keys - from);
            let seen = |at: usize| attention.seen(at % group).saturating_sub(from).min(block);
            for head in 0..attention.key_heads {
                let place = (batch, head, from);
                let (keys, step) = attention.key.block(place, (block, width), keys);
                for at in head * group..(head + 1) * group {
                    let (scores, unseen) = scores[at * BLOCK..][..BLOCK].split_at_mut(seen(at));
                    unseen.fill(f32::NEG_INFINITY);
                    score(simd, keys, step, &queries[at * width..][..width], scores);
                    if let Some(mask) = attention.masked(at % group, from) {
                        scores.iter_mut().zip(mask).for_each(|(score, mask)| *score += mask);
                    }
                }
            }
            for (at, sums) in sums.chunks_exact_mut(width).enumerate() {
                let scores = &mut scores[at * BLOCK..][..BLOCK];
                weigh(simd, scores, &mut best[at], &mut total[at], sums);
            }
            for head in 0..attention.key_heads {
                let place = (batch, head, from);
                let (values, step) = attention.value.block(place, (block, width), values);
                for at in head * group..(head + 1) * group {
                    let scores = &scores[at * BLOCK..][..seen(at)];
                    add_values(simd, values, step, scores, &mut sums[at * width..][..width]);
                }
            }
        }
        for (at, sums) in sums.chunks_exact(width).enumerate() {
            let start = attention.at(batch, at / group, at % group);
            out.write(start, sums, reciprocal(total[at]));
        }
    }
}

/// The products of as many keys as there are scores, `step` numbers apart, with a query.
#[inline(always)]
fn score<S: Simd>(simd: S, keys: &[f32], step: usize, query: &[f32], scores: &mut [f32]) {
    let whole = scores.len() - scores.len() % 4;
    for (at, scores) in (0..whole).step_by(4).zip(scores.chunks_exact_mut(4)) {
        scores.copy_from_slice(&dots::<S, 4>(simd, &keys[at * step..], step, query));
    }
    for (at, score) in (whole..).zip(&mut scores[whole..]) {
        [*score] = dots::<S, 1>(simd, &keys[at * step..], step, query);
    }
}

/// The products of `R` keys with a query.
#[inline(always)]
fn dots<S: Simd, const R: usize>(simd: S, keys: &[f32], step: usize, query: &[f32]) -> [f32; R] {
    let mut rows = [keys; R];
    for (at, row) in rows.iter_mut().enumerate() {
        *row = &keys[at * step..][..query.len()];
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
        let query = simd.load_first(&query[whole..]);
        for (product, row) in products.iter_mut().zip(&rows) {
            *product = query.mul_add(simd.load_first(&row[whole..]), *product);
        }
    }
    let mut dots = [0.0; R];
    for (dot, product) in dots.iter_mut().zip(products) {
        *dot = product.sum();
    }
    dots
}

/// Turns the scores of a block into weights, and everything of before into what it is with the new
/// largest score.
#[inline(always)]
fn weigh<S: Simd>(simd: S, scores: &mut [f32], best: &mut f32, total: &mut f32, sums: &mut [f32]) {
    let old = *best;
    let largest = |most: S::F32, scores: &[f32]| most.max(simd.load(scores));
    *best = scores.chunks_exact(S::LANES).fold(simd.splat(old), largest).max_lane();
    // Where every key is hidden, a finite number makes weights zero instead of NaN.
    let base = simd.splat(if *best == f32::NEG_INFINITY { 0.0 } else { *best });
    let mut added = simd.zero();
    for scores in scores.chunks_exact_mut(S::LANES) {
        let weights = exp(simd, simd.load(scores) - base);
        simd.store(weights, scores);
        added = added + weights;
    }
    let change = exp(simd, simd.splat(old) - base);
    let mut one = [0.0; 1];
    simd.store_first(change, &mut one);
    *total = *total * one[0] + added.sum();
    if one[0] != 1.0 {
        sums.iter_mut().for_each(|sum| *sum *= one[0]);
    }
}

/// Adds values, `step` numbers apart, times their weights, to `sums`.
#[inline(always)]
fn add_values<S: Simd>(simd: S, values: &[f32], step: usize, weights: &[f32], sums: &mut [f32]) {
    let whole = sums.len() - sums.len() % (4 * S::LANES);
    let (many, rest) = sums.split_at_mut(whole);
    for (at, sums) in (0..whole).step_by(4 * S::LANES).zip(many.chunks_exact_mut(4 * S::LANES)) {
        let mut totals = [simd.zero(); 4];
        for (total, sums) in totals.iter_mut().zip(sums.chunks_exact(S::LANES)) {
            *total = simd.load(sums);
        }
        for (key, &weight) in weights.iter().enumerate() {
            let values = &values[key * step + at..][..4 * S::LANES];
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
        let mut total = simd.load_first(sums);
        for (key, &weight) in weights.iter().enumerate() {
            let values = &values[key * step + at..][..sums.len()];
            total = simd.splat(weight).mul_add(simd.load_first(values), total);
        }
        simd.store_first(total, sums);
    }
}
