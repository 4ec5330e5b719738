//! Folders that Ultralytics writes with `format=executorch`: `metadata.yaml` and a program.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// An exported model.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) program: PathBuf,
    /// Names of the classes, by their index.
    pub(crate) labels: Vec<String>,
}

/// Fields of `metadata.yaml` that are read.
#[derive(Debug, Clone, Deserialize)]
pub struct Metadata {
    names: BTreeMap<usize, String>,
    /// Task: `classify`, `detect`, `pose`, `segment` or another one.
    pub task: Option<String>,
    /// License, as a text.
    pub license: Option<String>,
    /// Description of the model.
    pub description: Option<String>,
}

/// Largest number of classes.
const MAX_CLASSES: usize = 1 << 20;

impl Metadata {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// The field that is missing or wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    /// Names of the classes, by their index; empty where the file has none.
    ///
    /// # Errors
    /// The class whose index is too large.
    pub fn labels(&self) -> Result<Vec<String>, String> {
        let last = self.names.keys().next_back();
        if let Some(last) = last.filter(|last| **last >= MAX_CLASSES) {
            return Err(format!("it names class {last}"));
        }
        let name = |index| self.names.get(&index).cloned().unwrap_or_default();
        Ok((0..last.map_or(0, |last| last + 1)).map(name).collect())
    }
}

/// The export in the folder `path`; `None` if it is something else.
///
/// # Errors
/// The file that is missing or damaged.
pub(crate) fn find(path: &Path) -> Result<Option<Export>, String> {
    let file = path.join("metadata.yaml");
    if path.join("model.yaml").exists() || !file.exists() {
        return Ok(None);
    }
    let wrong = |reason: String| format!("{}: {reason}", file.display());
    let text = fs::read_to_string(&file).map_err(|error| wrong(error.to_string()))?;
    let labels = Metadata::read(&text).and_then(|metadata| metadata.labels()).map_err(wrong)?;
    let entries = fs::read_dir(path).map_err(|error| wrong(error.to_string()))?;
    let is_program = |path: &PathBuf| path.extension().is_some_and(|end| end == "pte");
    let mut programs = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_program);
    let program =
        programs.next().ok_or_else(|| wrong("there is no .pte file beside it".to_owned()))?;
    if programs.next().is_some() {
        return Err(wrong("there are several .pte files beside it; name one of them".to_owned()));
    }
    Ok(Some(Export { program, labels }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_found_with_the_names_of_their_classes() {
        let folder = tempfile::tempdir().unwrap();
        assert!(find(folder.path()).unwrap().is_none());
        let metadata = "description: YOLO11n\nstride: 32\nimgsz:\n- 640\n- 640\nnames:\n  0: person\n  2: car\n";
        fs::write(folder.path().join("metadata.yaml"), metadata).unwrap();
        assert!(find(folder.path()).unwrap_err().contains("no .pte file"));
        fs::write(folder.path().join("model.pte"), "").unwrap();
        let found = find(folder.path()).unwrap().unwrap();
        assert_eq!(found.labels, ["person", "", "car"]);
        assert!(found.program.ends_with("model.pte"));
        fs::write(folder.path().join("other.pte"), "").unwrap();
        assert!(find(folder.path()).unwrap_err().contains("several"));
        fs::write(folder.path().join("metadata.yaml"), "names: [a").unwrap();
        assert!(find(folder.path()).unwrap_err().contains("metadata.yaml"));
    }
}
