//! Scaled dot product attention: argument checks and the call of the SIMD kernel.

use afferent_core::{Args, Error, KernelContext, ScalarType, TensorMut, TensorView, bf16, f16};
use afferent_simd::attention::{Attention, StridedRows, TensorData, TensorDataMut};

use crate::shared::{accumulator::check_dtype, simd::isa_or_fallback};

/// Arguments other than tensors, in the order that all schemas share.
pub(crate) struct SdpaOptions<'a> {
    /// Position of the first query in the sequence of keys.
    start_pos: usize,
    mask: Option<TensorView<'a>>,
    mask_index: u8,
    is_causal: bool,
    scale: Option<f64>,
}

impl<'a> SdpaOptions<'a> {
    /// Reads `start_pos` from argument `start_index`, and `attn_mask`, `dropout_p`, `is_causal` and
    /// `scale` from the arguments at `index` and after.
    pub(crate) fn new(args: &Args<'a>, start_index: u8, index: u8) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let start_pos = usize::try_from(args.int(usize::from(start_index))?).ok();
        let start_pos = start_pos.ok_or(wrong(start_index, "a position, not a negative number"))?;
        let at = usize::from(index);
        let mask = args.opt_tensor(at)?;
        if args.double(at + 1)? != 0.0 {
            return Err(wrong(index + 1, "0: dropout is not supported"));
        }
        let is_causal = args.bool(at + 2)?;
        if is_causal && mask.is_some() {
            return Err(wrong(index, "no mask when `is_causal` is true"));
        }
        let scale = args.opt_double(at + 3)?;
        Ok(Self { start_pos, mask, mask_index: index, is_causal, scale })
    }

    /// Elements of the mask, checked against the sizes `[queries, keys]`.
    fn mask(&self, queries: usize, keys: usize) -> Result<Option<&'a [f32]>, Error> {
        let Some(mask) = &self.mask else { return Ok(None) };
        if *mask.sizes() != [queries, keys] || !mask.is_contiguous() {
            let expected = "a row-major mask of sizes [queries, keys]";
            return Err(Error::InvalidArgument { index: self.mask_index, expected });
        }
        check_dtype(mask.dtype(), ScalarType::Float, self.mask_index)?;
        mask.data().map(Some)
    }
}

/// Per-token quantization parameters of a tensor.
pub(crate) struct Quantization<'a> {
    zero_points: &'a [i8],
    scales: &'a [f32],
}

impl<'a> Quantization<'a> {
    /// Reads the zero points of `tensor` from argument `index` and the scales from the next one.
    pub(crate) fn new(args: &Args<'a>, index: u8, tensor: &TensorView<'_>) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let find = |index: u8| {
            let found = args.opt_tensor(usize::from(index))?;
            let found =
                found.ok_or(wrong(index, "a tensor: queries, keys and values are quantized"))?;
            let rows = tensor.sizes().split_last().map(|(_, rows)| rows);
            let matches = found
                .sizes()
                .split_last()
                .is_some_and(|(last, leading)| *last == 1 && Some(leading) == rows);
            if matches && found.is_contiguous() {
                Ok(found)
            } else {
                Err(wrong(index, "row-major, with one parameter for each row of the tensor"))
            }
        };
        let (zero_points, scales) = (find(index)?, find(index + 1)?);
        check_dtype(zero_points.dtype(), ScalarType::Char, index)?;
        check_dtype(scales.dtype(), ScalarType::Float, index + 1)?;
        Ok(Self { zero_points: zero_points.data()?, scales: scales.data()? })
    }
}

/// Query, key or value tensor.
pub(crate) struct SdpaOperand<'a> {
    pub(crate) tensor: TensorView<'a>,
    /// Argument index.
    pub(crate) index: u8,
    pub(crate) quantization: Option<Quantization<'a>>,
}

/// Sizes of an operand.
struct Layout {
    batches: usize,
    heads: usize,
    positions: usize,
    head_dim: usize,
}

impl<'a> SdpaOperand<'a> {
    fn layout(&self, heads_first: bool) -> Result<Layout, Error> {
        let wrong = |expected| Error::InvalidArgument { index: self.index, expected };
        let &[batches, a, b, head_dim] = self.tensor.sizes() else {
            return Err(wrong("4 dimensions"));
        };
        if !self.tensor.is_contiguous() {
            return Err(wrong("a row-major tensor"));
        }
        let (heads, positions) = if heads_first { (a, b) } else { (b, a) };
        Ok(Layout { batches, heads, positions, head_dim })
    }

