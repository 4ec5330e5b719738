//! Images as a lens without distortion would show them.

use std::sync::Arc;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, ports};
use afferent_messages::{Affine, Camera, DistortionModel, Image, PixelFormat};
use afferent_simd::{
    Isa,
    image::{Channels, Order, Plan, Sampling, Source, Target},
};

use crate::pixels::{source_of, with_planes};

/// Removes the distortion of the lens from images.
///
/// The images need the calibration of their camera. The output has the size of the input and shows
/// the largest rectangle in which every pixel is known, as `getOptimalNewCameraMatrix` of OpenCV with
/// `alpha` 0. It carries a calibration without distortion. Images of a camera without distortion pass
/// unchanged.
///
/// `rgb8`, `bgr8` and `mono8` keep their format; other formats of 8 bits become `rgb8`.
///
/// Latency: none. The first image of a camera takes longer.
///
/// ```
/// use std::sync::Arc;
///
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
/// use afferent_messages::{Camera, DistortionModel, Image, PixelFormat};
/// use afferent_nodes_vision::Undistort;
///
/// let mut bench = NodeBench::new(Undistort::open((), &OpenCx::default())?);
/// let k = [[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]];
/// let mut camera = Camera::from_matrix(64, 48, k);
/// camera.distortion = DistortionModel::PlumbBob;
/// camera.coefficients = vec![-0.3, 0.1, 0.0, 0.0, 0.0];
/// let mut image = Image::default();
/// image.reshape(PixelFormat::Rgb8, 64, 48)?.fill(128);
/// image.camera = Some(Arc::new(camera));
/// let sent = bench.call(Undistort::IMAGES, Timestamp::ZERO, image)?;
/// let camera = sent[0].1.get::<Image>().unwrap().camera.clone().unwrap();
/// assert_eq!(camera.distortion, DistortionModel::None);
/// assert!(camera.focal_px[0] < 60.0, "the corners of the image show more");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Undistort {
    /// Tables for the last camera and kind of images.
    table: Option<Table>,
}

struct Table {
    source: Source,
    to_source: Affine,
    camera: Arc<Camera>,
    /// Camera of the output.
    ideal: Arc<Camera>,
    format: PixelFormat,
    plan: Plan,
}

ports! {
    impl Undistort {
        /// Images of 8 bits with the calibration of their camera.
        in IMAGES: Image;
        /// The images without distortion, of the same size.
        out UNDISTORTED: Image, in_step;
    }
}

/// Points on each side of the image at which the visible rectangle is determined.
const POINTS_PER_SIDE: usize = 65;

/// The camera without distortion that shows the largest rectangle that `camera` sees whole.
///
/// # Errors
/// If the edges of the image have no direction.
fn ideal(camera: &Camera) -> Result<Camera, String> {
    // As in OpenCV, the rectangle ends at the centers of the outer pixels.
    let [right, bottom] = [camera.width, camera.height].map(|side| f64::from(side) - 0.5);
    let mut low = [f64::NEG_INFINITY; 2];
    let mut high = [f64::INFINITY; 2];
    for at in 0..POINTS_PER_SIDE {
        let share = at as f64 / (POINTS_PER_SIDE - 1) as f64;
        let along = [right, bottom].map(|end| 0.5 + (end - 0.5) * share);
        let seen = |point: [f64; 2]| {
            camera.direction(point).ok_or_else(|| {
                format!(
                    "the calibration has no direction for the point ({:.1}, {:.1}) at the edge of \
                     the image; check the coefficients of {:?}",
                    point[0], point[1], camera.distortion
                )
            })
        };
        low[0] = low[0].max(seen([0.5, along[1]])?[0]);
        high[0] = high[0].min(seen([right, along[1]])?[0]);
        low[1] = low[1].max(seen([along[0], 0.5])?[1]);
        high[1] = high[1].min(seen([along[0], bottom])?[1]);
    }
    let ends = [right, bottom];
    let focal_px = [0, 1].map(|axis| (ends[axis] - 0.5) / (high[axis] - low[axis]));
    if !focal_px.iter().all(|focal| focal.is_finite() && *focal > 0.0) {
        return Err("the calibration leaves no rectangle of known pixels".to_owned());
    }
    let center_px = [0, 1].map(|axis| 0.5 - focal_px[axis] * low[axis]);
    let (width, height) = (camera.width, camera.height);
    Ok(Camera { width, height, focal_px, center_px, ..Camera::default() })
}

