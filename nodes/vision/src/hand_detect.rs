//! Palms in images.

use std::path::PathBuf;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{
    Image,
    vision::{Detection, Detections},
};

use crate::{hand::PalmModel, vision_model::ModelVariant};

params! {
    /// Settings of [`HandDetect`].
    pub struct HandDetectParams {
        /// Path of the model package or program.
        pub model: PathBuf;
        /// Backend of the variant of the package, such as `VulkanBackend`. Empty: the first that is
        /// available, or the fastest if `afferent model bench` has measured it.
        pub backend: String = "";
        /// Score from which on a palm is reported.
        pub score: f32 = "0.5", range 0.0..=1.0;
        /// Overlap (intersection over union) above which two boxes are the same palm.
        pub nms: f32 = "0.3", range 0.0..=1.0;
    }
}

/// Finds the palms of hands in images with a model.
///
/// Contract of the model: that of the palm detector of MediaPipe, `forward(image) -> f32[1, n, 18],
/// f32[1, n, 1]`. Rows are anchors: two for each cell of 8 x 8 pixels of the input, then six for each
/// cell of 16 x 16. A row has the center of the palm, its size, and seven points, in pixels from the
/// center of the anchor, and the second output the score before the sigmoid. Boxes that overlap are
/// averaged. Unless `model.yaml` says otherwise, the image is fitted into a black border, with values
/// from 0 to 1.
///
/// Each palm is a square box in pixels of the source image, with the label `palm`. It is turned so
/// that its upper side is that of the fingers.
///
/// The model is a package with the task `palm_detection`, or a program. `hand_track` has its own
/// detector; this node is for graphs that need no landmarks.
///
/// An image on the GPU ([`GpuImage`](crate::GpuImage)) is prepared there.
///
/// Latency: a run of the model.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat, vision::Detections};
/// use afferent_nodes_vision::{HandDetect, HandDetectParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/palms.pte");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = HandDetectParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut bench = NodeBench::new(HandDetect::open(params, &cx)?);
/// let image = Image::new(PixelFormat::Mono8, 64, 48, 64, &[90; 64 * 48])?;
/// let sent = bench.call(HandDetect::IMAGES, Timestamp::ZERO, image)?;
/// assert!(sent[0].1.get::<Detections>().is_some());
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct HandDetect {
    params: HandDetectParams,
    model: PalmModel,
}

ports! {
    impl HandDetect {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Palms of each image, the most probable first.
        out PALMS: Detections, in_step;
    }
}

impl Node for HandDetect {
    type Params = HandDetectParams;

    const NAME: &'static str = "hand_detect";
    const SUMMARY: &'static str = "Finds the palms of hands in images with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the model";

    fn open(params: HandDetectParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let variant = ModelVariant { path: &params.model, backend: &params.backend };
        let model = PalmModel::open(variant, cx)?;
        Ok(Self { params, model })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // A second holder of the image: it is not copied.
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        let (model, params) = (&mut self.model, &self.params);
        let palms = cx.time_model(|| model.find(image, params.score, params.nms))?;
        let detections = palms.into_iter().map(|palm| Detection {
            label: "palm".into(),
            score: palm.score,
            bounds: palm.region.to_box(),
            track: None,
        });
        let frame_id = image.frame_id.clone();
        cx.send(Self::PALMS, Detections { frame_id, detections: detections.collect() });
        Ok(())
    }
}
