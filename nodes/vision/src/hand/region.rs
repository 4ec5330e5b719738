//! Rotated squares in an image.

use afferent_messages::{Affine, vision::Box2d};

/// Landmarks of the palm and of the first joints of the fingers. Their extent changes less than that
/// of all landmarks when the fingers bend.
const STABLE: [usize; 12] = [0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18];

/// Region of the landmarks, relative to a palm: its side, and its shift to the fingers (MediaPipe).
const PALM_SCALE: f64 = 2.6;
const PALM_SHIFT: f64 = 0.5;

/// Shift to the fingers of the region that follows landmarks, relative to their extent (MediaPipe).
const LANDMARK_SHIFT: f64 = 0.1;

/// A square in the pixels of an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Region {
    /// Center: x and y.
    pub(crate) center: [f64; 2],
    /// Length of a side.
    pub(crate) side: f64,
    /// Clockwise rotation, as seen in the image. Zero if the upper side of the region is up.
    pub(crate) angle: f64,
}

/// Clockwise rotation of the direction `[x, y]` from up.
pub(crate) fn angle_from_up([x, y]: [f64; 2]) -> f64 {
    x.atan2(-y)
}

impl Region {
    /// Region of the landmarks of the hand with this palm.
    pub(crate) fn around_palm(palm: &Self) -> Self {
        palm.moved_up(PALM_SHIFT).scaled(PALM_SCALE)
    }

    /// Region in the next image of the hand with these landmarks, as MediaPipe computes it. Its side
    /// is `margin` times the extent of the landmarks of the palm and of the first joints.
    pub(crate) fn around_landmarks(landmarks: &[[f64; 2]; 21], margin: f64) -> Self {
        let between =
            |one: [f64; 2], other: [f64; 2]| [0, 1].map(|axis| (one[axis] + other[axis]) / 2.0);
        let wrist = landmarks[0];
        let knuckles = between(between(landmarks[5], landmarks[13]), landmarks[9]);
        let angle = angle_from_up([knuckles[0] - wrist[0], knuckles[1] - wrist[1]]);
        let upright = Self { center: [0.0; 2], side: 1.0, angle };
        let (mut least, mut most) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for landmark in STABLE {
            let point = upright.turned_back(landmarks[landmark]);
            for axis in [0, 1] {
                least[axis] = least[axis].min(point[axis]);
                most[axis] = most[axis].max(point[axis]);
            }
        }
        let extent = [0, 1].map(|axis| most[axis] - least[axis]);
        let center = upright.turned([
            (least[0] + most[0]) / 2.0,
            (least[1] + most[1]) / 2.0 - LANDMARK_SHIFT * extent[1],
        ]);
        Self { center, side: extent[0].max(extent[1]) * margin, angle }
    }

    /// The region with its center moved to its upper side by `shift` times its side.
    fn moved_up(&self, shift: f64) -> Self {
        let [x, y] = self.turned([0.0, -shift * self.side]);
        Self { center: [self.center[0] + x, self.center[1] + y], ..*self }
    }

    fn scaled(&self, factor: f64) -> Self {
        Self { side: self.side * factor, ..*self }
    }

    /// A vector in the axes of the region, in those of the image.
    pub(crate) fn turned(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let (sin, cos) = self.angle.sin_cos();
        [cos * x - sin * y, sin * x + cos * y]
    }

    /// A vector in the axes of the image, in those of the region.
    fn turned_back(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let (sin, cos) = self.angle.sin_cos();
        [cos * x + sin * y, cos * y - sin * x]
    }

    /// The region in the pixels that `map` leads to.
    pub(crate) fn mapped(&self, map: &Affine) -> Self {
        let [x, y] = self.turned([0.0, -1.0]);
        let direction = Affine([[map.0[0][0], map.0[0][1], 0.0], [map.0[1][0], map.0[1][1], 0.0]]);
        Self {
            center: map.apply(self.center),
            side: self.side * map.determinant().abs().sqrt(),
            angle: angle_from_up(direction.apply([x, y])),
        }
    }

