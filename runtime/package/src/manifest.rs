//! The contents of `model.yaml`.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, de::IgnoredAny};

/// What a model says about itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this form; 1.
    pub afferent_model: u32,
    /// Name of the model.
    pub name: String,
    /// What it is for, for example `voice_activity`.
    pub task: String,
    /// What its methods take and give, for example `silero_vad`.
    pub contract: String,
    /// Samples per second of the sound that it hears, in hertz.
    pub sample_rate: Option<u32>,
    /// Its programs, the preferred first.
    pub variants: Vec<Variant>,
    /// Names of the columns of a classifier's result.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Tokenizer file of a language model, in the folder of the package.
    pub tokenizer: Option<String>,
    /// How a language model wants a dialogue to be written.
    pub chat: Option<Chat>,
    /// Defaults for the node that decides on the result.
    #[serde(default)]
    pub decision: Decision,
    /// What a recogniser's decoder needs beside the program.
    pub decoder: Option<Decoder>,
    /// SPDX name of the licence.
    pub licence: String,
    /// How the model came to be.
    pub provenance: String,
    /// Measured figures, in any form.
    #[serde(default)]
    pub quality: Quality,
    /// What the model cannot do.
    #[serde(default)]
    pub limits: Vec<String>,
}

/// Figures that only people read; they are in the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quality;

impl<'de> Deserialize<'de> for Quality {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// One program of a model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Program file, in the folder of the package.
    pub file: String,
    /// Backend that its delegates need; `portable` for none.
    pub backend: String,
    /// Precision of its arithmetic, for example `fp32`.
    pub precision: String,
    /// Data files of the program.
    #[serde(default)]
    pub data: Vec<String>,
    /// Size of the program file; one of another size is not loaded.
    pub bytes: Option<u64>,
    /// SHA-256 of the program file, in hexadecimal, for
    /// [`ModelPackage::verify`](crate::ModelPackage::verify).
    pub sha256: Option<String>,
}

impl Variant {
    /// Name of [`Variant::backend`] for a program without delegates.
    pub const PORTABLE: &str = "portable";
}

/// How a dialogue is written for a language model: texts around what is said, in which `{text}`
/// stands for it.
///
/// A dialogue is [`begin`](Self::begin), [`system`](Self::system), and for each turn
/// [`user`](Self::user) and [`answer`](Self::answer), after which the model goes on until
/// [`end`](Self::end). An answer that starts with [`call`](Self::call) is a JSON object with the
/// `name` of a tool and its `arguments`; the tool's result, a JSON object too, follows as
/// [`result`](Self::result), and [`answer`](Self::answer) asks for what to say about it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// What the model is told first, if nothing else is wanted.
    pub instructions: Option<String>,
    /// The start of a dialogue.
    #[serde(default)]
    pub begin: String,
    /// Instructions, and what is known from before.
    pub system: Option<String>,
    /// What the user says.
    pub user: String,
    /// What asks the model for an answer.
    pub answer: String,
    /// What ends an answer.
    pub end: String,
    /// What an answer that calls a tool starts with: one token of the tokenizer.
    pub call: Option<String>,
    /// What a tool gives back.
    pub result: Option<String>,
    /// The tools that the model knows.
    #[serde(default)]
    pub tools: Vec<Tool>,
}

/// A tool that a language model calls.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name in calls.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Names and meanings of its arguments.
    #[serde(default)]
    pub arguments: IndexMap<String, String>,
    /// Names and meanings of what it gives back, in the order that the model knows.
    #[serde(default)]
    pub result: IndexMap<String, String>,
}

/// Defaults for a node that decides on scores.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Smoothed score from which something is detected, 0 to 1.
    pub threshold: Option<Threshold>,
    /// Score below which it is certainly not there, 0 to the threshold.
    pub neg_threshold: Option<f32>,
    /// Time over which scores are averaged, in milliseconds.
    pub smooth_ms: Option<u32>,
    /// Time after a detection in which the same is not detected again, in milliseconds.
    pub refractory_ms: Option<u32>,
    /// How long it has been silent when the model is asked, in milliseconds.
    pub silence_ms: Option<u32>,
}

/// How a recogniser's decoder makes words of letters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decoder {
    /// ARPA file with the words and their chances, in the folder of the package.
    pub language_model: String,
    /// Weight of the language model against the sound.
    pub language_weight: f32,
    /// What every word adds, as a natural logarithm.
    pub word_bonus: f32,
    /// How long after the begin of a word its first letter appears, in milliseconds, -10,000 to
    /// 10,000.
    #[serde(default)]
    pub start_delay_ms: f32,
    /// How long after the end of a word its last letter appears, in milliseconds; negative before,
    /// -10,000 to 10,000.
    #[serde(default)]
    pub end_delay_ms: f32,
}

impl Decision {
    /// What is wrong with it in a package with these `labels`.
    pub(crate) fn fault(&self, labels: &[String]) -> Option<String> {
        let threshold = self.threshold.as_ref();
        if let Some(reason) = threshold.and_then(|threshold| threshold.fault(labels)) {
            return Some(reason);
        }
        let neg = self.neg_threshold?;
        let inside = (0.0..=1.0).contains(&neg);
        match threshold {
            _ if !inside => {
                Some(format!("decision.neg_threshold is {neg}, but must be from 0 to 1"))
            }
            Some(Threshold::All(value)) if neg > *value => {
                Some(format!("decision.neg_threshold is {neg}, above the threshold of {value}"))
            }
            _ => None,
        }
    }
}

/// A score from which something is detected, 0 to 1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Threshold {
    /// The same for every label.
    All(f32),
    /// One for each label.
    Labels(BTreeMap<String, f32>),
}

impl Threshold {
    /// The threshold of `label`, if there is one.
    pub fn of(&self, label: &str) -> Option<f32> {
        match self {
            Self::All(threshold) => Some(*threshold),
            Self::Labels(labels) => labels.get(label).copied(),
        }
    }

    fn fault(&self, labels: &[String]) -> Option<String> {
        let wrong = |value: f32| {
            let reason = || format!("decision.threshold is {value}, but must be from 0 to 1");
            (!(0.0..=1.0).contains(&value)).then(reason)
        };
        match self {
            Self::All(value) => wrong(*value),
            Self::Labels(values) => values.iter().find_map(|(label, value)| {
                let unknown = || format!("decision.threshold names {label:?}, which is no label");
                let is_known = labels.contains(label);
                if is_known { wrong(*value) } else { Some(unknown()) }
            }),
        }
    }
}