impl Table {
    fn new(image: &Image, camera: &Arc<Camera>) -> Result<Self, String> {
        let source = source_of(image)?;
        camera.check()?;
        let ideal = ideal(camera)?;
        let to_source = image.to_source;
        let from_source =
            to_source.inverse().ok_or("the map to the source image has no inverse")?;
        let (format, channels) = match image.format() {
            PixelFormat::Mono8 => (PixelFormat::Mono8, Channels::Gray),
            PixelFormat::Bgr8 => (PixelFormat::Bgr8, Channels::Bgr),
            _ => (PixelFormat::Rgb8, Channels::Rgb),
        };
        let target = Target {
            width: source.width,
            height: source.height,
            channels,
            order: Order::Nhwc,
            pad: 0.0,
            scale: 1.0,
            mean: [0.0; 3],
            std: [1.0; 3],
        };
        let position = |[column, row]: [usize; 2]| {
            let point = to_source.apply([column as f64 + 0.5, row as f64 + 0.5]);
            let direction =
                [0, 1].map(|axis| (point[axis] - ideal.center_px[axis]) / ideal.focal_px[axis]);
            from_source.apply(camera.project(direction))
        };
        let plan = Plan::with_map(source, target, Sampling::Bilinear, position);
        let plan = plan.map_err(|error| error.to_string())?;
        let camera = camera.clone();
        Ok(Self { source, to_source, camera, ideal: Arc::new(ideal), format, plan })
    }

    /// True if the table is for images like `image`.
    fn fits(&self, image: &Image, camera: &Arc<Camera>) -> bool {
        (Arc::ptr_eq(camera, &self.camera) || *camera == self.camera)
            && self.to_source == image.to_source
            && source_of(image).is_ok_and(|source| source == self.source)
    }
}

impl Node for Undistort {
    type Params = ();

