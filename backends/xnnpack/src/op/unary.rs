//! Functions of one number, and softmax along the last dimension.
//!
//! Tolerance: a few units in the last place.

use afferent_core::Error;
use afferent_simd::{
    Float, Isa, Mask, Simd,
    math::{self, Function},
    softmax::{Axis, softmax},
};

use super::{Cx, Input, Op, elements, only};
use crate::{
    graph::{OPEN, Unary},
    shape::{Room, Shape},
};

/// A function of one number, within bounds.
pub(crate) struct Map {
    pub(crate) function: Unary,
    pub(crate) clamp: (f32, f32),
}

impl Op for Map {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        only(inputs).copied()
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (from, to) = (only(inputs)?.data::<f32>()?, elements::<f32>(out)?);
        map(cx.isa, self.function, self.clamp, from, to);
        Ok(())
    }
}

/// Applies the function and its bounds.
pub(crate) fn map(isa: Isa, function: Unary, clamp: (f32, f32), from: &[f32], to: &mut [f32]) {
    /// An ordinary loop, compiled for the instruction set.
    macro_rules! each {
        ($f:expr) => {
            isa.call(|| from.iter().zip(&mut *to).for_each(|(x, to)| *to = $f(*x)))
        };
    }
    match function {
        Unary::Abs => each!(f32::abs),
        Unary::Ceiling => each!(f32::ceil),
        Unary::Clamp | Unary::Copy => to.copy_from_slice(from),
        Unary::Cos => each!(libm::cosf),
        Unary::Elu(alpha) => math::map(isa, Elu(alpha), from, to),
        Unary::Exp => math::map(isa, math::Exp, from, to),
        Unary::Floor => each!(f32::floor),
        Unary::Gelu => math::map(isa, math::Gelu, from, to),
        Unary::Hardswish => math::map(isa, math::Hardswish, from, to),
        Unary::LeakyRelu(slope) => each!(|x| if x < 0.0 { x * slope } else { x }),
        Unary::Log => math::map(isa, math::Ln, from, to),
        Unary::Negate => each!(|x: f32| -x),
        Unary::ReciprocalSquareRoot => each!(|x: f32| 1.0 / x.sqrt()),
        Unary::Sigmoid => math::map(isa, math::Sigmoid, from, to),
        Unary::Silu => math::map(isa, math::Silu, from, to),
        Unary::Sin => each!(libm::sinf),
        Unary::Square => each!(|x| x * x),
        Unary::SquareRoot => each!(f32::sqrt),
        Unary::Tanh => math::map(isa, math::Tanh, from, to),
    }
    bound(isa, clamp, to);
}

/// Keeps numbers within bounds; NaN stays.
pub(crate) fn bound(isa: Isa, (low, high): (f32, f32), data: &mut [f32]) {
    if (low, high) != OPEN {
        isa.call(|| {
            for x in data {
                let bounded = if *x < low { low } else { *x };
                *x = if bounded > high { high } else { bounded };
            }
        });
    }
}

#[derive(Clone, Copy)]
struct Elu(f32);

impl Function for Elu {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::F32) -> S::F32 {
        let one = simd.splat(1.0);
        let below = (math::exp(simd, x) - one) * simd.splat(self.0);
        // Near zero the difference would lose its digits: x + x²/2 + x³/6.
        let series = x * x.mul_add(x.mul_add(simd.splat(1.0 / 6.0), simd.splat(0.5)), one);
        let near = x.abs().lt(simd.splat(0.02));
        let below = near.select(series * simd.splat(self.0), below);
        x.lt(simd.zero()).select(below, x)
    }
}

/// Softmax along the last dimension.
pub(crate) struct Softmax;

impl Op for Softmax {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        only(inputs).copied()
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let (from, to) = (input.data::<f32>()?, elements::<f32>(out)?);
        let len = input.shape.last().copied().unwrap_or(1);
        if len > 0 && !from.is_empty() {
            softmax(cx.isa, Axis { outer: from.len() / len, len, inner: 1 }, from, to);
        }
        Ok(())
    }
}
