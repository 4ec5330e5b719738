//! Depth of every pixel.

use std::path::PathBuf;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{
    Affine, Image,
    vision::{Depth as DepthMap, DepthKind},
};
use afferent_package::{ImageInput, Resampling, Resize};

use crate::{
    classify::imagenet,
    rate_limit::RateLimit,
    vision_model::{ModelVariant, VisionModel, all_values},
};

params! {
    /// Settings of [`Depth`].
    pub struct DepthParams {
        /// Path of the model package or program.
        pub model: PathBuf;
        /// Backend of the variant of the package, such as `VulkanBackend`. Empty: the first that is
        /// available, or the fastest if `afferent model bench` has measured it.
        pub backend: String = "";
        /// Most images per second that the model runs on; the others are skipped.
        pub max_rate: f64 = "15", range 0.01..=1000.0, unit "Hz";
    }
}

/// Estimates the depth of every pixel of an image with a model.
///
/// Contract of the model: `forward(image) -> f32[1, height, width]` or `f32[1, 1, height, width]`, of
/// any size. `contract: metric_depth` in `model.yaml` says that the values are meters; otherwise they
/// are an inverse depth up to a factor and an offset, as of MiDaS and Depth Anything, where larger is
/// nearer. Unless `model.yaml` says otherwise, the image is stretched with cubic interpolation, and
/// normalized with mean and deviation of ImageNet.
///
/// The map has the size of the output, and says where its pixels lie in the source image. Pixels in the
/// border of a letterbox are unknown (NaN).
///
/// The model is a package with the task `depth`, or a program. Images on the GPU ([`GpuImage`]) that
/// the model stretches are prepared there, and the depth stays there if the model runs there.
///
/// [`GpuImage`]: crate::GpuImage
///
/// Latency: a run of the model.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat, vision};
/// use afferent_nodes_vision::{Depth, DepthParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/depth.pte");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = DepthParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut bench = NodeBench::new(Depth::open(params, &cx)?);
/// let image = Image::new(PixelFormat::Rgb8, 96, 64, 288, &[128; 96 * 64 * 3])?;
/// let sent = bench.call(Depth::IMAGES, Timestamp::ZERO, image)?;
/// let map = sent[0].1.get::<vision::Depth>().unwrap();
/// assert_eq!((map.width(), map.height(), map.kind), (24, 16, vision::DepthKind::AffineInverse));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Depth {
    model: VisionModel,
    kind: DepthKind,
    /// Width and height of the output.
    size: [usize; 2],
    rate: RateLimit,
}

ports! {
    impl Depth {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Depth of each image that the model ran on.
        out DEPTH: DepthMap, in_step;
    }
}

impl Node for Depth {
    type Params = DepthParams;

    const NAME: &'static str = "depth";
    const SUMMARY: &'static str = "Estimates the depth of every pixel of an image with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the model";

    fn open(params: DepthParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let default = |_: &[Vec<usize>]| ImageInput {
            resize: Some(Resize::Stretch),
            resampling: Some(Resampling::AntialiasBicubic),
            ..imagenet()
        };
        let options = ModelVariant { path: &params.model, backend: &params.backend };
        #[cfg_attr(not(feature = "gpu"), expect(unused_mut))]
        let mut model = VisionModel::open_variant(options, "depth", cx, default)?;
        let size = match model.outputs() {
            [sizes] => match *sizes.as_slice() {
                [1, height, width] | [1, 1, height, width] if height > 0 && width > 0 => {
                    [width, height]
                }
                _ => {
                    return Err(
                        model.error(format!("its output {sizes:?} is not [1, height, width]"))
                    );
                }
            },
            others => {
                let reason = format!(
                    "forward has {} outputs; it must have one, [1, height, width]",
                    others.len()
                );
                return Err(model.error(reason));
            }
        };
        let kind = match model.contract() {
            "metric_depth" => DepthKind::Metric,
            "" | "inverse_depth" => DepthKind::AffineInverse,
            other => {
                let reason = format!(
                    "its contract is {other:?}; a depth model has metric_depth or inverse_depth"
                );
                return Err(model.error(reason));
            }
        };
        let rate = RateLimit::new(params.max_rate);
        #[cfg(feature = "gpu")]
        model.keep_outputs_on_device()?;
        Ok(Self { model, kind, size, rate })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if cx.restarted() {
            self.rate.restart();
        }
        if !self.rate.is_due(cx.at()) {
            return Ok(());
        }
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        let [width, height] = self.size;
        let mut map = cx.loan(Self::DEPTH);
        #[cfg(feature = "gpu")]
        if self.on_device(cx, image, &mut map)? {
            cx.send(Self::DEPTH, map);
            return Ok(());
        }
        let to = map.reshape(width, height)?;
        let model = &mut self.model;
        let to_input = cx.time_model(|| {
            model.run(image, |input, outputs| {
                let tensor = outputs.tensor(0).map_err(|error| error.to_string())?;
                to.copy_from_slice(all_values(&tensor, to.len())?);
                let shape = input.shape();
                let scale =
                    [shape.width as f64 / width as f64, shape.height as f64 / height as f64];
                let to_input = Affine::scale_and_shift(scale, [0.0; 2]);
                for (index, value) in to.iter_mut().enumerate() {
                    let center = [(index % width) as f64 + 0.5, (index / width) as f64 + 0.5];
                    if !input.shows(to_input.apply(center)) {
                        *value = f32::NAN;
                    }
                }
                Ok(to_input)
            })
        })?;
        self.describe(image, &to_input, &mut map);
        cx.send(Self::DEPTH, map);
        Ok(())
    }
}

impl Depth {
    /// Sets everything but the values of a map.
    fn describe(&self, image: &Image, to_input: &Affine, map: &mut DepthMap) {
        map.to_source = self.model.image().to_source().after(to_input);
        map.kind = self.kind;
        map.frame_id.clone_from(&image.frame_id);
        map.camera.clone_from(&image.camera);
    }

    /// Makes the map of an image on the GPU without a look at the values. Returns false if the CPU has
    /// to do it: an image in a letterbox has unknown pixels.
    #[cfg(feature = "gpu")]
    fn on_device(
        &mut self,
        cx: &mut Cx<'_>,
        image: &Image,
        map: &mut DepthMap,
    ) -> Result<bool, NodeError> {
        if !self.model.image().is_stretched() {
            return Ok(false);
        }
        let model = &mut self.model;
        let values = &mut map.values;
        if !cx.time_model(|| model.run_on_device(image, values))? {
            return Ok(false);
        }
        let [width, height] = self.size;
        let shape = self.model.image().shape();
        let scale = [shape.width as f64 / width as f64, shape.height as f64 / height as f64];
        self.describe(image, &Affine::scale_and_shift(scale, [0.0; 2]), map);
        if !map.reshape_values(width, height)? {
            let reason = format!("forward did not return {height} rows of {width} values");
            return Err(self.model.error(reason));
        }
        Ok(true)
    }
}
