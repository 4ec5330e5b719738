//! Functions of integers of 8 bits that need no numbers in memory: sums and products of two
//! tensors, means over pictures, tables of functions, conversions from and to numbers.
//!
//! Tolerance: one quantum of the result.

use afferent_core::Error;
use afferent_simd::{Isa, lut::lookup};

use super::{
    Cx, Input, Op,
    binary::{Combine, Each, operands},
    both, elements, only,
    pool::GlobalMean,
    quantise::{rounded, to_bytes, within},
    quantised::to_integer,
    some,
    unary::map,
};
use crate::{
    graph::{Binary, Unary},
    shape::{MISFIT, Room, Shape, TOO_LARGE},
};

/// What an integer stands for: its scale, and what zero is stored as.
pub(crate) type Quantum = (f32, i32);

/// Integers as results have them: their quantum, and bounds of the integers.
#[derive(Clone, Copy)]
pub(crate) struct Rounded {
    pub(crate) quantum: Quantum,
    /// With the zero point.
    pub(crate) bounds: (f32, f32),
}

/// The sum, difference or product of two tensors.
pub(crate) struct Pairs {
    pub(crate) combine: Combine,
    pub(crate) function: Binary,
    pub(crate) from: [Quantum; 2],
    pub(crate) to: Rounded,
}

impl Op for Pairs {
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error> {
        self.combine.shape(inputs, room)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let [a, b] = both(inputs)?;
        let (a, b) = (a.data::<i8>()?, b.data::<i8>()?);
        let [(p, zero_a), (q, zero_b)] = self.from;
        let (scale, zero) = self.to.quantum;
        let (zero_a, zero_b, zero) = (zero_a as f32, zero_b as f32, zero as f32);
        let (low, high) = self.to.bounds;
        let finish = move |x: f32| rounded(within(x, low, high), 0.0);
        operands(&self.combine, a, b, elements::<i8>(out)?, |a, b, out| {
            if self.function == Binary::Multiply {
                let factor = p * q / scale;
                let one = move |a: i8, b: i8| {
                    finish((f32::from(a) - zero_a) * (f32::from(b) - zero_b) * factor + zero)
                };
                return cx.isa.run(Each { a, b, out, f: one });
            }
            let sign = if self.function == Binary::Subtract { -1.0 } else { 1.0 };
            let (p, q) = (p / scale, sign * q / scale);
            if let Some(sum) = FixedSum::of([(p, self.from[0].1), (q, self.from[1].1)]) {
                let zero = self.to.quantum.1;
                let (low, high) = (low as i32, high as i32);
                // Bounds come from the blob, and may stand the wrong way round.
                let one = move |a: i8, b: i8| {
                    let sum = sum.of_pair(i32::from(a), i32::from(b));
                    (sum + zero).max(low).min(high) as i8
                };
                return cx.isa.run(Each { a, b, out, f: one });
            }
            let rest = zero - p * zero_a - q * zero_b;
            let one = move |a: i8, b: i8| finish(f32::from(a) * p + f32::from(b) * q + rest);
            cx.isa.run(Each { a, b, out, f: one });
        })
    }
}

/// A sum of two integers times factors, in numbers of a fixed point.
///
/// Factors have 21 binary digits, and halves are rounded up, so that the result is that of XNNPACK:
/// a sum that is off by one makes results two quanta off some convolutions later.
#[derive(Clone, Copy)]
struct FixedSum {
    factors: [i32; 2],
    /// Half of one, less what zeros are stored as.
    start: i32,
    digits: u32,
}

impl FixedSum {
    /// Of factors and what zero is stored as; `None` when they are too far from one.
    fn of(operands: [(f32, i32); 2]) -> Option<Self> {
        let largest = operands[0].0.abs().max(operands[1].0.abs());
        if !(2.0_f32.powi(-10)..2.0_f32.powi(8)).contains(&largest) {
            return None;
        }
        let digits = 20 + 127 - (largest.to_bits() >> 23);
        let factor = |x: f32| (f64::from(x) * f64::from(1_u32 << digits)).round_ties_even() as i32;
        let factors = operands.map(|(x, _)| factor(x));
        let zeros = factors[0] * operands[0].1 + factors[1] * operands[1].1;
        Some(Self { factors, start: (1 << (digits - 1)) - zeros, digits })
    }

    #[inline(always)]
    fn of_pair(self, a: i32, b: i32) -> i32 {
        (self.start + a * self.factors[0] + b * self.factors[1]) >> self.digits
    }
}

