//! How far one result is from another.

use afferent_core::{Bool, ScalarType, TensorView, bf16, f16};
use afferent_runtime::Output;
use anyhow::bail;
use clap::Args;
use serde::Serialize;

use crate::{npy::row_major, table::figure};

/// How far a result may be from the other: `atol + rtol * |expected|`.
#[derive(Args, Clone, Copy, Default)]
pub(super) struct ToleranceArgs {
    /// Relative tolerance; without it that of torch.testing.assert_close: 1e-3 for f16, 0.016 for
    /// bf16, 1.3e-6 for f32, 1e-7 for f64, 0 for others
    #[arg(long, value_parser = tolerance)]
    rtol: Option<f64>,
    /// Absolute tolerance; without it that of torch.testing.assert_close: 1e-5 for f16, bf16 and
    /// f32, 1e-7 for f64, 0 for others
    #[arg(long, value_parser = tolerance)]
    atol: Option<f64>,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| "it must be a finite number from 0 on".to_owned())
}

#[derive(Clone, Copy)]
struct Tolerance {
    rtol: f64,
    atol: f64,
}

impl ToleranceArgs {
    fn of(self, dtype: ScalarType) -> Tolerance {
        let (rtol, atol) = match dtype {
            ScalarType::Half => (1e-3, 1e-5),
            ScalarType::BFloat16 => (1.6e-2, 1e-5),
            ScalarType::Float => (1.3e-6, 1e-5),
            ScalarType::Double => (1e-7, 1e-7),
            _ => (0.0, 0.0),
        };
        Tolerance { rtol: self.rtol.unwrap_or(rtol), atol: self.atol.unwrap_or(atol) }
    }
}

/// How far a result is from what is expected.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    /// What was compared, such as `f32[2, 3]`.
    pub(super) shape: String,
    pub(super) elements: usize,
    pub(super) max_abs: f64,
    pub(super) mean_abs: f64,
    /// The largest difference in relation to the larger of the two values.
    pub(super) max_rel: f64,
    /// Power of what is expected by power of the difference, in dB; infinite when all is equal.
    pub(super) snr_db: f64,
    /// Cosine of the angle between the two as vectors.
    pub(super) cosine: f64,
    /// Elements outside of the tolerance.
    pub(super) outside: usize,
    /// The first of them.
    pub(super) first: Option<Differing>,
}

/// An element outside of the tolerance.
#[derive(Debug, Serialize)]
pub(super) struct Differing {
    /// Its place along each dimension.
    pub(super) index: Vec<usize>,
    pub(super) found: f64,
    pub(super) expected: f64,
}

