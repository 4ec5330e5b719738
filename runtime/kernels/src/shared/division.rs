//! Floor and truncated division with their remainders.

use core::cell::Cell;

use afferent_core::Error;
use libm::Libm;

/// Divisions of PyTorch. Integer divisors are not zero.
pub(crate) trait Divide {
    /// Quotient rounded down.
    fn floor_divide(self, divisor: Self) -> Self;
    /// Quotient rounded toward zero.
    fn trunc_divide(self, divisor: Self) -> Self;
    /// Remainder of `floor_divide`. It has the sign of the divisor.
    fn remainder(self, divisor: Self) -> Self;
    /// Remainder of `trunc_divide`. It has the sign of the dividend.
    fn fmod(self, divisor: Self) -> Self;
}

impl Divide for i64 {
    fn floor_divide(self, divisor: Self) -> Self {
        let down = i64::from(self.fmod(divisor) != 0 && (self < 0) != (divisor < 0));
        self.wrapping_div(divisor) - down
    }

    fn trunc_divide(self, divisor: Self) -> Self {
        self.wrapping_div(divisor)
    }

    fn remainder(self, divisor: Self) -> Self {
        let remainder = self.fmod(divisor);
        if remainder != 0 && (remainder < 0) != (divisor < 0) {
            remainder + divisor
        } else {
            remainder
        }
    }

    fn fmod(self, divisor: Self) -> Self {
        self.wrapping_rem(divisor)
    }
}

macro_rules! floats {
    ($($rust:ty),*) => {
        $(impl Divide for $rust {
            fn floor_divide(self, divisor: Self) -> Self {
                if divisor == 0.0 {
                    return self / divisor;
                }
                // The divisor divides `self - remainder`: this quotient is close to an integer.
                let remainder = self.fmod(divisor);
                let mut quotient = (self - remainder) / divisor;
                if remainder != 0.0 && (remainder < 0.0) != (divisor < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return Libm::<$rust>::copysign(0.0, self / divisor);
                }
                let floor = Libm::<$rust>::floor(quotient);
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }

            fn trunc_divide(self, divisor: Self) -> Self {
                Libm::<$rust>::trunc(self / divisor)
            }

            fn remainder(self, divisor: Self) -> Self {
                let remainder = self.fmod(divisor);
                if remainder != 0.0 && (remainder < 0.0) != (divisor < 0.0) {
                    remainder + divisor
                } else {
                    remainder
                }
            }

            fn fmod(self, divisor: Self) -> Self {
                Libm::<$rust>::fmod(self, divisor)
            }
        })*
    };
}

floats!(f32, f64);

/// Records integer divisions by zero.
#[derive(Default)]
pub(crate) struct ZeroDivisor(Cell<bool>);

impl ZeroDivisor {
    /// Returns `divisor`, or 1 in place of zero.
    pub(crate) fn replace_zero(&self, divisor: i64) -> i64 {
        if divisor == 0 {
            self.0.set(true);
            return 1;
        }
        divisor
    }

    /// Returns an error for argument 1 if a divisor was zero.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.get() {
            return Err(Error::InvalidArgument {
                index: 1,
                expected: "no integer divisor that is zero",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_division_rounds_by_sign() {
        let check = |a: i64, b: i64, floor: (i64, i64), trunc: (i64, i64)| {
            assert_eq!((a.floor_divide(b), a.remainder(b)), floor, "{a} by {b}");
            assert_eq!((a.trunc_divide(b), a.fmod(b)), trunc, "{a} by {b}");
        };
        check(7, 2, (3, 1), (3, 1));
        check(-7, 2, (-4, 1), (-3, -1));
        check(7, -2, (-4, -1), (-3, 1));
        check(-7, -2, (3, -1), (3, -1));
        check(i64::MIN, -1, (i64::MIN, 0), (i64::MIN, 0));
        check(i64::MIN, i64::MAX, (-2, i64::MAX - 1), (-1, -1));
    }

    #[test]
    fn float_division_keeps_signs_and_infinities() {
        assert_eq!((-7.0_f32).floor_divide(2.0), -4.0);
        assert_eq!(1.0_f32.floor_divide(0.0), f32::INFINITY);
        assert!((-0.0_f32).floor_divide(1.0).is_sign_negative());
        assert_eq!((-7.0_f64).remainder(2.0), 1.0);
        assert!(1.0_f64.remainder(0.0).is_nan());
        assert_eq!((-7.5_f64).trunc_divide(2.0), -3.0);
    }
}
