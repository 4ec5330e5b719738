//! Calibration of cameras.

use std::sync::Arc;

use afferent_graph::{Choice, choices};
use serde::{Deserialize, Serialize};

use crate::{Affine, wire::choice};

choices! {
    /// Model of the distortion of a lens, with the names of ROS (`sensor_msgs/distortion_models`).
    #[derive(Default, Hash)]
    pub enum DistortionModel {
        /// No distortion, and no coefficients.
        #[default]
        None = "none",
        /// Brown-Conrady: k1, k2, p1, p2, k3.
        PlumbBob = "plumb_bob",
        /// Rational: k1, k2, p1, p2, k3, k4, k5, k6.
        RationalPolynomial = "rational_polynomial",
        /// Fisheye lens of Kannala and Brandt: k1, k2, k3, k4.
        Equidistant = "equidistant",
    }
}

impl DistortionModel {
    /// Number of coefficients.
    pub const fn coefficients(self) -> usize {
        match self {
            Self::None => 0,
            Self::PlumbBob => 5,
            Self::RationalPolynomial => 8,
            Self::Equidistant => 4,
        }
    }
}

/// Calibration of a camera (ROS `sensor_msgs/CameraInfo`): a pinhole with a lens.
///
/// It holds for the source image. A resized or cropped image has the same calibration and says in
/// [`Image::to_source`](crate::Image::to_source) where its pixels lie in the source image. Pixel
/// coordinates are those of [`Affine`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Camera {
    /// Width of the source image in pixels.
    pub width: u32,
    /// Height of the source image in pixels.
    pub height: u32,
    /// Focal lengths along x and y, in pixels.
    pub focal_px: [f64; 2],
    /// Principal point.
    pub center_px: [f64; 2],
    /// Model of the distortion.
    pub distortion: DistortionModel,
    /// Coefficients of the model, as many as [`DistortionModel::coefficients`].
    pub coefficients: Vec<f64>,
}

impl Camera {
    /// A camera without distortion from the matrix `K` of OpenCV and ROS, row after row, whose
    /// principal point counts from the center of the first pixel.
    pub fn from_matrix(width: u32, height: u32, k: [[f64; 3]; 3]) -> Self {
        let (focal_px, center_px) = ([k[0][0], k[1][1]], [k[0][2] + 0.5, k[1][2] + 0.5]);
        Self { width, height, focal_px, center_px, ..Self::default() }
    }

    /// The matrix `K` of OpenCV and ROS.
    pub fn matrix(&self) -> [[f64; 3]; 3] {
        let ([fx, fy], [cx, cy]) = (self.focal_px, self.center_px);
        [[fx, 0.0, cx - 0.5], [0.0, fy, cy - 0.5], [0.0, 0.0, 1.0]]
    }

    /// The matrix `K` of OpenCV and ROS for the pixels of an image that was made from the source
    /// image, or `None` if `to_source` has no inverse.
    pub fn matrix_of(&self, to_source: &Affine) -> Option<[[f64; 3]; 3]> {
        let (focal, center) = (self.focal_px, self.center_px);
        let [x, y] = to_source.inverse()?.after(&Affine::scale_and_shift(focal, center)).0;
        Some([[x[0], x[1], x[2] - 0.5], [y[0], y[1], y[2] - 0.5], [0.0, 0.0, 1.0]])
    }

    /// Point of the source image that shows the direction `[x, y, 1]` in the frame of the camera.
    pub fn project(&self, direction: [f64; 2]) -> [f64; 2] {
        let [x, y] = self.distort(direction);
        [x * self.focal_px[0] + self.center_px[0], y * self.focal_px[1] + self.center_px[1]]
    }

    /// Applies the distortion to a direction `[x, y, 1]`. Missing coefficients count as zero.
    pub fn distort(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let k = |at: usize| self.coefficients.get(at).copied().unwrap_or(0.0);
        let square = x * x + y * y;
        match self.distortion {
            DistortionModel::None => [x, y],
            DistortionModel::PlumbBob | DistortionModel::RationalPolynomial => {
                let rational = |a, b, c| 1.0 + square * (a + square * (b + square * c));
                let below = match self.distortion {
                    DistortionModel::RationalPolynomial => rational(k(5), k(6), k(7)),
                    _ => 1.0,
                };
                let radial = rational(k(0), k(1), k(4)) / below;
                let (p, q, xy) = (k(2), k(3), 2.0 * x * y);
                [
                    x * radial + p * xy + q * (square + 2.0 * x * x),
                    y * radial + p * (square + 2.0 * y * y) + q * xy,
                ]
            }
            DistortionModel::Equidistant => {
                let radius = square.sqrt();
                let angle = radius.atan();
                let t = angle * angle;
                let angle = angle * (1.0 + t * (k(0) + t * (k(1) + t * (k(2) + t * k(3)))));
                let scale = if radius > 0.0 { angle / radius } else { 1.0 };
                [x * scale, y * scale]
            }
        }
    }

