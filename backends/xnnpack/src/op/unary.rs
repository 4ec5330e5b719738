//! Unary elementwise operators, f32.
//!
//! Tolerance: a few ulp.

use afferent_core::Error;
use afferent_simd::{
    Float, Isa, Mask, Simd,
    math::{self, Function},
};

use crate::{
    operator::{Input, Operator, RunContext, output_as, unary_input},
    subgraph::{UNCLAMPED, UnaryOperator},
};

pub(crate) struct Unary {
    pub(crate) operator: UnaryOperator,
    pub(crate) clamp: (f32, f32),
}

impl Operator for Unary {
    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (from, to) = (unary_input(inputs)?.data::<f32>()?, output_as::<f32>(out)?);
        compute_unary(cx.isa, self.operator, self.clamp, from, to);
        Ok(())
    }
}

/// Applies an operator and clamps the results.
pub(crate) fn compute_unary(
    isa: Isa,
    operator: UnaryOperator,
    clamp: (f32, f32),
    from: &[f32],
    to: &mut [f32],
) {
    /// Scalar loop, compiled for the instruction set.
    macro_rules! map {
        ($f:expr) => {
            isa.call(|| from.iter().zip(&mut *to).for_each(|(x, to)| *to = $f(*x)))
        };
    }
    match operator {
        UnaryOperator::Abs => map!(f32::abs),
        UnaryOperator::Ceiling => map!(f32::ceil),
        UnaryOperator::Clamp | UnaryOperator::Copy => to.copy_from_slice(from),
        UnaryOperator::Cosine => map!(libm::cosf),
        UnaryOperator::Elu(alpha) => math::map(isa, Elu { alpha }, from, to),
        UnaryOperator::Exp => math::map(isa, math::Exp, from, to),
        UnaryOperator::Floor => map!(f32::floor),
        UnaryOperator::Gelu => math::map(isa, math::Gelu, from, to),
        UnaryOperator::Hardswish => math::map(isa, math::Hardswish, from, to),
        UnaryOperator::LeakyRelu(slope) => map!(|x| if x < 0.0 { x * slope } else { x }),
        UnaryOperator::Log => math::map(isa, math::Ln, from, to),
        UnaryOperator::Negate => map!(|x: f32| -x),
        UnaryOperator::ReciprocalSquareRoot => map!(|x: f32| 1.0 / x.sqrt()),
        UnaryOperator::Sigmoid => math::map(isa, math::Sigmoid, from, to),
        UnaryOperator::Silu => math::map(isa, math::Silu, from, to),
        UnaryOperator::Sine => map!(libm::sinf),
        UnaryOperator::Square => map!(|x| x * x),
        UnaryOperator::SquareRoot => map!(f32::sqrt),
        UnaryOperator::Tanh => math::map(isa, math::Tanh, from, to),
    }
    clamp_slice(isa, clamp, to);
}

/// Clamps numbers; NaN stays NaN.
pub(crate) fn clamp_slice(isa: Isa, (low, high): (f32, f32), data: &mut [f32]) {
    if (low, high) != UNCLAMPED {
        isa.call(|| {
            for x in data {
                let bounded = if *x < low { low } else { *x };
                *x = if bounded > high { high } else { bounded };
            }
        });
    }
}

/// `x < 0 ? alpha * (exp(x) - 1) : x`.
#[derive(Clone, Copy)]
struct Elu {
    alpha: f32,
}

impl Function for Elu {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::F32) -> S::F32 {
        let one = simd.splat(1.0);
        let below = (math::exp(simd, x) - one) * simd.splat(self.alpha);
        // The difference cancels near zero: use the series x + x²/2 + x³/6 there.
        let series = x * x.mul_add(x.mul_add(simd.splat(1.0 / 6.0), simd.splat(0.5)), one);
        let is_small = x.abs().lt(simd.splat(0.02));
        let below = is_small.select(series * simd.splat(self.alpha), below);
        x.lt(simd.zero()).select(below, x)
    }
}
