//! Opens a package and loads the variant that suits this machine.

use std::{
    fs, iter,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use afferent_runtime::{Model, ModelError, ModelFile, ModelOptions};
use sha2::{Digest, Sha256};

use crate::{Manifest, Variant};

/// A model package on disk.
#[derive(Debug, Clone)]
pub struct ModelPackage {
    folder: PathBuf,
    /// What the model says about itself.
    pub manifest: Manifest,
}

/// Why a package cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// There is no such package, or it cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// `model.yaml` is not as it should be.
    #[error("{}: {reason}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        reason: String,
    },
    /// The package is for something else.
    #[error("{}: it is a model for {found}, not for {needed}", path.display())]
    Task {
        /// The package.
        path: PathBuf,
        /// Its task.
        found: String,
        /// The task that is asked for.
        needed: &'static str,
    },
    /// No variant runs here.
    #[error("{}: no variant runs here: {reasons}", path.display())]
    NoVariant {
        /// The package.
        path: PathBuf,
        /// Each variant and why it does not.
        reasons: String,
    },
    /// A program file has another length than the package says.
    #[error("{}: it has {found} bytes, but model.yaml says {expected}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Of the file.
        found: u64,
        /// Of `model.yaml`.
        expected: u64,
    },
    /// A program file is not the one that the package describes.
    #[error("{}: it has the SHA-256 {found}, but model.yaml says {expected}", path.display())]
    Hash {
        /// The file.
        path: PathBuf,
        /// Of the file.
        found: String,
        /// Of `model.yaml`.
        expected: String,
    },
    /// The program cannot be loaded.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl ModelPackage {
    /// Reads the package at `path`: a folder with `model.yaml`, or a bare `.pte` file.
    ///
    /// # Errors
    /// [`PackageError::Read`] and [`PackageError::Manifest`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PackageError> {
        let path = path.as_ref();
        let read_failed =
            |path: &Path, reason: String| PackageError::Read { path: path.to_owned(), reason };
        let about = fs::metadata(path).map_err(|error| read_failed(path, error.to_string()))?;
        if about.is_file() {
            return Ok(Self::bare(path));
        }
        let file = path.join("model.yaml");
        let text = fs::read_to_string(&file).map_err(|error| {
            read_failed(&file, format!("{error}; a model package is a folder with a model.yaml"))
        })?;
        let manifest: Manifest = serde_saphyr::from_str(&text).map_err(|error| {
            PackageError::Manifest { path: file.clone(), reason: error.to_string() }
        })?;
        let wrong =
            |reason: &str| PackageError::Manifest { path: file.clone(), reason: reason.to_owned() };
        if manifest.afferent_model != 1 {
            return Err(wrong("afferent_model must be 1"));
        }
        let inside = |file: &str| {
            let named = |part: &Component<'_>| matches!(part, Component::Normal(_));
            let parts = || Path::new(file).components().filter(|part| *part != Component::CurDir);
            parts().all(|part| named(&part)) && parts().next().is_some()
        };
        let variants = manifest.variants.iter();
        let files = variants.flat_map(|variant| iter::once(&variant.file).chain(&variant.data));
        let language_model = manifest.decoder.iter().map(|decoder| &decoder.language_model);
        let mut files = files.chain(language_model).chain(&manifest.tokenizer);
        if let Some(file) = files.find(|file| !inside(file)) {
            return Err(wrong(&format!("{file:?} does not lie in the folder of the package")));
        }
        if let Some(reason) = manifest.decision.fault(&manifest.labels) {
            return Err(wrong(&reason));
        }
        Ok(Self { folder: path.to_owned(), manifest })
    }

    fn bare(path: &Path) -> Self {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let variant = Variant { file, ..Variant::default() };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, manifest: Manifest { name, variants: vec![variant], ..Manifest::default() } }
    }

    /// Whether the package is a bare program, which says nothing about itself.
    pub fn is_bare(&self) -> bool {
        self.manifest.afferent_model == 0
    }

    /// The folder of the package.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Checks that the package is for `task`; a bare program passes.
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

    /// Loads the first variant that runs with `kernels` and `backends`, and its method `forward`,
    /// with prepared weights kept in the folder `weight_cache`, if there is one.
    ///
    /// The length of the program file is compared with the manifest's, its SHA-256 is not:
    /// [`ModelPackage::verify`] reads the whole file for that. Data files have neither.
    ///
    /// # Errors
    /// [`PackageError::Model`] when a variant that should run here does not,
    /// [`PackageError::NoVariant`] when there is none, [`PackageError::Length`] and
    /// [`PackageError::Read`].
    pub fn load(&self, options: &ModelOptions) -> Result<Model, PackageError> {
        let runs = |variant: &&Variant| {
            self.is_bare()
                || variant.backend == Variant::PORTABLE
                || options.backends.iter().any(|b| b.name() == variant.backend && b.is_available())
        };
        let Some(variant) = self.manifest.variants.iter().find(runs) else {
            let reasons = self.manifest.variants.iter();
            let reasons = reasons.map(|v| format!("{} needs {}", v.file, v.backend));
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            return Err(PackageError::NoVariant { path: self.folder.clone(), reasons });
        };
        let path = self.folder.join(&variant.file);
        if let Some(expected) = variant.bytes {
            let about = fs::metadata(&path).map_err(|error| PackageError::Read {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            let found = about.len();
            if found != expected {
                return Err(PackageError::Length { path, found, expected });
            }
        }
        let data: Vec<_> = variant.data.iter().map(|file| self.folder.join(file)).collect();
        let file: Arc<ModelFile> = ModelFile::open(path, &data)?;
        let mut model = Model::new(file, options.clone());
        model.load_method("forward")?;
        for problem in model.cache_problems() {
            tracing::warn!("{problem}");
        }
        Ok(model)
    }

    /// Checks every program file against its SHA-256, which takes as long as reading all of them:
    /// for those who receive or ship a package. It shows damage, not who made the file.
    ///
    /// # Errors
    /// [`PackageError::Read`] and [`PackageError::Hash`].
    pub fn verify(&self) -> Result<(), PackageError> {
        for variant in &self.manifest.variants {
            let Some(expected) = &variant.sha256 else { continue };
            let path = self.folder.join(&variant.file);
            let bytes = fs::read(&path).map_err(|error| PackageError::Read {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            let digest = Sha256::digest(&bytes);
            let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            if found != expected.to_lowercase() {
                return Err(PackageError::Hash { path, found, expected: expected.clone() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/models")
    }

    #[test]
    fn the_shipped_packages_are_sound() {
        let folders = fs::read_dir(models()).unwrap().map(|entry| entry.unwrap().path());
        let folders: Vec<_> = folders.filter(|path| path.is_dir()).collect();
        assert!(folders.len() >= 3, "{folders:?}");
        for folder in folders {
            let package = ModelPackage::open(&folder).unwrap();
            package.verify().unwrap();
            assert!(!package.manifest.licence.is_empty(), "{}", folder.display());
        }
    }

    #[test]
    fn the_portable_variant_is_chosen_without_backends() {
        let package = ModelPackage::open(models().join("vad")).unwrap();
        let variants = package.manifest.variants.iter();
        assert!(variants.clone().any(|variant| variant.backend != Variant::PORTABLE));
        // Without kernels the portable program fails to load, and says what is missing.
        let Err(error) = package.load(&ModelOptions::new(&[])) else { panic!("it cannot load") };
        assert!(error.to_string().contains("vad_portable.pte"), "{error}");
        assert!(error.to_string().contains("has no kernel here"), "{error}");
    }

    #[test]
    fn a_program_of_another_length_is_refused() {
        let mut package = ModelPackage::open(models().join("vad")).unwrap();
        for variant in &mut package.manifest.variants {
            variant.bytes = variant.bytes.map(|bytes| bytes + 1);
        }
        let Err(error) = package.load(&ModelOptions::new(&[])) else { panic!("it cannot load") };
        let PackageError::Length { found, expected, .. } = error else { panic!("{error}") };
        assert_eq!(found + 1, expected);
        assert!(error.to_string().contains("vad_portable.pte: it has"), "{error}");
    }

    #[test]
    fn broken_packages_say_what_is_wrong() {
        let check = |yaml: &str, expected: &str| {
            let folder =
                std::env::temp_dir().join(format!("afferent-package-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("model.yaml"), yaml).unwrap();
            let error = ModelPackage::open(&folder).unwrap_err().to_string();
            fs::remove_dir_all(&folder).unwrap();
            assert!(error.contains(expected), "{error}");
        };
        let rest = "name: x\ntask: t\ncontract: c\nlicence: l\nprovenance: p\n";
        check(&format!("afferent_model: 2\n{rest}variants: []"), "must be 1");
        check(&format!("afferent_model: 1\n{rest}variants: []\ncolour: red"), "colour");
        let decoder = "language_weight: 1, word_bonus: 0";
        for escape in [
            "variants: [{file: ../x.pte, backend: portable, precision: fp32}]",
            "variants: [{file: x.pte, backend: portable, precision: fp32, data: [/x.ptd]}]",
            "variants: []\ntokenizer: /dev/zero",
            "variants: []\ntokenizer: ''",
            "variants: []\ntokenizer: a/../../x.json",
            &format!("variants: []\ndecoder: {{language_model: ../x, {decoder}}}"),
        ] {
            check(&format!("afferent_model: 1\n{rest}{escape}"), "folder of the package");
        }
        let decision = |threshold: &str| {
            let decision = format!("decision: {{threshold: {threshold}}}\nlabels: [else, stop]");
            format!("afferent_model: 1\n{rest}variants: []\n{decision}")
        };
        check(&decision("60"), "model.yaml: decision.threshold is 60, but must be from 0 to 1");
        check(&decision("{stop: -0.5}"), "decision.threshold is -0.5");
        check(&decision("{stpo: 0.6}"), "decision.threshold names \"stpo\", which is no label");
        let below = |neg: &str| decision(&format!("0.6, neg_threshold: {neg}"));
        check(&below("-1"), "decision.neg_threshold is -1, but must be from 0 to 1");
        check(&below("0.7"), "decision.neg_threshold is 0.7, above the threshold of 0.6");
        check("afferent_model: 1", "missing");
        assert!(ModelPackage::open("no/such/model").is_err());
    }
}