    /// Direction that the camera shows at a point of the source image: the inverse of
    /// [`Camera::project`]. `None` if the model of the distortion has none in front of the camera.
    pub fn direction(&self, point: [f64; 2]) -> Option<[f64; 2]> {
        let wanted = [0, 1].map(|axis| (point[axis] - self.center_px[axis]) / self.focal_px[axis]);
        if self.distortion == DistortionModel::Equidistant {
            return self.undistort_fisheye(wanted);
        }
        // From the axis outwards, so that directions beyond a fold of the model are not found.
        (1..=CONTINUATION_STEPS).try_fold([0.0; 2], |at, step| {
            let share = f64::from(step) / f64::from(CONTINUATION_STEPS);
            self.undistort_near(at, wanted.map(|wanted| wanted * share))
        })
    }

    /// Direction near `at` with the distorted direction `wanted`, by Newton's method.
    fn undistort_near(&self, mut at: [f64; 2], wanted: [f64; 2]) -> Option<[f64; 2]> {
        for _ in 0..MAX_ITERATIONS {
            let [x, y] = at;
            let error = difference(self.distort(at), wanted);
            let along = |step: [f64; 2]| {
                let ahead = self.distort([x + step[0], y + step[1]]);
                difference(ahead, self.distort([x - step[0], y - step[1]]))
                    .map(|change| change / (2.0 * STEP))
            };
            let ([a, c], [b, d]) = (along([STEP, 0.0]), along([0.0, STEP]));
            let determinant = a * d - b * c;
            // Where the model mirrors the image, it no longer describes the lens.
            if determinant.is_nan() || determinant <= 0.0 {
                return None;
            }
            if error[0].abs().max(error[1].abs()) < TOLERANCE {
                return Some(at);
            }
            at = [
                x - (d * error[0] - b * error[1]) / determinant,
                y - (a * error[1] - c * error[0]) / determinant,
            ];
        }
        None
    }

    /// Inverse of [`Camera::distort`] for a fisheye lens.
    fn undistort_fisheye(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let k = |at: usize| self.coefficients.get(at).copied().unwrap_or(0.0);
        let radius = x.hypot(y);
        let mut angle = radius;
        for _ in 0..MAX_ITERATIONS {
            let t = angle * angle;
            let found = angle * (1.0 + t * (k(0) + t * (k(1) + t * (k(2) + t * k(3)))));
            if (found - radius).abs() < TOLERANCE {
                let is_ahead = (0.0..std::f64::consts::FRAC_PI_2).contains(&angle);
                let scale = if radius > 0.0 { angle.tan() / radius } else { 1.0 };
                return is_ahead.then_some([x * scale, y * scale]);
            }
            let outer = t * (5.0 * k(1) + t * (7.0 * k(2) + t * 9.0 * k(3)));
            let slope = 1.0 + t * (3.0 * k(0) + outer);
            // Beyond a fold, the model no longer describes the lens.
            if slope.is_nan() || slope <= 0.0 {
                return None;
            }
            angle -= (found - radius) / slope;
        }
        None
    }

    /// Checks the properties that nodes rely on.
    ///
    /// # Errors
    /// The invalid field and its accepted values.
    pub fn check(&self) -> Result<(), String> {
        let (model, found) = (self.distortion, self.coefficients.len());
        if found != model.coefficients() {
            let (name, wanted) = (model.word(), model.coefficients());
            return Err(format!("{found} coefficients of distortion; {name} has {wanted}"));
        }
        if self.width == 0 || self.height == 0 {
            let Self { width, height, .. } = self;
            return Err(format!("a camera of {width} × {height} pixels; it must have some"));
        }
        if !self.focal_px.iter().all(|focal| focal.is_finite() && *focal > 0.0) {
            return Err(format!("focal lengths {:?}; they must be positive", self.focal_px));
        }
        if !self.center_px.iter().chain(&self.coefficients).all(|value| value.is_finite()) {
            return Err("the principal point and the coefficients must be finite".to_owned());
        }
        Ok(())
    }
}

/// Largest number of iterations of the inverse distortion.
const MAX_ITERATIONS: usize = 30;

/// Steps from the axis to a direction.
const CONTINUATION_STEPS: u32 = 8;

/// Accepted error of the inverse distortion, in focal lengths.
const TOLERANCE: f64 = 1e-10;

/// Step of the derivative of the distortion, in focal lengths.
const STEP: f64 = 1e-6;

fn difference(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] - b[0], a[1] - b[1]]
}

