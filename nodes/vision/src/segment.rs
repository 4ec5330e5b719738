//! Segmentation of images.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use afferent_core::{ScalarType, Tensor};
use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{
    Affine, Image,
    vision::{Detection, Detections, Mask, MaskKind},
};
use afferent_runtime::ModelOutputs;

use crate::{
    boxes::{Candidate, Edges, Suppression, select},
    model_image::ModelImage,
    regions::{RegionInput, Regions, edges_in},
    vision_model::{VisionModel, all_values, argmax, values},
    yolo_rows,
};

pub(crate) mod layout;
mod masks;

use layout::{Boxes, Layout};

params! {
    /// Settings of [`Segment`].
    pub struct SegmentParams {
        /// Path of the model package, program, or folder of an Ultralytics export.
        pub model: PathBuf;
        /// Score above which an object has a mask, for models that find objects.
        pub score: f32 = "0.25", range 0.0..=1.0;
        /// Overlap (intersection over union) of boxes above which two are the same object, for such
        /// models.
        pub iou: f32 = "0.7", range 0.0..=1.0;
        /// Largest number of objects in an image.
        pub max: usize = "100", range 1.0..=255.0;
    }
}

/// Finds the pixels of classes, objects or the foreground in images with a model.
///
/// The layout of the outputs is recognized by their shapes:
///
/// | outputs of `forward` | models | mask |
/// |---|---|---|
/// | `[1, classes, height, width]`: logits | DeepLab, LRASPP, FCN of torchvision | `classes` |
/// | `[1, height, width]` of integers: indices | the same with an argmax | `classes` |
/// | `[1, height, width]`, `[1, 1, height, width]`: opacity | segmentation of a person or a foreground | `matte` |
/// | `[1, 4 + classes + prototypes, boxes]`, `[1, prototypes, height, width]` | Ultralytics YOLOv8-seg to YOLO12-seg | `instances` |
/// | `[1, boxes, 6 + prototypes]`, `[1, prototypes, height, width]` | YOLO26-seg | `instances` |
/// | `[1, queries, masks, height, width]`, `[1, queries, masks]`: logits, quality | EfficientSAM | `instances`, of `prompts` |
///
/// The mask has the size of the output, for Ultralytics that of the prototypes, and its `to_source` maps
/// its pixels to the source image. Pixels in the border of a letterbox are 0. An opacity is from 0 to 1,
/// after a sigmoid; `contract: matte_logits` in `model.yaml` says that it lacks the sigmoid.
///
/// Objects are numbered from 1, the most probable first, and hide those that follow. A pixel belongs to
/// an object if its logit is above 0.
///
/// EfficientSAM, `forward(image, points, labels)`, gets each object of `prompts` as its box: two points
/// with the labels 2 and 3. Of its masks, the one with the best quality is used. It runs once for each
/// `queries` objects. Join the prompts with the images, as in `prompts: {from: detect.detections, sync:
/// exact}`; an image that gets none has no mask.
///
/// Unless `model.yaml` says otherwise, the image is stretched and normalized with mean and deviation of
/// ImageNet for classes, stretched to values from 0 to 1 for a matte and for EfficientSAM, and a
/// letterbox from 0 to 1 for Ultralytics.
///
/// The model is a package with the task `segmentation`, a program, or the folder that Ultralytics
/// exports with `format=executorch`.
///
/// Latency: a run of the model, for each group of prompts.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat, vision::{Mask, MaskKind}};
/// use afferent_nodes_vision::{Segment, SegmentParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mask_classes.pte");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = SegmentParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut bench = NodeBench::new(Segment::open(params, &cx)?);
/// let image = Image::new(PixelFormat::Rgb8, 96, 64, 288, &[128; 96 * 64 * 3])?;
/// let sent = bench.call(Segment::IMAGES, Timestamp::ZERO, image)?;
/// let mask = sent[0].1.get::<Mask>().unwrap();
/// assert_eq!((mask.width(), mask.height(), mask.kind), (24, 16, MaskKind::Classes));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Segment {
    params: SegmentParams,
    model: VisionModel,
    layout: Layout,
    labels: Vec<Arc<str>>,
    /// True if an opacity lacks the sigmoid.
    are_logits: bool,
    prompts: RegionInput,
}

