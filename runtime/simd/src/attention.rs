//! Attention: for each query the mean of values, weighted by how well their keys match it.
//!
//! Keys are visited in blocks, and each query keeps the largest score, the sum of weights and the
//! weighted sum so far, so that memory grows with neither queries nor keys. Many queries are
//! computed in the lanes of vectors; for few, vectors run along the width.
//!
//! Source: Dao and others 2022, arXiv 2205.14135; Milakov and Gimelshein 2018, arXiv 1805.02867.

mod few;
mod many;

use afferent_core::{bf16, f16};

use crate::{Isa, Routine, Simd};

/// Keys in a block: so few that keys or values, scores and queries fit into the smallest cache.
const BLOCK: usize = 64;

/// The most lanes of the two vectors that hold queries.
const LANES: usize = 32;

/// Numbers of a tensor, in one of the dtypes that attention takes.
#[derive(Clone, Copy)]
pub enum Numbers<'a> {
    /// Of 32 bits.
    F32(&'a [f32]),
    /// Half precision.
    F16(&'a [f16]),
    /// The upper half of 32 bits.
    Bf16(&'a [bf16]),
    /// `(number - zero point) · scale`, with a scale and a zero point for each row of `width`.
    I8 {
        /// The numbers.
        numbers: &'a [i8],
        /// A scale for each row.
        scales: &'a [f32],
        /// A zero point for each row.
        zero_points: &'a [i8],
    },
}

/// The results, in the dtype of a tensor.
pub enum NumbersMut<'a> {
    /// Of 32 bits.
    F32(&'a mut [f32]),
    /// Half precision.
    F16(&'a mut [f16]),
    /// The upper half of 32 bits.
    Bf16(&'a mut [bf16]),
}

/// Rows of numbers, one for each batch, head and position.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// All numbers; those of a row are adjacent.
    pub numbers: Numbers<'a>,
    /// Numbers from one batch to the next.
    pub batch: usize,
    /// Numbers from one head to the next.
    pub head: usize,
    /// Numbers from one position to the next.
    pub position: usize,
}

/// What attention computes from.
pub struct Attention<'a> {
    /// Queries.
    pub query: Rows<'a>,
    /// Keys.
    pub key: Rows<'a>,
    /// Values.
    pub value: Rows<'a>,
    /// What is added to the score of each key, for each query.
    pub mask: Option<&'a [f32]>,
    /// Batches of all three.
    pub batches: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values, a divisor of `heads`: each serves as many heads in a row.
    pub key_heads: usize,
    /// Positions of the queries.
    pub queries: usize,
    /// Positions of keys and values.
    pub keys: usize,
    /// Numbers in a row.
    pub width: usize,
    /// If a query sees no later key: the position of the first query among the keys.
    pub causal: Option<usize>,
    /// What multiplies the product of query and key.
    pub scale: f32,
}

impl Attention<'_> {
    /// Numbers of scratch memory that [`Attention::run`] needs; `None` when they overflow.
    pub fn scratch_len(&self) -> Option<usize> {
        let keys = BLOCK.min(self.keys);
        let rows = self.heads.checked_mul(self.queries)?.min(self.rows_if_few()?);
        let few = rows.checked_mul(few::scratch_len(self.width)?)?;
        let blocks = self.width.checked_mul(2 * keys)?;
        few.max(many::scratch_len(self.width)?).checked_add(blocks)
    }

    /// Rows of all heads where a head has few.
    fn rows_if_few(&self) -> Option<usize> {
        self.key_heads.checked_mul(LANES)
    }

    /// Computes `out`, which has the layout of the queries. A query that sees no key gets zeros.
    ///
    /// # Panics
    /// When a row lies outside its numbers, or `scratch` is shorter than
    /// [`Attention::scratch_len`].
    pub fn run(&self, isa: Isa, out: NumbersMut<'_>, scratch: &mut [f32]) {
        if self.key_heads > 0 && self.width > 0 {
            isa.run(Run { attention: self, out, scratch });
        }
    }

    /// Queries that a key and value head serves.
    fn group(&self) -> usize {
        self.heads / self.key_heads * self.queries
    }

    /// Where the row of a query begins: that of the number `row` among those of a key head.
    fn at(&self, batch: usize, key_head: usize, row: usize) -> usize {
        let (head, position) = (row / self.queries, row % self.queries);
        let head = key_head * (self.heads / self.key_heads) + head;
        batch * self.query.batch + head * self.query.head + position * self.query.position
    }

    /// Keys that the query of the number `row` sees.
    fn seen(&self, row: usize) -> usize {
        let last = |first: usize| (first + row % self.queries + 1).min(self.keys);
        self.causal.map_or(self.keys, last)
    }

    /// What is added to the scores of the query of the number `row`, from the key `from` on.
    fn masked(&self, row: usize, from: usize) -> Option<&[f32]> {
        self.mask.map(|mask| &mask[row % self.queries * self.keys..][..self.keys][from..])
    }
}

impl<'a> Rows<'a> {
    /// `count` rows from `position` on, and the numbers from one row to the next; `buffer` holds
    /// them if they are to be converted.
    #[inline(always)]
    fn block<'b>(
        &self,
        (batch, head, position): (usize, usize, usize),
        (count, width): (usize, usize),
        buffer: &'b mut [f32],
    ) -> (&'b [f32], usize)
    where
        'a: 'b,
    {
        let start = batch * self.batch + head * self.head + position * self.position;
        if let Numbers::F32(numbers) = self.numbers {
            return (&numbers[start..], self.position);
        }
        (self.packed((batch, head, position), (count, width), buffer), width)
    }

    /// `count` rows from `position` on, one after the other; `buffer` holds them if they are not.
    #[inline(always)]
    fn packed<'b>(
        &self,
        (batch, head, position): (usize, usize, usize),
        (count, width): (usize, usize),
        buffer: &'b mut [f32],
    ) -> &'b [f32]
    where
        'a: 'b,
    {
        let start = batch * self.batch + head * self.head + position * self.position;
        if let (Numbers::F32(numbers), true) = (self.numbers, self.position == width) {
            return &numbers[start..][..count * width];
        }
        let buffer = &mut buffer[..count * width];
        for (row, to) in buffer.chunks_exact_mut(width).enumerate() {
            self.numbers.read(start + row * self.position, to);
        }
        buffer
    }
}

