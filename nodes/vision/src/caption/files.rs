//! Opens a model that sees, with its tokenizer, chat template and preparation of images.

use std::path::Path;

use afferent_core::Dynamism;
use afferent_graph::{NodeError, OpenCx};
use afferent_package::{CacheKind, Chat, ImageInput, ModelPackage};
use afferent_runtime::{ModelFile, ModelOptions, program::Value};
use afferent_text::{
    Cache, Companions, Contract, ContractOptions, GenerationOptions, Generator, SamplingOverrides,
    TextError, Tokenizer,
};

use super::prompt::{Format, ImageTokens, Jinja, Parts, candidates};
use crate::model_image::{InputShape, ModelImage};

/// Method that makes rows of an image.
pub(crate) const ENCODER: &str = "vision_encoder";

/// Settings of a conversation: those of the node.
pub(super) struct Settings {
    /// System prompt in place of that of the package.
    pub(super) system: Option<String>,
    /// Most tokens of an answer.
    pub(super) max_new: usize,
    /// Most images of a question.
    pub(super) images: usize,
    pub(super) sampling: SamplingOverrides,
    pub(super) stop: Option<String>,
}

/// A model that is ready for questions.
pub(super) struct Opened {
    pub(super) generator: Generator,
    pub(super) image: ModelImage,
    pub(super) format: Format,
    pub(super) options: GenerationOptions,
    /// Most rows of an image.
    pub(super) rows: usize,
}

impl Opened {
    /// Opens the package or the program at `path`.
    pub(super) fn open(path: &Path, settings: &Settings, cx: &OpenCx) -> Result<Self, NodeError> {
        let models = cx.services.need::<ModelOptions>()?;
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let text_failed = |error: TextError| failed(error.to_string());
        let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
        package.expect_task("image_text").map_err(|error| failed(error.to_string()))?;
        let model = package.open_main(models);
        let mut model = model.map_err(|error| failed(error.to_string()))?;
        let manifest = &package.manifest;
        let cache = manifest.cache.map(cache);
        let contract = ContractOptions { method: None, cache };
        let encoder = Encoder::read(model.file(), models.memory_limit).map_err(failed)?;
        model.load_method(ENCODER).map_err(|error| failed(error.to_string()))?;
        let generator = Generator::with_options(model, &contract).map_err(text_failed)?;
        encoder.check_width(generator.contract()).map_err(failed)?;
        let image = encoder.image(manifest.image.as_ref()).map_err(failed)?;
        let tokenizer = manifest.tokenizer.as_ref().map(|file| package.folder().join(file));
        let companions = Companions::find(package.folder(), tokenizer.as_deref());
        let mut companions = companions.map_err(text_failed)?;
        let chat = manifest.chat.clone().unwrap_or_default();
        if let Some(file) = &chat.template {
            companions.set_template(package.folder().join(file)).map_err(text_failed)?;
        }
        let format = format(&chat, &companions, settings, generator.file()).map_err(failed)?;
        let mut options = GenerationOptions {
            max_new_tokens: settings.max_new,
            sampling: settings.sampling.or(companions.sampling.unwrap_or_default()),
            stop: settings.stop.iter().cloned().collect(),
            ..GenerationOptions::default()
        };
        let tokenizer = format.tokenizer();
        options.extra_eos = companions.eos_tokens(tokenizer);
        options.extra_eos.extend(format.end());
        options.end_at(&chat.end, tokenizer);
        Ok(Self { generator, image, format, options, rows: encoder.rows })
    }
}

/// Format of the prompts.
fn format(
    chat: &Chat,
    companions: &Companions,
    settings: &Settings,
    file: &ModelFile,
) -> Result<Format, String> {
    let text_failed = |error: TextError| error.to_string();
    let special = Tokenizer::open(&companions.tokenizer).map_err(text_failed)?;
    let constant = |name: &str| file.metadata_ints(name)?.first().copied();
    let candidates = candidates(chat, constant, &special)?;
    let text = chat.image.as_deref();
    let system = settings.system.as_ref().or(chat.instructions.as_ref());
    if chat.has_parts() {
        if !chat.user.contains("{image}") {
            return Err(
                "chat.user in model.yaml has no {image}, where the images of a question are".into(),
            );
        }
        // The token need not exist: the rows are put between the tokens of the parts.
        let placeholder = candidates.first().copied().unwrap_or(u32::MAX);
        let image = ImageTokens::new(placeholder, text, &special).map_err(text_failed)?;
        let parts = Parts::new(chat, image, system.map(String::as_str), &special);
        return Ok(Format::Parts(Box::new(parts.map_err(text_failed)?)));
    }
    let Some(template) = companions.chat_template(special.clone()) else {
        return Err(format!(
            "no chat template; copy chat_template.jinja, chat_template.json or tokenizer_config.json of \
             the model to the folder of {}, or define `chat` in model.yaml",
            companions.tokenizer.display()
        ));
    };
    let template = template.map_err(text_failed)?;
    let jinja = Jinja::new(template, &candidates, text, &special, system.cloned())?;
    Ok(Format::Jinja(Box::new(jinja)))
}

