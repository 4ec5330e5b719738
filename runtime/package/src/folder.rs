//! Folders with programs and without a `model.yaml`, as exporters and hubs lay them out.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use afferent_runtime::ModelFile;

use crate::{Manifest, PackageError, Variant, roles::roles};

/// Names of tokenizer files, preferred ones first.
pub const TOKENIZER_FILES: &[&str] =
    &["tokenizer.json", "tekken.json", "tokenizer.model", "vocab.txt", "tokenizer.bin"];

/// Manifest of the folder `folder` by its files: programs with the same methods are variants, others
/// are programs with a role.
///
/// # Errors
/// [`PackageError::Read`] if there is no program, and errors of opening the programs.
pub(crate) fn manifest_of(folder: &Path) -> Result<Manifest, PackageError> {
    let read_failed = |reason: String| PackageError::Read { path: folder.to_owned(), reason };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| read_failed(error.to_string()))? {
        files.push(entry.map_err(|error| read_failed(error.to_string()))?.path());
    }
    files.sort();
    let ends = |path: &&PathBuf, end: &str| path.extension().is_some_and(|it| it == end);
    let programs: Vec<&PathBuf> = files.iter().filter(|path| ends(path, "pte")).collect();
    if programs.is_empty() {
        let reason = "the folder has neither a model.yaml nor a program (.pte)".to_owned();
        return Err(read_failed(reason));
    }
    let data: Vec<&PathBuf> = files.iter().filter(|path| ends(path, "ptd")).collect();
    let data_of = |program: &Path| -> Vec<PathBuf> {
        let is_own = |path: &&&PathBuf| path.file_stem() == program.file_stem();
        let is_only = programs.len() == 1;
        data.iter().filter(|path| is_only || is_own(path)).map(|path| (**path).clone()).collect()
    };
    let mut groups: Vec<(String, &Path, Vec<Variant>)> = Vec::new();
    for path in &programs {
        let own_data = data_of(path);
        let file = ModelFile::open(path, &own_data)?;
        let (form, variant) = (form(&file), variant(path, &file, &own_data));
        match groups.iter_mut().find(|(known, ..)| *known == form) {
            Some((.., variants)) => variants.push(variant),
            None => groups.push((form, path, vec![variant])),
        }
    }
    // Stable: otherwise in the order of their names.
    groups.iter_mut().for_each(|(.., variants)| {
        variants.sort_by_key(|variant| variant.backend == Variant::PORTABLE);
    });
    let paths: Vec<&Path> = groups.iter().map(|(_, path, _)| *path).collect();
    let mut manifest = Manifest { name: name(folder), ..Manifest::default() };
    for ((.., variants), role) in groups.into_iter().zip(roles(&paths)) {
        match role {
            Some(role) => drop(manifest.programs.insert(role, variants)),
            None => manifest.variants = variants,
        }
    }
    manifest.tokenizer = tokenizer_in(folder);
    Ok(manifest)
}

/// Name of the tokenizer file in `folder`, if there is one.
pub(crate) fn tokenizer_in(folder: &Path) -> Option<String> {
    let exists = |name: &&&str| folder.join(name).is_file();
    TOKENIZER_FILES.iter().find(exists).map(|name| (*name).to_owned())
}

/// Name of the model: that of the folder.
fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn variant(path: &Path, file: &Arc<ModelFile>, data: &[PathBuf]) -> Variant {
    let file_name =
        |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plans = file.program().method_names().filter_map(|name| file.program().method(name));
    let backends = plans.flat_map(|plan| plan.delegates().map(|delegate| delegate.id.to_owned()));
    Variant {
        file: file_name(path),
        backend: backends.into_iter().next().unwrap_or_else(|| Variant::PORTABLE.to_owned()),
        data: data.iter().map(|path| file_name(path)).collect(),
        ..Variant::default()
    }
}

/// Methods with the types and ranks of their inputs and outputs, as text.
fn form(file: &ModelFile) -> String {
    let mut methods = BTreeMap::new();
    for name in file.program().method_names() {
        let Ok(signature) = file.signature(name) else { continue };
        let tensors = signature.inputs.iter().chain(&signature.outputs);
        let tensors = tensors
            .map(|tensor| tensor.as_ref().map(|tensor| (tensor.dtype.name(), tensor.sizes.len())));
        methods.insert(name, (signature.inputs.len(), tensors.collect::<Vec<_>>()));
    }
    format!("{methods:?}")
}
