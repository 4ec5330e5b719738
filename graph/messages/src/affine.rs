//! Affine maps between pixel coordinates.

/// Affine map of the plane: a 2 × 3 matrix, row after row, that is applied to `[x, y, 1]`.
///
/// Pixel coordinates begin at the top left corner of an image: x to the right, y down, so the center
/// of the first pixel is at (0.5, 0.5). Subtract 0.5 for coordinates of OpenCV and ROS, whose
/// origin is the center of the first pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine(pub [[f64; 3]; 2]);

impl Default for Affine {
    fn default() -> Self {
        Self::IDENTITY
    }
}

impl Affine {
    /// The map that changes nothing.
    pub const IDENTITY: Self = Self::scale_and_shift([1.0; 2], [0.0; 2]);

    /// The map that multiplies by `scale` and then adds `shift`.
    pub const fn scale_and_shift(scale: [f64; 2], shift: [f64; 2]) -> Self {
        Self([[scale[0], 0.0, shift[0]], [0.0, scale[1], shift[1]]])
    }

    /// Image of a point.
    pub fn apply(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        self.0.map(|[a, b, c]| a * x + b * y + c)
    }

    /// The map that applies `first`, and then this one.
    #[must_use]
    pub fn after(&self, first: &Self) -> Self {
        let [p, q] = first.0;
        Self(
            self.0.map(|[a, b, c]| {
                [a * p[0] + b * q[0], a * p[1] + b * q[1], a * p[2] + b * q[2] + c]
            }),
        )
    }

    /// Factor by which the map changes areas; negative if it mirrors.
    pub fn determinant(&self) -> f64 {
        let [[a, b, _], [d, e, _]] = self.0;
        a * e - b * d
    }

    /// The inverse map, or `None` if points fall together.
    pub fn inverse(&self) -> Option<Self> {
        let [[a, b, c], [d, e, f]] = self.0;
        let inverse = 1.0 / self.determinant();
        let rows = [[e, -b, b * f - c * e], [-d, a, c * d - a * f]];
        let inverse = Self(rows.map(|row| row.map(|value| value * inverse)));
        Some(inverse).filter(Self::is_finite)
    }

    /// True if every number is finite.
    pub fn is_finite(&self) -> bool {
        self.0.as_flattened().iter().all(|value| value.is_finite())
    }

    /// True if the map neither rotates nor shears: rows stay rows and columns stay columns.
    pub fn is_axis_aligned(&self) -> bool {
        self.0[0][1] == 0.0 && self.0[1][0] == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_composed_and_inverted() {
        let turned = Affine([[0.0, -2.0, 5.0], [4.0, 0.5, -1.0]]);
        let scaled = Affine::scale_and_shift([4.0, 0.25], [1.0, 2.0]);
        let point = [3.0, 7.0];
        assert_eq!(turned.apply(point), [-9.0, 14.5]);
        assert_eq!(turned.after(&scaled).apply(point), turned.apply(scaled.apply(point)));
        assert_eq!(turned.inverse().unwrap().apply(turned.apply(point)), point);
        assert_eq!(scaled.inverse().unwrap().after(&scaled), Affine::IDENTITY);
        assert_eq!((turned.determinant(), scaled.determinant()), (8.0, 1.0));
        assert!(scaled.is_axis_aligned() && !turned.is_axis_aligned());
    }

    #[test]
    fn maps_that_join_points_have_no_inverse() {
        for rows in [[[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]], [[0.0; 3]; 2], [[f64::NAN; 3]; 2]] {
            assert_eq!(Affine(rows).inverse(), None, "{rows:?}");
        }
    }
}