fn cache(kind: CacheKind) -> Cache {
    match kind {
        CacheKind::Positional => Cache::Positional,
        CacheKind::Recurrent => Cache::Recurrent,
        CacheKind::Ring { window, slots } => Cache::Ring { window, slots: slots.unwrap_or(window) },
    }
}

/// Interface of `vision_encoder`.
#[derive(Debug)]
pub(crate) struct Encoder {
    shape: InputShape,
    /// True if the sides may be smaller.
    is_dynamic: bool,
    /// Most rows of an image.
    pub(crate) rows: usize,
    width: usize,
}

impl Encoder {
    /// Reads the method of `file`, whose image may have up to `memory_limit` bytes.
    ///
    /// # Errors
    /// The method is missing, or its inputs or outputs are wrong.
    pub(crate) fn read(file: &ModelFile, memory_limit: usize) -> Result<Self, String> {
        let plan = file.method(ENCODER).map_err(|error| error.to_string())?;
        let tensor = |id: u32| match plan.value(id as usize) {
            Value::Tensor(meta) => Some(meta),
            _ => None,
        };
        let (inputs, outputs) = (plan.inputs(), plan.outputs());
        let wrong = |what: &str| format!("{ENCODER} must have {what}");
        let image = inputs.get(0).and_then(tensor).filter(|_| inputs.iter().count() == 1);
        let image = image.ok_or_else(|| wrong("one input, the image"))?;
        let sizes: Vec<usize> = image.layout.sizes.iter().collect();
        let elements = sizes.iter().fold(1_usize, |all, size| all.saturating_mul(*size));
        if elements.saturating_mul(image.layout.dtype.size()) > memory_limit {
            return Err(format!(
                "the image {sizes:?} exceeds the memory limit of {memory_limit} bytes"
            ));
        }
        let shape = InputShape::of(&sizes, image.layout.dim_order, image.layout.dtype)?;
        let rows = outputs.get(0).and_then(tensor);
        let rows: Option<Vec<usize>> = rows.map(|meta| meta.layout.sizes.iter().collect());
        let (rows, width) = match rows.as_deref() {
            Some(&[rows, width]) if width > 0 => (rows, width),
            Some(&[parts, rows, width]) if width > 0 => (parts.saturating_mul(rows), width),
            _ => return Err(wrong("the output [rows, width] or [1, rows, width]")),
        };
        let is_dynamic = image.dynamism != Dynamism::Static;
        Ok(Self { shape, is_dynamic, rows, width })
    }

    /// True if the program has a decoder that takes the rows.
    pub(crate) fn fits(&self, file: &ModelFile) -> bool {
        Contract::from_file(file).is_ok_and(|contract| self.check_width(&contract).is_ok())
    }

    /// Checks that the decoder takes the rows.
    fn check_width(&self, contract: &Contract) -> Result<(), String> {
        match contract.embedding.as_ref().map(|embedding| embedding.width) {
            Some(width) if width == self.width => Ok(()),
            Some(width) => Err(format!(
                "{ENCODER} gives rows of {} values, but text_decoder takes {width}",
                self.width
            )),
            None => Err("it has no methods token_embedding and text_decoder".to_owned()),
        }
    }

    /// Preparation of images by the settings of `model.yaml`.
    fn image(&self, settings: Option<&ImageInput>) -> Result<ModelImage, String> {
        let settings = settings.cloned().unwrap_or_default();
        match self.is_dynamic {
            true => ModelImage::with_sizes(self.shape, &settings),
            false => ModelImage::new(self.shape, &settings),
        }
    }
}
