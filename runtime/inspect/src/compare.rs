//! Comparison of an output with an expected one.

use afferent_core::{Bool, ScalarType, TensorView, bf16, f16};
use afferent_runtime::Output;
use serde::Serialize;

use crate::{InspectError, npy::row_major};

/// Tolerance of a comparison: `|found - expected| <= atol + rtol * |expected|`.
///
/// `None` selects the default of `torch.testing.assert_close` for the dtype.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tolerance {
    /// Relative tolerance.
    pub rtol: Option<f64>,
    /// Absolute tolerance.
    pub atol: Option<f64>,
}

/// Tolerance for one dtype.
#[derive(Clone, Copy)]
struct DtypeTolerance {
    rtol: f64,
    atol: f64,
}

impl Tolerance {
    fn for_dtype(self, dtype: ScalarType) -> DtypeTolerance {
        let (rtol, atol) = match dtype {
            ScalarType::Half => (1e-3, 1e-5),
            ScalarType::BFloat16 => (1.6e-2, 1e-5),
            ScalarType::Float => (1.3e-6, 1e-5),
            ScalarType::Double => (1e-7, 1e-7),
            _ => (0.0, 0.0),
        };
        DtypeTolerance { rtol: self.rtol.unwrap_or(rtol), atol: self.atol.unwrap_or(atol) }
    }
}

/// Difference between an output and the expected one.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Dtype and sizes of a tensor, such as `f32[2, 3]`, or the kind of a scalar.
    pub shape: String,
    /// Number of elements.
    pub elements: usize,
    /// Maximum absolute difference.
    pub max_abs: f64,
    /// Mean absolute difference.
    pub mean_abs: f64,
    /// Maximum relative difference. The larger of the two magnitudes is the reference.
    pub max_rel: f64,
    /// Signal-to-noise ratio in dB: power of the expected output to power of the difference.
    /// Infinite if both outputs are equal.
    pub snr_db: f64,
    /// Cosine similarity.
    pub cosine: f64,
    /// Number of elements outside the tolerance.
    pub outside: usize,
    /// First element outside the tolerance.
    pub first: Option<ElementDifference>,
}

/// Element outside the tolerance.
#[derive(Debug, Serialize)]
pub struct ElementDifference {
    /// Index along each dimension.
    pub index: Vec<usize>,
    /// Value in the output.
    pub found: f64,
    /// Expected value.
    pub expected: f64,
}

/// Compares an output with the expected one.
///
/// # Errors
/// [`InspectError::OutputKind`] if they differ in kind, dtype or shape, [`InspectError::Dtype`] if
/// elements of their dtype cannot be compared.
pub fn compare(
    found: &Output<'_>,
    expected: &Output<'_>,
    tolerance: Tolerance,
) -> Result<Difference, InspectError> {
    let number = |shape: &str, dtype, found: f64, expected: f64| {
        let equal = found == expected || (found.is_nan() && expected.is_nan());
        let rows = [(found, expected, equal)];
        summarize(shape.to_owned(), &[], rows.into_iter(), tolerance.for_dtype(dtype))
    };
    Ok(match (found, expected) {
        (Output::Tensor(found), Output::Tensor(expected)) => {
            compare_tensors(found, expected, tolerance.for_dtype(expected.dtype()))?
        }
        (Output::Int(a), Output::Int(b)) => {
            let rows = [(*a as f64, *b as f64, a == b)];
            let tolerance = tolerance.for_dtype(ScalarType::Long);
            summarize("int".to_owned(), &[], rows.into_iter(), tolerance)
        }
        (Output::Double(a), Output::Double(b)) => number("double", ScalarType::Double, *a, *b),
        (Output::Bool(a), Output::Bool(b)) => {
            number("bool", ScalarType::Bool, f64::from(u8::from(*a)), f64::from(u8::from(*b)))
        }
        (Output::Str(a), Output::Str(b)) => {
            let rows = [(f64::from(u8::from(a == b)), 1.0, a == b)];
            let tolerance = tolerance.for_dtype(ScalarType::Bool);
            summarize("string".to_owned(), &[], rows.into_iter(), tolerance)
        }
        (Output::None, Output::None) => number("none", ScalarType::Bool, 0.0, 0.0),
        _ => {
            let (found, expected) = (kind(found), kind(expected));
            return Err(InspectError::OutputKind { found, expected });
        }
    })
}

