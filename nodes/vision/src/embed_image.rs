//! Embeddings of images.

use std::{path::PathBuf, sync::atomic::Ordering};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{
    Affine, Image,
    vision::{Detections, Embedding},
};

use crate::{
    boxes::Edges,
    classify::imagenet,
    fit,
    regions::{RegionInput, Regions, edges_in},
    vision_model::{VisionModel, all_values},
};

params! {
    /// Settings of [`EmbedImage`].
    pub struct EmbedImageParams {
        /// Path of the model package or program.
        pub model: PathBuf;
        /// True to give the vectors the length 1.
        pub normalize: bool = "true";
    }
}

/// Turns images into vectors that can be compared, with a model.
///
/// Contract of the model: `forward(image) -> f32[1, dimensions]`, or `f32[1, vectors, dimensions]` for
/// models with late interaction. The space of the embeddings is the name of the package, or of the
/// file. Unless `model.yaml` says otherwise, the image is prepared as for `classify`.
///
/// With the optional input `detections`, each object has a vector, in the order of the detections, of the
/// region around its box: with the center of the box, and widened on the shorter side to the aspect ratio
/// of the input by the pixels beside it. Outside of the image, it has the border of `model.yaml`; its
/// `resize` is not used. A box outside of the image has a vector of zeros. Join the detections with the
/// images, as in `detections: {from: detect.detections, sync: exact}`; an image that gets none has no
/// embedding, and one without objects has no vectors.
///
/// The model is a package with the task `image_embedding`, or a program.
///
/// Latency: a run of the model, for each object.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat, vision::Embedding};
/// use afferent_nodes_vision::{EmbedImage, EmbedImageParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/classes.pte");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = EmbedImageParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut bench = NodeBench::new(EmbedImage::open(params, &cx)?);
/// let image = Image::new(PixelFormat::Rgb8, 64, 64, 192, &[128; 64 * 64 * 3])?;
/// let sent = bench.call(EmbedImage::IMAGES, Timestamp::ZERO, image)?;
/// let found = sent[0].1.get::<Embedding>().unwrap();
/// assert_eq!((found.space.as_str(), found.vectors.sizes()), ("classes", &[1, 6][..]));
/// assert!((found.cosine(found).unwrap() - 1.0).abs() < 1e-6);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct EmbedImage {
    model: VisionModel,
    normalize: bool,
    /// Number of vectors, and of their dimensions.
    sizes: [usize; 2],
    regions: RegionInput,
}

ports! {
    impl EmbedImage {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Objects of each image, joined with it.
        in DETECTIONS: Detections, optional;
        /// Vectors of each image, or of its objects.
        out EMBEDDINGS: Embedding, in_step;
    }
}

impl EmbedImage {
    /// Writes the vectors of each region of an image to `to`.
    fn embed(
        &mut self,
        cx: &mut Cx<'_>,
        image: &Image,
        fits: &[Option<Affine>],
        to: &mut [f32],
    ) -> Result<(), NodeError> {
        let (canceled, model) = (cx.cancel_flag(), &mut self.model);
        for (to, fit) in to.chunks_exact_mut(self.sizes.iter().product()).zip(fits) {
            if canceled.load(Ordering::Relaxed) {
                return Err(NodeError::Canceled);
            }
            let Some(to_image) = fit else {
                to.fill(0.0);
                continue;
            };
            cx.time_model(|| {
                model.run_region(image, to_image, |_, outputs| {
                    let tensor = outputs.tensor(0).map_err(|error| error.to_string())?;
                    to.copy_from_slice(all_values(&tensor, to.len())?);
                    Ok(())
                })
            })?;
        }
        Ok(())
    }
}

impl Node for EmbedImage {
    type Params = EmbedImageParams;

    const NAME: &'static str = "embed_image";
    const SUMMARY: &'static str = "Turns images into vectors that can be compared, with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the model, for each object";

    fn open(params: EmbedImageParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let model = VisionModel::open(&params.model, "image_embedding", cx, |_| imagenet())?;
        let sizes = match model.outputs() {
            [sizes] => match *sizes.as_slice() {
                [1, dimensions] => Some([1, dimensions]),
                [1, vectors, dimensions] => Some([vectors, dimensions]),
                _ => None,
            },
            _ => None,
        };
        let sizes = sizes.filter(|sizes| !sizes.contains(&0)).ok_or_else(|| {
            let found = model.outputs();
            model.error(format!(
                "its outputs {found:?} are not [1, dimensions] or [1, vectors, dimensions]"
            ))
        })?;
        let regions = RegionInput::open(Self::DETECTIONS, cx);
        if regions.is_connected() && sizes[0] > 1 {
            let reason = format!(
                "it gives {} vectors for an image; with detections it must be [1, dimensions]",
                sizes[0]
            );
            return Err(model.error(reason));
        }
        Ok(Self { model, normalize: params.normalize, sizes, regions })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let regions = self.regions.read(cx)?;
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        let fits = match regions {
            Regions::Missing => return Ok(()),
            Regions::Whole => vec![Some(self.model.image().fit(image.width(), image.height()))],
            Regions::Detected(found) => {
                let shape = self.model.image().shape();
                let size = [shape.width, shape.height];
                let region = |edges: Edges| fit::region(edges.0.map(f64::from), size, 1.0);
                found.iter().map(|one| edges_in(image, &one.bounds).map(region)).collect()
            }
        };
        let mut embedding = cx.loan(Self::EMBEDDINGS);
        let [vectors, dimensions] = self.sizes;
        embedding.vectors.resize(&[vectors * fits.len(), dimensions])?;
        let to = embedding.vectors.data_mut::<f32>()?;
        self.embed(cx, image, &fits, to)?;
        if self.normalize {
            for vector in to.chunks_exact_mut(dimensions) {
                let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
                if length > 0.0 {
                    vector.iter_mut().for_each(|value| *value /= length);
                }
            }
        }
        embedding.space.clear();
        embedding.space.push_str(self.model.name());
        cx.send(Self::EMBEDDINGS, embedding);
        Ok(())
    }
}
