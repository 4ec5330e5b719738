//! Attention for many query rows per key-value head: one vector lane per query.
//!
//! Queries, scores and sums are transposed: a row of lanes per element of `head_dim` or per key, so
//! that each element of a key or value is broadcast to all lanes. The keys and values of a block
//! are copied to contiguous rows, because rows of other heads between them would map to the same
//! cache sets; several tiles of queries share the copies.

use super::{
    Attention, BLOCK_KEYS, BlockBuffers, MAX_QUERY_LANES, RowIndex, TensorDataMut, reciprocal,
};
use crate::{Float, Mask, Simd, math::exp};

/// Tiles of queries that share a block of keys and values.
const TILES_PER_BLOCK: usize = 4;

/// Scratch buffer of [`run`], in elements; `None` if it overflows.
pub(super) fn scratch_len(head_dim: usize) -> Option<usize> {
    head_dim
        .checked_mul(2 * TILES_PER_BLOCK * MAX_QUERY_LANES)?
        .checked_add((2 * TILES_PER_BLOCK + BLOCK_KEYS) * MAX_QUERY_LANES)
}

#[inline(always)]
pub(super) fn run<S: Simd>(
    simd: S,
    attention: &Attention<'_>,
    out: &mut TensorDataMut<'_>,
    BlockBuffers { keys, values }: BlockBuffers<'_>,
    scratch: &mut [f32],
) {
    let lanes = 2 * S::LANES;
    let head_dim = attention.head_dim;
    let tile_len = head_dim * lanes;
    let (queries, rest) = scratch.split_at_mut(TILES_PER_BLOCK * tile_len);
    let (sums, rest) = rest.split_at_mut(TILES_PER_BLOCK * tile_len);
    let (state, scores) = rest.split_at_mut(TILES_PER_BLOCK * 2 * lanes);
    let rows = attention.rows_per_kv_head();
    for batch in 0..attention.batches {
        for head in 0..attention.kv_heads {
            for first in (0..rows).step_by(TILES_PER_BLOCK * lanes) {
                let end = (first + TILES_PER_BLOCK * lanes).min(rows);
                let mut visible = [0; TILES_PER_BLOCK * MAX_QUERY_LANES];
                let visible = &mut visible[..end - first];
                visible
                    .iter_mut()
                    .zip(first..)
                    .for_each(|(visible, row)| *visible = attention.visible_keys(row));
                let max_visible = visible.iter().copied().max().unwrap_or(0);
                // Splits `queries`, `sums`, `state` and `visible` into tiles.
                macro_rules! for_each_tile {
                    ($tile:ident => $body:block) => {
                        let parts =
                            queries.chunks_exact_mut(tile_len).zip(sums.chunks_exact_mut(tile_len));
                        let parts = parts.zip(state.chunks_exact_mut(2 * lanes));
                        let rows = (first..end).step_by(lanes).zip(visible.chunks(lanes));
                        for (((queries, sums), state), (first_row, visible)) in parts.zip(rows) {
                            let (max, total) = state.split_at_mut(lanes);
                            let scores = &mut *scores;
                            #[allow(unused_mut, reason = "not every use changes the tile")]
                            let mut $tile = Tile {
                                simd,
                                attention,
                                first_row,
                                visible,
                                queries,
                                sums,
                                max,
                                total,
                                scores,
                            };
                            $body
                        }
                    };
                }
                for_each_tile!(tile => { tile.load(batch, head) });
                for position in (0..max_visible).step_by(BLOCK_KEYS) {
                    let count = BLOCK_KEYS.min(max_visible - position);
                    let start = RowIndex { batch, head, position };
                    let keys = attention.key.contiguous_block(start, count, head_dim, keys);
                    let values = attention.value.contiguous_block(start, count, head_dim, values);
                    for_each_tile!(tile => { tile.add(keys, values, position) });
                }
                for_each_tile!(tile => { tile.store(batch, head, out) });
            }
        }
    }
}

/// As many query rows as two vectors have lanes.
struct Tile<'r, 'a, S> {
    simd: S,
    attention: &'r Attention<'a>,
    /// Query row of the first lane.
    first_row: usize,
    /// Number of keys that the query of each lane sees.
    visible: &'r [usize],
    /// Scaled queries: a row of lanes per element of `head_dim`.
    queries: &'r mut [f32],
    /// Weighted sums of values: a row of lanes per element of `head_dim`.
    sums: &'r mut [f32],
    /// Maximum score of each query so far.
    max: &'r mut [f32],
    /// Sum of the weights of each query so far.
    total: &'r mut [f32],
    /// Scores, then weights: a row of lanes per key of the block.
    scores: &'r mut [f32],
}

/// Two vectors: one element for each query of the tile.
type Pair<S> = [<S as Simd>::F32; 2];

