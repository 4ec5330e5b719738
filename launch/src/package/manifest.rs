//! Text of model.yaml.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{file_name, program::Program, recognize::Named};

/// Fields of model.yaml.
pub(super) struct Manifest<'m> {
    pub(super) name: String,
    pub(super) contract: &'m Named,
    /// Variants of each program by their key.
    pub(super) groups: &'m [(String, Vec<&'m Program>)],
    /// Size and SHA-256 of each file.
    pub(super) hashes: &'m BTreeMap<PathBuf, (u64, String)>,
    /// Sample rate in Hz.
    pub(super) sample_rate: Option<i64>,
    /// Section `image`.
    pub(super) image: Option<&'m str>,
    pub(super) labels: &'m [String],
    pub(super) tokenizer: Option<&'m str>,
    /// Voice files by their names.
    pub(super) voices: &'m [(String, String)],
    /// Text ahead of each input.
    pub(super) prompt: Option<&'m str>,
    pub(super) license: String,
    pub(super) provenance: String,
}

/// A YAML scalar: plain where that is clear, otherwise a JSON string, which YAML reads alike.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || "_-./".contains(one))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

impl Manifest<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "afferent_model: 1\nname: {}\ntask: {}\ncontract: {}\n",
            scalar(&self.name),
            scalar(&self.contract.task),
            scalar(&self.contract.contract)
        );
        if let Some(rate) = self.sample_rate.filter(|rate| u32::try_from(*rate).is_ok()) {
            text += &format!("sample_rate: {rate}\n");
        }
        let mut is_first = true;
        for (key, variants) in self.groups {
            match key.split_once('.') {
                None => text += &format!("{key}:\n"),
                Some((parent, role)) => {
                    if std::mem::take(&mut is_first) {
                        text += &format!("{parent}:\n");
                    }
                    text += &format!("  {}:\n", scalar(role));
                }
            }
            let indent = if key.contains('.') { "  " } else { "" };
            variants.iter().for_each(|program| text += &self.variant(program, indent));
        }
        if let Some(image) = self.image {
            text += &format!("image: {image}\n");
        }
        if !self.labels.is_empty() {
            text += "labels:\n";
            self.labels.iter().for_each(|label| text += &format!("- {}\n", Value::from(&**label)));
        }
        if let Some(tokenizer) = self.tokenizer {
            text += &format!("tokenizer: {}\n", scalar(tokenizer));
        }
        if !self.voices.is_empty() {
            text += "voices:\n";
            let line =
                |(name, file): &(String, String)| format!("  {}: {}\n", scalar(name), scalar(file));
            text.extend(self.voices.iter().map(line));
        }
        if let Some(prompt) = self.prompt.filter(|prompt| !prompt.is_empty()) {
            text += &format!("prompt: {}\n", Value::from(prompt));
        }
        let (license, provenance) = (scalar(&self.license), Value::from(&*self.provenance));
        text + &format!("license: {license}\nprovenance: {provenance}\n")
    }

    fn variant(&self, program: &Program, indent: &str) -> String {
        let name = |path: &Path| scalar(file_name(path));
        let mut text = format!(
            "{indent}- file: {}\n{indent}  backend: {}\n{indent}  precision: {}\n",
            name(&program.path),
            scalar(&program.backend),
            scalar(&program.precision)
        );
        if !program.data.is_empty() {
            let data: Vec<String> = program.data.iter().map(|path| name(path)).collect();
            text += &format!("{indent}  data: [{}]\n", data.join(", "));
        }
        if let Some((bytes, sha256)) = self.hashes.get(&program.path) {
            text += &format!("{indent}  bytes: {bytes}\n{indent}  sha256: {}\n", scalar(sha256));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unclear_scalars_are_quoted() {
        for (text, expected) in [
            ("yolo11n", "yolo11n"),
            ("CC-BY-4.0", "CC-BY-4.0"),
            ("8da4w", "\"8da4w\""),
            ("no", "\"no\""),
            ("a: b", "\"a: b\""),
            ("1e5", "\"1e5\""),
            ("", "\"\""),
            ("käse \"x\"", "\"käse \\\"x\\\"\""),
        ] {
            assert_eq!(scalar(text), expected);
        }
    }
}
