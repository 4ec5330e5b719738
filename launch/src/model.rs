//! `afferent model`: commands on ExecuTorch programs.

mod bench;
mod compare;
mod diff;
mod generate;
mod info;
mod input;
mod limits;
mod profile;
mod run;
mod store;
mod verify;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use afferent_package::{ModelPackage, Variant};
use afferent_runtime::{FileAccess, Model, ModelFile, ModelOptions};
use anyhow::bail;
use clap::{Args, Subcommand};

use crate::App;

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Time the variants of a package on this machine and remember the fastest
    Bench(bench::BenchArgs),
    /// Show methods, inputs, outputs, operators, delegates and memory of a program
    Info(info::InfoArgs),
    /// Run one method on NPY files and print its times as one JSON object
    Run(run::RunArgs),
    /// Run the test cases of a bundled program (.bpte); exit with 1 if an output is wrong
    Verify(verify::VerifyArgs),
    /// Compare the outputs of two programs on the same inputs; exit with 1 if they differ
    Diff(diff::DiffArgs),
    /// Stream the answer of a language model, and print its speed
    Generate(generate::GenerateArgs),
    /// Add a program to the cache, where packages find it by its SHA-256
    Store(store::StoreArgs),
}

pub(crate) fn model(app: &App, command: &ModelCommand) -> anyhow::Result<ExitCode> {
    match command {
        ModelCommand::Bench(args) => bench::bench(app, args),
        ModelCommand::Info(args) => info::info(app, args),
        ModelCommand::Run(args) => run::run(app, args),
        ModelCommand::Verify(args) => verify::verify(app, args),
        ModelCommand::Diff(args) => diff::diff(app, args),
        ModelCommand::Generate(args) => generate::generate(app, args),
        ModelCommand::Store(args) => store::store(args),
    }
}

/// Program and its data files.
#[derive(Args)]
struct ProgramFile {
    /// Program file (.pte, or .bpte with test cases), or model package with one program
    file: PathBuf,
    /// Data file of the program (.ptd); may be given several times
    #[arg(long, value_name = "FILE")]
    ptd: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
}

/// Access to files.
#[derive(Args, Clone, Copy)]
struct AccessArgs {
    /// Read files instead of mapping them; for files that may change while they are in use
    #[arg(long)]
    no_map: bool,
}

impl AccessArgs {
    fn file_access(self) -> FileAccess {
        if self.no_map { FileAccess::Read } else { FileAccess::Map }
    }
}

impl ProgramFile {
    /// Opens the program, or that of the package whose backend is available.
    fn open(&self, app: &App) -> anyhow::Result<Arc<ModelFile>> {
        let access = self.access.file_access();
        if !self.file.is_dir() {
            return Ok(ModelFile::open_with(&self.file, &self.ptd, access)?);
        }
        let package = ModelPackage::open(&self.file)?;
        if package.manifest.variants.is_empty() {
            let of = |variant: &Variant| package.folder().join(&variant.file).display().to_string();
            let programs = package.manifest.all_variants().map(of);
            bail!(
                "the model has several programs; name one of them:\n  {}",
                programs.collect::<Vec<_>>().join("\n  ")
            );
        }
        let (path, mut data) = package.files(package.main_variant(app.models())?)?;
        data.extend_from_slice(&self.ptd);
        Ok(ModelFile::open_with(path, &data, access)?)
    }
}

/// Weight cache.
#[derive(Args)]
struct CacheArgs {
    /// Store packed weights in this folder; the next start maps them
    #[arg(long, value_name = "DIR")]
    weight_cache: Option<PathBuf>,
}

impl CacheArgs {
    /// The options of the program; a folder of the command line replaces theirs.
    fn apply(&self, options: ModelOptions) -> ModelOptions {
        let folder = self.weight_cache.as_deref().map(Arc::from);
        ModelOptions { weight_cache: folder.or_else(|| options.weight_cache.clone()), ..options }
    }

    /// Loads method `name` of a new instance of `file`. Prints errors of the weight cache.
    fn load(
        &self,
        file: Arc<ModelFile>,
        name: &str,
        options: ModelOptions,
    ) -> anyhow::Result<Model> {
        let mut model = Model::new(file, self.apply(options));
        model.load_method(name)?;
        for error in model.weight_cache_errors() {
            crate::log::warning(format_args!("{error}"));
        }
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_command_line_replaces_the_weight_cache_of_the_program() {
        let options = ModelOptions::new(afferent_kernels::KERNELS);
        let options = ModelOptions { weight_cache: Some(Path::new("own").into()), ..options };
        let folder = |cache: CacheArgs| cache.apply(options.clone()).weight_cache;
        assert_eq!(folder(CacheArgs { weight_cache: None }).as_deref(), Some(Path::new("own")));
        let given = CacheArgs { weight_cache: Some("given".into()) };
        assert_eq!(folder(given).as_deref(), Some(Path::new("given")));
    }
}
