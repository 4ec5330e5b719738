//! Bilinear interpolation of NHWC rows.
//!
//! The interpolation is separable: [`interpolate_columns`] once for each row of the input, then
//! [`interpolate_rows`] between two of the results.

use crate::{Float, Isa, Routine, Simd, SizeError};

/// The two inputs between which an output lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interpolation {
    /// Index of the input at or below the output.
    pub first: usize,
    /// Index of the next input.
    pub second: usize,
    /// Weight of `second`, from 0 to 1.
    pub weight: f32,
}

/// Interpolates between the columns of a row: for each of `columns`, writes `channels` values.
///
/// # Errors
/// [`SizeError`] if a column is not in `x`, or `out` does not have `channels` values per column.
pub fn interpolate_columns(
    isa: Isa,
    columns: &[Interpolation],
    channels: usize,
    x: &[f32],
    out: &mut [f32],
) -> Result<(), SizeError> {
    SizeError::check_exact("out", out.len(), columns.len().checked_mul(channels))?;
    let last = columns.iter().map(|column| column.first.max(column.second)).max();
    let required = last.map_or(Some(0), |last| last.checked_add(1)?.checked_mul(channels));
    SizeError::check_min("x", x.len(), required)?;
    if channels > 0 {
        isa.run(Columns { columns, channels, x, out });
    }
    Ok(())
}

/// Writes `first[i] + (second[i] - first[i]) * weight` to `out[i]`, up to the length of the shortest
/// slice.
pub fn interpolate_rows(isa: Isa, rows: [&[f32]; 2], weight: f32, out: &mut [f32]) {
    isa.run(Rows { rows, weight, out });
}

struct Columns<'a> {
    columns: &'a [Interpolation],
    channels: usize,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Routine for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { columns, channels, x, out } = self;
        if channels == 1 {
            for (column, to) in columns.iter().zip(out) {
                let (a, b) = (x[column.first], x[column.second]);
                *to = (b - a) * column.weight + a;
            }
            return;
        }
        for (column, to) in columns.iter().zip(out.chunks_exact_mut(channels)) {
            let rows = [column.first, column.second].map(|at| &x[at * channels..][..channels]);
            Rows { rows, weight: column.weight, out: to }.run(simd);
        }
    }
}

struct Rows<'a> {
    rows: [&'a [f32]; 2],
    weight: f32,
    out: &'a mut [f32],
}

impl Routine for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let [first, second] = self.rows;
        let len = first.len().min(second.len()).min(self.out.len());
        let (first, second, out) = (&first[..len], &second[..len], &mut self.out[..len]);
        let weight = simd.splat(self.weight);
        let whole = len - len % S::LANES;
        let (vectors, rest) = out.split_at_mut(whole);
        let inputs = first.chunks_exact(S::LANES).zip(second.chunks_exact(S::LANES));
        for ((a, b), out) in inputs.zip(vectors.chunks_exact_mut(S::LANES)) {
            let (a, b) = (simd.load(a), simd.load(b));
            simd.store((b - a).mul_add(weight, a), out);
        }
        if !rest.is_empty() {
            let a = simd.load_partial(&first[whole..]);
            let b = simd.load_partial(&second[whole..]);
            simd.store_partial((b - a).mul_add(weight, a), rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_interpolated() {
        let value = |at: usize| ((at * 37 + 11) % 101) as f32 / 7.0 - 5.0;
        let columns = [(0, 0, 0.0), (0, 1, 0.25), (2, 3, 1.0), (4, 4, 0.5), (1, 0, 0.125)];
        let columns =
            columns.map(|(first, second, weight)| Interpolation { first, second, weight });
        for isa in Isa::available() {
            for channels in [1, 2, 3, 4, 7, 8, 15, 16, 17, 40] {
                let x: Vec<f32> = (0..5 * channels).map(value).collect();
                let mut out = vec![f32::NAN; 5 * channels];
                interpolate_columns(isa, &columns, channels, &x, &mut out).unwrap();
                let mut between = vec![f32::NAN; 5 * channels];
                interpolate_rows(isa, [&x, &out], 0.375, &mut between);
                for (at, (found, between)) in out.iter().zip(&between).enumerate() {
                    let Interpolation { first, second, weight } = columns[at / channels];
                    let [a, b] = [first, second].map(|col| x[col * channels + at % channels]);
                    let wanted = a + (b - a) * weight;
                    assert!((found - wanted).abs() <= 1e-5, "{isa:?}: {channels}: {found}");
                    let wanted = x[at] + (found - x[at]) * 0.375;
                    assert!((between - wanted).abs() <= 1e-5, "{isa:?}: {channels}: {between}");
                }
            }
        }
    }

    #[test]
    fn columns_outside_of_the_input_are_rejected() {
        let run = |first, second, len, out_len| {
            let column = Interpolation { first, second, weight: 0.5 };
            let (x, mut out) = (vec![0.0; len], vec![0.0; out_len]);
            interpolate_columns(Isa::SCALAR, &[column], 3, &x, &mut out)
        };
        assert_eq!(run(0, 1, 6, 3), Ok(()));
        assert!(run(0, 2, 6, 3).is_err());
        assert!(run(2, 0, 6, 3).is_err());
        assert!(run(usize::MAX, 0, 6, 3).is_err());
        assert!(run(0, 1, 6, 4).is_err());
        assert_eq!(interpolate_columns(Isa::SCALAR, &[], 3, &[], &mut []), Ok(()));
    }
}