ports! {
    impl Segment {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Objects of each image, joined with it, for a model with prompts.
        in PROMPTS: Detections, optional;
        /// Mask of each image.
        out MASKS: Mask, in_step;
    }
}

/// Labels of the points of a box, and of a point that does not count, in EfficientSAM.
const TOP_LEFT: f32 = 2.0;
const BOTTOM_RIGHT: f32 = 3.0;
const NO_POINT: f32 = -1.0;

impl Segment {
    fn label(&self, class: usize) -> Arc<str> {
        self.labels.get(class).cloned().unwrap_or_else(|| class.to_string().into())
    }

    /// Fills `mask` from one image.
    fn whole(&mut self, cx: &mut Cx<'_>, image: &Image, mask: &mut Mask) -> Result<(), NodeError> {
        let (layout, are_logits) = (self.layout, self.are_logits);
        let size @ [width, height] = layout.size();
        let SegmentParams { score, iou, max, .. } = self.params;
        let settings = Suppression { overlap: iou, is_agnostic: false, most: max };
        let to = mask.reshape(width, height)?;
        let model = &mut self.model;
        let objects = cx.time_model(|| {
            model.run(image, |input, outputs| {
                let tensor = outputs.tensor(0).map_err(|error| error.to_string())?;
                match layout {
                    Layout::Classes { classes, .. } => {
                        masks::largest(all_values(&tensor, classes * to.len())?, to);
                    }
                    Layout::Indices { .. } => masks::indices(&tensor, to)?,
                    Layout::Matte { .. } => {
                        masks::matte(all_values(&tensor, to.len())?, are_logits, to)?;
                    }
                    Layout::Instances { .. } => {
                        return instances(&layout, outputs, input, (score, &settings), to);
                    }
                    Layout::Prompted { .. } => {}
                }
                clear_border(to, size, input);
                Ok(Vec::new())
            })
        })?;
        (mask.kind, mask.labels) = match layout {
            Layout::Matte { .. } => (MaskKind::Matte, Vec::new()),
            Layout::Instances { .. } => (MaskKind::Instances, self.names(&objects)),
            _ => (MaskKind::Classes, self.labels.clone()),
        };
        Ok(())
    }

    /// Names by the value of a mask: none for the background, then those of the objects.
    fn names(&self, classes: &[usize]) -> Vec<Arc<str>> {
        let background = [Arc::from("")];
        background.into_iter().chain(classes.iter().map(|class| self.label(*class))).collect()
    }

    /// Fills `mask` from the boxes of `prompts`.
    fn prompted(
        &mut self,
        cx: &mut Cx<'_>,
        image: &Image,
        mut prompts: Vec<Detection>,
        mask: &mut Mask,
    ) -> Result<(), NodeError> {
        let Layout::Prompted { queries, points, masks, size } = self.layout else { return Ok(()) };
        (mask.kind, mask.labels) = (MaskKind::Instances, vec![Arc::from("")]);
        let to = mask.reshape(size[0], size[1])?;
        to.fill(0);
        // Stable: of equal scores, the first one stays first.
        prompts.sort_by(|one, other| other.score.total_cmp(&one.score));
        let to_image = self.model.image().fit(image.width(), image.height());
        let Some(to_input) = to_image.inverse() else { return Ok(()) };
        let mut found: Vec<(Edges, Arc<str>)> = Vec::new();
        for prompt in prompts {
            if let Some(edges) = edges_in(image, &prompt.bounds) {
                found.push((self.in_input(edges, &to_input), prompt.label));
            }
        }
        found.truncate(self.params.max);
        let canceled = cx.cancel_flag();
        let mut number = 0_u8;
        for group in found.chunks(queries) {
            if canceled.load(Ordering::Relaxed) {
                return Err(NodeError::Canceled);
            }
            let (at, labels) = self.prompt(group, queries, points)?;
            let model = &mut self.model;
            cx.time_model(|| {
                model.run_with(image, &[at.view(), labels.view()], |_, outputs| {
                    let (logits, quality) = (outputs.tensor(0), outputs.tensor(1));
                    let logits = logits.map_err(|error| error.to_string())?;
                    let quality = quality.map_err(|error| error.to_string())?;
                    let area = size[0] * size[1];
                    let logits = all_values(&logits, queries * masks * area)?;
                    let quality = all_values(&quality, queries * masks)?;
                    for query in 0..group.len() {
                        let (best, _) = argmax(&quality[query * masks..][..masks]);
                        let logits = &logits[(query * masks + best) * area..][..area];
                        number += 1;
                        let all = Edges([0.0, 0.0, size[0] as f32, size[1] as f32]);
                        masks::mark(to, size, all, number, |pixel| logits[pixel]);
                    }
                    Ok(())
                })
            })?;
        }
        if !found.is_empty() {
            clear_border(to, size, self.model.image());
        }
        mask.labels.extend(found.into_iter().map(|(_, label)| label));
        Ok(())
    }

