//! `afferent model`: looks into a program, runs it, verifies it, compares two, or lets one speak.

mod compare;
mod contents;
mod diff;
mod etdump;
mod generate;
mod info;
mod input;
mod limits;
mod profile;
mod run;
mod verify;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use afferent_runtime::{FileAccess, Model, ModelFile, ModelOptions};
use clap::{Args, Subcommand};

use crate::App;

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Show methods, inputs, outputs, operators, delegates and memory of a program
    Info(info::InfoArgs),
    /// Run one method on NPY files and print how long it took, as one JSON object
    Run(run::RunArgs),
    /// Run the test cases of a bundled program (.bpte); exit with 1 where a result is wrong
    Verify(verify::VerifyArgs),
    /// Compare the outputs of two programs on the same inputs; exit with 1 where they differ
    Diff(diff::DiffArgs),
    /// Print the answer of a language model as it comes, and its speed
    Generate(generate::GenerateArgs),
}

pub(crate) fn model(app: &App, command: &ModelCommand) -> anyhow::Result<ExitCode> {
    match command {
        ModelCommand::Info(args) => info::info(app, args),
        ModelCommand::Run(args) => run::run(app, args),
        ModelCommand::Verify(args) => verify::verify(app, args),
        ModelCommand::Diff(args) => diff::diff(app, args),
        ModelCommand::Generate(args) => generate::generate(app, args),
    }
}

/// A program and its data files.
#[derive(Args)]
struct ProgramFile {
    /// Program file (.pte, or .bpte with test cases)
    file: PathBuf,
    /// Data file of the program (.ptd); may be given several times
    #[arg(long, value_name = "FILE")]
    ptd: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
}

/// How files are opened.
#[derive(Args, Clone, Copy)]
struct AccessArgs {
    /// Read files instead of mapping them; for files that may change while they are in use
    #[arg(long)]
    no_map: bool,
}

impl AccessArgs {
    fn access(self) -> FileAccess {
        if self.no_map { FileAccess::Read } else { FileAccess::Map }
    }
}

impl ProgramFile {
    fn open(&self) -> anyhow::Result<Arc<ModelFile>> {
        Ok(ModelFile::open_with(&self.file, &self.ptd, self.access.access())?)
    }
}

/// Where weights are kept between starts.
#[derive(Args)]
struct CacheArgs {
    /// Keep prepared weights in this folder, so that the next start maps them
    #[arg(long, value_name = "DIR")]
    weight_cache: Option<PathBuf>,
}

impl CacheArgs {
    /// An instance of `file` whose method `name` is loaded; what is wrong with the cache is printed.
    fn load(
        &self,
        file: Arc<ModelFile>,
        name: &str,
        options: ModelOptions,
    ) -> anyhow::Result<Model> {
        let weight_cache = self.weight_cache.as_deref().map(Arc::from);
        let mut model = Model::new(file, ModelOptions { weight_cache, ..options });
        model.load_method(name)?;
        for problem in model.weight_cache_errors() {
            crate::say(format_args!("warning: {problem}"));
        }
        Ok(model)
    }
}
