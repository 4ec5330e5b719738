//! Attention for many queries of a head: a lane for each query.
//!
//! Scores, weights and results stand transposed, a row for each key or for each number of the
//! width, so that keys and values are read where they are, one number for all lanes.

use super::{Attention, BLOCK, LANES, NumbersMut, reciprocal};
use crate::{Float, Mask, Simd, math::exp};

#[inline(always)]
pub(super) fn run<S: Simd>(
    simd: S,
    attention: &Attention<'_>,
    out: &mut NumbersMut<'_>,
    [keys, values]: [&mut [f32]; 2],
    scratch: &mut [f32],
) {
    let lanes = 2 * S::LANES;
    let (queries, rest) = scratch.split_at_mut(attention.width * lanes);
    let (sums, rest) = rest.split_at_mut(attention.width * lanes);
    let mut tile = Tile { simd, attention, keys, values, queries, sums, scores: rest };
    for batch in 0..attention.batches {
        for head in 0..attention.key_heads {
            for first in (0..attention.group()).step_by(lanes) {
                tile.run(batch, head, first, out);
            }
        }
    }
}

/// As many queries as two vectors have lanes.
struct Tile<'r, 'a, S> {
    simd: S,
    attention: &'r Attention<'a>,
    /// Memory for keys of another dtype.
    keys: &'r mut [f32],
    /// Memory for values of another dtype.
    values: &'r mut [f32],
    /// The queries, scaled: a row for each number of the width.
    queries: &'r mut [f32],
    /// Weighted sums of values: a row for each number of the width.
    sums: &'r mut [f32],
    /// Scores, then weights: a row for each key of the block.
    scores: &'r mut [f32],
}

/// Two vectors: one number for each query of the tile.
type Pair<S> = [<S as Simd>::F32; 2];

impl<S: Simd> Tile<'_, '_, S> {
    #[inline(always)]
    fn run(&mut self, batch: usize, head: usize, first: usize, out: &mut NumbersMut<'_>) {
        let (simd, attention) = (self.simd, self.attention);
        let count = (2 * S::LANES).min(attention.group() - first);
        self.load(batch, head, first, count);
        self.sums.fill(0.0);
        let mut best = [simd.splat(f32::NEG_INFINITY); 2];
        let mut total = [simd.zero(); 2];
        let seen = (first..first + count).map(|row| attention.seen(row)).max().unwrap_or(0);
        for from in (0..seen).step_by(BLOCK) {
            let block = BLOCK.min(seen - from);
            let (rows, place) = ((block, attention.width), (batch, head, from));
            let (keys, step) = attention.key.block(place, rows, self.keys);
            score::<S>(simd, keys, (step, attention.width), self.queries, self.scores, block);
            self.hide(first, count, from, block);
            let old = best;
            for scores in self.scores.chunks_exact(2 * S::LANES).take(block) {
                let scores = pair(simd, scores);
                best = [best[0].max(scores[0]), best[1].max(scores[1])];
            }
            self.weigh(old, best, &mut total, block);
            let (values, step) = attention.value.block(place, rows, self.values);
            add_values::<S>(simd, values, (step, attention.width), self.scores, self.sums, block);
        }
        self.store((batch, head), (first, count), total, out);
    }

    /// Transposes the queries; lanes without one get zeros.
    #[inline(always)]
    fn load(&mut self, batch: usize, head: usize, first: usize, count: usize) {
        let (attention, lanes) = (self.attention, 2 * S::LANES);
        let row = &mut self.sums[..attention.width];
        self.queries.fill(0.0);
        for lane in 0..count {
            attention.query.numbers.read(attention.at(batch, head, first + lane), row);
            let to = self.queries[lane..].iter_mut().step_by(lanes);
            to.zip(&*row).for_each(|(to, x)| *to = x * attention.scale);
        }
    }

    /// Adds the mask to the scores of the keys from `from` on, and hides those that come later
    /// than a query.
    #[inline(always)]
    fn hide(&mut self, first: usize, count: usize, from: usize, block: usize) {
        let lanes = 2 * S::LANES;
        for lane in 0..count {
            let column = &mut self.scores[lane..(block - 1) * lanes + lane + 1];
            if let Some(mask) = self.attention.masked(first + lane, from) {
                let scores = column.iter_mut().step_by(lanes);
                scores.zip(mask).for_each(|(score, mask)| *score += mask);
            }
            let seen = self.attention.seen(first + lane).saturating_sub(from);
            for score in column.iter_mut().step_by(lanes).skip(seen) {
                *score = f32::NEG_INFINITY;
            }
        }
    }

