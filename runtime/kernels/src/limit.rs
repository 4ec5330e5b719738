//! The larger and the smaller of two numbers, with NaN kept.

/// The larger; NaN where either is NaN.
pub(crate) fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if a > b || is_nan(&a) { a } else { b }
}

/// The smaller; NaN where either is NaN.
pub(crate) fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    if a < b || is_nan(&a) { a } else { b }
}

fn is_nan<T: PartialOrd>(x: &T) -> bool {
    x.partial_cmp(x).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_wins_on_either_side() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(larger(a, b).is_nan() && smaller(a, b).is_nan());
        }
        assert_eq!((larger(1, 2), smaller(1, 2)), (2, 1));
        assert_eq!((larger(2.0, 1.0), smaller(2.0, 1.0)), (2.0, 1.0));
    }
}
