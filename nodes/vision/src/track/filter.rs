//! Motion of a box: a Kalman filter of constant velocity.

use afferent_messages::vision::Box2d;

use crate::boxes::Edges;

/// Rate of images that the noise is given for, in hertz.
const RATE: f32 = 30.0;

/// Standard deviations of positions and of their change from one image to the next, in heights of the
/// box (SORT, ByteTrack).
const POSITION: f32 = 1.0 / 20.0;
const VELOCITY: f32 = 1.0 / 160.0;

/// Standard deviations of the ratio of width and height: of its state, change and measurement.
const RATIO: f32 = 1e-2;
const RATIO_VELOCITY: f32 = 1e-5;
const RATIO_MEASURED: f32 = 1e-1;

/// A number and its change per image.
///
/// The filter of a box has four of them, which do not influence each other: every matrix of it is
/// diagonal in position and velocity.
#[derive(Debug, Clone, Copy)]
struct Axis {
    value: f32,
    velocity: f32,
    /// Variances of both, and their covariance.
    variance: [f32; 2],
    covariance: f32,
}

impl Axis {
    fn new(value: f32, deviation: f32, velocity_deviation: f32) -> Self {
        let variance = [deviation * deviation, velocity_deviation * velocity_deviation];
        Self { value, velocity: 0.0, variance, covariance: 0.0 }
    }

    /// Advances by `images`; the deviations are those of one image.
    fn predict(&mut self, images: f32, deviation: f32, velocity_deviation: f32) {
        let [value, velocity] = self.variance;
        self.value += images * self.velocity;
        let noise =
            [deviation * deviation * images, velocity_deviation * velocity_deviation * images];
        self.variance = [
            value + images * (2.0 * self.covariance + images * velocity) + noise[0],
            velocity + noise[1],
        ];
        self.covariance += images * velocity;
    }

    fn update(&mut self, measured: f32, deviation: f32) {
        let [value, velocity] = self.variance;
        let total = value + deviation * deviation;
        let (gain, velocity_gain) = (value / total, self.covariance / total);
        let innovation = measured - self.value;
        self.value += gain * innovation;
        self.velocity += velocity_gain * innovation;
        self.variance = [value * (1.0 - gain), velocity - velocity_gain * self.covariance];
        self.covariance *= 1.0 - gain;
    }
}

/// State of a box: center, ratio of width and height, and height.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filter([Axis; 4]);

impl Filter {
    pub(super) fn new(bounds: &Box2d) -> Self {
        let [x, y, ratio, height] = measured(bounds);
        let (position, velocity) = (2.0 * POSITION * height, 10.0 * VELOCITY * height);
        Self([
            Axis::new(x, position, velocity),
            Axis::new(y, position, velocity),
            Axis::new(ratio, RATIO, RATIO_VELOCITY),
            Axis::new(height, position, velocity),
        ])
    }

    /// Advances by `seconds`. With `is_lost`, the height stays.
    pub(super) fn predict(&mut self, seconds: f32, is_lost: bool) {
        let images = seconds * RATE;
        let height = self.0[3].value.abs();
        if is_lost {
            self.0[3].velocity = 0.0;
        }
        for (index, axis) in self.0.iter_mut().enumerate() {
            let (position, velocity) = match index {
                2 => (RATIO, RATIO_VELOCITY),
                _ => (POSITION * height, VELOCITY * height),
            };
            axis.predict(images, position, velocity);
        }
    }

    pub(super) fn update(&mut self, bounds: &Box2d) {
        let height = self.0[3].value.abs();
        for (index, (axis, value)) in self.0.iter_mut().zip(measured(bounds)).enumerate() {
            axis.update(value, if index == 2 { RATIO_MEASURED } else { POSITION * height });
        }
    }

    /// The box as expected.
    pub(super) fn edges(&self) -> Edges {
        let [x, y, ratio, height] = self.0.map(|axis| axis.value);
        let height = height.max(0.0);
        Edges::from_center([x, y], [(ratio * height).max(0.0), height])
    }
}

fn measured(bounds: &Box2d) -> [f32; 4] {
    let edges = Edges::around(bounds);
    let ([left, top, ..], [width, height]) = (edges.0, edges.size());
    let height = height.max(1e-3);
    [left + width / 2.0, top + height / 2.0, width / height, height]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_motion_is_learned() {
        let at = |image: f32| Box2d::from_corners([10.0 * image, 5.0], [10.0 * image + 40.0, 85.0]);
        let mut filter = Filter::new(&at(0.0));
        for image in 1..30 {
            filter.predict(1.0 / RATE, false);
            filter.update(&at(image as f32));
        }
        // Five images without a measurement.
        filter.predict(5.0 / RATE, true);
        let [left, top, right, bottom] = filter.edges().0;
        for (found, expected) in
            [left, top, right, bottom].into_iter().zip([340.0, 5.0, 380.0, 85.0])
        {
            assert!((found - expected).abs() < 3.0, "{found} {expected}");
        }
    }
}