impl Numbers<'_> {
    /// A row that begins at `start`.
    #[inline(always)]
    fn read(&self, start: usize, to: &mut [f32]) {
        let len = to.len();
        match *self {
            Self::F32(numbers) => to.copy_from_slice(&numbers[start..][..len]),
            Self::F16(numbers) => {
                let from = &numbers[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = x.to_f32());
            }
            Self::Bf16(numbers) => {
                let from = &numbers[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = x.to_f32());
            }
            Self::I8 { numbers, scales, zero_points } => {
                let (from, row) = (&numbers[start..][..len], start / len);
                let (scale, zero) = (scales[row], i32::from(zero_points[row]));
                for (to, &x) in to.iter_mut().zip(from) {
                    *to = (i32::from(x) - zero) as f32 * scale;
                }
            }
        }
    }
}

impl NumbersMut<'_> {
    /// Writes a row that begins at `start`: `from` times `factor`.
    #[inline(always)]
    fn write(&mut self, start: usize, from: &[f32], factor: f32) {
        let len = from.len();
        match self {
            Self::F32(numbers) => {
                let to = &mut numbers[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = x * factor);
            }
            Self::F16(numbers) => {
                let to = &mut numbers[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = f16::from_f32(x * factor));
            }
            Self::Bf16(numbers) => {
                let to = &mut numbers[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = bf16::from_f32(x * factor));
            }
        }
    }
}

/// One over the sum of the weights of a query, or zero where there are none.
#[inline(always)]
fn reciprocal(sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { 1.0 / sum }
}

struct Run<'r, 'a> {
    attention: &'r Attention<'a>,
    out: NumbersMut<'r>,
    scratch: &'r mut [f32],
}

impl Routine for Run<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let attention = self.attention;
        let keys = BLOCK.min(attention.keys) * attention.width;
        let (keys_block, rest) = self.scratch.split_at_mut(keys);
        let (values_block, scratch) = rest.split_at_mut(keys);
        let blocks = [keys_block, values_block];
        if attention.group() <= S::LANES {
            few::run(simd, attention, &mut self.out, blocks, scratch);
        } else {
            many::run(simd, attention, &mut self.out, blocks, scratch);
        }
    }
}

#[cfg(test)]
mod tests;