/// Geometry of an image, as the fields of a message.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Geometry {
    to_source: [[f64; 3]; 2],
    /// At most one.
    camera: Vec<CameraFields>,
}

/// Fields of [`Camera`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct CameraFields {
    width: u32,
    height: u32,
    focal_px: [f64; 2],
    center_px: [f64; 2],
    distortion: String,
    coefficients: Vec<f64>,
}

/// Layout of [`Geometry`], as a ROS 2 message definition without the definition of `Camera`.
macro_rules! geometry_fields {
    () => {
        "float64[6] to_source # rows of a 2 × 3 matrix
Camera[<=1] camera
"
    };
}
pub(crate) use geometry_fields;

/// Definition of `Camera` in messages of ROS 2.
macro_rules! camera_definition {
    () => {
        "================================================================================
MSG: afferent_msgs/Camera
uint32 width
uint32 height
float64[2] focal_px
float64[2] center_px
string distortion
float64[] coefficients
"
    };
}
pub(crate) use camera_definition;

impl Geometry {
    /// Converts the geometry to fields.
    ///
    /// # Errors
    /// The field that [`Geometry::into_parts`] refuses.
    pub(crate) fn new(to_source: &Affine, camera: Option<&Camera>) -> Result<Self, String> {
        check(to_source, camera)?;
        Ok(Self::unchecked(to_source, camera))
    }

    /// Like [`Geometry::new`], also for values that [`Geometry::into_parts`] refuses.
    pub(crate) fn unchecked(to_source: &Affine, camera: Option<&Camera>) -> Self {
        let fields = |camera: &Camera| {
            let Camera { width, height, focal_px, center_px, distortion, coefficients } = camera;
            CameraFields {
                width: *width,
                height: *height,
                focal_px: *focal_px,
                center_px: *center_px,
                distortion: distortion.word().to_owned(),
                coefficients: coefficients.clone(),
            }
        };
        Self { to_source: to_source.0, camera: camera.into_iter().map(fields).collect() }
    }

    /// Builds the geometry.
    ///
    /// # Errors
    /// The invalid field and its accepted values.
    pub(crate) fn into_parts(self) -> Result<(Affine, Option<Arc<Camera>>), String> {
        let found = self.camera.len();
        if found > 1 {
            return Err(format!("{found} cameras; an image has at most one"));
        }
        let camera = self.camera.into_iter().next().map(CameraFields::camera).transpose()?;
        let to_source = Affine(self.to_source);
        check(&to_source, camera.as_ref())?;
        Ok((to_source, camera.map(Arc::new)))
    }
}

fn check(to_source: &Affine, camera: Option<&Camera>) -> Result<(), String> {
    if !to_source.is_finite() {
        return Err("`to_source` must be finite".to_owned());
    }
    camera.map_or(Ok(()), Camera::check)
}

impl CameraFields {
    fn camera(self) -> Result<Camera, String> {
        let Self { width, height, focal_px, center_px, distortion, coefficients } = self;
        let distortion = choice::<DistortionModel>("distortion", &distortion)?;
        Ok(Camera { width, height, focal_px, center_px, distortion, coefficients })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera(distortion: DistortionModel, coefficients: &[f64]) -> Camera {
        let k = [[600.0, 0.0, 319.5], [0.0, 610.0, 239.5], [0.0, 0.0, 1.0]];
        let coefficients = coefficients.to_vec();
        Camera { distortion, coefficients, ..Camera::from_matrix(640, 480, k) }
    }

    #[test]
    fn matrices_have_the_origin_of_ros() {
        let camera = camera(DistortionModel::None, &[]);
        assert_eq!(camera.center_px, [320.0, 240.0]);
        assert_eq!(camera.matrix_of(&Affine::IDENTITY), Some(camera.matrix()));
        // Half the size: (cx + 0.5) / 2 - 0.5.
        let half = camera.matrix_of(&Affine::scale_and_shift([2.0; 2], [0.0; 2])).unwrap();
        assert_eq!(half, [[300.0, 0.0, 159.5], [0.0, 305.0, 119.5], [0.0, 0.0, 1.0]]);
        let crop = camera.matrix_of(&Affine::scale_and_shift([1.0; 2], [100.0, 50.0])).unwrap();
        assert_eq!([crop[0][2], crop[1][2]], [219.5, 189.5]);
        assert_eq!(camera.matrix_of(&Affine([[0.0; 3]; 2])), None);
    }

    /// Expected points are those of `cv2.projectPoints` and `cv2.fisheye.projectPoints` of OpenCV
    /// for (0.4, -0.3, 1), plus 0.5.
    #[test]
    fn points_are_projected_like_opencv() {
        let check = |distortion, coefficients: &[f64], expected: [f64; 2]| {
            let found = camera(distortion, coefficients).project([0.4, -0.3]);
            let far = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 1e-9, "{distortion:?}: {found:?}");
        };
        check(DistortionModel::None, &[], [560.0, 57.0]);
        check(DistortionModel::PlumbBob, PLUMB_BOB, EXPECTED[0]);
        check(DistortionModel::RationalPolynomial, RATIONAL, EXPECTED[1]);
        check(DistortionModel::Equidistant, EQUIDISTANT, EXPECTED[2]);
        let center = camera(DistortionModel::Equidistant, EQUIDISTANT).project([0.0; 2]);
        assert_eq!(center, [320.0, 240.0]);
    }

