//! Detectors on the GPU against those on the CPU: images that are there are prepared there, and only the
//! outputs come back.

#![cfg(feature = "gpu")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it skips"
)]

use afferent_backend_vulkan::Vulkan;
use afferent_gpu::{Gpu, GpuOptions};
use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Payload, Services, Timestamp};
use afferent_messages::{
    Image,
    vision::{Detections, Hands},
};
use afferent_nodes_vision::{Detect, GpuImage, HandDetect, HandTrack};
use afferent_runtime::ModelOptions;

/// Device of the tests, if there is one.
fn gpu() -> Option<Gpu> {
    let gpu = Gpu::new(GpuOptions::from_env());
    match gpu.device() {
        Ok(_) => Some(gpu),
        Err(error) => {
            println!("skipped: no Vulkan device: {error}");
            None
        }
    }
}

fn image() -> Image {
    let mut image = Image::default();
    image.read_file(include_bytes!("data/waves.png")).unwrap();
    image
}

fn open<N: Node>(cx: &OpenCx, settings: &[(&str, ParamValue)]) -> NodeBench<N> {
    let values = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let params = N::Params::from_values(&values.collect()).unwrap();
    NodeBench::new(N::open(params, cx).unwrap())
}

fn path(name: &str) -> ParamValue {
    ParamValue::Path(format!("{}/tests/data/{name}.pte", env!("CARGO_MANIFEST_DIR")).into())
}

/// Results of a node on the CPU and on the GPU. `models` are the parameters with names of programs, and
/// `readbacks` is the number of them for an image.
fn both<N: Node, T: Payload>(
    port: afferent_graph::In<Image>,
    models: &[(&str, &str)],
    settings: &[(&str, ParamValue)],
    readbacks: u64,
) -> Option<[T; 2]> {
    let gpu = gpu()?;
    let options = ModelOptions::new(afferent_kernels::KERNELS);
    let on_gpu = options.clone().with_backend(Vulkan::new(gpu.clone()));
    let services = Services::default().with(gpu.clone()).with(on_gpu);
    let on_gpu = OpenCx { services, ..OpenCx::default() };
    let with = |suffix: &str| {
        let models = models.iter().map(|(name, model)| (*name, path(&format!("{model}{suffix}"))));
        models.chain(settings.iter().cloned()).collect::<Vec<_>>()
    };
    let call = |bench: &mut NodeBench<N>, image: Image| {
        let sent = bench.call(port, Timestamp::ZERO, image).unwrap();
        sent[0].1.get::<T>().unwrap().clone()
    };
    let expected = call(&mut open::<N>(&OpenCx::with_service(options), &with("")), image());
    let mut copy = NodeBench::new(GpuImage::open((), &on_gpu).unwrap());
    let sent = copy.call(GpuImage::IMAGES, Timestamp::ZERO, image()).unwrap();
    let mut bench = open::<N>(&on_gpu, &with("_vulkan"));
    let before = gpu.device().unwrap().counts();
    let found = call(&mut bench, sent[0].1.get::<Image>().unwrap().clone());
    let counts = gpu.device().unwrap().counts() - before;
    assert_eq!(counts.readbacks, readbacks, "{counts:?}");
    Some([found, expected])
}

/// Boxes within a tenth of a pixel, and the same classes.
fn check_detections([found, expected]: [Detections; 2]) {
    assert!(expected.detections.len() > 3);
    assert_eq!(found.detections.len(), expected.detections.len());
    for (one, other) in found.detections.iter().zip(&expected.detections) {
        assert_eq!(one.label, other.label);
        assert!((one.score - other.score).abs() < 2e-3, "{one:?} {other:?}");
        for axis in [0, 1] {
            assert!((one.bounds.center[axis] - other.bounds.center[axis]).abs() < 0.1, "{one:?}");
            assert!((one.bounds.size[axis] - other.bounds.size[axis]).abs() < 0.1, "{one:?}");
        }
        assert!((one.bounds.angle_rad - other.bounds.angle_rad).sin().abs() < 5e-3, "{one:?}");
    }
}

#[test]
fn objects_are_those_of_the_cpu() {
    let settings = [("score", ParamValue::Float(0.5)), ("iou", ParamValue::Float(0.45))];
    let both = both::<Detect, _>(Detect::IMAGES, &[("model", "dense")], &settings, 1);
    let Some(both) = both else { return };
    check_detections(both);
}

#[test]
fn palms_are_those_of_the_cpu() {
    let settings = [("score", ParamValue::Float(0.6))];
    let models = [("model", "palms")];
    let Some(both) = both::<HandDetect, _>(HandDetect::IMAGES, &models, &settings, 1) else {
        return;
    };
    check_detections(both);
}

#[test]
fn hands_are_those_of_the_cpu() {
    let settings = [
        ("hands", ParamValue::Int(1)),
        ("score", ParamValue::Float(0.6)),
        ("presence", ParamValue::Float(0.0)),
    ];
    let models = [("detector", "palms"), ("landmarks", "hand")];
    // One of the detector, and one of the landmarks.
    let both = both::<HandTrack, Hands>(HandTrack::IMAGES, &models, &settings, 2);
    let Some([found, expected]) = both else { return };
    assert_eq!((found.hands.len(), expected.hands.len()), (1, 1));
    let (found, expected) = (&found.hands[0], &expected.hands[0]);
    let pairs = found.landmarks.as_flattened().iter().zip(expected.landmarks.as_flattened());
    for (one, other) in pairs {
        assert!((one - other).abs() < 0.1, "{found:?} {expected:?}");
    }
    assert_eq!(found.handedness, expected.handedness);
}
