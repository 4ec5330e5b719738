//! Voice files of a package.

use std::{
    fs,
    path::{Path, PathBuf},
};

use afferent_graph::NodeError;

use crate::programs::Programs;

/// Folders of a package in which voices are looked for, besides its own.
pub const VOICE_FOLDERS: [&str; 3] = ["voices", "voice_styles", "voice_embedding"];

/// Name and path of the voice `name` of a package, or of its first voice: of those in `model.yaml`, or
/// else of the files for which `is_voice` is true, in the order of their names. `kind` describes these
/// files.
///
/// # Errors
/// [`NodeError::Model`] if there is none, [`NodeError::InvalidParam`] if there is none with this name.
pub(super) fn find_voice(
    programs: &Programs,
    name: Option<&str>,
    kind: &str,
    is_voice: fn(&Path) -> bool,
) -> Result<(String, PathBuf), NodeError> {
    let folder = programs.package.folder();
    let listed = programs.package.manifest.voices.iter();
    let mut voices: Vec<(String, PathBuf)> =
        listed.map(|(name, file)| (name.clone(), folder.join(file))).collect();
    if voices.is_empty() {
        voices = voices_in(folder, is_voice);
    }
    let Some(first) = voices.first() else {
        return Err(programs.error(format!("the model needs a voice: put {kind} into the folder")));
    };
    let Some(name) = name else { return Ok(first.clone()) };
    let found = voices.iter().find(|(known, _)| known == name);
    found.cloned().ok_or_else(|| {
        let names: Vec<&str> = voices.iter().map(|(name, _)| name.as_str()).collect();
        let reason = format!("the model has the voices {}, not {name}", names.join(", "));
        NodeError::InvalidParam { name: "voice".into(), reason }
    })
}

/// Voices in `folder` and its [`VOICE_FOLDERS`], sorted by their names.
fn voices_in(folder: &Path, is_voice: fn(&Path) -> bool) -> Vec<(String, PathBuf)> {
    let folders = VOICE_FOLDERS.iter().map(|name| folder.join(name));
    let mut found = Vec::new();
    for folder in std::iter::once(folder.to_owned()).chain(folders) {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        found.extend(paths.filter(|path| path.is_file() && is_voice(path)).map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (name, path)
        }));
    }
    found.sort();
    found
}
