//! Layer norm and group norm.

use crate::{Float, Isa, Routine, Simd};

/// Parameters of a normalization of rows.
#[derive(Clone, Copy)]
pub struct Norm<'a> {
    /// Elements per row.
    pub row_len: usize,
    /// Scale (γ).
    pub weight: Option<&'a [f32]>,
    /// Shift (β).
    pub bias: Option<&'a [f32]>,
    /// Consecutive elements that share a weight and a bias: 1 for layer norm, the spatial size for
    /// group norm. Divides `row_len`.
    pub affine_run: usize,
    /// Added to the variance.
    pub eps: f32,
}

/// Results of a normalization.
pub struct NormOutput<'a> {
    /// Normalized elements.
    pub out: &'a mut [f32],
    /// Mean of each row.
    pub mean: &'a mut [f32],
    /// Reciprocal standard deviation of each row.
    pub rstd: &'a mut [f32],
}

/// Normalizes each row of `x`: `(x - mean) / √(var + eps) · weight + bias`.
///
/// Weights and biases continue from row to row, and restart after the last one.
///
/// # Panics
/// If the outputs hold fewer rows than `x`, or the rows do not match the weights.
pub fn normalize(isa: Isa, norm: Norm<'_>, x: &[f32], output: NormOutput<'_>) {
    let NormOutput { out, mean, rstd } = output;
    if norm.row_len > 0 {
        let is_whole = norm.affine_run > 0 && norm.row_len.is_multiple_of(norm.affine_run);
        assert!(is_whole, "a row holds whole runs");
        let rows = x.len() / norm.row_len;
        assert!(mean.len() >= rows && rstd.len() >= rows, "`mean` and `rstd` cover all rows");
        isa.run(Normalize { norm, x, out, mean, rstd });
    }
}

struct Normalize<'a> {
    norm: Norm<'a>,
    x: &'a [f32],
    out: &'a mut [f32],
    mean: &'a mut [f32],
    rstd: &'a mut [f32],
}

impl Routine for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Norm { row_len, weight, bias, affine_run, eps } = self.norm;
        let per_row = row_len / affine_run;
        let period = weight.or(bias).map_or(per_row, <[f32]>::len).max(1);
        let out = self.out[..self.x.len()].chunks_exact_mut(row_len);
        let rows = self.x.chunks_exact(row_len).zip(out);
        let moments = self.mean.iter_mut().zip(self.rstd);
        let mut first = 0;
        for ((x, out), (row_mean, row_rstd)) in rows.zip(moments) {
            let mean = sum(simd, x, |x| x) / row_len as f32;
            let center = simd.splat(mean);
            let squares = sum(simd, x, |x| (x - center) * (x - center));
            let rstd = 1.0 / sqrt(simd, squares / row_len as f32 + eps);
            (*row_mean, *row_rstd) = (mean, rstd);
            let [weight, bias] = [weight, bias].map(|all| all.map(|all| &all[first..][..per_row]));
            let row = RowParams { mean, rstd, weight, bias };
            if affine_run == 1 {
                normalize_elements(simd, x, out, row);
            } else {
                normalize_runs(simd, x, out, row, affine_run);
            }
            first = (first + per_row) % period;
        }
    }
}

/// Moments, weights and biases of one row.
#[derive(Clone, Copy)]
struct RowParams<'a> {
    mean: f32,
    rstd: f32,
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
}

/// Square root.
#[inline(always)]
fn sqrt<S: Simd>(simd: S, x: f32) -> f32 {
    let mut one = [0.0; 1];
    simd.store_partial(simd.splat(x).sqrt(), &mut one);
    one[0]
}

/// Sum of `f` over `values`.
#[inline(always)]
fn sum<S: Simd>(simd: S, values: &[f32], f: impl Fn(S::F32) -> S::F32) -> f32 {
    let (whole, rest) = values.split_at(values.len() - values.len() % (4 * S::LANES));
    let mut sums = [simd.zero(); 4];
    for chunk in whole.chunks_exact(4 * S::LANES) {
        for (sum, x) in sums.iter_mut().zip(chunk.chunks_exact(S::LANES)) {
            *sum = *sum + f(simd.load(x));
        }
    }
    let mut total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    let (whole, rest) = rest.split_at(rest.len() - rest.len() % S::LANES);
    for x in whole.chunks_exact(S::LANES) {
        total = total + f(simd.load(x));
    }
    let mut last = [0.0; 16];
    let last = &mut last[..rest.len()];
    simd.store_partial(f(simd.load_partial(rest)), last);
    total.sum() + last.iter().sum::<f32>()
}

