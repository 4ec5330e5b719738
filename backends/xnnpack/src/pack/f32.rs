//! Packed weights of f32 GEMMs, stored in 32, 24 or 16 bits.
//!
//! The weights of a fully connected layer are stored in 16 bits if bf16 or f16 represents them
//! exactly. To halve the memory and the bandwidth of a model, round its weights before the export
//! (in PyTorch: `model.bfloat16().float()`).
//!
//! Other large layers are stored in 24 bits: an integer per weight and a scale per output channel.
//! The rounding error is at most 2⁻²³ of the largest weight of the channel, which is comparable to
//! the effect of another summation order. A layer stays in 32 bits if more than one weight in 128
//! of a channel is zero, or if the largest weight is far from the mean.

use afferent_core::{Error, Workers};
use afferent_simd::{
    Activation, Isa,
    epilogue::BiasActivation,
    igemm::{
        Fixed24, HalfFormat, Igemm, InputRows, OutputRows, PackedWeights, WeightShape, pack,
        pack_columns, packed_len, panel_cols,
    },
    parallel,
};

use super::weight_cache::{CachedWeights, PackedLayout, WeightPacker};
use crate::{
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    memory::grow,
    operator::RunContext,
};

/// Minimum vector width, in lanes, for 24-bit weights.
pub(crate) const FIXED24_MIN_LANES: usize = 8;

/// Minimum number of weights for 24 bits. Smaller filters stay in the L1 cache, where 24 bits are
/// not faster than 32.
const FIXED24_MIN_WEIGHTS: usize = 16 * 1024;

/// Minimum number of rows for 24-bit weights, unless there is a single row. Fewer rows do not
/// amortize unpacking. An input with this many rows may have one at other times: prefill and decode
/// of a language model.
const FIXED24_MIN_ROWS: usize = 64;

/// Weights in panels, and a bias that is padded to whole panels.
pub(crate) struct PackedF32 {
    pub(crate) storage: Storage,
    pub(crate) bias: Vec<f32>,
    pub(crate) shape: WeightShape,
}

/// Storage format of packed weights.
pub(crate) enum Storage {
    F32(CachedWeights<f32>),
    /// f16 or bf16.
    F16(HalfFormat, CachedWeights<u32>),
    Fixed24(CachedWeights<u32>),
}

/// Left operand of a GEMM.
#[derive(Clone, Copy)]
pub(crate) struct GemmInput<'x> {
    pub(crate) x: &'x [f32],
    pub(crate) rows: usize,
    pub(crate) input_rows: InputRows<'x>,
    /// Zeros that stand in for taps in the padding.
    pub(crate) zeros: &'x [f32],
}

impl PackedF32 {
    /// Packs `weight(k, col)` of the given group of the filter.
    pub(crate) fn pack_with(
        packer: &WeightPacker<'_>,
        (layout, group): (PackedLayout, usize),
        shape: WeightShape,
        weight: impl Fn(usize, usize) -> f32,
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let isa = Isa::best();
        let WeightShape { inner, cols } = shape;
        let len = packed_len(isa, shape).ok_or(TENSOR_TOO_LARGE)?;
        let weights = packer.get_or_pack(layout, &[group, inner, cols], len, |to| {
            pack(isa, shape, &weight, to);
            Ok(())
        })?;
        Self::new(packer, Storage::F32(weights), shape, bias)
    }

    /// Packs the contiguous columns of a `[cols, inner]` filter that starts at `filter[first]`.
    pub(crate) fn pack_goi(
        packer: &WeightPacker<'_>,
        shape: WeightShape,
        first: usize,
        filter: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let isa = Isa::best();
        let WeightShape { inner, cols } = shape;
        let len = packed_len(isa, shape).ok_or(TENSOR_TOO_LARGE)?;
        let column = |col: usize| &filter[first + col * inner..][..inner];
        let weights =
            packer.get_or_pack(PackedLayout::F32Goi, &[first, inner, cols], len, |to| {
                pack_columns(isa, shape, column, to);
                Ok(())
            })?;
        Self::new(packer, Storage::F32(weights), shape, bias)
    }

