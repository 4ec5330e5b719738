//! Manifest of a package (`model.yaml`).

use std::collections::BTreeMap;

use indexmap::IndexMap;

use serde::{Deserialize, de::IgnoredAny};

use crate::{
    chat::{CacheKind, Chat},
    image::ImageInput,
};

/// Contents of `model.yaml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the manifest format; 1.
    pub afferent_model: u32,
    /// Name of the model.
    pub name: String,
    /// Task of the model, such as `voice_activity`.
    pub task: String,
    /// Name of the interface that the methods implement, such as `silero_vad`.
    pub contract: String,
    /// Sample rate of the input audio in Hz.
    pub sample_rate: Option<u32>,
    /// Preparation of the images of a vision model.
    pub image: Option<ImageInput>,
    /// Variants of the program, in order of preference.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Variants of further programs, by their role, such as `encoder`. A model of equal programs has
    /// only these.
    #[serde(default)]
    pub programs: BTreeMap<String, Vec<Variant>>,
    /// Class names of a classifier, in the order of its outputs.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Characters of a model that reads text, in the order of its outputs; in place of `labels`.
    #[serde(default)]
    pub charset: String,
    /// Language of a voice, an ISO 639-1 code such as `es`. Default: English.
    pub language: Option<String>,
    /// Tokenizer file of a language model, relative to the package folder.
    pub tokenizer: Option<String>,
    /// Voice files of a speech synthesizer by their names, relative to the package folder; the first is
    /// the default.
    #[serde(default)]
    pub voices: IndexMap<String, String>,
    /// Text ahead of each text that the model reads, such as `query: `: the default of the parameter
    /// `prefix` of the node.
    #[serde(default)]
    pub prompt: String,
    /// Chat template of a language model.
    pub chat: Option<Chat>,
    /// Kind of the state of a language model; by default what the program says, or else
    /// `positional`.
    pub cache: Option<CacheKind>,
    /// Method of a language model that computes logits, such as `lora_forward`; by default
    /// `forward`, the pair `prefill` and `decode`, or the only method that fits.
    pub method: Option<String>,
    /// Default thresholds for the node that runs the model.
    #[serde(default)]
    pub decision: Decision,
    /// Decoder parameters of a speech recognizer.
    pub decoder: Option<Decoder>,
    /// SPDX license identifier.
    pub license: String,
    /// Training data and training script.
    pub provenance: String,
    /// Measured quality.
    #[serde(default)]
    pub quality: Quality,
    /// Known limitations.
    #[serde(default)]
    pub limits: Vec<String>,
}

/// Measured quality. The manifest may contain any YAML here; it is not read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quality;

impl<'de> Deserialize<'de> for Quality {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// Program of a model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Program file, relative to the package folder.
    pub file: String,
    /// Backend of the delegates; [`Variant::PORTABLE`] for a program without delegates.
    pub backend: String,
    /// Numeric precision, such as `fp32`.
    pub precision: String,
    /// External data files (`.ptd`), relative to the package folder.
    #[serde(default)]
    pub data: Vec<String>,
    /// Size of the program file in bytes; loading fails if the file has another size.
    pub bytes: Option<u64>,
    /// SHA-256 of the program file in hexadecimal, checked by
    /// [`ModelPackage::verify`](crate::ModelPackage::verify).
    pub sha256: Option<String>,
}

impl Manifest {
    /// The programs, each with its key in `model.yaml` and its variants: `variants` first, then those
    /// of `programs` by their role.
    pub fn all_programs(&self) -> impl Iterator<Item = (String, &[Variant])> {
        let main = (!self.variants.is_empty()).then_some(("variants".to_owned(), &*self.variants));
        let others = self.programs.iter();
        main.into_iter().chain(others.map(|(role, all)| (format!("programs.{role}"), &**all)))
    }

    /// All variants of all programs.
    pub fn all_variants(&self) -> impl Iterator<Item = &Variant> {
        self.variants.iter().chain(self.programs.values().flatten())
    }
}

impl Variant {
    /// Value of [`Variant::backend`] for a program without delegates.
    pub const PORTABLE: &str = "portable";
}

/// Defaults for a node that thresholds scores.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Minimum smoothed score of a detection, 0 to 1.
    pub threshold: Option<Threshold>,
    /// Score below which a detection ends, 0 to `threshold`.
    pub neg_threshold: Option<f32>,
    /// Duration of the moving average of scores, in milliseconds.
    pub smooth_ms: Option<u32>,
    /// Minimum time between two detections of the same label, in milliseconds.
    pub refractory_ms: Option<u32>,
    /// Duration of silence after which the model is run, in milliseconds.
    pub silence_ms: Option<u32>,
}

/// Parameters of the CTC decoder of a speech recognizer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decoder {
    /// ARPA file of the n-gram language model, relative to the package folder.
    pub language_model: String,
    /// Weight of the language model score relative to the acoustic score.
    pub language_weight: f32,
    /// Word insertion bonus, as a natural logarithm.
    pub word_bonus: f32,
    /// Delay of the first letter of a word after the start of the word, in milliseconds, -10,000 to
    /// 10,000.
    #[serde(default)]
    pub start_delay_ms: f32,
    /// Delay of the last letter of a word after the end of the word, in milliseconds, -10,000 to
    /// 10,000; negative if the letter comes before the end.
    #[serde(default)]
    pub end_delay_ms: f32,
}

impl Decision {
    /// Checks the ranges and label names of a package with these `labels`.
    pub(crate) fn check(&self, labels: &[String]) -> Result<(), String> {
        if let Some(threshold) = &self.threshold {
            threshold.check(labels)?;
        }
        let Some(neg) = self.neg_threshold else { return Ok(()) };
        if !(0.0..=1.0).contains(&neg) {
            return Err(format!("decision.neg_threshold is {neg}, but must be from 0 to 1"));
        }
        match &self.threshold {
            Some(Threshold::Uniform(value)) if neg > *value => Err(format!(
                "decision.neg_threshold is {neg}, but must be at most decision.threshold ({value})"
            )),
            _ => Ok(()),
        }
    }
}

/// Minimum score of a detection, 0 to 1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Threshold {
    /// One threshold for all labels.
    Uniform(f32),
    /// Threshold of each label.
    PerLabel(BTreeMap<String, f32>),
}

impl Threshold {
    /// Threshold of `label`.
    pub fn for_label(&self, label: &str) -> Option<f32> {
        match self {
            Self::Uniform(threshold) => Some(*threshold),
            Self::PerLabel(labels) => labels.get(label).copied(),
        }
    }

    fn check(&self, labels: &[String]) -> Result<(), String> {
        let check_range = |value: f32| {
            let message = || format!("decision.threshold is {value}, but must be from 0 to 1");
            if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(message()) }
        };
        match self {
            Self::Uniform(value) => check_range(*value),
            Self::PerLabel(values) => values.iter().try_for_each(|(label, value)| {
                if !labels.contains(label) {
                    return Err(format!(
                        "decision.threshold has {label:?}, which is not in labels"
                    ));
                }
                check_range(*value)
            }),
        }
    }
}