/// Normalizes one row with a weight and a bias per element.
#[inline(always)]
fn normalize_elements<S: Simd>(simd: S, x: &[f32], out: &mut [f32], row: RowParams<'_>) {
    let RowParams { mean, rstd, weight, bias } = row;
    let (mean, rstd) = (simd.splat(mean), simd.splat(rstd));
    let (one, zero) = (simd.splat(1.0), simd.zero());
    for (start, (x, out)) in
        (0..).step_by(S::LANES).zip(x.chunks(S::LANES).zip(out.chunks_mut(S::LANES)))
    {
        let end = start + out.len();
        let weight = weight.map_or(one, |weight| simd.load_partial(&weight[start..end]));
        let bias = bias.map_or(zero, |bias| simd.load_partial(&bias[start..end]));
        let x = (simd.load_partial(x) - mean) * rstd;
        simd.store_partial(x.mul_add(weight, bias), out);
    }
}

/// Normalizes one row with a weight and a bias per run of `affine_run` elements.
#[inline(always)]
fn normalize_runs<S: Simd>(
    simd: S,
    x: &[f32],
    out: &mut [f32],
    RowParams { mean, rstd, weight, bias }: RowParams<'_>,
    affine_run: usize,
) {
    let mean = simd.splat(mean);
    let runs = x.chunks_exact(affine_run).zip(out.chunks_exact_mut(affine_run));
    for (run, (x, out)) in runs.enumerate() {
        let factor = simd.splat(weight.map_or(rstd, |weight| weight[run] * rstd));
        let bias = simd.splat(bias.map_or(0.0, |bias| bias[run]));
        for (x, out) in x.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
            simd.store_partial((simd.load_partial(x) - mean).mul_add(factor, bias), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: usize, row_len: usize, affine_run: usize, period: usize, has: [bool; 2]) {
        let numbers = |len: usize, step: usize| -> Vec<f32> {
            (0..len).map(|i| (i * step % 23) as f32 / 4.0 - 2.0).collect()
        };
        let x = numbers(rows * row_len, 7);
        let (weight, bias) = (numbers(period, 5), numbers(period, 3));
        let norm = Norm {
            row_len,
            weight: has[0].then_some(&weight),
            bias: has[1].then_some(&bias),
            affine_run,
            eps: 1e-3,
        };
        for isa in Isa::available() {
            let (mut out, mut mean, mut rstd) =
                (vec![0.0; x.len()], vec![0.0; rows], vec![0.0; rows]);
            let to = NormOutput { out: &mut out, mean: &mut mean, rstd: &mut rstd };
            normalize(isa, norm, &x, to);
            for (row, x) in x.chunks(row_len).enumerate() {
                let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
                let m = sum / row_len as f64;
                let var: f64 = x.iter().map(|&x| (f64::from(x) - m).powi(2)).sum();
                let scale = 1.0 / (var / row_len as f64 + 1e-3).sqrt();
                assert!((f64::from(mean[row]) - m).abs() < 1e-5);
                assert!((f64::from(rstd[row]) - scale).abs() < 1e-4 * scale);
                for (i, &x) in x.iter().enumerate() {
                    let at = (row * row_len + i) / affine_run % period;
                    let (w, b) =
                        (norm.weight.map_or(1.0, |w| w[at]), norm.bias.map_or(0.0, |b| b[at]));
                    let expected = (f64::from(x) - m) * scale * f64::from(w) + f64::from(b);
                    let error = (f64::from(out[row * row_len + i]) - expected).abs();
                    assert!(error < 2e-5, "{isa:?} {rows} {row_len} {affine_run}: {error}");
                }
            }
        }
    }

    #[test]
    fn rows_and_runs() {
        for has in [[true, true], [false, false], [true, false], [false, true]] {
            check(3, 5, 1, 5, has);
            check(2, 100, 1, 100, has);
            check(1, 1, 1, 1, has);
            check(4, 6, 3, 4, has);
            check(6, 40, 20, 6, has);
        }
    }
}