/// The most pixels of a picture whose integers are summed up in 32 bits.
const MOST_PIXELS: usize = 1 << 24;

/// The mean of each channel of a picture of at most `MOST_PIXELS`.
pub(crate) struct Mean {
    pub(crate) inner: GlobalMean,
    pub(crate) from: Quantum,
    pub(crate) to: Rounded,
}

impl Op for Mean {
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error> {
        let [_, height, width, _] = only(inputs)?.picture()?;
        if height.saturating_mul(width) > MOST_PIXELS {
            return Err(TOO_LARGE);
        }
        self.inner.shape(inputs, room)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let [_, height, width, channels] = input.shape.picture()?;
        let (x, out) = (input.data::<i8>()?, elements::<i8>(out)?);
        let (len, pixels) = (height * width * channels, height * width);
        if out.is_empty() {
            return Ok(());
        }
        if len == 0 {
            return Err(MISFIT);
        }
        let (scale, zero) = self.to.quantum;
        let factor = self.from.0 / (scale * pixels as f32);
        let start = -(self.from.1 as f32) * pixels as f32;
        let (low, high) = self.to.bounds;
        let sums = some(&mut cx.scratch.words, channels, &mut cx.scratch.room)?;
        for (x, out) in x.chunks_exact(len).zip(out.chunks_exact_mut(channels)) {
            sums.fill(0);
            cx.isa.call(|| {
                for x in x.chunks_exact(channels) {
                    x.iter().zip(&mut *sums).for_each(|(x, sum)| *sum += i32::from(*x));
                }
                for (sum, out) in sums.iter().zip(&mut *out) {
                    let value = (*sum as f32 + start) * factor + zero as f32;
                    *out = rounded(within(value, low, high), 0.0);
                }
            });
        }
        Ok(())
    }
}

/// Integers within bounds.
pub(crate) struct Bounded {
    pub(crate) low: i8,
    pub(crate) high: i8,
}

impl Op for Bounded {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        only(inputs).copied()
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (x, out) = (only(inputs)?.data::<i8>()?, elements::<i8>(out)?);
        let (low, high) = (self.low, self.high);
        cx.isa.call(|| x.iter().zip(out).for_each(|(x, to)| *to = (*x).max(low).min(high)));
        Ok(())
    }
}

/// A function of one number, as a table of its results.
pub(crate) struct Table {
    /// Of the integer with the same bits.
    results: [i8; 256],
}

impl Table {
    pub(crate) fn new(function: Unary, clamp: (f32, f32), from: Quantum, to: Quantum) -> Self {
        let numbers: [f32; 256] =
            std::array::from_fn(|at| (f32::from(at as u8 as i8) - from.1 as f32) * from.0);
        let mut results = [0.0; 256];
        map(Isa::best(), function, clamp, &numbers, &mut results);
        Self { results: results.map(|x| to_integer(x, to.0, to.1)) }
    }
}

impl Op for Table {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        only(inputs).copied()
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        lookup(cx.isa, &self.results, only(inputs)?.data()?, elements(out)?);
        Ok(())
    }
}

/// Numbers as integers.
pub(crate) struct Quantise {
    pub(crate) to: Rounded,
}

impl Op for Quantise {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        only(inputs).copied()
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (x, out) = (only(inputs)?.data::<f32>()?, elements::<i8>(out)?);
        let (scale, zero_point) = self.to.quantum;
        cx.isa.call(|| to_bytes(x, (1.0 / scale, zero_point as f32), self.to.bounds, out));
        Ok(())
    }
}

/// Integers as numbers.
pub(crate) struct Dequantise {
    pub(crate) from: Quantum,
}

impl Op for Dequantise {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        only(inputs).copied()
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (x, out) = (only(inputs)?.data::<i8>()?, elements::<f32>(out)?);
        let (scale, zero_point) = (self.from.0, self.from.1 as f32);
        cx.isa.call(|| {
            x.iter().zip(out).for_each(|(x, to)| *to = (f32::from(*x) - zero_point) * scale);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_whose_sums_could_wrap_are_refused() {
        let inner = GlobalMean { keeps_dims: false, clamp: (-1.0, 1.0) };
        let to = Rounded { quantum: (1.0, 0), bounds: (-128.0, 127.0) };
        let mut mean = Mean { inner, from: (1.0, 0), to };
        let mut shape =
            |side: usize| mean.shape(&[Shape::of([1, side, side, 1])], &mut Room::of(usize::MAX));
        assert_eq!(shape(4096), Ok(Shape::of([1, 1])));
        assert_eq!(shape(4097), Err(TOO_LARGE));
    }
}
