//! Normalisation of rows: layer norm and group norm.

use crate::{Float, Isa, Routine, Simd};

/// How rows are normalised.
#[derive(Clone, Copy)]
pub struct Norm<'a> {
    /// Elements per row.
    pub row_len: usize,
    /// What multiplies the result.
    pub weight: Option<&'a [f32]>,
    /// What is added then.
    pub bias: Option<&'a [f32]>,
    /// Adjacent numbers that share a weight and a bias.
    pub affine_run: usize,
    /// What is added to the variance.
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

/// Writes `(x - mean) / √(var + eps) · weight + bias` of each row to `to`, and to `mean` and `rstd`
/// the mean and the factor of the row.
///
/// Weights and biases go on from row to row, and begin anew after the last.
///
/// # Panics
/// When `from`, `to`, `mean` and `rstd` do not hold the same number of rows, or rows and weights
/// do not fit each other.
pub fn normalize(isa: Isa, norm: Norm<'_>, from: &[f32], out: NormOutput<'_>) {
    let NormOutput { out: to, mean, rstd } = out;
    if norm.row_len > 0 {
        let is_whole = norm.affine_run > 0 && norm.row_len.is_multiple_of(norm.affine_run);
        assert!(is_whole, "a row holds whole runs");
        let rows = from.len() / norm.row_len;
        assert!(mean.len() >= rows && rstd.len() >= rows, "a mean and a factor for each row");
        isa.run(Normalize { norm, from, to, mean, rstd });
    }
}

struct Normalize<'a> {
    norm: Norm<'a>,
    from: &'a [f32],
    to: &'a mut [f32],
    mean: &'a mut [f32],
    rstd: &'a mut [f32],
}

impl Routine for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Norm { row_len: width, weight, bias, affine_run: shared, eps } = self.norm;
        let per_row = width / shared;
        let period = weight.or(bias).map_or(per_row, <[f32]>::len).max(1);
        let rows =
            self.from.chunks_exact(width).zip(self.to[..self.from.len()].chunks_exact_mut(width));
        let moments = self.mean.iter_mut().zip(self.rstd);
        let mut first = 0;
        for ((from, to), (row_mean, row_rstd)) in rows.zip(moments) {
            let mean = sum(simd, from, |x| x) / width as f32;
            let center = simd.splat(mean);
            let squares = sum(simd, from, |x| (x - center) * (x - center));
            let rstd = 1.0 / root(simd, squares / width as f32 + eps);
            (*row_mean, *row_rstd) = (mean, rstd);
            let [weight, bias] = [weight, bias].map(|all| all.map(|all| &all[first..][..per_row]));
            if shared == 1 {
                each(simd, from, to, [mean, rstd], [weight, bias]);
            } else {
                runs(simd, from, to, [mean, rstd], [weight, bias], shared);
            }
            first = (first + per_row) % period;
        }
    }
}

/// The square root.
#[inline(always)]
fn root<S: Simd>(simd: S, x: f32) -> f32 {
    let mut one = [0.0; 1];
    simd.store_partial(simd.splat(x).sqrt(), &mut one);
    one[0]
}

/// The sum of `f` over `numbers`.
#[inline(always)]
fn sum<S: Simd>(simd: S, numbers: &[f32], f: impl Fn(S::F32) -> S::F32) -> f32 {
    let (whole, rest) = numbers.split_at(numbers.len() - numbers.len() % (4 * S::LANES));
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

/// One row, with a factor for each number.
#[inline(always)]
fn each<S: Simd>(
    simd: S,
    from: &[f32],
    to: &mut [f32],
    [mean, rstd]: [f32; 2],
    [weight, bias]: [Option<&[f32]>; 2],
) {
    let (mean, rstd) = (simd.splat(mean), simd.splat(rstd));
    let (one, zero) = (simd.splat(1.0), simd.zero());
    for (at, (from, to)) in
        (0..).step_by(S::LANES).zip(from.chunks(S::LANES).zip(to.chunks_mut(S::LANES)))
    {
        let end = at + to.len();
        let weight = weight.map_or(one, |weight| simd.load_partial(&weight[at..end]));
        let bias = bias.map_or(zero, |bias| simd.load_partial(&bias[at..end]));
        let x = (simd.load_partial(from) - mean) * rstd;
        simd.store_partial(x.mul_add(weight, bias), to);
    }
}

/// One row, with a factor for each run of `shared` numbers.
#[inline(always)]
fn runs<S: Simd>(
    simd: S,
    from: &[f32],
    to: &mut [f32],
    [mean, rstd]: [f32; 2],
    [weight, bias]: [Option<&[f32]>; 2],
    shared: usize,
) {
    let mean = simd.splat(mean);
    for (run, (from, to)) in from.chunks_exact(shared).zip(to.chunks_exact_mut(shared)).enumerate()
    {
        let factor = simd.splat(weight.map_or(rstd, |weight| weight[run] * rstd));
        let bias = simd.splat(bias.map_or(0.0, |bias| bias[run]));
        for (from, to) in from.chunks(S::LANES).zip(to.chunks_mut(S::LANES)) {
            simd.store_partial((simd.load_partial(from) - mean).mul_add(factor, bias), to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: usize, width: usize, shared: usize, period: usize, has: [bool; 2]) {
        let numbers = |len: usize, step: usize| -> Vec<f32> {
            (0..len).map(|i| (i * step % 23) as f32 / 4.0 - 2.0).collect()
        };
        let from = numbers(rows * width, 7);
        let (weight, bias) = (numbers(period, 5), numbers(period, 3));
        let norm = Norm {
            row_len: width,
            weight: has[0].then_some(&weight),
            bias: has[1].then_some(&bias),
            affine_run: shared,
            eps: 1e-3,
        };
        for isa in Isa::available() {
            let (mut to, mut mean, mut rstd) =
                (vec![0.0; from.len()], vec![0.0; rows], vec![0.0; rows]);
            let out = NormOutput { out: &mut to, mean: &mut mean, rstd: &mut rstd };
            normalize(isa, norm, &from, out);
            for (row, x) in from.chunks(width).enumerate() {
                let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
                let m = sum / width as f64;
                let var: f64 = x.iter().map(|&x| (f64::from(x) - m).powi(2)).sum();
                let scale = 1.0 / (var / width as f64 + 1e-3).sqrt();
                assert!((f64::from(mean[row]) - m).abs() < 1e-5);
                assert!((f64::from(rstd[row]) - scale).abs() < 1e-4 * scale);
                for (i, &x) in x.iter().enumerate() {
                    let at = (row * width + i) / shared % period;
                    let (w, b) =
                        (norm.weight.map_or(1.0, |w| w[at]), norm.bias.map_or(0.0, |b| b[at]));
                    let expected = (f64::from(x) - m) * scale * f64::from(w) + f64::from(b);
                    let error = (f64::from(to[row * width + i]) - expected).abs();
                    assert!(error < 2e-5, "{isa:?} {rows} {width} {shared}: {error}");
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