    /// A box of the image in pixels of the input, within it.
    fn in_input(&self, edges: Edges, to_input: &Affine) -> Edges {
        let [left, top, right, bottom] = edges.0.map(f64::from);
        let shape = self.model.image().shape();
        let size = [shape.width as f64, shape.height as f64];
        let corner = |corner: [f64; 2]| {
            let corner = to_input.apply(corner);
            [0, 1].map(|axis| corner[axis].clamp(0.0, size[axis]) as f32)
        };
        let ([left, top], [right, bottom]) = (corner([left, top]), corner([right, bottom]));
        Edges([left, top, right, bottom])
    }

    /// Points and labels of the boxes of a group; queries without a box repeat the first one.
    fn prompt(
        &self,
        group: &[(Edges, Arc<str>)],
        queries: usize,
        points: usize,
    ) -> Result<(Tensor, Tensor), NodeError> {
        let mut at = vec![NO_POINT; queries * points * 2];
        let mut labels = vec![NO_POINT; queries * points];
        for query in 0..queries {
            let Some((edges, _)) = group.get(query).or(group.first()) else { continue };
            at[query * points * 2..][..4].copy_from_slice(&edges.0);
            labels[query * points..][..2].copy_from_slice(&[TOP_LEFT, BOTTOM_RIGHT]);
        }
        let sizes = [1, queries, points];
        let dtype = self.model.more_inputs().get(1).map(|input| input.dtype);
        let labels = match dtype {
            Some(ScalarType::Int) => {
                Tensor::new(&sizes, &labels.iter().map(|label| *label as i32).collect::<Vec<_>>())
            }
            Some(ScalarType::Long) => {
                Tensor::new(&sizes, &labels.iter().map(|label| *label as i64).collect::<Vec<_>>())
            }
            _ => Tensor::new(&sizes, &labels),
        };
        Ok((Tensor::new(&[1, queries, points, 2], &at)?, labels?))
    }
}

/// Sets the pixels of a mask that show no part of the image to 0.
fn clear_border(mask: &mut [u8], size: [usize; 2], input: &ModelImage) {
    let to_input = Affine::scale_and_shift(layout::scale(size, input.shape()), [0.0; 2]);
    for (row, pixels) in mask.chunks_exact_mut(size[0]).enumerate() {
        for (column, pixel) in pixels.iter_mut().enumerate() {
            let center = to_input.apply([column as f64 + 0.5, row as f64 + 0.5]);
            if !input.shows(center) {
                *pixel = 0;
            }
        }
    }
}

/// Marks the objects of a model with prototypes; returns their classes.
fn instances(
    layout: &Layout,
    outputs: &ModelOutputs<'_>,
    input: &ModelImage,
    (least, settings): (f32, &Suppression),
    mask: &mut [u8],
) -> Result<Vec<usize>, String> {
    let Layout::Instances { boxes, prototypes, size } = *layout else { return Ok(Vec::new()) };
    let tensor = |at: usize| outputs.tensor(at).map_err(|error| error.to_string());
    let (rows, planes) = (tensor(0)?, tensor(1)?);
    let area = size[0] * size[1];
    let planes = all_values(&planes, prototypes * area)?;
    let width = 6 + prototypes;
    let rows = match boxes {
        Boxes::Dense { classes, boxes } => all_values(&rows, (4 + classes + prototypes) * boxes)?,
        Boxes::Selected => values(&rows)?,
    };
    let (found, overlap) = match boxes {
        Boxes::Dense { classes, boxes } => {
            (yolo_rows::dense(rows, classes, boxes, least), settings.overlap)
        }
        Boxes::Selected => (yolo_rows::selected(rows, width, least), f32::INFINITY),
    };
    let candidates: Vec<Candidate> = found.iter().map(|(_, candidate)| *candidate).collect();
    let kept = select(&candidates, &Suppression { overlap, ..*settings });
    let [across, down] = layout::scale(size, input.shape()).map(|scale| scale as f32);
    let mut classes = Vec::new();
    mask.fill(0);
    for (index, candidate) in kept.into_iter().map(|kept| found[kept]) {
        if input.box_in_source(candidate.edges).is_none() {
            continue;
        }
        let coefficient = |at: usize| match boxes {
            Boxes::Dense { classes, boxes } => rows[(4 + classes + at) * boxes + index],
            Boxes::Selected => rows[index * width + 6 + at],
        };
        let coefficients: Vec<f32> = (0..prototypes).map(coefficient).collect();
        let [left, top, right, bottom] = candidate.edges.0;
        let edges = Edges([left / across, top / down, right / across, bottom / down]);
        classes.push(candidate.class);
        let number = u8::try_from(classes.len()).unwrap_or(u8::MAX);
        masks::mark(mask, size, edges, number, |pixel| {
            let values = (0..prototypes).map(|at| coefficients[at] * planes[at * area + pixel]);
            values.sum()
        });
    }
    clear_border(mask, size, input);
    Ok(classes)
}

