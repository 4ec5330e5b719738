//! `afferent model store`: adds a program to the model cache.

use std::{
    fs::File,
    io::stdin,
    path::{Path, PathBuf},
    process::ExitCode,
};

use afferent_package::ModelCache;
use anyhow::Context;
use clap::Args;

use crate::log;

#[derive(Args)]
pub(crate) struct StoreArgs {
    /// Program file (.pte), or - for standard input
    file: PathBuf,
    /// Store the program only if it has this SHA-256
    #[arg(long, value_name = "HASH")]
    sha256: Option<String>,
}

pub(crate) fn store(args: &StoreArgs) -> anyhow::Result<ExitCode> {
    let cache = ModelCache::of_user().context("there is no home folder: set XDG_CACHE_HOME")?;
    let expected = args.sha256.as_deref();
    let name = args.file.display();
    let stored = if args.file == Path::new("-") {
        cache.store(stdin().lock(), expected)
    } else {
        let file = File::open(&args.file).with_context(|| format!("cannot read {name}"))?;
        cache.store(file, expected)
    };
    let (path, _) = stored.with_context(|| format!("cannot store {name}"))?;
    log::progress(format_args!("stored {}", path.display()));
    Ok(ExitCode::SUCCESS)
}