fn kind(output: &Output<'_>) -> String {
    match output {
        Output::Tensor(view) => shape(view),
        Output::Int(_) => "an int".to_owned(),
        Output::Double(_) => "a double".to_owned(),
        Output::Bool(_) => "a bool".to_owned(),
        Output::Str(_) => "a string".to_owned(),
        Output::None => "none".to_owned(),
    }
}

fn shape(view: &TensorView<'_>) -> String {
    format!("{}{:?}", view.dtype(), view.sizes())
}

/// Compares elements with equal indices. The dim orders may differ.
fn compare_tensors(
    found: &TensorView<'_>,
    expected: &TensorView<'_>,
    tolerance: DtypeTolerance,
) -> Result<Difference, InspectError> {
    if shape(found) != shape(expected) {
        let (found, expected) = (shape(found), shape(expected));
        return Err(InspectError::OutputKind { found, expected });
    }
    let (a, b) = (values(found)?, values(expected)?);
    let (order_a, order_b) = (row_major(found), row_major(expected));
    let size = found.dtype().size();
    let bytes = |view: &TensorView<'_>, at: usize| view.bytes()[at * size..][..size].to_vec();
    let is_float = found.dtype().is_float();
    let rows = order_a.iter().zip(&order_b).map(|(&at_a, &at_b)| {
        let (x, y) = (a[at_a], b[at_b]);
        // Different 64-bit integers may have equal `f64` values.
        let equal = match is_float || x != y {
            true => x == y || (x.is_nan() && y.is_nan()),
            false => size < 8 || bytes(found, at_a) == bytes(expected, at_b),
        };
        (x, y, equal)
    });
    Ok(summarize(shape(found), found.sizes(), rows, tolerance))
}

/// Computes the statistics of all elements. A row is a found value, the expected value, and true if
/// they are equal.
fn summarize(
    shape: String,
    sizes: &[usize],
    rows: impl Iterator<Item = (f64, f64, bool)>,
    DtypeTolerance { rtol, atol }: DtypeTolerance,
) -> Difference {
    let (mut max_abs, mut max_rel, mut sum_abs) = (0.0_f64, 0.0_f64, 0.0_f64);
    let (mut signal, mut noise, mut power, mut dot) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    let (mut elements, mut outside, mut first) = (0, 0, None);
    for (at, (found, expected, equal)) in rows.enumerate() {
        elements += 1;
        // The distance of a NaN from a number is infinite.
        let distance = if equal { 0.0 } else { (found - expected).abs() };
        let distance = if distance.is_nan() { f64::INFINITY } else { distance };
        let larger = found.abs().max(expected.abs());
        let relative = if distance == 0.0 { 0.0 } else { distance / larger.max(f64::MIN_POSITIVE) };
        (max_abs, sum_abs) = (max_abs.max(distance), sum_abs + distance);
        max_rel = max_rel.max(if relative.is_nan() { f64::INFINITY } else { relative });
        // Equal values that are not finite do not contribute to the SNR and the cosine.
        if found.is_finite() && expected.is_finite() || !equal {
            signal += expected * expected;
            noise += distance * distance;
            power += found * found;
            dot += found * expected;
        }
        let allowed = atol + rtol * expected.abs();
        if !equal && (distance > allowed || allowed == 0.0 || !distance.is_finite()) {
            outside += 1;
            first.get_or_insert((at, found, expected));
        }
    }
    let cosine = dot / (signal.sqrt() * power.sqrt());
    Difference {
        shape,
        elements,
        max_abs,
        mean_abs: if elements == 0 { 0.0 } else { sum_abs / elements as f64 },
        max_rel,
        snr_db: if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() },
        cosine: if noise == 0.0 { 1.0 } else { cosine },
        outside,
        first: first.map(|(at, found, expected)| ElementDifference {
            index: index_of(at, sizes),
            found,
            expected,
        }),
    }
}

/// Index along each dimension of the element at position `at` in row-major order.
fn index_of(mut at: usize, sizes: &[usize]) -> Vec<usize> {
    let mut index = vec![0; sizes.len()];
    for (coordinate, &size) in index.iter_mut().zip(sizes).rev() {
        (*coordinate, at) = (at % size.max(1), at / size.max(1));
    }
    index
}

