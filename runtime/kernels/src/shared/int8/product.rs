//! Products of quantized rows and filters.

use afferent_core::{Error, KernelContext, TensorMut};

use super::requantize::{OutputRange, Requantizer};

#[cfg(any(test, all(afferent_dsp, not(afferent_mve))))]
mod dsp;
#[cfg(afferent_mve)]
mod mve;
#[cfg(any(test, not(afferent_dsp)))]
mod portable;

#[cfg(all(afferent_dsp, not(afferent_mve)))]
use dsp as path;
#[cfg(afferent_mve)]
use mve as path;
#[cfg(not(afferent_dsp))]
use portable as path;

/// Rows that are multiplied at once.
pub(crate) const ROWS: usize = path::ROWS;

/// Filters with one row of weights for each output channel.
pub(crate) struct Filters<'a> {
    /// Weights, row-major.
    pub(crate) weights: &'a [i8],
    /// Weights of one filter, at least one.
    pub(crate) len: usize,
    /// One number for each output channel.
    pub(crate) bias: Option<&'a [i32]>,
    pub(crate) scales: Scales<'a>,
    /// Added to each element of a row; at least -128 and at most 128.
    pub(crate) input_offset: i32,
    /// Added to each weight.
    pub(crate) filter_offset: i32,
    pub(crate) output: OutputRange,
}

/// Ratios of the scales of accumulators and outputs.
#[derive(Clone, Copy)]
pub(crate) enum Scales<'a> {
    PerTensor(Requantizer),
    PerChannel { multipliers: &'a [i32], shifts: &'a [i32] },
}

impl<'a> Filters<'a> {
    /// Number of filters.
    pub(crate) fn channels(&self) -> usize {
        self.weights.len().checked_div(self.len).unwrap_or_default()
    }

    /// The filters `start..end`.
    pub(crate) fn slice(&self, start: usize, end: usize) -> Self {
        let part = |all: &'a [i32]| all.get(start..end).unwrap_or_default();
        let weights = self.weights.get(start * self.len..end * self.len).unwrap_or_default();
        let scales = match self.scales {
            Scales::PerChannel { multipliers, shifts } => {
                Scales::PerChannel { multipliers: part(multipliers), shifts: part(shifts) }
            }
            per_tensor @ Scales::PerTensor(_) => per_tensor,
        };
        Self { weights, bias: self.bias.map(part), scales, ..*self }
    }

    /// Words of memory for packed rows.
    pub(crate) fn packed_words(&self) -> usize {
        path::packed_words(self.len)
    }

    /// Multiplies each row of `rows`, which lie one after the other, with all filters. The products
    /// of the first row go to consecutive elements of `out` from number `target`, those of each next
    /// row `step` elements further.
    #[inline(never)]
    pub(crate) fn multiply(
        &self,
        rows: &[i8],
        target: usize,
        step: usize,
        out: &mut [i8],
        packed: &mut [u32],
    ) {
        #[cfg(afferent_mve)]
        {
            let _ = packed;
            path::multiply(self, rows, target, step, out);
        }
        #[cfg(not(afferent_mve))]
        self.multiply_blocks(rows, target, step, out, packed);
    }

    /// As [`Filters::multiply`], by arrays of rows.
    #[cfg(not(afferent_mve))]
    #[inline(always)]
    fn multiply_blocks(
        &self,
        rows: &[i8],
        mut target: usize,
        step: usize,
        out: &mut [i8],
        packed: &mut [u32],
    ) {
        let len = self.len.max(1);
        for block in rows.chunks((ROWS * len).max(1)) {
            // The last row of a smaller block repeats.
            let last = (block.len() / len).saturating_sub(1);
            let row = |row: usize| {
                let start = row.min(last) * len;
                block.get(start..start + len).unwrap_or_default()
            };
            let targets = core::array::from_fn(|row| target + row.min(last) * step);
            path::multiply(self, core::array::from_fn(row), targets, out, packed);
            target += ROWS * step;
        }
    }

    #[cfg(any(test, not(afferent_mve)))]
    #[inline]
    fn bias(&self, channel: usize) -> i32 {
        let bias = self.bias.and_then(|bias| bias.get(channel));
        bias.copied().unwrap_or_default()
    }