    /// Map from the pixels of an input of this size, which shows the region, to those of the image.
    pub(crate) fn source_from_input(&self, size: [usize; 2]) -> Affine {
        let scale = size.map(|side| self.side / side as f64);
        let (sin, cos) = self.angle.sin_cos();
        let half = self.turned([-self.side / 2.0; 2]);
        Affine([
            [cos * scale[0], -sin * scale[1], self.center[0] + half[0]],
            [sin * scale[0], cos * scale[1], self.center[1] + half[1]],
        ])
    }

    /// True if regions with these centers and sides, without their rotation, have more than half of
    /// their area in common (intersection over union).
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let common = |axis: usize| {
            let (one, two) = (self.center[axis], other.center[axis]);
            let right = (one + self.side / 2.0).min(two + other.side / 2.0);
            (right - (one - self.side / 2.0).max(two - other.side / 2.0)).max(0.0)
        };
        let both = common(0) * common(1);
        both > 0.5 * (self.side * self.side + other.side * other.side - both)
    }

    /// True if every number is finite and the region has an area.
    pub(crate) fn is_valid(&self) -> bool {
        self.center.iter().all(|value| value.is_finite())
            && self.angle.is_finite()
            && self.side.is_finite()
            && self.side > 0.0
    }

    /// The region as a rotated box.
    pub(crate) fn to_box(self) -> Box2d {
        let side = self.side as f32;
        Box2d {
            center: self.center.map(|value| value as f32),
            size: [side, side],
            angle_rad: self.angle as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_PI_2;

    use super::*;

    fn near(one: [f64; 2], other: [f64; 2]) {
        let far = (one[0] - other[0]).hypot(one[1] - other[1]);
        assert!(far < 1e-9, "{one:?} {other:?}");
    }

    #[test]
    fn inputs_show_the_region_upright() {
        // A hand that points to the right.
        let region = Region { center: [100.0, 50.0], side: 40.0, angle: FRAC_PI_2 };
        assert_eq!(angle_from_up([1.0, 0.0]), FRAC_PI_2);
        let map = region.source_from_input([80, 80]);
        near(map.apply([40.0, 40.0]), [100.0, 50.0]);
        near(map.apply([40.0, 0.0]), [120.0, 50.0]);
        near(map.apply([0.0, 40.0]), [100.0, 30.0]);
        let palm = Region::around_palm(&region);
        near(palm.center, [120.0, 50.0]);
        assert_eq!(palm.side, 104.0);
    }

    #[test]
    fn regions_follow_landmarks_in_any_rotation() {
        // Wrist, knuckles in a row above it, first joints above them.
        let mut landmarks = [[0.0, 0.0]; 21];
        for finger in 0..4 {
            let x = finger as f64 * 10.0 - 10.0;
            for (joint, y) in [-40.0, -60.0, -70.0, -80.0].into_iter().enumerate() {
                landmarks[5 + 4 * finger + joint] = [x, y];
            }
        }
        let upright = Region::around_landmarks(&landmarks, 2.0);
        near(upright.center, [5.0, -30.0 - 6.0]);
        assert_eq!((upright.side, upright.angle), (120.0, 0.0));
        let turn = Region { center: [0.0; 2], side: 1.0, angle: 2.0 };
        let turned = landmarks.map(|point| turn.turned(point));
        let found = Region::around_landmarks(&turned, 2.0);
        near(found.center, turn.turned(upright.center));
        assert!((found.side - 120.0).abs() < 1e-9 && (found.angle - 2.0).abs() < 1e-9);
    }

    #[test]
    fn regions_are_mapped_and_compared() {
        let region = Region { center: [10.0, 20.0], side: 8.0, angle: 0.3 };
        let map = Affine::scale_and_shift([2.0; 2], [1.0, -1.0]);
        let found = region.mapped(&map);
        near(found.center, [21.0, 39.0]);
        assert!((found.side - 16.0).abs() < 1e-12 && (found.angle - 0.3).abs() < 1e-12);
        let beside = |x: f64| Region { center: [10.0 + x, 20.0], ..region };
        assert!(region.is_same(&beside(2.0)), "6 of 10 columns");
        assert!(!region.is_same(&beside(3.0)), "5 of 11 columns");
        assert!(!Region { side: f64::NAN, ..region }.is_valid());
    }
}
