//! Elementwise functions of `f32` vectors.
//!
//! Errors are in ulp against the exact value, with and without fused multiply-add. Infinities, NaN,
//! zeros and subnormal numbers give the results of `libm`. Coefficients are minimax fits.
//!
//! | function    | maximum error | function                           | maximum error            |
//! |-------------|---------------|------------------------------------|--------------------------|
//! | [`exp`]     | 1.5 ulp       | [`tanh`]                           | 6 ulp, as XNNPACK        |
//! | [`ln`]      | 1.5 ulp       | [`erf`]                            | 2 ulp                    |
//! | [`log10`]   | 1.5 ulp       | [`hypot`]                          | 1.5 ulp                  |
//! | [`sigmoid`] | 3 ulp         | [`gelu`], [`gelu_tanh`], [`silu`]  | 3e-7 · (1 + \|x\|)       |
//! | [`pow`]     | 0.51 ulp      |                                    |                          |

mod pow;

use core::f32::consts::LOG2_E;

pub use pow::pow;

use crate::{Float, Int, Isa, Mask, Routine, Simd};

/// An elementwise function.
pub trait Function: Copy {
    /// Applies the function to a vector. Implementations are `#[inline(always)]`.
    fn apply<S: Simd>(self, simd: S, x: S::F32) -> S::F32;
}

macro_rules! functions {
    ($($name:ident: $function:ident, $docs:literal;)*) => {
        $(
            #[doc = $docs]
            #[derive(Clone, Copy)]
            pub struct $name;

            impl Function for $name {
                #[inline(always)]
                fn apply<S: Simd>(self, simd: S, x: S::F32) -> S::F32 {
                    $function(simd, x)
                }
            }
        )*
    };
}

functions! {
    Exp: exp, "[`exp`]";
    Ln: ln, "[`ln`]";
    Log10: log10, "[`log10`]";
    Tanh: tanh, "[`tanh`]";
    Sigmoid: sigmoid, "[`sigmoid`]";
    Erf: erf, "[`erf`]";
    Gelu: gelu, "[`gelu`]";
    GeluTanh: gelu_tanh, "[`gelu_tanh`]";
    Hardswish: hardswish, "[`hardswish`]";
    Silu: silu, "[`silu`]";
}

/// Writes `function(x[i])` to `out[i]`, up to the length of the shorter slice.
pub fn map(isa: Isa, function: impl Function, x: &[f32], out: &mut [f32]) {
    isa.run(Map { function, x, out });
}

struct Map<'a, F> {
    function: F,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl<F: Function> Routine for Map<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let len = self.x.len().min(self.out.len());
        let (x, out) = (&self.x[..len], &mut self.out[..len]);
        let whole = len - len % S::LANES;
        let (vectors, rest) = out.split_at_mut(whole);
        for (x, out) in x.chunks_exact(S::LANES).zip(vectors.chunks_exact_mut(S::LANES)) {
            simd.store(self.function.apply(simd, simd.load(x)), out);
        }
        if !rest.is_empty() {
            let last = self.function.apply(simd, simd.load_partial(&x[whole..]));
            simd.store_partial(last, rest);
        }
    }
}

/// Writes `silu(a[i]) * b[i]` to `out[i]` (SwiGLU gate), up to the length of the shortest slice.
pub fn silu_mul(isa: Isa, a: &[f32], b: &[f32], out: &mut [f32]) {
    isa.run(MapPairs { function: SiluMul, a, b, out });
}

/// Writes the length of the vector `(a[i], b[i])` to `out[i]`, up to the length of the shortest slice.
/// Nothing overflows or vanishes in between. An infinite element gives infinity, also beside NaN.
pub fn hypot(isa: Isa, a: &[f32], b: &[f32], out: &mut [f32]) {
    isa.run(MapPairs { function: Hypot, a, b, out });
}

/// An elementwise function of two vectors.
trait PairFunction: Copy {
    /// Applies the function. Implementations are `#[inline(always)]`.
    fn apply<S: Simd>(self, simd: S, a: S::F32, b: S::F32) -> S::F32;
}

#[derive(Clone, Copy)]
struct SiluMul;

