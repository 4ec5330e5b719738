//! Files beside a program: names of classes, task, license, images, tokenizer.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use afferent_nodes_vision::ultralytics::Metadata;
use afferent_package::TOKENIZER_FILES;
use anyhow::{Context, ensure};
use serde_json::Value;

use super::{file_name, preprocessor};

/// Properties of a model from the files beside its programs.
#[derive(Debug, Default)]
pub(super) struct Companions {
    /// Names of the classes; empty if they are not known.
    pub(super) labels: Vec<String>,
    /// `task` of model.yaml, by the task of an Ultralytics export.
    pub(super) task: Option<String>,
    pub(super) license: Option<String>,
    pub(super) description: Option<String>,
    /// Section `image` of model.yaml.
    pub(super) image: Option<String>,
    /// Name of the tokenizer file.
    pub(super) tokenizer: Option<String>,
    /// Texts that the model may expect ahead of its input, by their names.
    pub(super) prompts: Vec<(String, String)>,
    /// Name of the one among them that is the default.
    default_prompt: Option<String>,
}

/// Tasks of Ultralytics, and of model.yaml.
const TASKS: &[(&str, &str)] = &[
    ("classify", "classification"),
    ("detect", "detection"),
    ("pose", "body_pose"),
    ("segment", "segmentation"),
];

impl Companions {
    /// Reads the known ones among `files`.
    pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut found = Self::default();
        let mut source: Option<&PathBuf> = None;
        for file in files {
            let text = || {
                fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
            };
            let labels = match file_name(file) {
                "metadata.yaml" => found.ultralytics(file, &text()?)?,
                "labels.txt" => text()?.lines().map(|line| line.trim().to_owned()).collect(),
                "config.json" => {
                    let config = json(file, &text()?)?;
                    found.prompts.extend(task_prefixes(&config));
                    class_names(file, &config)?
                }
                "config_sentence_transformers.json" => {
                    let config = json(file, &text()?)?;
                    let default = config.get("default_prompt_name").and_then(Value::as_str);
                    found.default_prompt = default.map(str::to_owned);
                    found
                        .prompts
                        .extend(named_texts(config.get("prompts"), |prompt| prompt.as_str()));
                    continue;
                }
                "preprocessor_config.json" => {
                    found.image = preprocessor::image(&json(file, &text()?)?);
                    continue;
                }
                name => {
                    let rank = |name: &str| TOKENIZER_FILES.iter().position(|one| *one == name);
                    let best = found.tokenizer.as_deref().and_then(rank).unwrap_or(usize::MAX);
                    if rank(name).is_some_and(|rank| rank < best) {
                        found.tokenizer = Some(name.to_owned());
                    }
                    continue;
                }
            };
            if labels.is_empty() {
                continue;
            }
            if let Some(other) = source {
                let (file, other) = (file.display(), other.display());
                ensure!(labels == found.labels, "{file} and {other} name different classes");
            }
            (found.labels, source) = (labels, Some(file));
        }
        Ok(found)
    }

    /// The text that the model expects ahead of its input: the default one, or that of all names.
    pub(super) fn prompt(&self) -> Option<&str> {
        let is_default = |(name, _): &&(String, String)| self.default_prompt.as_ref() == Some(name);
        let (_, first) = self.prompts.iter().find(is_default).or(self.prompts.first())?;
        let is_clear =
            self.default_prompt.is_some() || self.prompts.iter().all(|(_, it)| it == first);
        is_clear.then_some(first)
    }

    fn ultralytics(&mut self, file: &Path, text: &str) -> anyhow::Result<Vec<String>> {
        let wrong = |error: String| anyhow::anyhow!("{}: {error}", file.display());
        let metadata = Metadata::read(text).map_err(wrong)?;
        let task = metadata.task.as_deref().unwrap_or_default();
        self.task =
            TASKS.iter().find(|(known, _)| *known == task).map(|(_, own)| (*own).to_owned());
        // Such as "AGPL-3.0 License (https://ultralytics.com/license)".
        let license = metadata.license.as_deref().and_then(|text| text.split_whitespace().next());
        self.license = license.map(str::to_owned);
        self.description.clone_from(&metadata.description);
        metadata.labels().map_err(wrong)
    }
}

fn json(file: &Path, text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text).with_context(|| format!("cannot read {}", file.display()))
}

/// Texts of the entries of an object, by their names, without those that have none.
fn named_texts(object: Option<&Value>, text: fn(&Value) -> Option<&str>) -> Vec<(String, String)> {
    let entries = object.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, entry)| Some((name.clone(), text(entry)?.to_owned()))).collect()
}

/// Prefixes of the tasks in a configuration of Hugging Face, such as those of T5.
fn task_prefixes(config: &Value) -> Vec<(String, String)> {
    named_texts(config.get("task_specific_params"), |task| task.get("prefix")?.as_str())
}

/// `id2label` of a configuration of Hugging Face; empty if there is none.
fn class_names(file: &Path, config: &Value) -> anyhow::Result<Vec<String>> {
    let Some(names) = config.get("id2label").and_then(Value::as_object) else {
        return Ok(Vec::new());
    };
    let mut by_index = BTreeMap::new();
    for (index, name) in names {
        let index: Option<usize> = index.parse().ok();
        let (Some(index), Some(name)) = (index, name.as_str()) else { return Ok(Vec::new()) };
        by_index.insert(index, name.to_owned());
    }
    let is_whole = by_index.keys().copied().eq(0..by_index.len());
    ensure!(is_whole, "{}: id2label does not name each class from 0 on", file.display());
    Ok(by_index.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let read = |files: &[(&str, &str)]| {
            let write = |(name, text): &(&str, &str)| {
                let path = folder.path().join(name);
                fs::write(&path, text).unwrap();
                path
            };
            Companions::read(&files.iter().map(write).collect::<Vec<_>>())
        };
        let yolo = "description: YOLO11n\nlicense: AGPL-3.0 License (a)\ntask: pose\nnames:\n  0: person\n";
        let found = read(&[("metadata.yaml", yolo), ("tokenizer.json", "{}")]).unwrap();
        assert_eq!(
            (found.labels, found.task.as_deref()),
            (vec!["person".into()], Some("body_pose"))
        );
        assert_eq!(found.license.as_deref(), Some("AGPL-3.0"));
        assert_eq!(found.tokenizer.as_deref(), Some("tokenizer.json"));
        let config = r#"{"id2label": {"1": "dog", "0": "cat", "2": "cow"}}"#;
        let found = read(&[("config.json", config), ("labels.txt", "cat\ndog\ncow\n")]).unwrap();
        assert_eq!(found.labels, ["cat", "dog", "cow"]);
        let error = read(&[("config.json", config), ("labels.txt", "cat\n")]).unwrap_err();
        assert!(error.to_string().contains("name different classes"), "{error}");
        let error = read(&[("config.json", r#"{"id2label": {"5": "dog"}}"#)]).unwrap_err();
        assert!(error.to_string().contains("config.json: id2label"), "{error}");
        let error = read(&[("metadata.yaml", "names: [a")]).unwrap_err();
        assert!(error.to_string().contains("metadata.yaml"), "{error}");
    }
}
