//! `aten::erfinv.out`: inverse error function.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `y` with `erf(y) = x`; infinity for ±1, NaN outside. Integers and `bool` are promoted
//! to `f32`. Tolerance: 1e-5.
//! Source: ATen `erfinv`; the approximation is that of Giles, "Approximating the erfinv function",
//! with Newton steps.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dtype::Number,
    pointwise::{Input, Pointwise, floats},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::erfinv.out", &[Arg::Tensor, Arg::Out], erfinv_out)];

fn erfinv_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    call.run(args, 1, floats!(F => |[x]| F::from_f64(erfinv(x.to_f64()))))
}

/// Inverse of the error function.
fn erfinv(x: f64) -> f64 {
    // Coefficients of powers of w - 2.5 and √w - 3, from the constant term on.
    const CENTRAL: [f64; 9] = [
        1.501_409_41,
        0.246_640_727,
        -0.004_177_681_64,
        -0.001_253_725_03,
        2.185_808_7e-4,
        -4.391_506_54e-6,
        -3.523_387_7e-6,
        3.432_739_39e-7,
        2.810_226_36e-8,
    ];
    const TAIL: [f64; 9] = [
        2.832_976_82,
        1.001_674_06,
        0.009_438_870_47,
        -0.007_622_461_3,
        0.005_739_507_73,
        -0.003_673_428_44,
        0.001_349_343_22,
        1.009_505_58e-4,
        -2.002_142_57e-4,
    ];
    if x.abs() >= 1.0 || x.is_nan() || x == 0.0 {
        return if x.abs() == 1.0 {
            x * f64::INFINITY
        } else if x == 0.0 {
            x
        } else {
            f64::NAN
        };
    }
    let w = -libm::log1p(-x * x);
    let (w, coefficients) = if w < 5.0 { (w - 2.5, CENTRAL) } else { (libm::sqrt(w) - 3.0, TAIL) };
    let mut y = x * coefficients.iter().rev().fold(0.0, |sum, c| sum * w + c);
    for _ in 0..2 {
        let slope = core::f64::consts::FRAC_2_SQRT_PI * libm::exp(-y * y);
        // Near 1, the complement keeps the digits of the difference.
        let difference = if y > 0.5 {
            (1.0 - x) - libm::erfc(y)
        } else if y < -0.5 {
            libm::erfc(-y) - (1.0 + x)
        } else {
            libm::erf(y) - x
        };
        if slope > 0.0 {
            y -= difference / slope;
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn inverts_the_error_function() {
        for x in [-5.0, -2.5, -1.0, -0.3, -1e-9, 0.4, 0.49, 0.51, 3.0, 5.5] {
            let found = erfinv(libm::erf(x));
            // Near ±1 the argument has few digits.
            let tolerance = 1e-15 / (1e-14 + libm::erfc(x.abs())) + 1e-13;
            assert!((found - x).abs() <= tolerance * 10.0, "{x}: {found}");
        }
    }

    #[test]
    fn ends_of_the_domain() {
        let inf = f32::INFINITY;
        let x = tensor(&[0.0, -0.0, 1.0, -1.0, 1.5, f32::NAN]);
        check(&KERNELS[0], [x], Ok(&[0.0, -0.0, inf, -inf, f32::NAN, f32::NAN]));
        check(&KERNELS[0], [tensor(&[0_i32, 1])], Ok(&[0.0, inf]));
    }
}
