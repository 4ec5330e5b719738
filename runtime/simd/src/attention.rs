//! Scaled dot-product attention.
//!
//! Keys are processed in blocks with an online softmax: each query keeps its maximum score, the sum
//! of its weights and its weighted sum of values, so that the scratch buffer grows neither with
//! `query_len` nor with `kv_len`. `prefill` holds a query in each vector lane; `decode`, for few
//! queries, vectorizes along `head_dim`.
//!
//! Sources: Dao et al. 2022, arXiv 2205.14135 (FlashAttention); Milakov and Gimelshein 2018,
//! arXiv 1805.02867 (online softmax).

mod decode;
mod prefill;

use afferent_core::{bf16, f16};

use crate::{Isa, Routine, Simd};

/// Keys per block: keys or values, scores and queries of a block fit the first-level cache.
const BLOCK_KEYS: usize = 64;

/// Maximum lanes of the two vectors that hold queries.
const MAX_QUERY_LANES: usize = 32;

/// Elements of an input, in one of the supported dtypes.
#[derive(Clone, Copy)]
pub enum TensorData<'a> {
    /// `f32`.
    F32(&'a [f32]),
    /// `f16`.
    F16(&'a [f16]),
    /// `bf16`.
    Bf16(&'a [bf16]),
    /// Quantized: `(data - zero_point) * scale`, with a scale and a zero point per row of
    /// `head_dim` elements.
    I8 {
        /// Quantized elements.
        data: &'a [i8],
        /// Scale of each row.
        scales: &'a [f32],
        /// Zero point of each row.
        zero_points: &'a [i8],
    },
}

/// Elements of the output, in one of the supported dtypes.
pub enum TensorDataMut<'a> {
    /// `f32`.
    F32(&'a mut [f32]),
    /// `f16`.
    F16(&'a mut [f16]),
    /// `bf16`.
    Bf16(&'a mut [bf16]),
}

/// Query, key or value: a row of `head_dim` contiguous elements per batch, head and position.
#[derive(Clone, Copy)]
pub struct StridedRows<'a> {
    /// Elements.
    pub data: TensorData<'a>,
    /// Elements from one batch to the next.
    pub batch_stride: usize,
    /// Elements from one head to the next.
    pub head_stride: usize,
    /// Elements from one position to the next.
    pub position_stride: usize,
}

/// Inputs of attention: `softmax(query · keyᵀ * scale + mask) · value`.
pub struct Attention<'a> {
    /// Queries.
    pub query: StridedRows<'a>,
    /// Keys.
    pub key: StridedRows<'a>,
    /// Values.
    pub value: StridedRows<'a>,
    /// Additive mask, `query_len` × `kv_len`.
    pub mask: Option<&'a [f32]>,
    /// Batches of all three.
    pub batches: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values; divides `heads`. Each serves `heads / kv_heads` consecutive query
    /// heads (grouped-query attention).
    pub kv_heads: usize,
    /// Positions of the queries.
    pub query_len: usize,
    /// Positions of keys and values.
    pub kv_len: usize,
    /// Elements per row.
    pub head_dim: usize,
    /// Causal mask: position of the first query among the keys. `None` shows all keys to each
    /// query.
    pub causal_offset: Option<usize>,
    /// Factor of the scores.
    pub scale: f32,
}

/// A row of an input: its batch, head and position.
#[derive(Clone, Copy)]
struct RowIndex {
    batch: usize,
    head: usize,
    position: usize,
}

/// Buffers that blocks of keys and values are converted or copied to.
struct BlockBuffers<'b> {
    keys: &'b mut [f32],
    values: &'b mut [f32],
}

impl Attention<'_> {
    /// Scratch buffer of [`Attention::run`], in elements; `None` if it overflows.
    pub fn scratch_len(&self) -> Option<usize> {
        let keys = BLOCK_KEYS.min(self.kv_len);
        let rows = self.heads.checked_mul(self.query_len)?.min(self.max_decode_rows()?);
        let decode = rows.checked_mul(decode::scratch_len(self.head_dim)?)?;
        let blocks = self.head_dim.checked_mul(2 * keys)?;
        decode.max(prefill::scratch_len(self.head_dim)?).checked_add(blocks)
    }

    /// Maximum query rows of all heads that `decode` computes.
    fn max_decode_rows(&self) -> Option<usize> {
        self.kv_heads.checked_mul(MAX_QUERY_LANES)
    }

    /// Computes attention and writes it to `out`, which has the layout of the queries. The result
    /// of a query that sees no key is zero.
    ///
    /// # Panics
    /// If a row lies outside its data, or `scratch` is shorter than [`Attention::scratch_len`].
    pub fn run(&self, isa: Isa, out: TensorDataMut<'_>, scratch: &mut [f32]) {
        if self.kv_heads > 0 && self.head_dim > 0 {
            isa.run(Run { attention: self, out, scratch });
        }
    }

    /// Query rows that share a key-value head: positions of all its query heads.
    fn rows_per_kv_head(&self) -> usize {
        self.heads / self.kv_heads * self.query_len
    }

    /// Index of the first element of query row `row` of a key-value head.
    fn query_start(&self, batch: usize, kv_head: usize, row: usize) -> usize {
        let (head, position) = (row / self.query_len, row % self.query_len);
        let head = kv_head * (self.heads / self.kv_heads) + head;
        self.query.start(RowIndex { batch, head, position })
    }

    /// Number of keys that query row `row` sees.
    fn visible_keys(&self, row: usize) -> usize {
        let causal = |offset: usize| (offset + row % self.query_len + 1).min(self.kv_len);
        self.causal_offset.map_or(self.kv_len, causal)
    }

    /// Mask of query row `row` from key `key` on.
    fn mask_row(&self, row: usize, key: usize) -> Option<&[f32]> {
        self.mask.map(|mask| &mask[row % self.query_len * self.kv_len..][..self.kv_len][key..])
    }
}