    /// Packs the filter of a fully connected layer: in 16 bits if that is lossless, in 24 bits if
    /// the rounding error is small and the layer is large, otherwise in 32 bits.
    pub(crate) fn pack_fully_connected(
        packer: &WeightPacker<'_>,
        filter: FullyConnectedFilter<'_>,
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let FullyConnectedFilter { weights, transposed, shape, .. } = filter;
        let reduced = match filter.pack_f16(packer)? {
            None => filter.pack_fixed24(packer)?,
            storage => storage,
        };
        if let Some(storage) = reduced {
            Self::new(packer, storage, shape, bias)
        } else if transposed {
            let weight = |k: usize, col: usize| weights[k * shape.cols + col];
            Self::pack_with(packer, (PackedLayout::F32Gio, 0), shape, weight, bias)
        } else {
            Self::pack_goi(packer, shape, 0, weights, bias)
        }
    }

    fn new(
        packer: &WeightPacker<'_>,
        storage: Storage,
        shape: WeightShape,
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        Ok(Self { storage, bias: padded_bias(packer, shape.cols, bias)?, shape })
    }

    /// Panels of weights that are stored in 32 bits.
    pub(crate) fn f32_panels(&self) -> Result<&[f32], Error> {
        match &self.storage {
            Storage::F32(weights) => Ok(weights),
            Storage::F16(..) | Storage::Fixed24(_) => Err(SHAPE_MISMATCH),
        }
    }

    fn weights(&self) -> Result<PackedWeights<'_>, Error> {
        Ok(match &self.storage {
            Storage::F32(weights) => PackedWeights::F32(weights),
            Storage::F16(half, words) => PackedWeights::Half(*half, words),
            Storage::Fixed24(packed) => {
                let weights = Fixed24::new(Isa::best(), self.shape, packed);
                PackedWeights::Fixed24(weights.ok_or(SHAPE_MISMATCH)?)
            }
        })
    }

    fn igemm<'p>(&'p self, input: GemmInput<'p>, reverse_panels: bool) -> Result<Igemm<'p>, Error> {
        let GemmInput { x, rows, input_rows, zeros } = input;
        let taps = if let InputRows::Indirect { taps, .. } = input_rows { taps } else { 1 };
        let channels = self.shape.inner / taps.max(1);
        let (weights, cols) = (self.weights()?, self.shape.cols);
        Ok(Igemm { x, zeros, input_rows, rows, channels, weights, cols, reverse_panels })
    }

    /// Computes `activation(input * weights + bias)`.
    pub(crate) fn gemm(
        &self,
        cx: &mut RunContext<'_>,
        input: GemmInput<'_>,
        activation: Activation,
        out: OutputRows<'_, f32>,
    ) -> Result<(), Error> {
        let epilogue = BiasActivation { bias: &self.bias, activation };
        let igemm = self.igemm(input, cx.reverse_panels)?;
        let len = igemm.scratch_len(cx.isa, parallel::threads(cx.workers));
        let scratch = grow(&mut cx.scratch.floats, len, &mut cx.scratch.budget)?;
        igemm.run(cx.isa, epilogue, out, scratch, cx.workers).or(Err(SHAPE_MISMATCH))
    }

    /// As [`PackedF32::gemm`], for some rows of a larger product and without scratch memory. The
    /// weights must be stored in 32 bits.
    pub(crate) fn gemm_rows(
        &self,
        workers: Option<&dyn Workers>,
        input: GemmInput<'_>,
        activation: Activation,
        out: OutputRows<'_, f32>,
    ) -> Result<(), Error> {
        let epilogue = BiasActivation { bias: &self.bias, activation };
        let igemm = self.igemm(input, false)?;
        igemm.run(Isa::best(), epilogue, out, &mut [], workers).or(Err(SHAPE_MISMATCH))
    }
}

/// Filter of a fully connected layer.
#[derive(Clone, Copy)]
pub(crate) struct FullyConnectedFilter<'w> {
    pub(crate) weights: &'w [f32],
    /// True for `[inner, cols]`, false for `[cols, inner]`.
    pub(crate) transposed: bool,
    /// Input and output channels.
    pub(crate) shape: WeightShape,
    /// Upper bound of the input rows, as stated by the blob.
    pub(crate) max_rows: usize,
}

