//! Attention for many queries of a head: a lane for each query.
//!
//! Scores, weights and results stand transposed, a row for each key or for each number of the
//! width, so that a number of a key or value serves all lanes. Keys and values of a block are copied
//! together, because rows of other heads between them would make them fight for the same lines of
//! the cache; some tiles of queries share the copies.

use super::{Attention, BLOCK, LANES, NumbersMut, reciprocal};
use crate::{Float, Mask, Simd, math::exp};

/// Tiles that share the blocks of keys and values.
const TILES: usize = 4;

/// Numbers of scratch memory that [`run`] needs for rows of `width`; `None` when they overflow.
pub(super) fn scratch_len(width: usize) -> Option<usize> {
    width.checked_mul(2 * TILES * LANES)?.checked_add((2 * TILES + BLOCK) * LANES)
}

#[inline(always)]
pub(super) fn run<S: Simd>(
    simd: S,
    attention: &Attention<'_>,
    out: &mut NumbersMut<'_>,
    [keys, values]: [&mut [f32]; 2],
    scratch: &mut [f32],
) {
    let lanes = 2 * S::LANES;
    let size = attention.width * lanes;
    let (queries, rest) = scratch.split_at_mut(TILES * size);
    let (sums, rest) = rest.split_at_mut(TILES * size);
    let (state, scores) = rest.split_at_mut(TILES * 2 * lanes);
    for batch in 0..attention.batches {
        for head in 0..attention.key_heads {
            let place = (batch, head);
            for first in (0..attention.group()).step_by(TILES * lanes) {
                let end = (first + TILES * lanes).min(attention.group());
                let mut seen = [0; TILES * LANES];
                let seen = &mut seen[..end - first];
                seen.iter_mut().zip(first..).for_each(|(seen, row)| *seen = attention.seen(row));
                let most = seen.iter().copied().max().unwrap_or(0);
                // The part of each tile in `queries`, `sums`, `state` and `seen`.
                macro_rules! tiles {
                    ($tile:ident => $body:block) => {
                        let parts = queries.chunks_exact_mut(size).zip(sums.chunks_exact_mut(size));
                        let parts = parts.zip(state.chunks_exact_mut(2 * lanes));
                        let rows = (first..end).step_by(lanes).zip(seen.chunks(lanes));
                        for (((queries, sums), state), (first, seen)) in parts.zip(rows) {
                            let (best, total) = state.split_at_mut(lanes);
                            let (scores, rows) = (&mut *scores, (first, seen));
                            #[allow(unused_mut, reason = "not every use changes the tile")]
                            let mut $tile =
                                Tile { simd, attention, rows, queries, sums, best, total, scores };
                            $body
                        }
                    };
                }
                tiles!(tile => { tile.load(place) });
                for from in (0..most).step_by(BLOCK) {
                    let size = (BLOCK.min(most - from), attention.width);
                    let keys = attention.key.packed((batch, head, from), size, keys);
                    let values = attention.value.packed((batch, head, from), size, values);
                    tiles!(tile => { tile.add(keys, values, from) });
                }
                tiles!(tile => { tile.store(place, out) });
            }
        }
    }
}

/// As many queries as two vectors have lanes.
struct Tile<'r, 'a, S> {
    simd: S,
    attention: &'r Attention<'a>,
    /// The first row of the queries, and how many keys each of them sees.
    rows: (usize, &'r [usize]),
    /// The queries, scaled: a row for each number of the width.
    queries: &'r mut [f32],
    /// Weighted sums of values: a row for each number of the width.
    sums: &'r mut [f32],
    /// The largest score of each query so far.
    best: &'r mut [f32],
    /// The sum of the weights of each query so far.
    total: &'r mut [f32],
    /// Scores, then weights: a row for each key of the block.
    scores: &'r mut [f32],
}

/// Two vectors: one number for each query of the tile.
type Pair<S> = [<S as Simd>::F32; 2];

impl<S: Simd> Tile<'_, '_, S> {
    /// Takes in the block of keys and values from the key `from` on.
    #[inline(always)]
    fn add(&mut self, keys: &[f32], values: &[f32], from: usize) {
        let (simd, width, (_, seen)) = (self.simd, self.attention.width, self.rows);
        let most = seen.iter().copied().max().unwrap_or(0).saturating_sub(from);
        let block = (keys.len() / width).min(most);
        if block == 0 {
            return;
        }
        score::<S>(simd, keys, width, self.queries, self.scores, block);
        self.mask(from, block);
        let old = pair(simd, self.best);
        let best = self.best_of(old, from, block);
        self.weigh(old, best, block);
        add_values::<S>(simd, values, width, self.scores, self.sums, block);
    }