/// Elements in memory order.
fn values(view: &TensorView<'_>) -> Result<Vec<f64>, InspectError> {
    macro_rules! convert {
        ($rust:ty, $convert:expr) => {
            view.data::<$rust>()?.iter().map($convert).collect()
        };
    }
    Ok(match view.dtype() {
        ScalarType::Half => convert!(f16, |x| x.to_f64()),
        ScalarType::BFloat16 => convert!(bf16, |x| x.to_f64()),
        ScalarType::Float => convert!(f32, |&x| f64::from(x)),
        ScalarType::Double => convert!(f64, |&x| x),
        ScalarType::Byte => convert!(u8, |&x| f64::from(x)),
        ScalarType::Char => convert!(i8, |&x| f64::from(x)),
        ScalarType::Short => convert!(i16, |&x| f64::from(x)),
        ScalarType::Int => convert!(i32, |&x| f64::from(x)),
        ScalarType::Long => convert!(i64, |&x| x as f64),
        ScalarType::UInt16 => convert!(u16, |&x| f64::from(x)),
        ScalarType::UInt32 => convert!(u32, |&x| f64::from(x)),
        ScalarType::UInt64 => convert!(u64, |&x| x as f64),
        ScalarType::Bool => convert!(Bool, |x| f64::from(u8::from(x.get()))),
        dtype => return Err(InspectError::Dtype { dtype }),
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::Tensor;

    use super::*;

    const DEFAULT: Tolerance = Tolerance { rtol: None, atol: None };

    fn check(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Difference {
        compare(&Output::Tensor(found.view()), &Output::Tensor(expected.view()), tolerance).unwrap()
    }

    #[test]
    fn statistics_are_correct() {
        let expected = Tensor::new(&[2, 2], &[3.0_f32, 4.0, 0.0, 0.0]).unwrap();
        let found = Tensor::new(&[2, 2], &[3.0_f32, 4.0, 0.5, 0.0]).unwrap();
        let difference = check(&found, &expected, DEFAULT);
        assert_eq!(
            (difference.max_abs, difference.mean_abs, difference.max_rel),
            (0.5, 0.125, 1.0)
        );
        assert!((difference.snr_db - 20.0).abs() < 1e-9, "10 log10(25 / 0.25)");
        assert!((difference.cosine - 5.0 / 25.25_f64.sqrt()).abs() < 1e-12);
        assert_eq!((difference.outside, difference.elements), (1, 4));
        assert_eq!(difference.first.unwrap().index, [1, 0]);
        let wide = Tolerance { atol: Some(0.5), rtol: None };
        assert_eq!(check(&found, &expected, wide).outside, 0);
        let same = check(&expected, &expected, DEFAULT);
        assert_eq!((same.outside, same.snr_db, same.cosine), (0, f64::INFINITY, 1.0));
    }

    #[test]
    fn dim_orders_may_differ_but_shapes_must_match() {
        let rows = Tensor::new(&[2, 3], &[1_i32, 2, 3, 4, 5, 6]).unwrap();
        let mut columns = Tensor::new(&[2, 3], &[1_i32, 4, 2, 5, 3, 6]).unwrap();
        columns.set_dim_order(&[1, 0]).unwrap();
        assert_eq!(check(&columns, &rows, DEFAULT).outside, 0);
        let other = Tensor::new(&[3, 2], &[1_i32, 2, 3, 4, 5, 6]).unwrap();
        let error = compare(&Output::Tensor(other.view()), &Output::Tensor(rows.view()), DEFAULT)
            .unwrap_err();
        assert_eq!(error.to_string(), "i32[3, 2] instead of i32[2, 3]");
    }

    #[test]
    fn nan_and_infinity_equal_only_themselves() {
        let tensor = |values: [f32; 3]| Tensor::from_slice(&values);
        let nan = f32::NAN;
        let odd = tensor([nan, f32::INFINITY, 1.0]);
        let same = check(&odd, &odd, DEFAULT);
        assert_eq!((same.outside, same.max_abs), (0, 0.0));
        let far = check(&tensor([0.0, f32::NEG_INFINITY, nan]), &odd, DEFAULT);
        assert_eq!((far.outside, far.max_abs), (3, f64::INFINITY));
        // No tolerance accepts a NaN.
        let wide = Tolerance { atol: Some(f64::MAX), rtol: None };
        assert_eq!(check(&tensor([0.0, f32::INFINITY, 1.0]), &odd, wide).outside, 1);
    }

    #[test]
    fn large_integers_that_differ_by_one_are_not_equal() {
        let big = 1_i64 << 60;
        let (a, b) = (Tensor::from_slice(&[big]), Tensor::from_slice(&[big + 1]));
        assert_eq!(check(&a, &b, DEFAULT).outside, 1);
        assert_eq!(check(&a, &a, DEFAULT).outside, 0);
        let number = |a, b| compare(&Output::Int(a), &Output::Int(b), DEFAULT).unwrap().outside;
        assert_eq!((number(big, big), number(big, big + 1)), (0, 1));
    }
}
