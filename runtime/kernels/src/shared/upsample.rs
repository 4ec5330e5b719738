//! Output sizes and scales of 2-D upsampling.

use afferent_core::{Args, Error};

use crate::shared::{accumulator::Float, pooling::spatial_sizes};

/// Output height and width, and the scale factors if they are given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputSize {
    pub(crate) sizes: [usize; 2],
    pub(crate) scale_factors: [Option<f64>; 2],
}

impl OutputSize {
    /// Reads the output size from argument 1 or the scale factors from argument `factors_index`.
    /// The input is argument 0.
    pub(crate) fn new(args: &Args<'_>, factors_index: u8) -> Result<Self, Error> {
        let [_, input @ ..] = spatial_sizes(args.tensor(0)?.sizes(), 2, 0)?;
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let factors = args.opt_double_list(usize::from(factors_index))?;
        let (sizes, scale_factors) = match (args.opt_int_list(1)?, factors) {
            (Some(list), None) => {
                let sizes = list.to_dims().ok_or(wrong(1, "a height and a width"))?;
                let &[height, width] = &*sizes else {
                    return Err(wrong(1, "a height and a width"));
                };
                ([height, width], [None; 2])
            }
            (None, Some(&[height, width])) => {
                let size = |input: usize, factor: f64| {
                    let size = input as f64 * factor;
                    (0.0..9e15).contains(&size).then_some(size as usize)
                };
                let sizes = size(input[0], height).zip(size(input[1], width));
                let (rows, columns) =
                    sizes.ok_or(wrong(factors_index, "positive scale factors"))?;
                ([rows, columns], [Some(height), Some(width)])
            }
            _ => return Err(wrong(factors_index, "two scale factors, or none and an output size")),
        };
        if sizes.contains(&0) {
            return Err(wrong(0, "sizes that give a non-empty output"));
        }
        Ok(Self { sizes, scale_factors })
    }

    /// Input pixels per output pixel in `dim`, 0 for height and 1 for width, with input size
    /// `input`.
    pub(crate) fn scale<A: Float>(&self, dim: usize, input: usize) -> A {
        match self.scale_factors[dim].filter(|&factor| factor > 0.0) {
            Some(factor) => A::from_double(1.0 / factor),
            None => A::from_double(input as f64) / A::from_double(self.sizes[dim] as f64),
        }
    }
}