    /// Transposes the queries, of which lanes without one get zeros, and begins anew.
    #[inline(always)]
    fn load(&mut self, (batch, head): (usize, usize)) {
        let (attention, lanes, (first, seen)) = (self.attention, 2 * S::LANES, self.rows);
        let row = &mut self.sums[..attention.width];
        self.queries.fill(0.0);
        for lane in 0..seen.len() {
            attention.query.numbers.read(attention.at(batch, head, first + lane), row);
            let to = self.queries.chunks_exact_mut(lanes);
            to.zip(&*row).for_each(|(to, x)| to[lane] = x * attention.scale);
        }
        self.sums.fill(0.0);
        self.best.fill(f32::NEG_INFINITY);
        self.total.fill(0.0);
    }

    /// Adds the mask to the scores of the keys from `from` on.
    #[inline(always)]
    fn mask(&mut self, from: usize, block: usize) {
        let (first, seen) = self.rows;
        for lane in 0..seen.len() {
            let Some(mask) = self.attention.masked(first + lane, from) else { return };
            let scores = self.scores.chunks_exact_mut(2 * S::LANES).take(block);
            scores.zip(mask).for_each(|(scores, mask)| scores[lane] += mask);
        }
    }

    /// The largest score of each query, of those before and of the keys from `from` on; hides keys
    /// that come later than a query.
    #[inline(always)]
    fn best_of(&mut self, mut best: Pair<S>, from: usize, block: usize) -> Pair<S> {
        let (simd, (_, seen)) = (self.simd, self.rows);
        let mut limits = [0.0; LANES];
        for (limit, seen) in limits.iter_mut().zip(seen) {
            *limit = seen.saturating_sub(from).min(block) as f32;
        }
        let limits = pair(simd, &limits);
        let least = seen.iter().copied().min().unwrap_or(0).saturating_sub(from);
        for (at, scores) in self.scores.chunks_exact_mut(2 * S::LANES).take(block).enumerate() {
            let mut found = pair(simd, scores);
            if at >= least {
                let (at, none) = (simd.splat(at as f32), simd.splat(f32::NEG_INFINITY));
                found = [
                    at.lt(limits[0]).select(found[0], none),
                    at.lt(limits[1]).select(found[1], none),
                ];
                store(simd, found, scores);
            }
            best = [best[0].max(found[0]), best[1].max(found[1])];
        }
        best
    }

    /// Turns scores into weights, and everything of before into what it is with the new largest
    /// scores.
    #[inline(always)]
    fn weigh(&mut self, old: Pair<S>, best: Pair<S>, block: usize) {
        let (simd, none) = (self.simd, self.simd.splat(f32::NEG_INFINITY));
        // Where every key is hidden, a finite number makes weights zero instead of NaN.
        let finite = |best: S::F32| best.eq(none).select(simd.zero(), best);
        let base = [finite(best[0]), finite(best[1])];
        let change = [exp(simd, old[0] - base[0]), exp(simd, old[1] - base[1])];
        let mut total = pair(simd, self.total);
        total = [total[0] * change[0], total[1] * change[1]];
        for scores in self.scores.chunks_exact_mut(2 * S::LANES).take(block) {
            let score = pair(simd, scores);
            let weight = [exp(simd, score[0] - base[0]), exp(simd, score[1] - base[1])];
            total = [total[0] + weight[0], total[1] + weight[1]];
            store(simd, weight, scores);
        }
        store(simd, best, self.best);
        store(simd, total, self.total);
        for sums in self.sums.chunks_exact_mut(2 * S::LANES) {
            let sum = pair(simd, sums);
            store(simd, [sum[0] * change[0], sum[1] * change[1]], sums);
        }
    }