    /// Turns scores into weights, and everything of before into what it is with the new largest
    /// scores.
    #[inline(always)]
    fn weigh(&mut self, old: Pair<S>, best: Pair<S>, total: &mut Pair<S>, block: usize) {
        let (simd, none) = (self.simd, self.simd.splat(f32::NEG_INFINITY));
        // Where every key is hidden, a finite number makes weights zero instead of NaN.
        let base = [0, 1].map(|v| best[v].eq(none).select(simd.zero(), best[v]));
        let change = [exp(simd, old[0] - base[0]), exp(simd, old[1] - base[1])];
        *total = [total[0] * change[0], total[1] * change[1]];
        for scores in self.scores.chunks_exact_mut(2 * S::LANES).take(block) {
            let score = pair(simd, scores);
            let weight = [exp(simd, score[0] - base[0]), exp(simd, score[1] - base[1])];
            *total = [total[0] + weight[0], total[1] + weight[1]];
            store(simd, weight, scores);
        }
        for sums in self.sums.chunks_exact_mut(2 * S::LANES) {
            let sum = pair(simd, sums);
            store(simd, [sum[0] * change[0], sum[1] * change[1]], sums);
        }
    }

    /// Writes the results.
    #[inline(always)]
    fn store(
        &mut self,
        (batch, head): (usize, usize),
        (first, count): (usize, usize),
        total: Pair<S>,
        out: &mut NumbersMut<'_>,
    ) {
        let (attention, lanes) = (self.attention, 2 * S::LANES);
        let mut totals = [0.0; LANES];
        store(self.simd, total, &mut totals);
        let row = &mut self.queries[..attention.width];
        for (lane, &total) in totals[..count].iter().enumerate() {
            let from = self.sums[lane..].iter().step_by(lanes);
            row.iter_mut().zip(from).for_each(|(to, x)| *to = *x);
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

/// Products of `count` keys, `step` numbers apart, with all queries.
#[inline(always)]
fn score<S: Simd>(
    simd: S,
    keys: &[f32],
    (step, width): (usize, usize),
    queries: &[f32],
    scores: &mut [f32],
    count: usize,
) {
    let lanes = 2 * S::LANES;
    let whole = count - count % 8;
    for (key, scores) in (0..whole).step_by(8).zip(scores.chunks_exact_mut(8 * lanes)) {
        if S::REGISTERS >= 32 {
            score_rows::<S, 8>(simd, &keys[key * step..], (step, width), queries, scores);
        } else {
            let (low, high) = scores.split_at_mut(4 * lanes);
            score_rows::<S, 4>(simd, &keys[key * step..], (step, width), queries, low);
            score_rows::<S, 4>(simd, &keys[(key + 4) * step..], (step, width), queries, high);
        }
    }
    for (key, scores) in (whole..count).zip(scores[whole * lanes..].chunks_exact_mut(lanes)) {
        score_rows::<S, 1>(simd, &keys[key * step..], (step, width), queries, scores);
    }
}

/// Products of `R` keys with all queries.
#[inline(always)]
fn score_rows<S: Simd, const R: usize>(
    simd: S,
    keys: &[f32],
    (step, width): (usize, usize),
    queries: &[f32],
    scores: &mut [f32],
) {
    let mut rows = [keys; R];
    for (at, row) in rows.iter_mut().enumerate() {
        *row = &keys[at * step..][..width];
    }
    let mut products = [[simd.zero(); 2]; R];
    for (at, queries) in queries.chunks_exact(2 * S::LANES).take(width).enumerate() {
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

/// Adds `count` values, `step` numbers apart, times the weights of each query, to `sums`.
#[inline(always)]
fn add_values<S: Simd>(
    simd: S,
    values: &[f32],
    (step, width): (usize, usize),
    weights: &[f32],
    sums: &mut [f32],
    count: usize,
) {
    let lanes = 2 * S::LANES;
    let weights = &weights[..count * lanes];
    let whole = width - width % 8;
    for (at, sums) in (0..whole).step_by(8).zip(sums.chunks_exact_mut(8 * lanes)) {
        if S::REGISTERS >= 32 {
            add_columns::<S, 8>(simd, &values[at..], step, weights, sums);
        } else {
            let (low, high) = sums.split_at_mut(4 * lanes);
            add_columns::<S, 4>(simd, &values[at..], step, weights, low);
            add_columns::<S, 4>(simd, &values[at + 4..], step, weights, high);
        }
    }
    for (at, sums) in (whole..width).zip(sums[whole * lanes..].chunks_exact_mut(lanes)) {
        add_columns::<S, 1>(simd, &values[at..], step, weights, sums);
    }
}

/// As [`add_values`], for `R` numbers of the width.
#[inline(always)]
fn add_columns<S: Simd, const R: usize>(
    simd: S,
    values: &[f32],
    step: usize,
    weights: &[f32],
    sums: &mut [f32],
) {
    let mut totals = [[simd.zero(); 2]; R];
    for (total, sums) in totals.iter_mut().zip(sums.chunks_exact(2 * S::LANES)) {
        *total = pair(simd, sums);
    }
    for (key, weights) in weights.chunks_exact(2 * S::LANES).enumerate() {
        let weights = pair(simd, weights);
        let values = &values[key * step..][..R];
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
