//! Arguments that convolutions have in common.

use afferent_core::{Args, Error};

use super::{
    arguments::{int32, invalid, parameters},
    product::{Filters, Scales},
    requantize::{OutputRange, Requantizer},
};

/// Bias, offsets and scales of a convolution.
pub(crate) struct PerChannel<'a> {
    pub(crate) bias: Option<&'a [i32]>,
    pub(crate) multipliers: &'a [i32],
    pub(crate) shifts: &'a [i32],
    pub(crate) input_offset: i32,
    /// Zero point of the input.
    pub(crate) zero: i8,
    pub(crate) range: OutputRange,
}

impl<'a> PerChannel<'a> {
    /// Bias at argument 2; at `index` and after: input offset, output offset, multipliers, shifts,
    /// minimum, maximum.
    pub(crate) fn from_args(args: &Args<'a>, index: u8, channels: usize) -> Result<Self, Error> {
        let at = usize::from(index);
        let bias = match args.opt_tensor(2)? {
            Some(bias) => Some(parameters(bias, 2, channels)?),
            None => None,
        };
        let input_offset = int32(args, at)?;
        let zero = i8::try_from(-i64::from(input_offset));
        let zero = zero.map_err(|_| invalid(at, "an offset of -127 to 128"))?;
        Ok(Self {
            bias,
            multipliers: parameters(args.tensor(at + 2)?, index + 2, channels)?,
            shifts: parameters(args.tensor(at + 3)?, index + 3, channels)?,
            input_offset,
            zero,
            range: OutputRange::from_args(args, int32(args, at + 1)?, at + 4, at + 5)?,
        })
    }

    /// Filters of `len` weights each.
    pub(crate) fn filters(&self, weights: &'a [i8], len: usize) -> Filters<'a> {
        let scales = Scales::PerChannel { multipliers: self.multipliers, shifts: self.shifts };
        Filters {
            weights,
            len,
            bias: self.bias,
            scales,
            input_offset: self.input_offset,
            filter_offset: 0,
            output: self.range,
        }
    }

    /// Bias of output channel `channel`.
    #[inline]
    pub(crate) fn bias(&self, channel: usize) -> i32 {
        let bias = self.bias.and_then(|bias| bias.get(channel));
        bias.copied().unwrap_or_default()
    }

    /// Requantizes the sum of output channel `channel`, which contains the bias.
    #[inline]
    pub(crate) fn quantize(&self, channel: usize, sum: i32) -> i8 {
        let at = |numbers: &[i32]| numbers.get(channel).copied().unwrap_or_default();
        let requantizer = Requantizer::new(at(self.multipliers), at(self.shifts));
        self.range.quantize(requantizer.apply(sum))
    }

    /// Requantizes the sums of the four output channels of group `group`, without the bias.
    #[inline]
    pub(crate) fn quantize_four(&self, group: usize, sums: [i32; 4], out: &mut [i8; 4]) {
        let of_group = |all: &[i32]| all.as_chunks::<4>().0.get(group).copied().unwrap_or_default();
        let bias = self.bias.map_or([0; 4], of_group);
        let (multipliers, shifts) = (of_group(self.multipliers), of_group(self.shifts));
        for at in 0..4 {
            let requantizer = Requantizer::new(multipliers[at], shifts[at]);
            out[at] = self.range.quantize(requantizer.apply(sums[at].wrapping_add(bias[at])));
        }
    }
}