    #[test]
    fn directions_are_the_inverse_of_projections() {
        for (distortion, coefficients) in [
            (DistortionModel::None, &[][..]),
            (DistortionModel::PlumbBob, PLUMB_BOB),
            (DistortionModel::RationalPolynomial, RATIONAL),
            (DistortionModel::Equidistant, EQUIDISTANT),
        ] {
            let camera = camera(distortion, coefficients);
            for point in [[0.0, 0.0], [320.0, 240.0], [640.0, 100.5], [13.0, 480.0]] {
                let again = camera.project(camera.direction(point).unwrap());
                let far = (again[0] - point[0]).abs().max((again[1] - point[1]).abs());
                assert!(far < 1e-6, "{distortion:?}: {again:?} instead of {point:?}");
            }
        }
        // A fisheye lens may see more than the half space ahead of the camera.
        let fisheye = camera(DistortionModel::Equidistant, &[0.0; 4]);
        assert_eq!(fisheye.direction([320.0 + 600.0 * 1.6, 240.0]), None);
        let folded = camera(DistortionModel::PlumbBob, &[-1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(folded.direction([640.0, 480.0]), None, "no direction is seen there");
    }

    const PLUMB_BOB: &[f64] = &[-0.28, 0.09, 0.001, -0.0005, -0.01];
    const RATIONAL: &[f64] = &[0.5, -0.2, 0.001, -0.0005, 0.03, 0.8, -0.1, 0.02];
    const EQUIDISTANT: &[f64] = &[-0.02, 0.01, -0.004, 0.0006];
    const EXPECTED: [[f64; 2]; 3] = [
        [544.1975, 69.144_718_75],
        [543.385_601_936_665_8, 69.763_791_023_292_33],
        [541.688_307_531_982_2, 70.962_665_506_863_57],
    ];

    #[test]
    fn invalid_cameras_are_refused() {
        let check = |change: fn(&mut Camera), expected: &str| {
            let mut camera = camera(DistortionModel::Equidistant, EQUIDISTANT);
            change(&mut camera);
            assert_eq!(camera.check().unwrap_err(), expected);
            let error = Geometry::new(&Affine::IDENTITY, Some(&camera)).unwrap_err();
            assert_eq!(error, expected);
            let fields = Geometry::unchecked(&Affine::IDENTITY, Some(&camera));
            assert_eq!(fields.into_parts().unwrap_err(), expected);
        };
        check(
            |camera| camera.coefficients.push(0.0),
            "5 coefficients of distortion; equidistant has 4",
        );
        check(|camera| camera.width = 0, "a camera of 0 × 480 pixels; it must have some");
        check(
            |camera| camera.focal_px[1] = -1.0,
            "focal lengths [600.0, -1.0]; they must be positive",
        );
        let finite = "the principal point and the coefficients must be finite";
        check(|camera| camera.center_px[0] = f64::NAN, finite);
        check(|camera| camera.coefficients[3] = f64::INFINITY, finite);
    }

    #[test]
    fn invalid_geometry_is_refused() {
        let error = |to_source: &Affine, change: fn(&mut Geometry)| {
            let camera = camera(DistortionModel::None, &[]);
            let mut fields = Geometry::unchecked(to_source, Some(&camera));
            change(&mut fields);
            fields.into_parts().unwrap_err()
        };
        let infinite = Affine([[f64::NAN; 3]; 2]);
        assert_eq!(error(&infinite, |_| {}), "`to_source` must be finite");
        let twice = |fields: &mut Geometry| {
            let again = Geometry::unchecked(&Affine::IDENTITY, Some(&Camera::default()));
            fields.camera.extend(again.camera);
        };
        assert_eq!(error(&Affine::IDENTITY, twice), "2 cameras; an image has at most one");
        let other = |fields: &mut Geometry| fields.camera[0].distortion = "thin_prism".to_owned();
        assert_eq!(
            error(&Affine::IDENTITY, other),
            "distortion \"thin_prism\" is none of none, plumb_bob, rational_polynomial, equidistant"
        );
    }
}