impl PairFunction for SiluMul {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, a: S::F32, b: S::F32) -> S::F32 {
        silu(simd, a) * b
    }
}

#[derive(Clone, Copy)]
struct Hypot;

impl PairFunction for Hypot {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, a: S::F32, b: S::F32) -> S::F32 {
        let (a, b) = (a.abs(), b.abs());
        // Scaled by a power of two, the larger one is between 1 and 2, or less if it is subnormal.
        let exponent = a.max(b).to_bits().shr::<23>() - simd.splat_i32(127);
        let zero = simd.splat_i32(0);
        let (x, y) = (a.mul_power_of_2(zero - exponent), b.mul_power_of_2(zero - exponent));
        let length = x.mul_add(x, y * y).sqrt().mul_power_of_2(exponent);
        let infinity = simd.splat(f32::INFINITY);
        (a.eq(infinity) | b.eq(infinity)).select(infinity, length)
    }
}

struct MapPairs<'a, F> {
    function: F,
    a: &'a [f32],
    b: &'a [f32],
    out: &'a mut [f32],
}

impl<F: PairFunction> Routine for MapPairs<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let len = self.a.len().min(self.b.len()).min(self.out.len());
        let (a, b, out) = (&self.a[..len], &self.b[..len], &mut self.out[..len]);
        let whole = len - len % S::LANES;
        let (vectors, rest) = out.split_at_mut(whole);
        let operands = a.chunks_exact(S::LANES).zip(b.chunks_exact(S::LANES));
        for ((a, b), out) in operands.zip(vectors.chunks_exact_mut(S::LANES)) {
            simd.store(self.function.apply(simd, simd.load(a), simd.load(b)), out);
        }
        if !rest.is_empty() {
            let (a, b) = (simd.load_partial(&a[whole..]), simd.load_partial(&b[whole..]));
            simd.store_partial(self.function.apply(simd, a, b), rest);
        }
    }
}

/// `c[0] + c[1] · x + c[2] · x² + …`, by Horner's method.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, x: S::F32, c: [f32; N]) -> S::F32 {
    let mut sum = simd.splat(c[N - 1]);
    for degree in (0..N - 1).rev() {
        sum = sum.mul_add(x, simd.splat(c[degree]));
    }
    sum
}

/// `|x|` with the sign of `sign`.
#[inline(always)]
fn with_sign<S: Simd>(simd: S, x: S::F32, sign: S::F32) -> S::F32 {
    let sign_bit = simd.splat_i32(i32::MIN);
    (x.abs().to_bits() | (sign.to_bits() & sign_bit)).bitcast()
}

/// eˣ.
///
/// Computed as 2ⁿ · eʳ, where n is the integer nearest to x / ln 2 and r = x - n · ln 2.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    // Results outside these bounds are zero or infinity. NaN passes through `min` and `max`.
    let x = simd.splat(89.0).min(simd.splat(-104.0).max(x));
    let n = (x * simd.splat(LOG2_E)).round_to_i32();
    let whole = n.to_f32();
    let r = whole.mul_add(simd.splat(-LN_2[0]), x);
    let r = whole.mul_add(simd.splat(-LN_2[1]), r);
    let c = [0.5, 0.166_665_18, 0.041_666_206, 0.008_368_947, 0.001_395_058_5];
    let e = polynomial(simd, r, c).mul_add(r * r, r) + simd.splat(1.0);
    e.mul_power_of_2(n)
}

/// Natural logarithm.
///
/// Computed as n · ln 2 + ln m, where x = m · 2ⁿ and m is between √½ and √2.
#[inline(always)]
pub fn ln<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let (n, f, rest) = split_log(simd, x);
    let rest = n.mul_add(simd.splat(LN_2[1]), rest);
    let rest = (f * f).mul_add(simd.splat(-0.5), rest);
    let y = n.mul_add(simd.splat(LN_2[0]), f + rest);
    log_limits(simd, x, y)
}

