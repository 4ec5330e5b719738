//! Opens a package and loads the first variant that this machine can run.

use std::{
    fs::{self, File},
    io, iter,
    path::{Component, Path, PathBuf},
};

use afferent_runtime::{Model, ModelError, ModelFile, ModelOptions};

use crate::{CacheKind, Chat, ImageInput, Manifest, ModelCache, Variant, copy_and_hash, folder};

/// Model package on disk.
#[derive(Debug, Clone)]
pub struct ModelPackage {
    folder: PathBuf,
    /// Contents of `model.yaml`; empty for a bare program.
    pub manifest: Manifest,
}

/// Error of opening or loading a package.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// A file does not exist or is not readable.
    #[error("{}: {reason}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error message.
        reason: String,
    },
    /// `model.yaml` is invalid.
    #[error("{}: {reason}", path.display())]
    Manifest {
        /// Path of the file.
        path: PathBuf,
        /// Error message, with the field.
        reason: String,
    },
    /// The package has another task.
    #[error("{}: `task` is {found}, but this node needs a model for {needed}", path.display())]
    Task {
        /// Path of the package.
        path: PathBuf,
        /// Task of the package.
        found: String,
        /// Required task.
        needed: &'static str,
    },
    /// The contract in `model.yaml` is not that of the programs.
    #[error(
        "{}: `contract` is {found}, but the programs have the contract {needed}; correct the line in \
         model.yaml, or use another program",
        path.display()
    )]
    Contract {
        /// Path of the package.
        path: PathBuf,
        /// Contract in `model.yaml`.
        found: String,
        /// Contract of the programs.
        needed: &'static str,
    },
    /// The package lacks a program.
    #[error("{}: model.yaml has no {needed}; it has {found}", path.display())]
    NoProgram {
        /// Path of the package.
        path: PathBuf,
        /// Key of the program, such as `programs.encoder`.
        needed: String,
        /// Keys that the package has.
        found: String,
    },
    /// The package has no variant of a backend.
    #[error("{}: no variant is for {needed}; there are variants for {found}", path.display())]
    NoBackend {
        /// Path of the package.
        path: PathBuf,
        /// Requested backend.
        needed: String,
        /// Backends of the variants.
        found: String,
    },
    /// No variant has an available backend.
    #[error("{}: no backend is available for any of {key}: {reasons}", path.display())]
    NoVariant {
        /// Path of the package.
        path: PathBuf,
        /// Key of the program, `variants` or such as `programs.encoder`.
        key: String,
        /// Backend that each variant needs.
        reasons: String,
    },
    /// The size of a program file differs from `model.yaml`.
    #[error("{}: the file has {found} bytes, but model.yaml says {expected}", path.display())]
    Length {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file in bytes.
        found: u64,
        /// Size in `model.yaml`.
        expected: u64,
    },
    /// The SHA-256 of a program file differs from `model.yaml`.
    #[error("{}: the file has the SHA-256 {found}, but model.yaml says {expected}", path.display())]
    Hash {
        /// Path of the file.
        path: PathBuf,
        /// SHA-256 of the file.
        found: String,
        /// SHA-256 in `model.yaml`.
        expected: String,
    },
    /// A program file is neither in its package nor in the cache.
    #[error(
        "{} does not exist, and {} is not in {}: copy the program to one of the two",
        path.display(),
        sha256,
        cache.display()
    )]
    Missing {
        /// Path of the program in its package.
        path: PathBuf,
        /// SHA-256 of the program: its name in the cache.
        sha256: String,
        /// Folder of the cache.
        cache: PathBuf,
    },
    /// The program failed to load.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl ModelPackage {
    /// Reads the package at `path`: a folder with `model.yaml`, a folder with programs and without a
    /// `model.yaml`, or a bare `.pte` file. The last two have no manifest; its fields are told from the
    /// files as far as possible.
    ///
    /// # Errors
    /// [`PackageError::Read`] and [`PackageError::Manifest`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PackageError> {
        let path = path.as_ref();
        let read_failed =
            |path: &Path, reason: String| PackageError::Read { path: path.to_owned(), reason };
        let metadata = fs::metadata(path).map_err(|error| read_failed(path, error.to_string()))?;
        if metadata.is_file() {
            return Ok(Self::bare(path));
        }
        let file = path.join("model.yaml");
        if !file.exists() {
            let manifest = folder::manifest_of(path)?;
            return Ok(Self { folder: path.to_owned(), manifest });
        }
        let text =
            fs::read_to_string(&file).map_err(|error| read_failed(&file, error.to_string()))?;
        let manifest: Manifest = serde_saphyr::from_str(&text).map_err(|error| {
            PackageError::Manifest { path: file.clone(), reason: error.to_string() }
        })?;
        let invalid = |reason: String| PackageError::Manifest { path: file.clone(), reason };
        if manifest.afferent_model != 1 {
            return Err(invalid("afferent_model must be 1".to_owned()));
        }
        check_files(&manifest).map_err(invalid)?;
        manifest.decision.check(&manifest.labels).map_err(invalid)?;
        manifest.image.as_ref().map_or(Ok(()), ImageInput::check).map_err(invalid)?;
        manifest.chat.as_ref().map_or(Ok(()), Chat::check).map_err(invalid)?;
        manifest.cache.map_or(Ok(()), CacheKind::check).map_err(invalid)?;
        Ok(Self { folder: path.to_owned(), manifest })
    }

    fn bare(path: &Path) -> Self {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let variant = Variant { file, ..Variant::default() };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let tokenizer = folder::tokenizer_in(&folder);
        let manifest = Manifest { name, variants: vec![variant], tokenizer, ..Manifest::default() };
        Self { folder, manifest }
    }

    /// True if the package has no manifest.
    pub fn is_bare(&self) -> bool {
        self.manifest.afferent_model == 0
    }

    /// Folder of the package.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Checks the task of the package. A bare program has no task and is accepted.
    ///
    /// # Errors
    /// [`PackageError::Task`].
    pub fn expect_task(&self, task: &'static str) -> Result<(), PackageError> {
        if self.is_bare() || self.manifest.task == task {
            return Ok(());
        }
        let (path, found) = (self.folder.clone(), self.manifest.task.clone());
        Err(PackageError::Task { path, found, needed: task })
    }

    /// The package with the variants of `backend` only, or unchanged if it is empty. A program without
    /// a manifest is accepted.
    ///
    /// # Errors
    /// [`PackageError::NoBackend`] if it has none.
    pub fn with_backend(mut self, backend: &str) -> Result<Self, PackageError> {
        if backend.is_empty() || self.is_bare() {
            return Ok(self);
        }
        let all = self.manifest.all_variants().map(|variant| variant.backend.clone());
        let mut found: Vec<String> = all.collect();
        found.sort_unstable();
        found.dedup();
        let programs = self.manifest.programs.values_mut();
        for variants in programs.chain([&mut self.manifest.variants]) {
            if variants.iter().any(|variant| variant.backend == backend) {
                variants.retain(|variant| variant.backend == backend);
            }
        }
        if found.iter().any(|found| found == backend) {
            return Ok(self);
        }
        let (path, needed) = (self.folder, backend.to_owned());
        Err(PackageError::NoBackend { path, needed, found: found.join(", ") })
    }

    /// Checks that the contract of the package is `contract`, which was told from its programs. A package
    /// without a manifest has no contract and is accepted.
    ///
    /// # Errors
    /// [`PackageError::Contract`].
    pub fn expect_contract(&self, contract: &'static str) -> Result<(), PackageError> {
        if self.is_bare() || self.manifest.contract == contract {
            return Ok(());
        }
        let (path, found) = (self.folder.clone(), self.manifest.contract.clone());
        Err(PackageError::Contract { path, found, needed: contract })
    }

    /// Loads the method `forward` of the first of `variants` whose backend is available.
    ///
    /// Kernels, backends and the weight cache come from `options`.
    ///
    /// Checks the size of the program file but not its SHA-256, which needs the whole file; see
    /// [`ModelPackage::verify`]. Data files are not checked.
    ///
    /// # Errors
    /// [`PackageError::NoProgram`] if there are no variants, [`PackageError::NoVariant`] if no backend
    /// is available, [`PackageError::Model`] if the variant fails to load, [`PackageError::Length`],
    /// [`PackageError::Missing`] and [`PackageError::Read`].
    pub fn load(&self, options: &ModelOptions) -> Result<Model, PackageError> {
        self.load_method(options, "forward")
    }

    /// As [`ModelPackage::load`], with another method than `forward`.
    ///
    /// # Errors
    /// Those of [`ModelPackage::load`].
    pub fn load_method(&self, options: &ModelOptions, method: &str) -> Result<Model, PackageError> {
        let mut model = self.open_main(options)?;
        model.load_method(method)?;
        for problem in model.weight_cache_errors() {
            tracing::warn!("{problem}");
        }
        Ok(model)
    }

    /// Opens the first of `variants` whose backend is available, as [`ModelPackage::load`], without
    /// loading a method.
    ///
    /// # Errors
    /// Those of [`ModelPackage::load`].
    pub fn open_main(&self, options: &ModelOptions) -> Result<Model, PackageError> {
        self.instance("variants", &self.manifest.variants, options)
    }

    /// Opens all programs: that of `variants`, whose role is empty, and those of `programs`, as
    /// [`ModelPackage::open_main`].
    ///
    /// # Errors
    /// Those of [`ModelPackage::load`].
    pub fn open_all(&self, options: &ModelOptions) -> Result<Vec<(String, Model)>, PackageError> {
        let mut models = Vec::new();
        if !self.manifest.variants.is_empty() {
            models.push((String::new(), self.open_main(options)?));
        }
        for role in self.manifest.programs.keys() {
            models.push((role.clone(), self.open_program(role, options)?));
        }
        Ok(models)
    }

    /// Path of the file `name` in the folder of the package, if it exists.
    pub fn companion(&self, name: &str) -> Option<PathBuf> {
        let path = self.folder.join(name);
        path.is_file().then_some(path)
    }

    /// Opens the first variant of the program with this role whose backend is available, as
    /// [`ModelPackage::load`], without loading a method.
    ///
    /// # Errors
    /// Those of [`ModelPackage::load`].
    pub fn open_program(&self, role: &str, options: &ModelOptions) -> Result<Model, PackageError> {
        let variants = self.manifest.programs.get(role).map_or(&[][..], |all| all);
        self.instance(&format!("programs.{role}"), variants, options)
    }

    /// The variant that [`ModelPackage::open_main`] opens.
    ///
    /// # Errors
    /// [`PackageError::NoProgram`] and [`PackageError::NoVariant`].
    pub fn main_variant(&self, options: &ModelOptions) -> Result<&Variant, PackageError> {
        self.choose("variants", &self.manifest.variants, options)
    }

    /// An instance of the first of `variants` whose backend is available.
    fn instance(
        &self,
        key: &str,
        variants: &[Variant],
        options: &ModelOptions,
    ) -> Result<Model, PackageError> {
        self.open_one(self.choose(key, variants, options)?, options)
    }

    /// The first of `variants` whose backend is available.
    fn choose<'v>(
        &self,
        key: &str,
        variants: &'v [Variant],
        options: &ModelOptions,
    ) -> Result<&'v Variant, PackageError> {
        if variants.is_empty() {
            let found: Vec<String> = self.manifest.all_programs().map(|(key, _)| key).collect();
            let (path, needed) = (self.folder.clone(), key.to_owned());
            return Err(PackageError::NoProgram { path, needed, found: found.join(", ") });
        }
        self.available(key, variants, options).ok_or_else(|| {
            let reasons = variants.iter().map(|v| match options.unavailable(&v.backend) {
                Some(reason) => format!("{} needs {} ({reason})", v.file, v.backend),
                None => format!("{} needs {}", v.file, v.backend),
            });
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            let (path, key) = (self.folder.clone(), key.to_owned());
            PackageError::NoVariant { path, key, reasons }
        })
    }

    /// An instance of a variant, without loading a method.
    ///
    /// # Errors
    /// Those of [`ModelPackage::files`], and [`PackageError::Model`].
    pub fn open_one(
        &self,
        variant: &Variant,
        options: &ModelOptions,
    ) -> Result<Model, PackageError> {
        let (path, data) = self.files(variant)?;
        Ok(Model::new(ModelFile::open(path, &data)?, options.clone()))
    }

    /// Paths of the program of a variant, whose size is checked, and of its data.
    ///
    /// # Errors
    /// [`PackageError::Length`], [`PackageError::Missing`] and [`PackageError::Read`].
    pub fn files(&self, variant: &Variant) -> Result<(PathBuf, Vec<PathBuf>), PackageError> {
        let path = self.program(variant)?;
        if let Some(expected) = variant.bytes {
            let metadata = fs::metadata(&path).map_err(|error| PackageError::Read {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            let found = metadata.len();
            if found != expected {
                return Err(PackageError::Length { path, found, expected });
            }
        }
        let data = variant.data.iter().map(|file| self.folder.join(file)).collect();
        Ok((path, data))
    }

    /// True if the backend of a variant is available.
    pub fn can_run(variant: &Variant, options: &ModelOptions) -> bool {
        // The backend of a bare program is not known.
        variant.backend.is_empty()
            || variant.backend == Variant::PORTABLE
            || options.has_backend(&variant.backend)
    }

    /// The remembered one of `variants`, or else the first, whose backend is available.
    fn available<'v>(
        &self,
        key: &str,
        variants: &'v [Variant],
        options: &ModelOptions,
    ) -> Option<&'v Variant> {
        let can_run = |variant: &&Variant| Self::can_run(variant, options);
        let known = self.remembered(key, options);
        let known = known.and_then(|file| variants.iter().find(|variant| variant.file == file));
        known.filter(can_run).or_else(|| variants.iter().find(can_run))
    }

    /// First variant of each program whose backend is available: those that are loaded.
    pub fn available_variants(&self, options: &ModelOptions) -> Vec<&Variant> {
        let programs = self.manifest.all_programs();
        programs.filter_map(|(key, variants)| self.available(&key, variants, options)).collect()
    }

    /// Path of the program of `variant`: in the package, or else in the cache of the user.
    ///
    /// # Errors
    /// [`PackageError::Missing`] if it is in neither. Without a SHA-256 in `model.yaml`, the path in
    /// the package is returned even if there is no file.
    pub fn program(&self, variant: &Variant) -> Result<PathBuf, PackageError> {
        let path = self.folder.join(&variant.file);
        let (Some(sha256), false) = (&variant.sha256, path.exists()) else { return Ok(path) };
        let Some(cache) = ModelCache::of_user() else { return Ok(path) };
        cache.find(sha256).ok_or_else(|| PackageError::Missing {
            path,
            sha256: sha256.to_lowercase(),
            cache: cache.folder().to_owned(),
        })
    }

    /// Checks the SHA-256 of every program file. Reads all of them completely.
    ///
    /// This detects damaged files but does not authenticate the author of a package.
    ///
    /// # Errors
    /// [`PackageError::Missing`], [`PackageError::Read`] and [`PackageError::Hash`].
    pub fn verify(&self) -> Result<(), PackageError> {
        for variant in self.manifest.all_variants() {
            let Some(expected) = &variant.sha256 else { continue };
            let path = self.program(variant)?;
            let found =
                File::open(&path).and_then(|mut file| copy_and_hash(&mut file, &mut io::sink()));
            let found = found.map_err(|error| PackageError::Read {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            if found != expected.to_lowercase() {
                return Err(PackageError::Hash { path, found, expected: expected.clone() });
            }
        }
        Ok(())
    }
}

/// Checks that there are programs, and that all files are in the folder of the package.
fn check_files(manifest: &Manifest) -> Result<(), String> {
    let is_inside = |file: &str| {
        let is_normal = |part: &Component<'_>| matches!(part, Component::Normal(_));
        let parts = || Path::new(file).components().filter(|part| *part != Component::CurDir);
        parts().all(|part| is_normal(&part)) && parts().next().is_some()
    };
    let check = |key: &str, file: &str| match is_inside(file) {
        true => Ok(()),
        false => Err(format!("{key} has {file:?}, which must be a path in the package folder")),
    };
    for (key, variants) in manifest.all_programs() {
        if variants.is_empty() {
            return Err(format!("{key} is empty; it must list the variants of the program"));
        }
        for file in variants.iter().flat_map(|one| iter::once(&one.file).chain(&one.data)) {
            check(&key, file)?;
        }
    }
    if let Some(decoder) = &manifest.decoder {
        check("decoder.language_model", &decoder.language_model)?;
    }
    if let Some(tokenizer) = &manifest.tokenizer {
        check("tokenizer", tokenizer)?;
    }
    if let Some(template) = manifest.chat.as_ref().and_then(|chat| chat.template.as_ref()) {
        check("chat.template", template)?;
    }
    for (name, file) in &manifest.voices {
        check(&format!("voices.{name}"), file)?;
    }
    match manifest.all_programs().next() {
        Some(_) => Ok(()),
        None => Err("it must have `variants` of a program, or `programs`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/models")
    }

    #[test]
    fn shipped_packages_are_valid() {
        let folders = fs::read_dir(models()).unwrap().map(|entry| entry.unwrap().path());
        let folders: Vec<_> = folders.filter(|path| path.is_dir()).collect();
        assert!(folders.len() >= 3, "{folders:?}");
        for folder in folders {
            let package = ModelPackage::open(&folder).unwrap();
            package.verify().unwrap();
            assert!(!package.manifest.license.is_empty(), "{}", folder.display());
        }
    }

    #[test]
    fn portable_variant_is_selected_without_backends() {
        let package = ModelPackage::open(models().join("vad")).unwrap();
        let variants = package.manifest.variants.iter();
        assert!(variants.clone().any(|variant| variant.backend != Variant::PORTABLE));
        // Without kernels the portable program fails to load; the error names the operator.
        let Err(error) = package.load(&ModelOptions::new(&[])) else { panic!("loading must fail") };
        assert!(error.to_string().contains("vad_portable.pte"), "{error}");
        assert!(error.to_string().contains("has no kernel in this build"), "{error}");
    }

    #[test]
    fn program_with_wrong_size_is_rejected() {
        let mut package = ModelPackage::open(models().join("vad")).unwrap();
        for variant in &mut package.manifest.variants {
            variant.bytes = variant.bytes.map(|bytes| bytes + 1);
        }
        let Err(error) = package.load(&ModelOptions::new(&[])) else { panic!("loading must fail") };
        let PackageError::Length { found, expected, .. } = error else { panic!("{error}") };
        assert_eq!(found + 1, expected);
        assert!(error.to_string().contains("vad_portable.pte: the file has"), "{error}");
    }

    #[test]
    fn programs_are_found_by_their_role() {
        let vad = models().join("vad");
        let folder = std::env::temp_dir().join(format!("afferent-programs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["vad_portable.pte", "vad_xnnpack.pte"] {
            fs::copy(vad.join(name), folder.join(name)).unwrap();
        }
        let manifest = "afferent_model: 1\nname: x\ntask: t\ncontract: c\nlicense: l\n\
                        provenance: p\nprograms:\n  encoder:\n  \
                        - {file: vad_xnnpack.pte, backend: XnnpackBackend, precision: fp32}\n  \
                        - {file: vad_portable.pte, backend: portable, precision: fp32}\n  \
                        decoder:\n  - {file: vad_xnnpack.pte, backend: XnnpackBackend, precision: \
                        fp32}\n  damaged:\n  - {file: vad_portable.pte, backend: portable, \
                        precision: fp32, bytes: 3, sha256: 'ab'}\n";
        fs::write(folder.join("model.yaml"), manifest).unwrap();
        let package = ModelPackage::open(&folder).unwrap();
        let options = ModelOptions::new(&[]);
        let encoder = package.open_program("encoder", &options).unwrap();
        assert!(encoder.file().path().ends_with("vad_portable.pte"));
        let files = package.available_variants(&options);
        let files: Vec<&str> = files.iter().map(|variant| &*variant.file).collect();
        assert_eq!(files, ["vad_portable.pte"; 2], "of damaged and encoder");
        let told = |role: &str| package.open_program(role, &options).err().unwrap().to_string();
        let no_variant =
            "no backend is available for any of programs.decoder: vad_xnnpack.pte needs";
        assert!(told("decoder").contains(no_variant), "{}", told("decoder"));
        assert!(told("damaged").contains("bytes, but model.yaml says 3"), "{}", told("damaged"));
        let keys = "no programs.joint; it has programs.damaged, programs.decoder, programs.encoder";
        assert!(told("joint").contains(keys), "{}", told("joint"));
        let told = package.load(&options).err().unwrap().to_string();
        assert!(told.contains("model.yaml has no variants; it has programs.damaged"), "{told}");
        assert!(matches!(package.verify(), Err(PackageError::Hash { .. })));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn errors_of_invalid_manifests_name_the_field() {
        let check = |yaml: &str, expected: &str| {
            let folder =
                std::env::temp_dir().join(format!("afferent-package-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("model.yaml"), yaml).unwrap();
            let error = ModelPackage::open(&folder).unwrap_err().to_string();
            fs::remove_dir_all(&folder).unwrap();
            assert!(error.contains(expected), "{error}");
        };
        let rest = "name: x\ntask: t\ncontract: c\nlicense: l\nprovenance: p\n";
        check(&format!("afferent_model: 2\n{rest}variants: []"), "must be 1");
        check(&format!("afferent_model: 1\n{rest}variants: []\ncolor: red"), "color");
        check(&format!("afferent_model: 1\n{rest}"), "must have `variants` of a program, or");
        let program = "{file: x.pte, backend: portable, precision: fp32}";
        let empty = format!("afferent_model: 1\n{rest}programs: {{encoder: []}}");
        check(&empty, "model.yaml: programs.encoder is empty");
        let single = format!("afferent_model: 1\n{rest}programs: {{encoder: {program}}}");
        check(&single, "programs");
        let decoder = "language_weight: 1, word_bonus: 0";
        for escape in [
            "variants: [{file: ../x.pte, backend: portable, precision: fp32}]",
            "variants: [{file: x.pte, backend: portable, precision: fp32, data: [/x.ptd]}]",
            "programs: {encoder: [{file: ../x.pte, backend: portable, precision: fp32}]}",
            "variants: []\ntokenizer: /dev/zero",
            "variants: []\ntokenizer: ''",
            "variants: []\ntokenizer: a/../../x.json",
            "variants: []\nchat: {template: ../x.jinja}",
            &format!("variants: []\ndecoder: {{language_model: ../x, {decoder}}}"),
        ] {
            check(&format!("afferent_model: 1\n{rest}{escape}"), "path in the package folder");
        }
        let decision = |threshold: &str| {
            let decision = format!("decision: {{threshold: {threshold}}}\nlabels: [else, stop]");
            format!("afferent_model: 1\n{rest}variants: [{program}]\n{decision}")
        };
        check(&decision("60"), "model.yaml: decision.threshold is 60, but must be from 0 to 1");
        check(&decision("{stop: -0.5}"), "decision.threshold is -0.5");
        check(&decision("{stpo: 0.6}"), "decision.threshold has \"stpo\", which is not in labels");
        let below = |neg: &str| decision(&format!("0.6, neg_threshold: {neg}"));
        check(&below("-1"), "decision.neg_threshold is -1, but must be from 0 to 1");
        check(&below("0.7"), "0.7, but must be at most decision.threshold (0.6)");
        let model =
            |fields: &str| format!("afferent_model: 1\n{rest}variants: [{program}]\n{fields}");
        check(&model("chat: {user: a, answer: b}"), "chat.end is missing");
        check(&model("chat: {template: a, user: a, answer: b, end: c}"), "has both `template`");
        check(&model("chat: {result: a}"), "chat.result needs chat.user");
        check(&model("chat: {tool_format: other}"), "other");
        check(&model("cache: paged"), "paged");
        check(&model("cache: {ring: {window: 0}}"), "window must be at least 1");
        check(&model("cache: {ring: {window: 8, slots: 4}}"), "slots is 4, but must be at least");
        check("afferent_model: 1", "missing");
        assert!(ModelPackage::open("no/such/model").is_err());
    }

    #[test]
    fn folders_without_a_manifest_are_read_by_their_files() {
        let vad = models().join("vad");
        let folder = std::env::temp_dir().join(format!("afferent-folder-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let told = ModelPackage::open(&folder).unwrap_err().to_string();
        assert!(told.contains("neither a model.yaml nor a program"), "{told}");
        for name in ["vad_portable.pte", "vad_xnnpack.pte"] {
            fs::copy(vad.join(name), folder.join(name)).unwrap();
        }
        fs::write(folder.join("tokenizer.json"), "{}").unwrap();
        let package = ModelPackage::open(&folder).unwrap();
        assert!(package.is_bare());
        let manifest = &package.manifest;
        let backends: Vec<&str> = manifest.variants.iter().map(|one| &*one.backend).collect();
        assert_eq!(backends, ["XnnpackBackend", "portable"]);
        assert_eq!(manifest.tokenizer.as_deref(), Some("tokenizer.json"));
        let opened = package.open_main(&ModelOptions::new(&[])).unwrap();
        assert!(opened.file().path().ends_with("vad_portable.pte"), "without backends");
        let log_mel = models().join("log_mel/log_mel_portable.pte");
        fs::copy(log_mel, folder.join("log_mel_portable.pte")).unwrap();
        let package = ModelPackage::open(&folder).unwrap();
        let roles: Vec<&str> = package.manifest.programs.keys().map(String::as_str).collect();
        assert_eq!(roles, ["log_mel", "vad"]);
        fs::write(folder.join("broken.pte"), "x").unwrap();
        let told = ModelPackage::open(&folder).unwrap_err().to_string();
        assert!(told.contains("broken.pte"), "{told}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
