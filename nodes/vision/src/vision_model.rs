//! A model that gets one image.

use std::path::{Path, PathBuf};

use afferent_core::{ScalarType, TensorView};
use afferent_graph::{NodeError, OpenCx};
use afferent_messages::{Affine, Image};
use afferent_package::{ImageInput, ModelPackage};
use afferent_runtime::{Input, Model, ModelOptions, ModelOutputs, program::Value};

use crate::{
    model_image::{InputShape, ModelImage, StripEnd},
    ultralytics,
};

/// Sizes and type of a tensor of `forward`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorType {
    pub(crate) sizes: Vec<usize>,
    pub(crate) dtype: ScalarType,
}

/// A package or program, and the variant of it.
#[derive(Clone, Copy)]
pub(crate) struct ModelVariant<'v> {
    pub(crate) path: &'v Path,
    /// Backend of the variant; empty for the first that is available.
    pub(crate) backend: &'v str,
}

/// A method of a model, `forward` unless another is named, whose first input is an image.
pub(crate) struct VisionModel {
    model: Model,
    path: PathBuf,
    image: ModelImage,
    /// Names of the classes; empty if they are not known.
    labels: Vec<String>,
    name: String,
    contract: String,
    outputs: Vec<Vec<usize>>,
    /// Inputs after the image.
    more: Vec<TensorType>,
    method: String,
    /// Device that prepares the images on it.
    #[cfg(feature = "gpu")]
    gpu: Option<afferent_gpu::Gpu>,
}

impl VisionModel {
    /// Loads the package or program at `path`, or the folder of an Ultralytics export. `defaults` are
    /// the settings of the image, where the package gives none, for outputs of these sizes.
    ///
    /// # Errors
    /// [`NodeError::Model`], also for a model with other inputs than the image.
    pub(crate) fn open(
        path: &Path,
        task: &'static str,
        cx: &OpenCx,
        defaults: impl FnOnce(&[Vec<usize>]) -> ImageInput,
    ) -> Result<Self, NodeError> {
        Self::open_method(path, "forward", task, cx, defaults)
    }

    /// As [`VisionModel::open`], with the variant of one backend.
    ///
    /// # Errors
    /// [`NodeError::Model`], also if the package has no variant of the backend.
    pub(crate) fn open_variant(
        variant: ModelVariant<'_>,
        task: &'static str,
        cx: &OpenCx,
        defaults: impl FnOnce(&[Vec<usize>]) -> ImageInput,
    ) -> Result<Self, NodeError> {
        let model = Self::open_any(variant, "forward", task, cx, |_, _, outputs| {
            defaults(&outputs.iter().map(|output| output.sizes.clone()).collect::<Vec<_>>())
        })?;
        model.only_an_image("forward")
    }