    const NAME: &'static str = "undistort";
    const SUMMARY: &'static str = "Removes the distortion of the lens from images.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { table: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(image) = cx.get(Self::IMAGES).filter(|image| !image.bytes().is_empty()) else {
            return Ok(());
        };
        let fault = |reason| NodeError::InvalidInput { port: Self::IMAGES.name().into(), reason };
        let Some(camera) = &image.camera else {
            let reason = "the images have no calibration of their camera; set one at the source";
            return Err(fault(reason.to_owned()));
        };
        if camera.distortion == DistortionModel::None {
            cx.forward(Self::IMAGES, Self::UNDISTORTED);
            return Ok(());
        }
        if self.table.as_ref().is_none_or(|table| !table.fits(image, camera)) {
            self.table = Some(Table::new(image, camera).map_err(fault)?);
        }
        let mut undistorted = cx.loan(Self::UNDISTORTED);
        if let Some(Table { plan, format, ideal, .. }) = &mut self.table {
            let out = undistorted.reshape(*format, image.width(), image.height())?;
            let run = with_planes(image, |planes| plan.run(Isa::best(), planes, out));
            run.map_err(fault)?;
            undistorted.derive_from(image, &Affine::IDENTITY);
            undistorted.camera = Some(ideal.clone());
        }
        cx.send(Self::UNDISTORTED, undistorted);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Timestamp};

    use super::*;

    const K: [[f64; 3]; 3] = [[30.0, 0.0, 19.0], [0.0, 31.0, 14.5], [0.0, 0.0, 1.0]];

    /// Models, coefficients, and the focal lengths and principal points of OpenCV for the output,
    /// which `tests/data/undistort.py` prints.
    const CASES: [(DistortionModel, &[f64], [f64; 4]); 3] = [
        (
            DistortionModel::PlumbBob,
            &[-0.28, 0.09, 0.001, -0.0005, -0.01],
            [26.0887, 28.996, 18.8078, 14.5266],
        ),
        (
            DistortionModel::RationalPolynomial,
            &[0.5, -0.2, 0.001, -0.0005, 0.03, 0.8, -0.1, 0.02],
            [25.7196, 28.8747, 18.7663, 14.5271],
        ),
        (
            DistortionModel::Equidistant,
            &[-0.02, 0.01, -0.004, 0.0006],
            [25.3956, 28.5731, 18.8145, 14.5],
        ),
    ];

    fn camera(distortion: DistortionModel, coefficients: &[f64]) -> Camera {
        let coefficients = coefficients.to_vec();
        Camera { distortion, coefficients, ..Camera::from_matrix(40, 30, K) }
    }

    /// The image of `tests/data/undistort.py`.
    fn image(camera: Camera) -> Image {
        let value = |at: usize| {
            let (y, x, channel) = (at / 120, at % 120 / 3, at % 3);
            let phase = y as f64 * 0.31 + x as f64 * 0.17 + channel as f64 * 1.3;
            (120.0 + 80.0 * phase.sin()).floor() as u8
        };
        let bytes: Vec<u8> = (0..40 * 30 * 3).map(value).collect();
        let mut image = Image::new(PixelFormat::Rgb8, 40, 30, 120, &bytes).unwrap();
        image.camera = Some(Arc::new(camera));
        image
    }

    fn open() -> NodeBench<Undistort> {
        NodeBench::new(Undistort::open((), &OpenCx::default()).unwrap())
    }

    fn run(bench: &mut NodeBench<Undistort>, image: &Image) -> Image {
        let sent = bench.call(Undistort::IMAGES, Timestamp::ZERO, image.clone()).unwrap();
        sent[0].1.get::<Image>().unwrap().clone()
    }

    #[test]
    fn images_and_cameras_are_those_of_opencv() {
        let expected = include_bytes!("../tests/data/undistort.bin");
        let mut bench = open();
        for ((model, coefficients, [fx, fy, cx, cy]), expected) in
            CASES.into_iter().zip(expected.chunks_exact(3600))
        {
            let found = run(&mut bench, &image(camera(model, coefficients)));
            let ideal = found.camera.as_ref().unwrap();
            let numbers = [ideal.focal_px, ideal.center_px.map(|center| center - 0.5)].concat();
            for (found, wanted) in numbers.iter().zip([fx, fy, cx, cy]) {
                assert!((found - wanted).abs() < 0.02, "{model:?}: {numbers:?}");
            }
            for (at, (found, expected)) in found.bytes().iter().zip(expected).enumerate() {
                assert!(found.abs_diff(*expected) <= 2, "{model:?}, {at}: {found}, {expected}");
            }
            assert_eq!(
                (found.to_source, ideal.distortion),
                (Affine::IDENTITY, DistortionModel::None)
            );
        }
    }

    #[test]
    fn a_view_is_undistorted_like_its_source() {
        let (model, coefficients, _) = CASES[0];
        let whole = image(camera(model, coefficients));
        let undistorted = run(&mut open(), &whole);
        // The right lower part of the source.
        let pixels: Vec<u8> =
            whole.rows().skip(10).flat_map(|row| row[60..].iter().copied()).collect();
        let mut view = Image::new(PixelFormat::Rgb8, 20, 20, 60, &pixels).unwrap();
        view.derive_from(&whole, &Affine::scale_and_shift([1.0; 2], [20.0, 10.0]));
        let found = run(&mut open(), &view);
        assert_eq!((found.to_source, &found.camera), (view.to_source, &undistorted.camera));
        let expected: Vec<u8> =
            undistorted.rows().skip(10).flat_map(|row| row[60..].iter().copied()).collect();
        // Pixels near the cut may come from the other side of it.
        let inner = |bytes: &[u8]| -> Vec<u8> {
            bytes.chunks(60).skip(4).flat_map(|row| row[12..].iter().copied()).collect()
        };
        assert_eq!(inner(found.bytes()), inner(&expected));
    }

    #[test]
    fn images_without_distortion_pass_unchanged() {
        let plain = image(camera(DistortionModel::None, &[]));
        assert_eq!(run(&mut open(), &plain), plain);
    }

    #[test]
    fn images_without_a_usable_calibration_are_refused() {
        let error = |image: Image| {
            let called = open().call(Undistort::IMAGES, Timestamp::ZERO, image);
            called.unwrap_err().to_string()
        };
        let mut none = image(Camera::default());
        none.camera = None;
        assert!(error(none).contains("no calibration of their camera; set one at the source"));
        let short = camera(DistortionModel::PlumbBob, &[0.1]);
        let expected = "1 coefficients of distortion; plumb_bob has 5";
        assert!(error(image(short)).contains(expected));
        let folded = camera(DistortionModel::PlumbBob, &[-2.0, 0.0, 0.0, 0.0, 0.0]);
        let expected = "no direction for the point (0.5, 0.5) at the edge of the image";
        let found = error(image(folded));
        assert!(found.contains(expected), "{found}");
    }
}
