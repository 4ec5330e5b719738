//! Files beside a language model program: tokenizer, chat template, and generation defaults.

use std::{
    fs,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use serde_json::Value;

use crate::{ChatTemplate, Sampling, TextError, Tokenizer};

/// Names of tokenizer files, preferred ones first.
const TOKENIZERS: &[&str] =
    &["tokenizer.json", "tekken.json", "tokenizer.model", "tokenizer.bin", "vocab.txt"];

/// Largest file with a template or settings, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Files beside a language model program, as a hub of models or an exporter leaves them.
///
/// | file | what is used |
/// |---|---|
/// | `tokenizer.json`, `tekken.json`, `tokenizer.model`, `tokenizer.bin`, `vocab.txt` | the first that exists |
/// | `chat_template.jinja` | chat template |
/// | `tokenizer_config.json` | `chat_template`, if there is no `chat_template.jinja`; `bos_token` and others |
/// | `special_tokens_map.json` | special tokens that `tokenizer_config.json` does not name |
/// | `generation_config.json` | EOS tokens; sampling, if `do_sample` is true |
#[derive(Debug, Clone, Default)]
pub struct Companions {
    /// Tokenizer.
    pub tokenizer: PathBuf,
    /// Source of the chat template with its file.
    pub template: Option<(PathBuf, String)>,
    /// Names of variables such as `bos_token`, with their tokens.
    pub special_tokens: IndexMap<String, String>,
    /// EOS tokens of `generation_config.json`.
    pub eos: Vec<u32>,
    /// EOS tokens by name, of `tokenizer_config.json`.
    pub eos_names: Vec<String>,
    /// Sampling of `generation_config.json`.
    pub sampling: Option<Sampling>,
}

impl Companions {
    /// Finds the files in `folder`, and the tokenizer also in its parent. `tokenizer` is the path of
    /// the tokenizer, if it is known; the other files are those beside it.
    ///
    /// # Errors
    /// [`TextError::Read`] if there is no tokenizer; [`TextError::Companion`] if a file is damaged.
    pub fn find(folder: &Path, tokenizer: Option<&Path>) -> Result<Self, TextError> {
        let tokenizer = match tokenizer {
            Some(path) => path.to_owned(),
            None => find_tokenizer(folder)?,
        };
        let folder = tokenizer.parent().unwrap_or(Path::new("")).to_owned();
        let mut found = Self { tokenizer, ..Self::default() };
        let jinja = folder.join("chat_template.jinja");
        if jinja.is_file() {
            found.template = Some((jinja.clone(), read(&jinja)?));
        }
        for name in ["tokenizer_config.json", "special_tokens_map.json", "chat_template.json"] {
            let path = folder.join(name);
            let Some(config) = read_json(&path)? else { continue };
            found.add_tokens(&config);
            if found.template.is_none() {
                found.template = template(&config["chat_template"]).map(|text| (path, text));
            }
        }
        found.eos_names.extend(found.special_tokens.get("eos_token").cloned());
        let path = folder.join("generation_config.json");
        if let Some(config) = read_json(&path)? {
            found.add_generation(&path, &config)?;
        }
        Ok(found)
    }

    /// Compiles the chat template with `tokenizer`, the tokenizer of the files.
    ///
    /// # Errors
    /// [`TextError::Companion`] with the file and the line; `None` if there is no template.
    pub fn chat_template(&self, tokenizer: Tokenizer) -> Option<Result<ChatTemplate, TextError>> {
        let (path, source) = self.template.as_ref()?;
        let mut special = self.special_tokens.clone();
        // Files without a configuration still have these tokens.
        let named =
            |id: Option<u32>| id.and_then(|id| tokenizer.special_name(id)).map(str::to_owned);
        let known = [
            ("bos_token", named(tokenizer.bos())),
            ("eos_token", named(tokenizer.eos().first().copied())),
        ];
        for (variable, name) in known {
            if let (Some(name), false) = (name, special.contains_key(variable)) {
                special.insert(variable.to_owned(), name);
            }
        }
        let template = ChatTemplate::new(source, special, tokenizer);
        Some(template.map_err(|error| invalid(path, error.to_string())))
    }

    /// Takes the file at `path` as the chat template.
    ///
    /// # Errors
    /// That the file cannot be read, or is too large.
    pub fn set_template(&mut self, path: PathBuf) -> Result<(), TextError> {
        let source = read(&path)?;
        self.template = Some((path, source));
        Ok(())
    }

    /// EOS tokens of all files but the tokenizer.
    pub fn eos_tokens(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let named = self.eos_names.iter().filter_map(|name| tokenizer.token_id(name));
        self.eos.iter().copied().chain(named).collect()
    }

    /// Adds `bos_token` and others of `config`: strings, or objects with a `content`.
    fn add_tokens(&mut self, config: &Value) {
        for (name, value) in config.as_object().into_iter().flatten() {
            let text = value.as_str().or(value["content"].as_str());
            if let (true, Some(text)) = (name.ends_with("_token"), text) {
                self.special_tokens.entry(name.clone()).or_insert(text.to_owned());
            }
        }
    }

    /// Adds `generation_config.json`.
    fn add_generation(&mut self, path: &Path, config: &Value) -> Result<(), TextError> {
        let eos = &config["eos_token_id"];
        let eos = eos.as_array().map_or(std::slice::from_ref(eos), Vec::as_slice);
        let token = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        self.eos = eos.iter().filter_map(token).collect();
        let number = |name: &str, default: f32| match &config[name] {
            Value::Null => Ok(default),
            value => value
                .as_f64()
                .map(|value| value as f32)
                .ok_or_else(|| invalid(path, format!("{name} is {value}, but must be a number"))),
        };
        let penalty = number("repetition_penalty", 1.0)?;
        let is_sampled = config["do_sample"] == true;
        if is_sampled || penalty != 1.0 {
            let temperature = if is_sampled { number("temperature", 1.0)? } else { 0.0 };
            // 50 is the default of `transformers`.
            let top_k = number("top_k", 50.0)?.max(0.0) as usize;
            self.sampling = Some(Sampling {
                repetition_penalty: penalty,
                temperature,
                top_k,
                top_p: number("top_p", 1.0)?,
                min_p: number("min_p", 0.0)?,
                ..Sampling::default()
            });
        }
        Ok(())
    }
}

fn find_tokenizer(folder: &Path) -> Result<PathBuf, TextError> {
    // Exports for several backends lie in folders of their own, with the tokenizer above.
    let folders = [Some(folder), folder.parent()].into_iter().flatten();
    let paths = folders.flat_map(|folder| TOKENIZERS.iter().map(|name| folder.join(name)));
    let found = paths.clone().find(|path| path.is_file());
    found.ok_or_else(|| TextError::Read {
        path: folder.to_owned(),
        reason: format!(
            "no tokenizer beside the program; copy one of these files of the model there: {}",
            TOKENIZERS.join(", ")
        ),
    })
}

/// Template of the field `chat_template`: a string, or a list of named ones.
fn template(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    let named = |name: &str| value.as_array()?.iter().find(|one| one["name"] == name);
    let one = named("tool_use").or(named("default"))?;
    one["template"].as_str().map(str::to_owned)
}

fn invalid(path: &Path, reason: String) -> TextError {
    TextError::Companion { path: path.to_owned(), reason }
}

fn read(path: &Path) -> Result<String, TextError> {
    let len = fs::metadata(path).map(|metadata| metadata.len());
    if len.is_ok_and(|len| len > MAX_BYTES) {
        return Err(invalid(path, format!("the file is larger than {MAX_BYTES} bytes")));
    }
    fs::read_to_string(path)
        .map_err(|error| TextError::Read { path: path.to_owned(), reason: error.to_string() })
}

/// Contents of a JSON file; `None` if it does not exist.
fn read_json(path: &Path) -> Result<Option<Value>, TextError> {
    if !path.is_file() {
        return Ok(None);
    }
    let value = serde_json::from_str(&read(path)?);
    value.map(Some).map_err(|error| invalid(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with `files`, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("afferent-companions-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(folder.join("xnnpack")).expect("a folder");
            for (name, text) in files {
                fs::write(folder.join(name), text).expect("a file");
            }
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_found_and_read() {
        let config = r#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": true,
            "chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}"#;
        let generation =
            r#"{"eos_token_id": [2, 7], "do_sample": true, "temperature": 0.6, "top_p": 0.9}"#;
        let folder = Folder::new(
            "found",
            &[
                ("tokenizer.json", ""),
                ("tokenizer_config.json", config),
                ("special_tokens_map.json", r#"{"eos_token": "other", "pad_token": "<pad>"}"#),
                ("generation_config.json", generation),
            ],
        );
        let found = Companions::find(&folder.0.join("xnnpack"), None).expect("files");
        assert_eq!(found.tokenizer, folder.0.join("tokenizer.json"));
        assert_eq!(found.template.as_ref().map(|(_, text)| text.as_str()), Some("b"));
        let token = |name: &str| found.special_tokens.get(name).map(String::as_str);
        assert_eq!((token("bos_token"), token("eos_token")), (Some("<s>"), Some("</s>")));
        assert_eq!((token("pad_token"), found.special_tokens.len()), (Some("<pad>"), 3));
        assert_eq!(found.eos, [2, 7]);
        let sampling = found.sampling.expect("sampling");
        assert_eq!((sampling.temperature, sampling.top_k, sampling.top_p), (0.6, 50, 0.9));
        fs::write(folder.0.join("chat_template.jinja"), "c").expect("a file");
        let found = Companions::find(&folder.0, None).expect("files");
        assert_eq!(found.template.map(|(_, text)| text).as_deref(), Some("c"));
    }

    #[test]
    fn greedy_configurations_have_no_sampling() {
        let files =
            [("vocab.txt", ""), ("generation_config.json", r#"{"eos_token_id": 3, "top_p": 0.5}"#)];
        let folder = Folder::new("greedy", &files);
        let found = Companions::find(&folder.0, None).expect("files");
        assert_eq!((found.eos.as_slice(), found.sampling), ([3].as_slice(), None));
    }

    #[test]
    fn errors_name_the_file() {
        let folder = Folder::new("errors", &[("generation_config.json", "{")]);
        let error = Companions::find(&folder.0, None).expect_err("an error").to_string();
        assert!(
            error.contains("no tokenizer beside the program") && error.contains("tekken"),
            "{error}"
        );
        fs::write(folder.0.join("tokenizer.json"), "").expect("a file");
        let error = Companions::find(&folder.0, None).expect_err("an error").to_string();
        assert!(error.contains("generation_config.json: EOF"), "{error}");
        let config = r#"{"do_sample": true, "temperature": "hot"}"#;
        fs::write(folder.0.join("generation_config.json"), config).expect("a file");
        let error = Companions::find(&folder.0, None).expect_err("an error").to_string();
        assert!(error.contains("temperature is \"hot\", but must be a number"), "{error}");
    }
}