impl Difference {
    pub(super) const COLUMNS: [&'static str; 9] =
        ["shape", "max abs", "mean abs", "max rel", "SNR dB", "cosine", "outside", "first at", ""];

    /// A cell for each of [`Difference::COLUMNS`].
    pub(super) fn cells(&self) -> [String; 9] {
        let (at, values) = match &self.first {
            Some(Differing { index, found, expected }) => {
                (format!("{index:?}"), format!("{found} for {expected}"))
            }
            None => ("-".to_owned(), String::new()),
        };
        [
            self.shape.clone(),
            figure(self.max_abs),
            figure(self.mean_abs),
            figure(self.max_rel),
            figure(self.snr_db),
            format!("{:.6}", self.cosine),
            format!("{} of {}", self.outside, self.elements),
            at,
            values,
        ]
    }
}

/// How far `found` is from `expected`.
///
/// # Errors
/// The two are of different kinds, dtypes or shapes.
pub(super) fn compare(
    found: &Output<'_>,
    expected: &Output<'_>,
    tolerance: ToleranceArgs,
) -> anyhow::Result<Difference> {
    let number = |shape: &str, dtype, found: f64, expected: f64| {
        let equal = found == expected || (found.is_nan() && expected.is_nan());
        let rows = [(found, expected, equal)];
        summarize(shape.to_owned(), &[], rows.into_iter(), tolerance.of(dtype))
    };
    Ok(match (found, expected) {
        (Output::Tensor(found), Output::Tensor(expected)) => {
            tensors(found, expected, tolerance.of(expected.dtype()))?
        }
        (Output::Int(a), Output::Int(b)) => {
            let rows = [(*a as f64, *b as f64, a == b)];
            let tolerance = tolerance.of(ScalarType::Long);
            summarize("int".to_owned(), &[], rows.into_iter(), tolerance)
        }
        (Output::Double(a), Output::Double(b)) => number("double", ScalarType::Double, *a, *b),
        (Output::Bool(a), Output::Bool(b)) => {
            number("bool", ScalarType::Bool, f64::from(u8::from(*a)), f64::from(u8::from(*b)))
        }
        (Output::Str(a), Output::Str(b)) => {
            let rows = [(f64::from(u8::from(a == b)), 1.0, a == b)];
            summarize("string".to_owned(), &[], rows.into_iter(), tolerance.of(ScalarType::Bool))
        }
        (Output::None, Output::None) => number("none", ScalarType::Bool, 0.0, 0.0),
        _ => bail!("{} instead of {}", kind(found), kind(expected)),
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

/// Elements are compared by their place along the dimensions, in whatever order they lie.
fn tensors(
    found: &TensorView<'_>,
    expected: &TensorView<'_>,
    tolerance: Tolerance,
) -> anyhow::Result<Difference> {
    if shape(found) != shape(expected) {
        bail!("{} instead of {}", shape(found), shape(expected));
    }
    let (a, b) = (values(found)?, values(expected)?);
    let (order_a, order_b) = (row_major(found), row_major(expected));
    let size = found.dtype().size();
    let bytes = |view: &TensorView<'_>, at: usize| view.bytes()[at * size..][..size].to_vec();
    let is_float = found.dtype().is_float();
    let rows = order_a.iter().zip(&order_b).map(|(&at_a, &at_b)| {
        let (x, y) = (a[at_a], b[at_b]);
        // Integers of 64 bits may differ where their `f64` do not.
        let equal = match is_float || x != y {
            true => x == y || (x.is_nan() && y.is_nan()),
            false => size < 8 || bytes(found, at_a) == bytes(expected, at_b),
        };
        (x, y, equal)
    });
    Ok(summarize(shape(found), found.sizes(), rows, tolerance))
}

/// The figures over all elements: what was found, what was expected, and whether they are equal.
fn summarize(
    shape: String,
    sizes: &[usize],
    rows: impl Iterator<Item = (f64, f64, bool)>,
    Tolerance { rtol, atol }: Tolerance,
) -> Difference {
    let (mut max_abs, mut max_rel, mut sum_abs) = (0.0_f64, 0.0_f64, 0.0_f64);
    let (mut signal, mut noise, mut power, mut dot) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    let (mut elements, mut outside, mut first) = (0, 0, None);
    for (at, (found, expected, equal)) in rows.enumerate() {
        elements += 1;
        // A NaN on one side is as far away as can be.
        let distance = if equal { 0.0 } else { (found - expected).abs() };
        let distance = if distance.is_nan() { f64::INFINITY } else { distance };
        let larger = found.abs().max(expected.abs());
        let relative = if distance == 0.0 { 0.0 } else { distance / larger.max(f64::MIN_POSITIVE) };
        (max_abs, sum_abs) = (max_abs.max(distance), sum_abs + distance);
        max_rel = max_rel.max(if relative.is_nan() { f64::INFINITY } else { relative });
        // Values that are equal and no numbers tell nothing about angle and noise.
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
    let angle = dot / (signal.sqrt() * power.sqrt());
    Difference {
        shape,
        elements,
        max_abs,
        mean_abs: if elements == 0 { 0.0 } else { sum_abs / elements as f64 },
        max_rel,
        snr_db: if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() },
        cosine: if noise == 0.0 { 1.0 } else { angle },
        outside,
        first: first.map(|(at, found, expected)| Differing {
            index: place(at, sizes),
            found,
            expected,
        }),
    }
}

/// The place along each dimension of the element number `at` in row-major order.
fn place(mut at: usize, sizes: &[usize]) -> Vec<usize> {
    let mut index = vec![0; sizes.len()];
    for (place, &size) in index.iter_mut().zip(sizes).rev() {
        (*place, at) = (at % size.max(1), at / size.max(1));
    }
    index
}

/// The elements in the order of memory.
fn values(view: &TensorView<'_>) -> anyhow::Result<Vec<f64>> {
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
        other => bail!("values of {other} cannot be compared"),
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::Tensor;

    use super::*;

    const USUAL: ToleranceArgs = ToleranceArgs { rtol: None, atol: None };

    fn check(found: &Tensor, expected: &Tensor, tolerance: ToleranceArgs) -> Difference {
        compare(&Output::Tensor(found.view()), &Output::Tensor(expected.view()), tolerance).unwrap()
    }

    #[test]
    fn the_figures_are_right() {
        let expected = Tensor::new(&[2, 2], &[3.0_f32, 4.0, 0.0, 0.0]).unwrap();
        let found = Tensor::new(&[2, 2], &[3.0_f32, 4.0, 0.5, 0.0]).unwrap();
        let difference = check(&found, &expected, USUAL);
        assert_eq!(
            (difference.max_abs, difference.mean_abs, difference.max_rel),
            (0.5, 0.125, 1.0)
        );
        assert!((difference.snr_db - 20.0).abs() < 1e-9, "10 log10(25 / 0.25)");
        assert!((difference.cosine - 5.0 / 25.25_f64.sqrt()).abs() < 1e-12);
        assert_eq!((difference.outside, difference.elements), (1, 4));
        assert_eq!(difference.first.unwrap().index, [1, 0]);
        let wide = ToleranceArgs { atol: Some(0.5), rtol: None };
        assert_eq!(check(&found, &expected, wide).outside, 0);
        let same = check(&expected, &expected, USUAL);
        assert_eq!((same.outside, same.snr_db, same.cosine), (0, f64::INFINITY, 1.0));
    }

    #[test]
    fn layout_does_not_matter_and_shape_does() {
        let rows = Tensor::new(&[2, 3], &[1_i32, 2, 3, 4, 5, 6]).unwrap();
        let mut columns = Tensor::new(&[2, 3], &[1_i32, 4, 2, 5, 3, 6]).unwrap();
        columns.set_dim_order(&[1, 0]).unwrap();
        assert_eq!(check(&columns, &rows, USUAL).outside, 0);
        let other = Tensor::new(&[3, 2], &[1_i32, 2, 3, 4, 5, 6]).unwrap();
        let error = compare(&Output::Tensor(other.view()), &Output::Tensor(rows.view()), USUAL)
            .unwrap_err();
        assert_eq!(error.to_string(), "i32[3, 2] instead of i32[2, 3]");
    }

    #[test]
    fn what_is_no_number_equals_only_itself() {
        let tensor = |values: [f32; 3]| Tensor::from_slice(&values);
        let nan = f32::NAN;
        let odd = tensor([nan, f32::INFINITY, 1.0]);
        let same = check(&odd, &odd, USUAL);
        assert_eq!((same.outside, same.max_abs), (0, 0.0));
        let far = check(&tensor([0.0, f32::NEG_INFINITY, nan]), &odd, USUAL);
        assert_eq!((far.outside, far.max_abs), (3, f64::INFINITY));
        // Even the widest tolerance does not reach a NaN.
        let wide = ToleranceArgs { atol: Some(f64::MAX), rtol: None };
        assert_eq!(check(&tensor([0.0, f32::INFINITY, 1.0]), &odd, wide).outside, 1);
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        tolerance: ToleranceArgs,
    }

    #[test]
    fn a_tolerance_is_a_finite_number_from_zero_on() {
        let read = |option: &str, text: &str| {
            let line = <Line as clap::Parser>::try_parse_from(["x", &format!("{option}={text}")]);
            line.map(|line| line.tolerance)
        };
        assert_eq!(read("--rtol", "1e-3").unwrap().rtol, Some(1e-3));
        assert_eq!(read("--atol", "0").unwrap().atol, Some(0.0));
        for text in ["nan", "inf", "-1e-3", "few"] {
            let refused = ["--rtol", "--atol"].map(|option| read(option, text).is_err());
            assert_eq!(refused, [true; 2], "{text}");
        }
    }

    #[test]
    fn large_integers_differ_by_one() {
        let big = 1_i64 << 60;
        let (a, b) = (Tensor::from_slice(&[big]), Tensor::from_slice(&[big + 1]));
        assert_eq!(check(&a, &b, USUAL).outside, 1);
        assert_eq!(check(&a, &a, USUAL).outside, 0);
        let number = |a, b| compare(&Output::Int(a), &Output::Int(b), USUAL).unwrap().outside;
        assert_eq!((number(big, big), number(big, big + 1)), (0, 1));
    }
}