    #[cfg(any(test, not(afferent_mve)))]
    #[inline]
    fn requantizer(&self, channel: usize) -> Requantizer {
        match self.scales {
            Scales::PerTensor(requantizer) => requantizer,
            Scales::PerChannel { multipliers, shifts } => {
                let at = |numbers: &[i32]| numbers.get(channel).copied().unwrap_or_default();
                Requantizer::new(at(multipliers), at(shifts))
            }
        }
    }

    /// Product of the filter offset and the sum of a row.
    #[inline]
    fn row_bias(&self, row: &[i8]) -> i32 {
        if self.filter_offset == 0 {
            return 0;
        }
        let add = |sum: i32, &x: &i8| sum.wrapping_add(i32::from(x) + self.input_offset);
        row.iter().fold(0, add).wrapping_mul(self.filter_offset)
    }
}

/// Scratch memory of `words` words: `tensor`, which the program planned for it, or that of the
/// context if the tensor is too small.
pub(crate) fn scratch<'s>(
    cx: &'s mut KernelContext<'_>,
    tensor: &'s mut TensorMut<'_, '_>,
    words: usize,
) -> Result<&'s mut [u32], Error> {
    let bytes = tensor.bytes_mut()?;
    let skip = bytes.as_ptr().align_offset(align_of::<u32>());
    let planned = words.checked_mul(4).and_then(|len| bytes.get_mut(skip..skip.checked_add(len)?));
    match planned.map(bytemuck::try_cast_slice_mut) {
        Some(Ok(memory)) => Ok(memory),
        _ => cx.scratch(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies two rows by the definition.
    fn expected(filters: &Filters<'_>, row: &[i8]) -> Vec<i8> {
        let filter = |(channel, weights): (usize, &[i8])| {
            let products = row.iter().zip(weights).map(|(&x, &w)| {
                (i32::from(x) + filters.input_offset) * (i32::from(w) + filters.filter_offset)
            });
            let sum = products.fold(filters.bias(channel), i32::wrapping_add);
            filters.output.quantize(filters.requantizer(channel).apply(sum))
        };
        filters.weights.chunks(filters.len).enumerate().map(filter).collect()
    }

    type Multiply = fn(&Filters<'_>, [&[i8]; 2], [usize; 2], &mut [i8], &mut [u32]);

    #[track_caller]
    fn check(len: usize, channels: usize, offsets: [i32; 2], run: Multiply) {
        let numbers: Vec<i8> = (0..len * (channels + 2))
            .map(|at| ((at * at * 31 + at * 7) % 251) as u8 as i8)
            .collect();
        let (rows, weights) = numbers.split_at(2 * len);
        let (first, second) = rows.split_at(len);
        let bias: Vec<i32> = (0..channels as i32).map(|at| at * 1000 - 1500).collect();
        let multipliers: Vec<i32> = (0..channels as i32).map(|at| (1 << 30) + at * 12345).collect();
        let shifts: Vec<i32> = (0..channels as i32).map(|at| -8 - at % 3).collect();
        let filters = Filters {
            weights,
            len,
            bias: Some(&bias),
            scales: Scales::PerChannel { multipliers: &multipliers, shifts: &shifts },
            input_offset: offsets[0],
            filter_offset: offsets[1],
            output: OutputRange { zero_point: 3, min: -120, max: 125 },
        };
        let mut out = vec![0; 2 * channels];
        let mut packed = vec![0; dsp::packed_words(len).max(portable::packed_words(len))];
        run(&filters, [first, second], [channels, 0], &mut out, &mut packed);
        assert_eq!(out[channels..], expected(&filters, first), "{len} {channels} {offsets:?}");
        assert_eq!(out[..channels], expected(&filters, second), "{len} {channels} {offsets:?}");
        out.fill(0);
        run(&filters, [first, first], [0, 0], &mut out, &mut packed);
        assert_eq!(out[..channels], expected(&filters, first), "{len} {channels}: one row");
    }

    #[test]
    fn paths_agree_with_the_definition() {
        for len in [1, 3, 4, 7, 8, 9, 12, 40, 65] {
            for channels in [1, 2, 3, 8] {
                for offsets in [[0, 0], [128, 0], [-127, 0], [5, -3]] {
                    check(len, channels, offsets, portable::multiply);
                    check(len, channels, offsets, dsp::multiply);
                }
            }
        }
    }
}
