//! Sizes and positions of upsampled pictures.

use afferent_core::{Args, Error};

use crate::shared::{accumulator::Float, pooling::spatial_sizes};

/// Height and width of the result, and the factors given for them, if any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputSize {
    pub(crate) sizes: [usize; 2],
    pub(crate) factors: [Option<f64>; 2],
}

impl OutputSize {
    /// The target of a call with the input at 0, the output size at 1, and factors at `factors`.
    pub(crate) fn new(args: &Args<'_>, factors: u8) -> Result<Self, Error> {
        let [_, input @ ..] = spatial_sizes(args.tensor(0)?.sizes(), 2, 0)?;
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let scale = args.opt_double_list(usize::from(factors))?;
        let (sizes, factors) = match (args.opt_int_list(1)?, scale) {
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
                let (rows, columns) = sizes.ok_or(wrong(factors, "positive factors"))?;
                ([rows, columns], [Some(height), Some(width)])
            }
            _ => return Err(wrong(factors, "either two sizes or two factors")),
        };
        if sizes.contains(&0) {
            return Err(wrong(0, "pictures that are not empty, also afterwards"));
        }
        Ok(Self { sizes, factors })
    }

    /// Input elements for each output element along `dim`, which has `input`.
    pub(crate) fn step<A: Float>(&self, dim: usize, input: usize) -> A {
        match self.factors[dim].filter(|&factor| factor > 0.0) {
            Some(factor) => A::from_double(1.0 / factor),
            None => A::from_double(input as f64) / A::from_double(self.sizes[dim] as f64),
        }
    }
}