/// Base-10 logarithm.
///
/// Computed as n · log₁₀ 2 + ln m · log₁₀ e, where x = m · 2ⁿ and m is between √½ and √2. Both constants and ln m are
/// sums of a part with few digits, whose products are exact, and a rest.
#[inline(always)]
pub fn log10<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    const LOG10_2: [f32; 2] = [0.301_029_2, 7.903_415e-7];
    const LOG10_E: [f32; 2] = [0.434_326_17, -3.168_997e-5];
    let (n, f, rest) = split_log(simd, x);
    let half_square = f * f * simd.splat(0.5);
    // The upper digits of ln m.
    let high = (f - half_square).to_bits().shr::<12>().shl::<12>().bitcast();
    let low = f - high - half_square + rest;
    let y = n * simd.splat(LOG10_2[1]);
    let y = (low + high).mul_add(simd.splat(LOG10_E[1]), y);
    let y = low.mul_add(simd.splat(LOG10_E[0]), y);
    let y = high.mul_add(simd.splat(LOG10_E[0]), y);
    let y = n.mul_add(simd.splat(LOG10_2[0]), y);
    log_limits(simd, x, y)
}

/// n, f and r for a logarithm: x = (1 + f) · 2ⁿ with 1 + f between √½ and √2, and
/// ln (1 + f) = f - f² / 2 + r.
#[inline(always)]
fn split_log<S: Simd>(simd: S, x: S::F32) -> (S::F32, S::F32, S::F32) {
    const SQRT_HALF_BITS: i32 = 0x3f35_04f3; // √½
    let zero = simd.zero();
    let is_small = x.lt(simd.splat(f32::MIN_POSITIVE));
    let scaled = is_small.select(x * simd.splat(8_388_608.0), x);
    let bits = scaled.to_bits();
    let n = (bits - simd.splat_i32(SQRT_HALF_BITS)).shr::<23>();
    let m = (bits - n.shl::<23>()).bitcast();
    let n = n.to_f32() - is_small.select(simd.splat(23.0), zero);
    let f = m - simd.splat(1.0);
    let c = [
        0.333_333_1,
        -0.249_999_87,
        0.200_022_27,
        -0.166_692_48,
        0.142_186_67,
        -0.123_843_916,
        0.118_729_63,
        -0.117_895_59,
        0.069_150_97,
    ];
    let square = f * f;
    (n, f, polynomial(simd, f, c) * f * square)
}

/// The logarithm `y` of `x`, or the limit of a logarithm where `x` is zero, negative, infinite or NaN.
#[inline(always)]
fn log_limits<S: Simd>(simd: S, x: S::F32, y: S::F32) -> S::F32 {
    let zero = simd.zero();
    let y = x.eq(simd.splat(f32::INFINITY)).select(x, y);
    let y = x.eq(zero).select(simd.splat(f32::NEG_INFINITY), y);
    zero.le(x).select(y, simd.splat(f32::NAN))
}

/// `x` between `-bound` and `bound`; NaN stays NaN.
#[inline(always)]
fn clamp_magnitude<S: Simd>(simd: S, x: S::F32, bound: f32) -> S::F32 {
    simd.splat(bound).min(simd.splat(-bound).max(x))
}

/// `x · p(x²) / q(x²)` for `x` clamped to `±bound`, and the result clamped to ±1.
#[inline(always)]
fn saturating_rational<S: Simd, const P: usize, const Q: usize>(
    simd: S,
    x: S::F32,
    bound: f32,
    (p, q): ([f32; P], [f32; Q]),
) -> S::F32 {
    let x = clamp_magnitude(simd, x, bound);
    let square = x * x;
    let quotient = x * polynomial(simd, square, p) / polynomial(simd, square, q);
    clamp_magnitude(simd, quotient, 1.0)
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    let p = [1.0, 0.133_835_14, 0.003_498_542_1, 2.065_774_8e-5, 1.342_235e-8];
    let q = [1.0, 0.467_168_3, 0.025_888_22, 3.290_467_4e-4, 7.804_199_5e-7];
    // The quotient rounds to at least 1 here, and the exact value rounds to 1 from here on.
    const BOUND: f32 = 9.010_002;
    saturating_rational(simd, x, BOUND, (p, q))
}