impl<S: Simd> Tile<'_, '_, S> {
    /// Adds the block of keys and values that starts at key `first_key`.
    #[inline(always)]
    fn add(&mut self, keys: &[f32], values: &[f32], first_key: usize) {
        let (simd, head_dim) = (self.simd, self.attention.head_dim);
        let max_visible = self.visible.iter().copied().max().unwrap_or(0);
        let block = (keys.len() / head_dim).min(max_visible.saturating_sub(first_key));
        if block == 0 {
            return;
        }
        score::<S>(simd, keys, head_dim, self.queries, self.scores, block);
        self.add_mask(first_key, block);
        let old_max = load_pair(simd, self.max);
        let max = self.max_scores(old_max, first_key, block);
        self.rescale(old_max, max, block);
        add_values::<S>(simd, values, head_dim, self.scores, self.sums, block);
    }

    /// Transposes and scales the queries, with zeros in unused lanes, and resets the state.
    #[inline(always)]
    fn load(&mut self, batch: usize, head: usize) {
        let (attention, lanes) = (self.attention, 2 * S::LANES);
        let row = &mut self.sums[..attention.head_dim];
        self.queries.fill(0.0);
        for lane in 0..self.visible.len() {
            let start = attention.query_start(batch, head, self.first_row + lane);
            attention.query.data.read_row(start, row);
            let to = self.queries.chunks_exact_mut(lanes);
            to.zip(&*row).for_each(|(to, x)| to[lane] = x * attention.scale);
        }
        self.sums.fill(0.0);
        self.max.fill(f32::NEG_INFINITY);
        self.total.fill(0.0);
    }

    /// Adds the mask to the scores of `block` keys from `first_key` on.
    #[inline(always)]
    fn add_mask(&mut self, first_key: usize, block: usize) {
        for lane in 0..self.visible.len() {
            let row = self.first_row + lane;
            let Some(mask) = self.attention.mask_row(row, first_key) else { return };
            let scores = self.scores.chunks_exact_mut(2 * S::LANES).take(block);
            scores.zip(mask).for_each(|(scores, mask)| scores[lane] += mask);
        }
    }

    /// Maximum score of each query: of `max` and of the `block` keys from `first_key` on. Hides
    /// keys that the causal mask excludes.
    #[inline(always)]
    fn max_scores(&mut self, mut max: Pair<S>, first_key: usize, block: usize) -> Pair<S> {
        let (simd, visible) = (self.simd, self.visible);
        let mut limits = [0.0; MAX_QUERY_LANES];
        for (limit, visible) in limits.iter_mut().zip(visible) {
            *limit = visible.saturating_sub(first_key).min(block) as f32;
        }
        let limits = load_pair(simd, &limits);
        let min_visible = visible.iter().copied().min().unwrap_or(0).saturating_sub(first_key);
        for (key, scores) in self.scores.chunks_exact_mut(2 * S::LANES).take(block).enumerate() {
            let mut found = load_pair(simd, scores);
            if key >= min_visible {
                let (key, hidden) = (simd.splat(key as f32), simd.splat(f32::NEG_INFINITY));
                found = [
                    key.lt(limits[0]).select(found[0], hidden),
                    key.lt(limits[1]).select(found[1], hidden),
                ];
                store_pair(simd, found, scores);
            }
            max = [max[0].max(found[0]), max[1].max(found[1])];
        }
        max
    }

    /// Replaces scores by weights, and rescales the totals and the sums of earlier blocks to the
    /// new maximum scores.
    #[inline(always)]
    fn rescale(&mut self, old_max: Pair<S>, max: Pair<S>, block: usize) {
        let (simd, hidden) = (self.simd, self.simd.splat(f32::NEG_INFINITY));
        // If all keys are masked, a finite base makes the weights zero instead of NaN.
        let finite = |max: S::F32| max.eq(hidden).select(simd.zero(), max);
        let base = [finite(max[0]), finite(max[1])];
        let change = [exp(simd, old_max[0] - base[0]), exp(simd, old_max[1] - base[1])];
        let mut total = load_pair(simd, self.total);
        total = [total[0] * change[0], total[1] * change[1]];
        for scores in self.scores.chunks_exact_mut(2 * S::LANES).take(block) {
            let score = load_pair(simd, scores);
            let weight = [exp(simd, score[0] - base[0]), exp(simd, score[1] - base[1])];
            total = [total[0] + weight[0], total[1] + weight[1]];
            store_pair(simd, weight, scores);
        }
        store_pair(simd, max, self.max);
        store_pair(simd, total, self.total);
        for sums in self.sums.chunks_exact_mut(2 * S::LANES) {
            let sum = load_pair(simd, sums);
            store_pair(simd, [sum[0] * change[0], sum[1] * change[1]], sums);
        }
    }