impl<'a> StridedRows<'a> {
    /// Index of the first element of a row.
    #[inline(always)]
    fn start(&self, RowIndex { batch, head, position }: RowIndex) -> usize {
        batch * self.batch_stride + head * self.head_stride + position * self.position_stride
    }

    /// `count` rows from `first` on as `f32`, and their stride. Converts them to `buffer` if they
    /// have another dtype.
    #[inline(always)]
    fn block<'b>(
        &self,
        first: RowIndex,
        count: usize,
        head_dim: usize,
        buffer: &'b mut [f32],
    ) -> (&'b [f32], usize)
    where
        'a: 'b,
    {
        if let TensorData::F32(data) = self.data {
            return (&data[self.start(first)..], self.position_stride);
        }
        (self.contiguous_block(first, count, head_dim, buffer), head_dim)
    }

    /// `count` contiguous rows from `first` on as `f32`. Copies them to `buffer` if they are
    /// strided or have another dtype.
    #[inline(always)]
    fn contiguous_block<'b>(
        &self,
        first: RowIndex,
        count: usize,
        head_dim: usize,
        buffer: &'b mut [f32],
    ) -> &'b [f32]
    where
        'a: 'b,
    {
        let start = self.start(first);
        if let (TensorData::F32(data), true) = (self.data, self.position_stride == head_dim) {
            return &data[start..][..count * head_dim];
        }
        let buffer = &mut buffer[..count * head_dim];
        for (row, to) in buffer.chunks_exact_mut(head_dim).enumerate() {
            self.data.read_row(start + row * self.position_stride, to);
        }
        buffer
    }
}

impl TensorData<'_> {
    /// Converts the row that begins at index `start`.
    #[inline(always)]
    fn read_row(&self, start: usize, to: &mut [f32]) {
        let len = to.len();
        match *self {
            Self::F32(data) => to.copy_from_slice(&data[start..][..len]),
            Self::F16(data) => {
                let from = &data[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = x.to_f32());
            }
            Self::Bf16(data) => {
                let from = &data[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = x.to_f32());
            }
            Self::I8 { data, scales, zero_points } => {
                let (from, row) = (&data[start..][..len], start / len);
                let (scale, zero_point) = (scales[row], i32::from(zero_points[row]));
                for (to, &x) in to.iter_mut().zip(from) {
                    *to = (i32::from(x) - zero_point) as f32 * scale;
                }
            }
        }
    }
}

impl TensorDataMut<'_> {
    /// Writes `from * factor` to the row that begins at index `start`.
    #[inline(always)]
    fn write_row(&mut self, start: usize, from: &[f32], factor: f32) {
        let len = from.len();
        match self {
            Self::F32(data) => {
                let to = &mut data[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = x * factor);
            }
            Self::F16(data) => {
                let to = &mut data[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = f16::from_f32(x * factor));
            }
            Self::Bf16(data) => {
                let to = &mut data[start..][..len];
                to.iter_mut().zip(from).for_each(|(to, x)| *to = bf16::from_f32(x * factor));
            }
        }
    }
}

/// `1 / sum` of the weights of a query; zero if the query sees no key.
#[inline(always)]
fn reciprocal(sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { 1.0 / sum }
}

struct Run<'r, 'a> {
    attention: &'r Attention<'a>,
    out: TensorDataMut<'r>,
    scratch: &'r mut [f32],
}

impl Routine for Run<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let attention = self.attention;
        let block_len = BLOCK_KEYS.min(attention.kv_len) * attention.head_dim;
        let (keys, rest) = self.scratch.split_at_mut(block_len);
        let (values, scratch) = rest.split_at_mut(block_len);
        let buffers = BlockBuffers { keys, values };
        if attention.rows_per_kv_head() <= S::LANES {
            decode::run(simd, attention, &mut self.out, buffers, scratch);
        } else {
            prefill::run(simd, attention, &mut self.out, buffers, scratch);
        }
    }
}

#[cfg(test)]
mod tests;