    fn rows(&self, heads_first: bool) -> Result<StridedRows<'a>, Error> {
        let Layout { heads, positions, head_dim, .. } = self.layout(heads_first)?;
        let data = match (self.tensor.dtype(), &self.quantization) {
            (ScalarType::Float, None) => TensorData::F32(self.tensor.data()?),
            (ScalarType::Half, None) => TensorData::F16(self.tensor.data()?),
            (ScalarType::BFloat16, None) => TensorData::Bf16(self.tensor.data()?),
            (ScalarType::Char, Some(found)) => TensorData::I8 {
                data: self.tensor.data()?,
                scales: found.scales,
                zero_points: found.zero_points,
            },
            (found, _) => return Err(Error::InvalidType { index: self.index, found }),
        };
        // The products may wrap only for an empty tensor, from which nothing is read.
        let product = usize::wrapping_mul;
        let (head_stride, position_stride) = if heads_first {
            (product(positions, head_dim), head_dim)
        } else {
            (head_dim, product(heads, head_dim))
        };
        let batch_stride = product(product(heads, positions), head_dim);
        Ok(StridedRows { data, batch_stride, head_stride, position_stride })
    }
}

/// Writes the attention of `operands` (query, key, value) to `out`, argument `out_index`. The
/// dimensions are `[batch, heads, positions, head_dim]` if `heads_first` is true, otherwise
/// `[batch, positions, heads, head_dim]`.
///
/// # Errors
/// The errors of [`prepare_sdpa`]. Nothing is written on error.
pub(crate) fn sdpa(
    cx: &mut KernelContext<'_>,
    operands: &[SdpaOperand<'_>; 3],
    heads_first: bool,
    options: &SdpaOptions<'_>,
    (out, out_index): (&mut TensorMut<'_, '_>, u8),
) -> Result<(), Error> {
    let prepared = prepare_sdpa(cx, operands, heads_first, options, (&mut *out, out_index))?;
    let Some((attention, scratch)) = prepared else { return Ok(()) };
    let out = match out.dtype() {
        ScalarType::Half => TensorDataMut::F16(out.data_mut::<f16>()?),
        ScalarType::BFloat16 => TensorDataMut::Bf16(out.data_mut::<bf16>()?),
        _ => TensorDataMut::F32(out.data_mut::<f32>()?),
    };
    attention.run(isa_or_fallback(), out, scratch);
    Ok(())
}

/// Checks the arguments of [`sdpa`], resizes `out`, and returns the attention to compute and its
/// scratch memory; `None` if `out` is empty.
///
/// # Errors
/// [`Error::InvalidArgument`] for sizes that do not match, [`Error::InvalidType`] for other dtypes,
/// [`Error::OutOfResources`] if there is not enough scratch memory.
pub(crate) fn prepare_sdpa<'a, 'c>(
    cx: &'c mut KernelContext<'_>,
    [query, key, value]: &[SdpaOperand<'a>; 3],
    heads_first: bool,
    options: &SdpaOptions<'a>,
    (out, out_index): (&mut TensorMut<'_, '_>, u8),
) -> Result<Option<(Attention<'a>, &'c mut [f32])>, Error> {
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let [q, k, v] = [query, key, value].map(|operand| operand.layout(heads_first));
    let (q, k, v) = (q?, k?, v?);
    for (operand, other) in [(key, &k), (value, &v)] {
        check_dtype(operand.tensor.dtype(), query.tensor.dtype(), operand.index)?;
        if [other.batches, other.head_dim] != [q.batches, q.head_dim] {
            return Err(wrong(operand.index, "the batch size and head dimension of the query"));
        }
    }
    if [k.heads, k.positions] != [v.heads, v.positions] {
        return Err(wrong(value.index, "the sizes of the key"));
    }
    if k.heads == 0 || !q.heads.is_multiple_of(k.heads) {
        return Err(wrong(key.index, "a number of heads that divides that of the query"));
    }
    let mask = options.mask(q.positions, k.positions)?;
    let last = options.start_pos.checked_add(q.positions).filter(|&last| last <= k.positions);
    let keys = match (mask, last) {
        (Some(_), _) => k.positions,
        (None, Some(last)) => last,
        (None, None) => return Err(wrong(key.index, "at least `start_pos` + queries keys")),
    };
    let dtype = if query.quantization.is_some() { ScalarType::Float } else { query.tensor.dtype() };
    check_dtype(out.dtype(), dtype, out_index)?;
    if !out.is_contiguous() {
        return Err(wrong(out_index, "a row-major tensor"));
    }
    out.resize(query.tensor.sizes())?;
    if out.numel() == 0 {
        return Ok(None);
    }
    let scale = options.scale.unwrap_or_else(|| 1.0 / libm::sqrt(q.head_dim as f64));
    let attention = Attention {
        query: query.rows(heads_first)?,
        key: key.rows(heads_first)?,
        value: value.rows(heads_first)?,
        mask,
        batches: q.batches,
        heads: q.heads,
        kv_heads: k.heads,
        query_len: q.positions,
        kv_len: keys,
        head_dim: q.head_dim,
        causal_offset: options.is_causal.then_some(options.start_pos),
        scale: scale as f32,
    };
    let len = attention.scratch_len().ok_or(Error::OutOfResources { bytes: usize::MAX })?;
    Ok(Some((attention, cx.scratch(len)?)))
}
