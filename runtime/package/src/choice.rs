//! The fastest variant of a package on this machine, as measured once.

use std::{env, fs, io, path::PathBuf, thread};

use afferent_runtime::ModelOptions;

use crate::{ModelCache, ModelPackage, copy_and_hash};

impl ModelPackage {
    /// Folder of the choices of the user, beside the [`ModelCache`]; `None` without a home folder.
    pub fn user_choices() -> Option<PathBuf> {
        let cache = ModelCache::of_user()?;
        Some(cache.folder().parent()?.join("variants"))
    }

    /// Remembers the file of the variant to load for the program `key`, in the folder
    /// [`ModelOptions::variant_choices`]. Returns the path of the file with the choice; `None` if the
    /// options have no folder.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn remember(
        &self,
        key: &str,
        file: &str,
        options: &ModelOptions,
    ) -> io::Result<Option<PathBuf>> {
        let Some(path) = self.choices(options) else { return Ok(None) };
        let before = fs::read_to_string(&path).unwrap_or_default();
        let is_other = |line: &&str| line.split_once('\t').is_some_and(|(other, _)| other != key);
        let mut text: String =
            before.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
        text += &format!("{key}\t{file}\n");
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, text)?;
        Ok(Some(path))
    }

    /// File of the variant that was remembered for the program `key` on this machine.
    pub fn remembered(&self, key: &str, options: &ModelOptions) -> Option<String> {
        let text = fs::read_to_string(self.choices(options)?).ok()?;
        let mut lines = text.lines().filter_map(|line| line.split_once('\t'));
        lines.find(|(of, _)| *of == key).map(|(_, file)| file.to_owned())
    }

    /// File with the choices for this package on this machine. Its name holds both, so a changed
    /// package or processor is measured again.
    fn choices(&self, options: &ModelOptions) -> Option<PathBuf> {
        let folder = options.variant_choices.as_deref()?;
        let mut identity = format!("{}\n{}\n", machine(), self.manifest.name);
        for variant in self.manifest.all_variants() {
            let hash = variant.sha256.as_deref().unwrap_or_default();
            identity += &format!("{} {:?} {hash}\n", variant.file, variant.bytes);
        }
        let name = copy_and_hash(&mut identity.as_bytes(), &mut io::sink()).ok()?;
        Some(folder.join(name))
    }
}

/// Description of the processor and of the choice of the GPU.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let is_name = |line: &&str| line.starts_with("model name") || line.starts_with("CPU part");
    let processor = text.lines().find(is_name).unwrap_or(env::consts::ARCH);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let gpu = env::var("AFFERENT_GPU").unwrap_or_default();
    format!("{processor} {threads} {gpu}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use afferent_runtime::core::{Backend, DelegateHandle, DelegateSource, Error};

    use super::*;
    use crate::PackageError;

    /// Backend that is available and loads nothing.
    struct Any;

    impl Backend for Any {
        fn name(&self) -> &'static str {
            "Any"
        }

        fn is_available(&self) -> bool {
            true
        }

        fn init<'a>(&self, _: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
            Err(Error::NotSupported { what: "every program" })
        }
    }

    fn package(folder: &Path, bytes: u64) -> ModelPackage {
        let text = format!(
            "afferent_model: 1\nname: n\ntask: t\ncontract: c\nlicense: MIT\nprovenance: p\nvariants:\n\
             - {{file: a.pte, backend: portable, precision: fp32, bytes: {bytes}}}\n\
             - {{file: b.pte, backend: Any, precision: fp32}}\n"
        );
        fs::write(folder.join("model.yaml"), text).unwrap();
        ModelPackage::open(folder).unwrap()
    }

    #[test]
    fn a_remembered_variant_is_loaded_if_it_can_run() {
        let folder = env::temp_dir().join(format!("afferent-choice-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let first = package(&folder, 7);
        let options = ModelOptions::new(&[]);
        let file = |package: &ModelPackage, options: &ModelOptions| {
            package.available_variants(options)[0].file.clone()
        };
        assert_eq!(first.remember("variants", "b.pte", &options).unwrap(), None, "no folder");
        let choices = Some(folder.join("choices").into());
        let options = ModelOptions { variant_choices: choices, ..options };
        assert_eq!(file(&first, &options), "a.pte");
        first.remember("variants", "b.pte", &options).unwrap().unwrap();
        first.remember("programs.encoder", "e.pte", &options).unwrap().unwrap();
        assert_eq!(file(&first, &options), "a.pte", "the backend is not available");
        let options = options.with_backend(Any);
        assert_eq!(file(&first, &options), "b.pte");
        first.remember("variants", "a.pte", &options).unwrap().unwrap();
        assert_eq!(file(&first, &options), "a.pte");
        assert_eq!(first.remembered("programs.encoder", &options).as_deref(), Some("e.pte"));
        // A changed package is measured again.
        assert_eq!(package(&folder, 8).remembered("variants", &options), None);
        // A requested backend wins.
        let only = package(&folder, 7).with_backend("Any").unwrap();
        assert_eq!(file(&only, &options), "b.pte");
        let error = first.with_backend("CudaBackend").unwrap_err();
        assert!(matches!(error, PackageError::NoBackend { .. }), "{error}");
        assert!(error.to_string().contains("there are variants for Any, portable"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
