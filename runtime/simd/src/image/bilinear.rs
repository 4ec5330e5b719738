//! Interpolation by transforms without rotation: columns by byte shuffles, rows by vectors.

#![expect(unsafe_code, reason = "loads windows of a row at checked offsets")]

use std::ops::Range;

use super::{
    Plane, Source, Target,
    position::{Line, Tap},
    taps::{Taps, Windows},
};
use crate::{Float, Int, Isa, Routine, Simd};

/// Tables of the columns and the rows.
#[derive(Debug, Clone)]
pub(super) struct Bilinear {
    /// Output columns that lie in the source.
    columns: Range<usize>,
    /// Output rows that lie in the source.
    rows: Range<usize>,
    y: Line,
    is_nearest: bool,
    /// Taps of each component.
    taps: Vec<Taps>,
}

impl Bilinear {
    /// Prepares the positions `x` and `y`, or returns `None` if rows are too short.
    pub(super) fn new(
        source: &Source,
        target: &Target,
        (x, y): (Line, Line),
        is_nearest: bool,
    ) -> Option<Self> {
        let columns = x.inside(source.width, target.width);
        let rows = y.inside(source.height, target.height);
        let taps: Vec<Tap> = columns
            .clone()
            .map(|at| Tap::at(x.position(at).fixed(is_nearest), source.width))
            .collect();
        let parts = source.format.components().iter();
        let taps = parts.map(|part| Taps::new(part, &taps, source.plane_size(part.plane)[0]));
        Some(Self { columns, rows, y, is_nearest, taps: taps.collect::<Option<_>>()? })
    }

    /// Interpolates the components of row `row`. Returns the columns that lie in the source.
    pub(super) fn sample(
        &self,
        isa: Isa,
        source: &Source,
        planes: &[Plane<'_>],
        row: usize,
        out: &mut [Vec<f32>; 3],
    ) -> Range<usize> {
        if !self.rows.contains(&row) {
            return 0..0;
        }
        let tap = Tap::at(self.y.position(row).fixed(self.is_nearest), source.height);
        let parts = source.format.components().iter();
        for ((part, taps), out) in parts.zip(&self.taps).zip(out) {
            let rows = [tap.first, tap.second].map(|row| source.row(planes, part, row));
            let is_one = tap.weight == 0 || rows[0].as_ptr() == rows[1].as_ptr();
            interpolate(isa, taps, rows, (!is_one).then(|| tap.share()), out);
        }
        self.columns.clone()
    }
}

/// Writes `first + (second - first) * weight` of both rows to `out`, where the values of a row are
/// sums of two bytes with the weights of `taps`. Without a weight, the second row is not read.
fn interpolate(isa: Isa, taps: &Taps, rows: [&[u8]; 2], weight: Option<f32>, out: &mut [f32]) {
    // A row that is shorter than the windows of `taps`, or an output without room for whole
    // vectors, is a slice that is too short.
    let rows = rows.map(|row| &row[..taps.row_bytes]);
    let (out, weights) = (&mut out[..taps.len], &taps.weights[..taps.len]);
    match &*taps.windows {
        [a] => isa.run(Interpolate { windows: [a], weights, rows, weight, out }),
        [a, b] => isa.run(Interpolate { windows: [a, b], weights, rows, weight, out }),
        [a, b, c, d] => isa.run(Interpolate { windows: [a, b, c, d], weights, rows, weight, out }),
        _ => {}
    }
}

struct Interpolate<'a, const N: usize> {
    windows: [&'a Windows; N],
    weights: &'a [i32],
    rows: [&'a [u8]; 2],
    weight: Option<f32>,
    out: &'a mut [f32],
}

impl<const N: usize> Routine for Interpolate<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { windows, weights, rows, weight, out } = self;
        // For all pixels of `out`: windows within the rows, and weights.
        let tables = Tables {
            windows: windows.map(|windows| {
                let (offsets, indices) =
                    (&windows.offsets[..out.len().div_ceil(4)], &windows.indices);
                (offsets.as_ptr(), indices[..4 * out.len()].as_ptr())
            }),
            weights: weights[..out.len()].as_ptr(),
        };
        let [first, second] = rows.map(<[u8]>::as_ptr);
        match weight {
            None => {
                for (at, out) in out.chunks_exact_mut(S::LANES).enumerate() {
                    // SAFETY: the pixel is one of `out`.
                    simd.store(unsafe { tables.sums(simd, first, at * S::LANES) }, out);
                }
            }
            Some(weight) => {
                let weight = simd.splat(weight);
                for (at, out) in out.chunks_exact_mut(S::LANES).enumerate() {
                    // SAFETY: as above.
                    let first = unsafe { tables.sums(simd, first, at * S::LANES) };
                    // SAFETY: as above.
                    let second = unsafe { tables.sums(simd, second, at * S::LANES) };
                    simd.store((second - first) * weight + first, out);
                }
            }
        }
    }
}

/// Offsets and indices of windows, and weights.
struct Tables<const N: usize> {
    windows: [(*const u32, *const u8); N],
    weights: *const i32,
}

impl<const N: usize> Tables<N> {
    /// Weighted sums of two bytes of `row`, from pixel `at` on.
    ///
    /// # Safety
    /// The tables hold a vector of pixels from `at` on, with windows within `row`.
    #[inline(always)]
    unsafe fn sums<S: Simd>(&self, simd: S, row: *const u8, at: usize) -> S::F32 {
        let mut bytes = simd.splat_i32(0);
        for (offsets, indices) in self.windows {
            let (offsets, indices) = (offsets.wrapping_add(at / 4), indices.wrapping_add(4 * at));
            // SAFETY: guaranteed by the caller.
            bytes = bytes | unsafe { simd.load_windows_ptr(row, offsets, indices) };
        }
        // SAFETY: guaranteed by the caller.
        let weights = unsafe { simd.load_ptr(self.weights.wrapping_add(at).cast()) };
        simd.splat_i32(0).add_dot2(bytes, weights.to_bits()).to_f32()
    }
}