    /// Writes the results.
    #[inline(always)]
    fn store(&mut self, (batch, head): (usize, usize), out: &mut NumbersMut<'_>) {
        let (attention, lanes, (first, seen)) = (self.attention, 2 * S::LANES, self.rows);
        let row = &mut self.queries[..attention.width];
        for (lane, &total) in self.total[..seen.len()].iter().enumerate() {
            let from = self.sums.chunks_exact(lanes);
            row.iter_mut().zip(from).for_each(|(to, from)| *to = from[lane]);
            out.write(attention.at(batch, head, first + lane), row, reciprocal(total));
        }
    }
}

#[inline(always)]
fn pair<S: Simd>(simd: S, from: &[f32]) -> Pair<S> {
    [simd.load(from), simd.load(&from[S::LANES..])]
}

#[inline(always)]
fn store<S: Simd>(simd: S, value: Pair<S>, to: &mut [f32]) {
    simd.store(value[0], to);
    simd.store(value[1], &mut to[S::LANES..]);
}

/// Calls `$body` for parts of `$count` rows, the first of which is `$at`: of as many as their sums
/// and the operands find registers, then of fewer.
macro_rules! in_parts {
    ($count:expr, $at:ident, $rows:ident => $body:block) => {
        let mut $at = 0;
        in_parts!(@if S::REGISTERS >= 32, 8, $count, $at, $rows, $body);
        in_parts!(@if S::REGISTERS < 32, 6, $count, $at, $rows, $body);
        in_parts!(@if true, 4, $count, $at, $rows, $body);
        in_parts!(@if true, 1, $count, $at, $rows, $body);
    };
    (@if $condition:expr, $part:literal, $count:expr, $at:ident, $rows:ident, $body:block) => {
        while $condition && $count - $at >= $part {
            const $rows: usize = $part;
            $body
            $at += $part;
        }
    };
}

/// Products of `count` keys of `width` numbers with all queries.
#[inline(always)]
fn score<S: Simd>(
    simd: S,
    keys: &[f32],
    width: usize,
    queries: &[f32],
    scores: &mut [f32],
    count: usize,
) {
    let lanes = 2 * S::LANES;
    in_parts!(count, at, R => {
        let scores = &mut scores[at * lanes..][..R * lanes];
        score_rows::<S, R>(simd, &keys[at * width..], width, queries, scores);
    });
}

/// Products of `R` keys with all queries.
#[inline(always)]
fn score_rows<S: Simd, const R: usize>(
    simd: S,
    keys: &[f32],
    width: usize,
    queries: &[f32],
    scores: &mut [f32],
) {
    let mut rows = [keys; R];
    for (at, row) in rows.iter_mut().enumerate() {
        *row = &keys[at * width..][..width];
    }
    let mut products = [[simd.zero(); 2]; R];
    for (at, queries) in (0..width).zip(queries.chunks_exact(2 * S::LANES)) {
        let queries = pair(simd, queries);
        for (product, row) in products.iter_mut().zip(&rows) {
            let number = simd.splat(row[at]);
            product[0] = number.mul_add(queries[0], product[0]);
            product[1] = number.mul_add(queries[1], product[1]);
        }
    }
    for (scores, product) in scores.chunks_exact_mut(2 * S::LANES).zip(products) {
        store(simd, product, scores);
    }
}

/// Adds `count` values of `width` numbers, times the weights of each query, to `sums`.
#[inline(always)]
fn add_values<S: Simd>(
    simd: S,
    values: &[f32],
    width: usize,
    weights: &[f32],
    sums: &mut [f32],
    count: usize,
) {
    let lanes = 2 * S::LANES;
    let weights = &weights[..count * lanes];
    in_parts!(width, at, R => {
        let sums = &mut sums[at * lanes..][..R * lanes];
        add_columns::<S, R>(simd, &values[at..], width, weights, sums);
    });
}

/// As [`add_values`], for `R` numbers of the width.
#[inline(always)]
fn add_columns<S: Simd, const R: usize>(
    simd: S,
    values: &[f32],
    width: usize,
    weights: &[f32],
    sums: &mut [f32],
) {
    let mut totals = [[simd.zero(); 2]; R];
    for (total, sums) in totals.iter_mut().zip(sums.chunks_exact(2 * S::LANES)) {
        *total = pair(simd, sums);
    }
    for (weights, values) in weights.chunks_exact(2 * S::LANES).zip(values.chunks(width)) {
        let weights = pair(simd, weights);
        let Some(values) = values.first_chunk::<R>() else { return };
        for (total, &value) in totals.iter_mut().zip(values) {
            let value = simd.splat(value);
            total[0] = value.mul_add(weights[0], total[0]);
            total[1] = value.mul_add(weights[1], total[1]);
        }
    }
    for (sums, total) in sums.chunks_exact_mut(2 * S::LANES).zip(totals) {
        store(simd, total, sums);
    }
}
