//! Programs of a package: backend, precision, and those that are variants of one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use afferent_inspect::{MethodContents, ProgramContents};
use afferent_package::Variant;
use afferent_runtime::ModelFile;
use anyhow::{bail, ensure};

use crate::App;

/// Words in names of files that say the backend.
const BACKENDS: &[&str] =
    &["coreml", "cuda", "metal", "mlx", "mps", "portable", "qnn", "vulkan", "xnnpack"];

/// Words in names of files that say the precision.
const PRECISIONS: &[&str] = &[
    "8da4w",
    "8da8w",
    "bf16",
    "fp16",
    "fp32",
    "int4",
    "int8",
    "q4",
    "q8",
    "qat",
    "qlora",
    "quantized",
    "spinquant",
];

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

/// Words of the name of a file, in lower case.
fn words(path: &Path) -> Vec<String> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    stem.split(['_', '-', '.']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Precision in the name of the file, or that of the inputs and outputs.
fn precision_of(path: &Path, contents: &ProgramContents) -> String {
    let words = words(path);
    if let Some(word) = words.iter().find(|word| PRECISIONS.contains(&word.as_str())) {
        return word.clone();
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
    let names: Vec<Vec<String>> =
        groups.iter().map(|(_, variants)| words(&variants[0].path)).collect();
    let roles = roles(&names);
    for ((key, variants), role) in groups.iter_mut().zip(roles) {
        *key = role.map_or_else(|| "variants".to_owned(), |role| format!("programs.{role}"));
        // Stable: otherwise in the order of their names.
        variants.sort_by_key(|program| program.backend == Variant::PORTABLE);
    }
    groups
}

/// Role of each program by the words of its name: without those of backends and precisions, and without
/// the words that all begin with. `None` for a single program.
fn roles(names: &[Vec<String>]) -> Vec<Option<String>> {
    if names.len() < 2 {
        return vec![None; names.len()];
    }
    let is_role =
        |word: &&String| !BACKENDS.contains(&word.as_str()) && !PRECISIONS.contains(&word.as_str());
    let named: Vec<Vec<&String>> =
        names.iter().map(|words| words.iter().filter(is_role).collect()).collect();
    let shortest = named.iter().map(Vec::len).min().unwrap_or(0);
    let is_common = |at: &usize| named.iter().all(|words| words[*at] == named[0][*at]);
    let common = (0..shortest).take_while(is_common).count();
    let join = |words: &[&String]| words.iter().map(|word| &***word).collect::<Vec<_>>().join("_");
    let short: Vec<String> = named.iter().map(|words| join(&words[common..])).collect();
    let is_clear = short.iter().all(|role| !role.is_empty())
        && short.iter().collect::<BTreeSet<_>>().len() == short.len();
    let whole = || names.iter().map(|words| words.join("_"));
    let roles: Vec<String> = if is_clear { short } else { whole().collect() };
    roles.into_iter().map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_the_words_that_differ() {
        let check = |names: &[&str], expected: &[&str]| {
            let words: Vec<Vec<String>> = names.iter().map(|name| words(Path::new(name))).collect();
            let found: Vec<String> = roles(&words).into_iter().flatten().collect();
            assert_eq!(found, expected, "{names:?}");
        };
        check(&["encoder.pte", "decoder.pte"], &["encoder", "decoder"]);
        let names = ["whisper_tiny_encoder_xnnpack_fp32.pte", "whisper_tiny_decoder_xnnpack.pte"];
        check(&names, &["encoder", "decoder"]);
        check(&["model.pte", "model_preprocessor.pte"], &["model", "model_preprocessor"]);
        check(&["a-fp32.pte", "a-int8.pte"], &["a_fp32", "a_int8"]);
        check(&["vad.pte"], &[]);
    }
}