    /// Divides the sums by the totals and writes them to `out`.
    #[inline(always)]
    fn store(&mut self, batch: usize, head: usize, out: &mut TensorDataMut<'_>) {
        let (attention, lanes) = (self.attention, 2 * S::LANES);
        let row = &mut self.queries[..attention.head_dim];
        for (lane, &total) in self.total[..self.visible.len()].iter().enumerate() {
            let from = self.sums.chunks_exact(lanes);
            row.iter_mut().zip(from).for_each(|(to, from)| *to = from[lane]);
            let start = attention.query_start(batch, head, self.first_row + lane);
            out.write_row(start, row, reciprocal(total));
        }
    }
}

#[inline(always)]
fn load_pair<S: Simd>(simd: S, from: &[f32]) -> Pair<S> {
    [simd.load(from), simd.load(&from[S::LANES..])]
}

#[inline(always)]
fn store_pair<S: Simd>(simd: S, value: Pair<S>, to: &mut [f32]) {
    simd.store(value[0], to);
    simd.store(value[1], &mut to[S::LANES..]);
}

/// Runs `$body` for blocks of `$rows` of `$count` rows, from row `$at` on: blocks as large as the
/// registers hold accumulators and operands, then smaller ones.
macro_rules! in_blocks {
    ($count:expr, $at:ident, $rows:ident => $body:block) => {
        let mut $at = 0;
        in_blocks!(@if S::REGISTERS >= 32, 8, $count, $at, $rows, $body);
        in_blocks!(@if S::REGISTERS < 32, 6, $count, $at, $rows, $body);
        in_blocks!(@if true, 4, $count, $at, $rows, $body);
        in_blocks!(@if true, 1, $count, $at, $rows, $body);
    };
    (@if $condition:expr, $block:literal, $count:expr, $at:ident, $rows:ident, $body:block) => {
        while $condition && $count - $at >= $block {
            const $rows: usize = $block;
            $body
            $at += $block;
        }
    };
}

/// Dot products of `count` keys of `head_dim` elements with all queries.
#[inline(always)]
fn score<S: Simd>(
    simd: S,
    keys: &[f32],
    head_dim: usize,
    queries: &[f32],
    scores: &mut [f32],
    count: usize,
) {
    let lanes = 2 * S::LANES;
    in_blocks!(count, at, R => {
        let scores = &mut scores[at * lanes..][..R * lanes];
        score_rows::<S, R>(simd, &keys[at * head_dim..], head_dim, queries, scores);
    });
}

/// Dot products of `R` keys with all queries.
#[inline(always)]
fn score_rows<S: Simd, const R: usize>(
    simd: S,
    keys: &[f32],
    head_dim: usize,
    queries: &[f32],
    scores: &mut [f32],
) {
    let mut rows = [keys; R];
    for (at, row) in rows.iter_mut().enumerate() {
        *row = &keys[at * head_dim..][..head_dim];
    }
    let mut products = [[simd.zero(); 2]; R];
    for (at, queries) in (0..head_dim).zip(queries.chunks_exact(2 * S::LANES)) {
        let queries = load_pair(simd, queries);
        for (product, row) in products.iter_mut().zip(&rows) {
            let element = simd.splat(row[at]);
            product[0] = element.mul_add(queries[0], product[0]);
            product[1] = element.mul_add(queries[1], product[1]);
        }
    }
    for (scores, product) in scores.chunks_exact_mut(2 * S::LANES).zip(products) {
        store_pair(simd, product, scores);
    }
}

/// Adds `count` values of `head_dim` elements, times the weights of each query, to `sums`.
#[inline(always)]
fn add_values<S: Simd>(
    simd: S,
    values: &[f32],
    head_dim: usize,
    weights: &[f32],
    sums: &mut [f32],
    count: usize,
) {
    let lanes = 2 * S::LANES;
    let weights = &weights[..count * lanes];
    in_blocks!(head_dim, at, R => {
        let sums = &mut sums[at * lanes..][..R * lanes];
        add_columns::<S, R>(simd, &values[at..], head_dim, weights, sums);
    });
}

/// As [`add_values`], for `R` elements of `head_dim`.
#[inline(always)]
fn add_columns<S: Simd, const R: usize>(
    simd: S,
    values: &[f32],
    head_dim: usize,
    weights: &[f32],
    sums: &mut [f32],
) {
    let mut totals = [[simd.zero(); 2]; R];
    for (total, sums) in totals.iter_mut().zip(sums.chunks_exact(2 * S::LANES)) {
        *total = load_pair(simd, sums);
    }
    for (weights, values) in weights.chunks_exact(2 * S::LANES).zip(values.chunks(head_dim)) {
        let weights = load_pair(simd, weights);
        let Some(values) = values.first_chunk::<R>() else { return };
        for (total, &value) in totals.iter_mut().zip(values) {
            let value = simd.splat(value);
            total[0] = value.mul_add(weights[0], total[0]);
            total[1] = value.mul_add(weights[1], total[1]);
        }
    }
    for (sums, total) in sums.chunks_exact_mut(2 * S::LANES).zip(totals) {
        store_pair(simd, total, sums);
    }
}
