//! Functions of numbers for tables that are computed at compile time.

use core::f64::consts::{FRAC_PI_2, PI};

/// Sine of `x` from 0 to 2π.
pub(crate) const fn sin(x: f64) -> f64 {
    let x = if x > PI { PI - x } else { x };
    let x = if x > FRAC_PI_2 { PI - x } else { x };
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while n < 24.0 {
        term *= -x * x / ((n + 1.0) * (n + 2.0));
        sum += term;
        n += 2.0;
    }
    sum
}

/// Cosine of `x` from 0 to 3π/2.
pub(crate) const fn cos(x: f64) -> f64 {
    sin(x + FRAC_PI_2)
}

/// Exponential function of small numbers.
pub(crate) const fn exp(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0, 1.0, 1.0);
    while n < 32.0 {
        term *= x / n;
        sum += term;
        n += 1.0;
    }
    sum
}

/// Natural logarithm of numbers from 1 to 20, by Newton's method.
pub(crate) const fn ln(x: f64) -> f64 {
    let (mut y, mut round) = (1.0, 0);
    while round < 12 {
        y += x * exp(-y) - 1.0;
        round += 1;
    }
    y
}

/// Nearest integer.
pub(crate) const fn round(x: f64) -> i64 {
    if x < 0.0 { (x - 0.5) as i64 } else { (x + 0.5) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_those_of_the_standard_library() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-14 * b.abs().max(1.0), "{a} {b}");
        for n in 0..=400 {
            let x = f64::from(n) / 400.0;
            near(sin(2.0 * PI * x), (2.0 * PI * x).sin());
            near(cos(1.5 * PI * x), (1.5 * PI * x).cos());
            near(exp(3.0 * x), (3.0 * x).exp());
            near(ln(1.0 + 19.0 * x), (1.0 + 19.0 * x).ln());
        }
        assert_eq!([-1.5, -0.4, 0.4, 0.5].map(round), [-2, 0, 0, 1]);
    }
}