impl Node for Segment {
    type Params = SegmentParams;

    const NAME: &'static str = "segment";
    const SUMMARY: &'static str =
        "Finds the pixels of classes, objects or the foreground in images with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the model, for each group of prompts";

    fn open(params: SegmentParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let mut found = Err(String::new());
        let model = VisionModel::open_with_inputs(
            &params.model,
            "segmentation",
            cx,
            |shape, more, outputs| {
                found = Layout::find(shape, more, outputs);
                found.as_ref().map(Layout::image).unwrap_or_default()
            },
        )?;
        let layout = found.map_err(|reason| model.error(reason))?;
        let labels: Vec<Arc<str>> =
            model.labels().iter().map(|label| label.as_str().into()).collect();
        if let Some(classes) = layout.classes()
            && !labels.is_empty()
            && labels.len() != classes
        {
            let given = labels.len();
            return Err(
                model.error(format!("it has {classes} classes, but {given} labels are given"))
            );
        }
        let are_logits = match (&layout, model.contract()) {
            (Layout::Matte { .. }, "matte_logits") => true,
            (Layout::Matte { .. }, "" | "matte") => false,
            (Layout::Matte { .. }, other) => {
                let reason = format!("its contract is {other:?}; it must be matte or matte_logits");
                return Err(model.error(reason));
            }
            _ => false,
        };
        let prompts = RegionInput::open(Self::PROMPTS, cx);
        match (&layout, model.more_inputs()) {
            (Layout::Prompted { .. }, [points, labels]) => {
                let is_label = [ScalarType::Float, ScalarType::Int, ScalarType::Long];
                if points.dtype != ScalarType::Float || !is_label.contains(&labels.dtype) {
                    let (points, labels) = (points.dtype, labels.dtype);
                    return Err(model.error(format!(
                        "its points are {points:?} and its labels {labels:?}; they must be f32, and \
                         f32, i32 or i64"
                    )));
                }
                cx.needs("model", &[Self::PROMPTS.name()], "detect")?;
            }
            _ if prompts.is_connected() => {
                let reason = "it takes no prompts: leave the input prompts unconnected";
                return Err(model.error(reason));
            }
            _ => {}
        }
        Ok(Self { params, model, layout, labels, are_logits, prompts })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let prompts = self.prompts.read(cx)?;
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        let mut mask = cx.loan(Self::MASKS);
        match (self.layout, prompts) {
            (Layout::Prompted { .. }, Regions::Detected(prompts)) => {
                self.prompted(cx, image, prompts, &mut mask)?;
            }
            (Layout::Prompted { .. }, Regions::Missing | Regions::Whole) => return Ok(()),
            _ => self.whole(cx, image, &mut mask)?,
        }
        // Without a prompt, the model did not run.
        let shape = self.model.image().shape();
        let to_input = Affine::scale_and_shift(layout::scale(self.layout.size(), shape), [0.0; 2]);
        let to_image = self.model.image().fit(image.width(), image.height());
        mask.to_source = image.to_source.after(&to_image).after(&to_input);
        mask.frame_id.clone_from(&image.frame_id);
        mask.camera.clone_from(&image.camera);
        cx.send(Self::MASKS, mask);
        Ok(())
    }
}
