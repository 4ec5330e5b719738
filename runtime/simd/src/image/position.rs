//! Positions of output pixels in the source, in fixed point.

use std::ops::Range;

use crate::SizeError;

/// Weight of a pixel at the position.
pub(super) const ONE: i32 = 1 << WEIGHT_BITS;

const WEIGHT_BITS: u32 = 14;
const FRACTION_BITS: u32 = 32;
/// Largest distance from the origin of the source, in pixels. Sums of three positions fit an `i64`.
const MAX_POSITION: f64 = (1_u64 << 29) as f64;

/// One coordinate of the centers of all output pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Positions {
    first: i64,
    per_column: i64,
    per_row: i64,
}

/// One coordinate of the centers of a row or a column of output pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    first: i64,
    step: i64,
}

/// One coordinate of the center of an output pixel, from the edge of the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position(i64);

/// Two adjacent source pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tap {
    pub first: usize,
    pub second: usize,
    /// Weight of the second, from 0 to [`ONE`]. That of the first is the rest.
    pub weight: i32,
}

/// Positions along both axes for an output of `size`.
pub(super) fn positions(
    to_source: [[f64; 3]; 2],
    [width, height]: [usize; 2],
) -> Result<[Positions; 2], SizeError> {
    let [width, height] = [width as f64, height as f64];
    let corners = [[0.0, 0.0], [width, 0.0], [0.0, height], [width, height]];
    let mut far = to_source.iter().flat_map(|[a, b, c]| corners.map(|[x, y]| a * x + b * y + c));
    let is_near = far.all(|position| position.abs() <= MAX_POSITION);
    SizeError::check_parameter("to_source", "within 2^29 pixels of the source", is_near)?;
    let fixed = |value: f64| (value * (1_u64 << FRACTION_BITS) as f64).round() as i64;
    Ok(to_source.map(|[a, b, c]| Positions {
        first: fixed(a / 2.0 + b / 2.0 + c),
        per_column: fixed(a),
        per_row: fixed(b),
    }))
}

impl Positions {
    /// The positions of row `row`.
    pub(super) fn columns(&self, row: usize) -> Line {
        Line { first: self.first + self.per_row * row as i64, step: self.per_column }
    }

    /// The positions of column `column`.
    pub(super) fn rows(&self, column: usize) -> Line {
        Line { first: self.first + self.per_column * column as i64, step: self.per_row }
    }
}

impl Line {
    /// Position of output pixel `at`.
    pub(super) fn position(&self, at: usize) -> Position {
        Position(self.first + self.step * at as i64)
    }

    /// Those of `count` output pixels that lie in a source of `size` pixels.
    pub(super) fn inside(&self, size: usize, count: usize) -> Range<usize> {
        let Self { first, step } = *self;
        let (low, high) = (-first, ((size as i64) << FRACTION_BITS) - first);
        // The pixels with `low <= step * at < high`.
        let ceil = |a: i64, b: i64| a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0);
        let (start, end) = match step {
            0 if low <= 0 && high > 0 => (0, i64::MAX),
            0 => (0, 0),
            1.. => (ceil(low, step), ceil(high, step)),
            _ => ((-high).div_euclid(-step) + 1, (-low).div_euclid(-step) + 1),
        };
        let limit = |at: i64| at.clamp(0, count as i64) as usize;
        limit(start)..limit(end).max(limit(start))
    }
}

impl Position {
    /// The position from the center of the first source pixel, with the fraction of the weights; or
    /// the pixel at the position, without a fraction, if `is_nearest`.
    #[inline]
    pub(super) fn fixed(self, is_nearest: bool) -> i32 {
        const HALF: i64 = 1 << (FRACTION_BITS - 1);
        const ROUND: i64 = 1 << (FRACTION_BITS - WEIGHT_BITS - 1);
        if is_nearest {
            return ((self.0 >> FRACTION_BITS) << WEIGHT_BITS) as i32;
        }
        ((self.0 - HALF + ROUND) >> (FRACTION_BITS - WEIGHT_BITS)) as i32
    }
}

/// [`Position::fixed`] of a position that is limited to a source of `size` pixels. NaN becomes its
/// first pixel.
pub(super) fn limited(position: f64, size: usize, is_nearest: bool) -> i32 {
    let position = position.clamp(0.0, size as f64);
    if is_nearest {
        return (position.floor() as i32) << WEIGHT_BITS;
    }
    ((position - 0.5) * f64::from(ONE)).round() as i32
}

impl Tap {
    /// Pixels of a source of `size` pixels to interpolate between at `fixed`.
    #[inline(always)]
    pub(super) fn at(fixed: i32, size: usize) -> Self {
        let (at, last) = (fixed >> WEIGHT_BITS, size as i32 - 1);
        let limit = |at: i32| at.clamp(0, last) as usize;
        Self { first: limit(at), second: limit(at + 1), weight: fixed & (ONE - 1) }
    }

    /// Weight of the second pixel, from 0 to 1.
    #[inline(always)]
    pub(super) fn share(self) -> f32 {
        self.weight as f32 / ONE as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_where_the_centers_are() {
        for first in [-3.25, -0.5, 0.0, 0.5, 1.0, 4.75, 5.0, 100.0] {
            for step in [-2.0, -1.0, -0.3, 0.0, 0.01, 0.5, 1.0, 2.5, 70.0] {
                for size in [1, 2, 5, 64] {
                    let to_source = [[step, 0.0, first - step / 2.0], [0.0, 1.0, 0.0]];
                    let line = positions(to_source, [40, 1]).unwrap()[0].columns(0);
                    let inside = line.inside(size, 40);
                    for at in 0..40 {
                        let is_inside = (0..(size as i64) << 32).contains(&line.position(at).0);
                        assert_eq!(inside.contains(&at), is_inside, "{first} {step} {size} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn taps_stay_in_the_source() {
        fn at(position: f64, is_nearest: bool) -> (usize, usize, f32) {
            let to_source = [[1.0, 0.0, position - 0.5], [0.0, 1.0, 0.0]];
            let line = positions(to_source, [1, 1]).unwrap()[0].columns(0);
            let tap = Tap::at(line.position(0).fixed(is_nearest), 3);
            (tap.first, tap.second, tap.share())
        }
        assert_eq!(at(1.5, false), (1, 2, 0.0));
        assert_eq!(at(1.25, false), (0, 1, 0.75));
        assert_eq!(at(0.25, false), (0, 0, 0.75));
        assert_eq!(at(2.75, false), (2, 2, 0.25));
        assert_eq!(at(1.99, true), (1, 2, 0.0));
        for is_nearest in [false, true] {
            for position in [0.0, 0.25, 1.5, 1.99, 2.75] {
                let found = limited(position, 3, is_nearest);
                let tap = Tap::at(found, 3);
                assert_eq!((tap.first, tap.second, tap.share()), at(position, is_nearest));
            }
        }
        assert_eq!(limited(f64::NAN, 3, true), 0);
    }

    #[test]
    fn positions_far_from_the_source_are_refused() {
        for to_source in [[[f64::NAN; 3]; 2], [[1e9, 0.0, 0.0], [0.0, 1.0, 0.0]]] {
            let error = positions(to_source, [640, 480]).unwrap_err().to_string();
            assert_eq!(error, "`to_source` must be within 2^29 pixels of the source");
        }
    }
}