impl FullyConnectedFilter<'_> {
    /// Packs the weights in 16 bits; `None` if that would round one of them.
    fn pack_f16(&self, packer: &WeightPacker<'_>) -> Result<Option<Storage>, Error> {
        let Self { weights, transposed, shape, .. } = *self;
        let WeightShape { inner, cols } = shape;
        let isa = Isa::best();
        let Some(len) = HalfFormat::packed_len(isa, shape) else { return Ok(None) };
        let Some(half) = HalfFormat::exact_for(weights) else { return Ok(None) };
        let layout = if transposed { PackedLayout::F16Gio } else { PackedLayout::F16Goi };
        let words = packer.get_or_pack(layout, &[half as usize, inner, cols], len, |to| {
            let width = panel_cols(isa, cols);
            let len = to.len() / cols.div_ceil(width);
            let mut floats = vec![0.0; inner * width];
            let write = self.panel_writer();
            for (at, to) in to.chunks_exact_mut(len).enumerate() {
                write(at * width, &mut floats);
                half.pack(isa, &floats, to);
            }
            Ok(())
        })?;
        Ok(Some(Storage::F16(half, words)))
    }

    /// Packs the weights in 24 bits; `None` if that would round too much or not pay off.
    fn pack_fixed24(&self, packer: &WeightPacker<'_>) -> Result<Option<Storage>, Error> {
        let Self { transposed, shape, max_rows, .. } = *self;
        let WeightShape { inner, cols } = shape;
        let isa = Isa::best();
        let lens = (Fixed24::packed_len(isa, shape), packed_len(isa, shape));
        let (Some(len), Some(f32_len)) = lens else { return Ok(None) };
        let has_few_rows = (2..FIXED24_MIN_ROWS).contains(&max_rows);
        let is_small = f32_len < FIXED24_MIN_WEIGHTS || len >= f32_len;
        if isa.lanes() < FIXED24_MIN_LANES || is_small || has_few_rows {
            return Ok(None);
        }
        let layout = if transposed { PackedLayout::Fixed24Gio } else { PackedLayout::Fixed24Goi };
        let mut is_precise = true;
        let words = packer.get_or_pack(layout, &[inner, cols], len, |to| {
            let mut scratch = vec![0.0; Fixed24::scratch_len(isa, inner)];
            is_precise = Fixed24::pack(isa, shape, self.panel_writer(), &mut scratch, to);
            if is_precise { Ok(()) } else { Err(SHAPE_MISMATCH) }
        });
        if is_precise { Ok(Some(Storage::Fixed24(words?))) } else { Ok(None) }
    }

    /// Returns a function that writes the f32 panel that starts at a column.
    fn panel_writer(&self) -> impl Fn(usize, &mut [f32]) {
        let Self { weights, transposed, shape: WeightShape { inner, cols }, .. } = *self;
        let isa = Isa::best();
        let width = panel_cols(isa, cols);
        let (zeros, shape) = (vec![0.0; inner], WeightShape { inner, cols: width });
        move |first, to| {
            if transposed {
                let row = |k: usize| weights[k * cols..][..cols].get(first..).unwrap_or_default();
                let weight = |k: usize, col: usize| row(k).get(col).copied().unwrap_or(0.0);
                pack(isa, shape, weight, to);
            } else {
                let column = |col: usize| {
                    weights.get((first + col) * inner..).and_then(|all| all.get(..inner))
                };
                pack_columns(isa, shape, |col| column(col).unwrap_or(&zeros), to);
            }
        }
    }
}

/// Copies the bias, zero-padded to whole panels; `None` is a bias of zeros.
fn padded_bias(
    packer: &WeightPacker<'_>,
    cols: usize,
    bias: Option<&[f32]>,
) -> Result<Vec<f32>, Error> {
    let len = cols.next_multiple_of(panel_cols(Isa::best(), cols));
    packer.reserve::<f32>(len)?;
    let mut padded = vec![0.0; len];
    padded.iter_mut().zip(bias.unwrap_or_default()).for_each(|(to, from)| *to = *from);
    Ok(padded)
}