/// `1 / (1 + e⁻ˣ)`.
#[inline(always)]
pub fn sigmoid<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    let one = simd.splat(1.0);
    // The exponential of a negative number cannot overflow.
    let e = exp(simd, -x.abs());
    x.lt(simd.zero()).select(e, one) / (one + e)
}

/// `x / (1 + e⁻ˣ)`.
#[inline(always)]
pub fn silu<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    x * sigmoid(simd, x)
}

/// Error function.
#[inline(always)]
pub fn erf<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    let small = [
        0.128_379_17,
        -0.376_126_35,
        0.112_836_964,
        -0.026_859_395,
        0.005_200_945,
        -8.140_963_6e-4,
        8.360_117_5e-5,
    ];
    let small = polynomial(simd, x * x, small).mul_add(x, x);
    // Above 4 the result is 1. NaN passes through `min`.
    let a = simd.splat(4.0).min(x.abs());
    // ln(1 - erf(a)) / a.
    let large = [
        -1.128_459_8,
        -0.636_124_97,
        -0.104_098_79,
        0.021_157_652,
        -0.001_722_163_2,
        -5.524_616_6e-4,
        2.288_213e-4,
        -3.606_610_7e-5,
        2.259_037_5e-6,
    ];
    let large = simd.splat(1.0) - exp(simd, polynomial(simd, a, large) * a);
    with_sign(simd, a.lt(simd.splat(0.927_7)).select(small, large), x)
}

/// `x / 2 · (1 + erf(x / √2))`.
#[inline(always)]
pub fn gelu<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    // erf(x / √2).
    let p =
        [0.797_884_5, 0.066_658_35, 0.009_288_971, 3.267_649_2e-4, 1.261_228_3e-5, 4.623_220_6e-8];
    let q = [1.0, 0.250_210_3, 0.028_344_352, 0.001_853_875_8, 7.185_084e-5, 1.204_745_3e-6];
    // The quotient rounds to at least 1 here, and the exact value rounds to 1 soon after.
    const BOUND: f32 = 5.5;
    let erf = saturating_rational(simd, x, BOUND, (p, q));
    let half = simd.splat(0.5) * x;
    half.mul_add(erf, half)
}

/// `x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.
#[inline(always)]
pub fn gelu_tanh<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let cube = simd.splat(0.044_715) * x * x * x;
    let tanh = tanh(simd, simd.splat(SQRT_2_OVER_PI) * (x + cube));
    let half = simd.splat(0.5) * x;
    half.mul_add(tanh, half)
}