    /// As [`VisionModel::open`], with another method.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn open_method(
        path: &Path,
        method: &str,
        task: &'static str,
        cx: &OpenCx,
        defaults: impl FnOnce(&[Vec<usize>]) -> ImageInput,
    ) -> Result<Self, NodeError> {
        let variant = ModelVariant { path, backend: "" };
        let model = Self::open_any(variant, method, task, cx, |_, _, outputs| {
            defaults(&outputs.iter().map(|output| output.sizes.clone()).collect::<Vec<_>>())
        })?;
        model.only_an_image(method)
    }

    fn only_an_image(self, method: &str) -> Result<Self, NodeError> {
        match self.more.len() {
            0 => Ok(self),
            more => {
                let inputs = more + 1;
                let reason = format!("{method} has {inputs} inputs; it must have one, the image");
                Err(self.error(reason))
            }
        }
    }

    /// Numbers N of the methods `forward_N` of the package or program at `path`, in ascending order; empty
    /// if it has the method `forward`.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn method_sizes(path: &Path, cx: &OpenCx) -> Result<Vec<usize>, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
        let model = package.open_main(cx.services.need::<ModelOptions>()?);
        let model = model.map_err(|error| failed(error.to_string()))?;
        let names: Vec<&str> = model.file().program().method_names().collect();
        if names.contains(&"forward") {
            return Ok(Vec::new());
        }
        let size = |name: &&str| name.strip_prefix("forward_").and_then(|size| size.parse().ok());
        let mut sizes: Vec<usize> = names.iter().filter_map(size).collect();
        sizes.sort_unstable();
        Ok(sizes)
    }

    /// As [`VisionModel::open`], also for a model with inputs after the image. `defaults` gets the shape
    /// of the image, these inputs and the outputs.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn open_with_inputs(
        path: &Path,
        task: &'static str,
        cx: &OpenCx,
        defaults: impl FnOnce(&InputShape, &[TensorType], &[TensorType]) -> ImageInput,
    ) -> Result<Self, NodeError> {
        Self::open_any(ModelVariant { path, backend: "" }, "forward", task, cx, defaults)
    }

    fn open_any(
        ModelVariant { path, backend }: ModelVariant<'_>,
        method: &str,
        task: &'static str,
        cx: &OpenCx,
        defaults: impl FnOnce(&InputShape, &[TensorType], &[TensorType]) -> ImageInput,
    ) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let export = ultralytics::find(path).map_err(failed)?;
        let program = export.as_ref().map_or(path, |export| &export.program);
        let package = ModelPackage::open(program).map_err(|error| failed(error.to_string()))?;
        package.expect_task(task).map_err(|error| failed(error.to_string()))?;
        let package = package.with_backend(backend).map_err(|error| failed(error.to_string()))?;
        let model = package.load_method(cx.services.need::<ModelOptions>()?, method);
        let model = model.map_err(|error| failed(error.to_string()))?;
        let (shape, more, outputs) = contract(&model, method).map_err(failed)?;
        let settings = package
            .manifest
            .image
            .clone()
            .unwrap_or_default()
            .or(&defaults(&shape, &more, &outputs));
        let image = ModelImage::new(shape, &settings).map_err(failed)?;
        let labels = match export {
            Some(export) => export.labels,
            None => labels_of(&package).map_err(failed)?,
        };
        let (name, contract) = (package.manifest.name, package.manifest.contract);
        let outputs = outputs.into_iter().map(|output| output.sizes).collect();
        let (path, method) = (path.to_owned(), method.to_owned());
        Ok(Self {
            model,
            path,
            image,
            labels,
            name,
            contract,
            outputs,
            more,
            method,
            #[cfg(feature = "gpu")]
            gpu: cx.services.need::<afferent_gpu::Gpu>().ok().cloned(),
        })
    }

    /// Names of the classes; empty if they are not known.
    pub(crate) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Name of the package, or of the file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Contract of the package; empty for a program.
    pub(crate) fn contract(&self) -> &str {
        &self.contract
    }

    /// Sizes of the outputs of `forward`.
    pub(crate) fn outputs(&self) -> &[Vec<usize>] {
        &self.outputs
    }

    /// Inputs of `forward` after the image.
    pub(crate) fn more_inputs(&self) -> &[TensorType] {
        &self.more
    }

    pub(crate) fn image(&self) -> &ModelImage {
        &self.image
    }

    /// The error `reason` about this model.
    pub(crate) fn error(&self, reason: impl Into<String>) -> NodeError {
        NodeError::Model { path: self.path.clone(), reason: reason.into() }
    }

    /// Makes the input of a region without a run of the model, and calls `read` with it.
    ///
    /// # Errors
    /// [`NodeError::Model`] for an image in a format that is not supported.
    pub(crate) fn prepared<T>(
        &mut self,
        image: &Image,
        to_image: &Affine,
        read: impl FnOnce(&ModelImage) -> T,
    ) -> Result<T, NodeError> {
        let path = &self.path;
        let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
        self.image.prepare_region(image, to_image).map_err(failed)?;
        Ok(read(&self.image))
    }

    /// Runs the model on `image` and calls `read` with the outputs.
    ///
    /// # Errors
    /// [`NodeError::Model`], also for an image in a format that is not supported.
    pub(crate) fn run<T>(
        &mut self,
        image: &Image,
        read: impl FnOnce(&ModelImage, &ModelOutputs<'_>) -> Result<T, String>,
    ) -> Result<T, NodeError> {
        let to_image = self.image.fit(image.width(), image.height());
        self.run_region(image, &to_image, read)
    }

    /// Runs the model on the region of `image` that `to_image` maps its pixels to, and calls `read`
    /// with the outputs.
    ///
    /// # Errors
    /// [`VisionModel::run`].
    pub(crate) fn run_region<T>(
        &mut self,
        image: &Image,
        to_image: &Affine,
        read: impl FnOnce(&ModelImage, &ModelOutputs<'_>) -> Result<T, String>,
    ) -> Result<T, NodeError> {
        #[cfg(feature = "gpu")]
        if let Some(gpu) = &self.gpu {
            let path = &self.path;
            let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
            let input = self.image.prepare_on_device(gpu, image, to_image).map_err(failed)?;
            if let Some(input) = input {
                let outputs = self.model.run(&self.method, &[Input::from(&input)]);
                let outputs = outputs.map_err(|error| failed(error.to_string()))?;
                return read(&self.image, &outputs).map_err(failed);
            }
        }
        self.run_strip(image, to_image, usize::MAX, StripEnd::Border, read)
    }

    /// Runs the model on a region, but only on the first `columns` of the input; `end` says what the
    /// others hold.
    ///
    /// # Errors
    /// [`VisionModel::run`].
    pub(crate) fn run_strip<T>(
        &mut self,
        image: &Image,
        to_image: &Affine,
        columns: usize,
        end: StripEnd,
        read: impl FnOnce(&ModelImage, &ModelOutputs<'_>) -> Result<T, String>,
    ) -> Result<T, NodeError> {
        let path = &self.path;
        let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
        self.image.prepare_strip(image, to_image, columns, end).map_err(failed)?;
        self.run_prepared(&[], read)
    }

    /// Runs the model on `image` and the inputs that `more` gives for it, and calls `read` with the
    /// outputs.
    ///
    /// # Errors
    /// [`VisionModel::run`].
    pub(crate) fn run_with<T>(
        &mut self,
        image: &Image,
        more: &[TensorView<'_>],
        read: impl FnOnce(&ModelImage, &ModelOutputs<'_>) -> Result<T, String>,
    ) -> Result<T, NodeError> {
        let path = &self.path;
        let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
        self.image.prepare(image).map_err(failed)?;
        self.run_prepared(more, read)
    }

    /// Lets the outputs stay on the GPU for [`VisionModel::run_on_device`], if there is one.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    #[cfg(feature = "gpu")]
    pub(crate) fn keep_outputs_on_device(&mut self) -> Result<(), NodeError> {
        if self.gpu.is_none() {
            return Ok(());
        }
        let kept = self.model.keep_outputs_on_device(&self.method);
        kept.map_err(|error| self.error(error.to_string()))
    }

    /// Runs the model on an image on the GPU and stores the first output in `out`, which stays there
    /// if the model runs there. Returns false, without a run, if the input can be made on the CPU only.
    ///
    /// # Errors
    /// [`VisionModel::run`].
    #[cfg(feature = "gpu")]
    pub(crate) fn run_on_device(
        &mut self,
        image: &Image,
        out: &mut afferent_core::Tensor,
    ) -> Result<bool, NodeError> {
        let path = &self.path;
        let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
        let Some(gpu) = &self.gpu else { return Ok(false) };
        let to_image = self.image.fit(image.width(), image.height());
        let input = self.image.prepare_on_device(gpu, image, &to_image).map_err(failed)?;
        let Some(input) = input else { return Ok(false) };
        let outputs = self.model.run(&self.method, &[Input::from(&input)]);
        let outputs = outputs.map_err(|error| failed(error.to_string()))?;
        outputs.store(0, out).map_err(|error| failed(error.to_string()))?;
        Ok(true)
    }

    /// Runs the model on the prepared image and the inputs `more`.
    fn run_prepared<T>(
        &mut self,
        more: &[TensorView<'_>],
        read: impl FnOnce(&ModelImage, &ModelOutputs<'_>) -> Result<T, String>,
    ) -> Result<T, NodeError> {
        let path = &self.path;
        let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
        let mut inputs = vec![Input::Tensor(self.image.input())];
        inputs.extend(more.iter().copied().map(Input::Tensor));
        let outputs = self.model.run(&self.method, &inputs);
        let outputs = outputs.map_err(|error| failed(error.to_string()))?;
        read(&self.image, &outputs).map_err(failed)
    }
}

/// Values of a tensor of `f32`.
pub(crate) fn values<'t>(tensor: &TensorView<'t>) -> Result<&'t [f32], String> {
    tensor.data::<f32>().map_err(|error| error.to_string())
}

/// Values of a tensor of `f32` that must have `len` of them: a program may make an output smaller than
/// its contract says, if the size depends on the data.
pub(crate) fn all_values<'t>(tensor: &TensorView<'t>, len: usize) -> Result<&'t [f32], String> {
    let values = values(tensor)?;
    match values.len() == len {
        true => Ok(values),
        false => Err(format!(
            "forward returned an output of the sizes {:?}, with {} values; by its contract it has {len}",
            tensor.sizes(),
            values.len()
        )),
    }
}

/// Index and value of the largest of `values`; of equal ones, the first. NaN is none of them.
pub(crate) fn argmax(values: &[f32]) -> (usize, f32) {
    let better = |best: (usize, f32), next: (usize, f32)| if next.1 > best.1 { next } else { best };
    values.iter().copied().enumerate().fold((0, f32::NEG_INFINITY), better)
}

/// True if the scores of classes are probabilities, and not logits.
pub(crate) fn are_probabilities(row: &[f32]) -> bool {
    let sum: f32 = row.iter().sum();
    row.iter().all(|value| (0.0..=1.0).contains(value)) && (sum - 1.0).abs() < 1e-2
}

/// Type of the image that `forward` takes, of the inputs after it, and of the outputs.
type Contract = (InputShape, Vec<TensorType>, Vec<TensorType>);

/// Names of the classes in `model.yaml`, or its characters, or those of a `charset.txt` in the folder.
fn labels_of(package: &ModelPackage) -> Result<Vec<String>, String> {
    if !package.manifest.labels.is_empty() {
        return Ok(package.manifest.labels.clone());
    }
    let mut charset = package.manifest.charset.clone();
    if charset.is_empty()
        && let Some(file) = package.companion("charset.txt")
    {
        let text = std::fs::read_to_string(&file);
        let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        charset = text.trim_end_matches(['\r', '\n']).to_owned();
    }
    Ok(charset.chars().map(String::from).collect())
}

/// Reads the contract of `method`.
fn contract(model: &Model, method: &str) -> Result<Contract, String> {
    let plan = model.file().method(method).map_err(|error| error.to_string())?;
    let layout = |id: u32| match plan.value(id as usize) {
        Value::Tensor(meta) => Some(meta.layout),
        _ => None,
    };
    let tensor = |id: u32| {
        let layout = layout(id)?;
        Some(TensorType { sizes: layout.sizes.iter().collect(), dtype: layout.dtype })
    };
    let first = plan.inputs().iter().next().and_then(layout);
    let first = first.ok_or("the first input of forward is not a tensor; it must be the image")?;
    let inputs: Option<Vec<_>> = plan.inputs().iter().map(tensor).collect();
    let mut inputs = inputs.ok_or("an input of forward is not a tensor")?;
    let image = inputs.remove(0);
    let shape = InputShape::of(&image.sizes, first.dim_order, image.dtype)?;
    let limit = model.options().memory_limit;
    for TensorType { sizes, dtype } in [&image].into_iter().chain(&inputs) {
        let elements = sizes.iter().fold(1_usize, |all, size| all.saturating_mul(*size));
        if elements.saturating_mul(dtype.size()) > limit {
            return Err(format!("the input {sizes:?} exceeds the memory limit of {limit} bytes"));
        }
    }
    let outputs: Option<Vec<_>> = plan.outputs().iter().map(tensor).collect();
    Ok((shape, inputs, outputs.ok_or("an output of forward is not a tensor")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_outputs_are_refused() {
        let tensor = TensorView::new(&[1, 3], &[1.0_f32, 2.0, 3.0]).unwrap();
        assert_eq!(all_values(&tensor, 3), Ok(&[1.0, 2.0, 3.0][..]));
        let told = all_values(&tensor, 4).unwrap_err();
        assert!(told.contains("[1, 3], with 3 values; by its contract it has 4"), "{told}");
        let tensor = TensorView::new(&[1], &[1_i64]).unwrap();
        assert!(all_values(&tensor, 1).is_err());
    }
}
