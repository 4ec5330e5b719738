//! Programs of a package: backend, precision, and those that are variants of one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use afferent_inspect::{MethodContents, ProgramContents};
use afferent_package::{Variant, precision_in_name, roles};
use afferent_runtime::ModelFile;
use anyhow::{bail, ensure};

use crate::App;

/// A program and its properties.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) file: Arc<ModelFile>,
    pub(super) contents: ProgramContents,
    pub(super) backend: String,
    pub(super) precision: String,
    /// Data files.
    pub(super) data: Vec<PathBuf>,
}

impl Program {
    /// Reads the programs among `files`.
    pub(super) fn read_all(
        app: &App,
        files: &[PathBuf],
        precision: Option<&str>,
    ) -> anyhow::Result<Vec<Self>> {
        let ends = |path: &&PathBuf, end: &str| path.extension().is_some_and(|it| it == end);
        let paths: Vec<&PathBuf> = files.iter().filter(|path| ends(path, "pte")).collect();
        ensure!(!paths.is_empty(), "there is no program: name a .pte file, or a folder with one");
        let mut data: BTreeMap<&PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for file in files.iter().filter(|path| ends(path, "ptd")) {
            let owner = paths.iter().find(|path| path.file_stem() == file.file_stem());
            let only = paths.first().filter(|_| paths.len() == 1);
            let Some(owner) = owner.or(only) else {
                bail!("{} is of none of the programs: give it the name of one", file.display());
            };
            data.entry(owner).or_default().push(file.clone());
        }
        let program = |path: &&PathBuf| {
            let data = data.remove(*path).unwrap_or_default();
            let file = ModelFile::open(path, &data)?;
            let contents = ProgramContents::of(&file, app.models());
            let backend = backend(&contents);
            let precision =
                precision.map_or_else(|| precision_of(path, &contents), ToOwned::to_owned);
            Ok(Self { path: (*path).clone(), file, contents, backend, precision, data })
        };
        paths.iter().map(program).collect()
    }

    /// A program without data, whose file is known.
    pub(super) fn of_file(file: Arc<ModelFile>, contents: ProgramContents) -> Self {
        let path = file.path().to_owned();
        let (backend, precision) = (backend(&contents), precision_of(&path, &contents));
        Self { path, file, contents, backend, precision, data: Vec::new() }
    }

    /// Name of the file.
    pub(super) fn name(&self) -> &str {
        super::file_name(&self.path)
    }

    /// The method `name`.
    pub(super) fn method(&self, name: &str) -> Option<&MethodContents> {
        self.contents.methods.iter().find(|method| method.name == name)
    }

    /// Methods with their inputs and outputs, one a line.
    pub(super) fn signature(&self) -> String {
        let list = |values: &[afferent_inspect::ValueContents]| {
            let values = values.iter().map(|value| value.description.as_str());
            values.collect::<Vec<_>>().join(", ")
        };
        let methods = self.contents.methods.iter().map(|method| {
            format!("{}({}) -> ({})", method.name, list(&method.inputs), list(&method.outputs))
        });
        methods.collect::<Vec<_>>().join("\n")
    }
}

/// Name of the backend of the delegates. Of several, one that this build lacks: without it the program
/// does not run.
fn backend(contents: &ProgramContents) -> String {
    let delegates = || contents.methods.iter().flat_map(|method| &method.delegates);
    let missing = delegates().find(|delegate| !delegate.available);
    let found = missing.or_else(|| delegates().next());
    found.map_or_else(|| Variant::PORTABLE.to_owned(), |delegate| delegate.backend.clone())
}

/// Precision in the name of the file, or that of the inputs and outputs.
fn precision_of(path: &Path, contents: &ProgramContents) -> String {
    if let Some(word) = precision_in_name(path) {
        return word;
    }
    let values = contents.methods.iter().flat_map(|one| one.outputs.iter().chain(&one.inputs));
    let dtypes: BTreeSet<&str> =
        values.filter_map(|value| value.tensor.as_ref()).map(|tensor| tensor.dtype).collect();
    let of = [("bf16", "bf16"), ("f16", "fp16")];
    let found = of.into_iter().find(|(dtype, _)| dtypes.contains(dtype));
    found.map_or("fp32", |(_, precision)| precision).to_owned()
}

/// Programs by their key in model.yaml: `variants` if all have the same methods, otherwise
/// `programs.ROLE`. Variants with delegates come first.
pub(super) fn groups(programs: &[Program]) -> Vec<(String, Vec<&Program>)> {
    let mut groups: Vec<(String, Vec<&Program>)> = Vec::new();
    for program in programs {
        let signature = program.signature();
        match groups.iter_mut().find(|(known, _)| *known == signature) {
            Some((_, variants)) => variants.push(program),
            None => groups.push((signature, vec![program])),
        }
    }
    let paths: Vec<&Path> = groups.iter().map(|(_, variants)| &*variants[0].path).collect();
    let roles = roles(&paths);
    for ((key, variants), role) in groups.iter_mut().zip(roles) {
        *key = role.map_or_else(|| "variants".to_owned(), |role| format!("programs.{role}"));
        // Stable: otherwise in the order of their names.
        variants.sort_by_key(|program| program.backend == Variant::PORTABLE);
    }
    groups
}