/// `x / 6 · min(max(x + 3, 0), 6)`.
#[inline(always)]
pub fn hardswish<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    let gate = x + simd.splat(3.0);
    let gate = simd.splat(6.0).min(simd.zero().max(gate));
    x * gate * simd.splat(1.0 / 6.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares `function` with `exact` over the whole range of `f32`.
    #[track_caller]
    fn check(function: impl Function, exact: impl Fn(f64) -> f64, ulps: f64) {
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-45, -1e-45];
        let all = (0..u32::MAX - 9973).step_by(9973).map(f32::from_bits).chain(special);
        let x: Vec<f32> = all.collect();
        for isa in Isa::available() {
            let mut out = vec![0.0; x.len()];
            map(isa, function, &x, &mut out);
            for (&x, &y) in x.iter().zip(&out) {
                let expected = exact(x.into());
                let rounded = expected as f32;
                if rounded.is_nan() || rounded.is_infinite() || y.is_infinite() {
                    let same = y == rounded || y.is_nan() && rounded.is_nan();
                    assert!(same, "{isa:?}: {x:?}: {y:?}, not {rounded:?}");
                    continue;
                }
                let exponent = (rounded.abs().to_bits() >> 23).max(1);
                let ulp = f64::powi(2.0, i32::try_from(exponent).unwrap() - 150);
                let error = (f64::from(y) - expected).abs() / ulp;
                assert!(error <= ulps, "{isa:?}: {x:?}: {y:?}, not {rounded:?}: {error}");
            }
        }
    }

    #[test]
    fn errors_are_bounded() {
        check(Exp, f64::exp, 1.5);
        check(Ln, f64::ln, 1.5);
        check(Log10, f64::log10, 1.5);
        check(Tanh, f64::tanh, 6.0);
        check(
            Sigmoid,
            |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) },
            3.0,
        );
        check(Erf, libm::erf, 2.0);
    }

    #[test]
    fn hypot_is_within_its_error() {
        let special = [0.0, -0.0, 1e-45, -1e-40, 3.0, f32::MAX, f32::INFINITY, f32::NAN];
        let all = (0..u32::MAX - 99_991).step_by(99_991).map(f32::from_bits);
        let mut pairs: Vec<(f32, f32)> = all.clone().zip(all.skip(7)).collect();
        pairs.extend(special.iter().flat_map(|a| special.map(|b| (*a, b))));
        // Pairs of similar magnitude.
        pairs.extend((0..5000).map(|i| (1e-3 * i as f32, 7.0 - 2e-3 * i as f32)));
        let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
        for isa in Isa::available() {
            let mut out = vec![0.0; pairs.len()];
            hypot(isa, &a, &b, &mut out);
            for ((a, b), y) in pairs.iter().zip(&out) {
                let exact = f64::hypot((*a).into(), (*b).into());
                let rounded = exact as f32;
                if !rounded.is_finite() {
                    assert!(y.to_bits() == rounded.to_bits() || y.is_nan() && rounded.is_nan());
                    continue;
                }
                let exponent = (rounded.to_bits() >> 23).max(1);
                let ulp = f64::powi(2.0, i32::try_from(exponent).unwrap() - 150);
                let error = (f64::from(*y) - exact).abs() / ulp;
                assert!(error <= 1.5, "{isa:?}: {a:?} {b:?}: {y:?}, not {rounded:?}: {error}");
            }
        }
    }

    #[test]
    fn silu_mul_is_silu_times_the_other_operand() {
        for len in [0, 1, 15, 16, 37] {
            let a: Vec<f32> = (0..len).map(|i| i as f32 - 20.0).collect();
            let b: Vec<f32> = (0..len).map(|i| 3.0 - i as f32).collect();
            for isa in Isa::available() {
                let (mut silu, mut gated) = (vec![0.0; len], vec![f32::NAN; len]);
                map(isa, Silu, &a, &mut silu);
                silu_mul(isa, &a, &b, &mut gated);
                for (((a, b), silu), gated) in a.iter().zip(&b).zip(silu).zip(gated) {
                    let expected = f64::from(*a) / (1.0 + f64::from(-a).exp());
                    let error = (f64::from(silu) - expected).abs();
                    assert!(error <= 3e-7 * (1.0 + f64::from(a.abs())), "{isa:?}: {a}: {silu}");
                    assert_eq!(gated, silu * b, "{isa:?}: {a}, {b}");
                }
            }
        }
    }

    #[test]
    fn the_sign_of_zero_is_preserved() {
        for isa in Isa::available() {
            let mut y = [1.0; 2];
            map(isa, Tanh, &[-0.0, 0.0], &mut y);
            assert_eq!(y.map(f32::to_bits), [1 << 31, 0]);
            map(isa, Erf, &[-0.0, 0.0], &mut y);
            assert_eq!(y.map(f32::to_bits), [1 << 31, 0]);
        }
    }

    #[test]
    fn gelu_matches_its_formula() {
        let x: Vec<f32> = (-800..800).map(|i| i as f32 / 100.0).collect();
        let mut out = vec![0.0; x.len()];
        for isa in Isa::available() {
            for tanh in [false, true] {
                if tanh {
                    map(isa, GeluTanh, &x, &mut out);
                } else {
                    map(isa, Gelu, &x, &mut out);
                }
                for (&x, &y) in x.iter().zip(&out) {
                    let x = f64::from(x);
                    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                    let one = if tanh { inner.tanh() } else { libm::erf(x / 2.0_f64.sqrt()) };
                    let error = (f64::from(y) - 0.5 * x * (1.0 + one)).abs();
                    assert!(error <= 3e-7 * (1.0 + x.abs()), "{isa:?}: {x}: {y}");
                }
            }
        }
    }
}
