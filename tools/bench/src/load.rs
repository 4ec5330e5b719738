//! The time of loading a program, against the official runtime.

use std::{
    env::current_exe,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use afferent_runtime::{FileAccess, Input, Model, ModelFile, ModelOptions};
use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::{
    peer::{self, PeerOption},
    subject,
    table::{Table, figure},
    timing,
};

/// Time from a file to a method that can run.
///
/// Opens the program, checks it, and loads its method `forward`: operators resolved, memory
/// allocated, constants in place. Every figure is that of the first load in a new process, with
/// the file in the page cache; rounds alternate with the peer, which maps the file and then makes
/// one call. A second start finds the weights that the first one packed in a folder.
/// `tools/bench/export_models.py` makes programs of 14 and 47 MB.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program (.pte).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its data file (.ptd), if it has one.
    #[arg(long)]
    ptd: Option<PathBuf>,
    #[command(flatten)]
    peer: PeerOption,
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
}

/// Loads a program once and prints the time: what a new process is started for.
#[derive(Debug, clap::Args)]
pub(crate) struct OnceOptions {
    program: PathBuf,
    #[arg(long)]
    ptd: Option<PathBuf>,
    /// Read the files instead of mapping them.
    #[arg(long)]
    read: bool,
    /// Call the method once, with zeros.
    #[arg(long)]
    call: bool,
    /// Keep prepared weights in this folder.
    #[arg(long)]
    weight_cache: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let ptd = options.ptd.as_deref();
    let inputs = subject::zeros(&load(&options.file, ptd, FileAccess::Map, None)?)?;
    let folder = TempDir::with_prefix("afferent-bench-")?;
    let cache = folder.path().join("weights").display().to_string();
    let second =
        |command: Vec<String>| [command, vec!["--weight-cache".to_owned(), cache]].concat();
    let second = second(own_command(options, false)?);
    peer::figure(&second, "load_ms")?;
    let inputs = subject::write(&inputs, folder.path())?;
    let (mut mapped, mut read, mut cached, mut official) = (vec![], vec![], vec![], vec![]);
    for _ in 0..options.rounds {
        mapped.push(peer::figure(&own_command(options, false)?, "load_ms")?);
        read.push(peer::figure(&own_command(options, true)?, "load_ms")?);
        cached.push(peer::figure(&second, "load_ms")?);
        if let Some(program) = &options.peer.program {
            let mut words = peer::command(program, &options.file, &inputs, 1, 0);
            words.extend(ptd_words(ptd));
            official.push(peer::figure(&words, "load_ms")?);
        }
    }
    let name = options.file.file_name().unwrap_or_default().display();
    let title = format!("first load of {name}, {} rounds", options.rounds);
    let mut table = Table::new(title, &["runtime", "ms"]);
    let ratios = mapped.iter().zip(&official).map(|(own, peer)| own / peer);
    let ratio = timing::median(ratios.collect());
    table.row(["afferent, mapped".to_owned(), figure(timing::median(mapped))]);
    table.row(["afferent, read".to_owned(), figure(timing::median(read))]);
    let name = "afferent, mapped, a second start".to_owned();
    table.row([name, figure(timing::median(cached))]);
    if options.peer.program.is_some() {
        table.row(["official runtime, mapped".to_owned(), figure(timing::median(official))]);
        let name = "afferent / official, mapped, median of the rounds".to_owned();
        table.row([name, figure(ratio)]);
    } else {
        table.note(peer::SKIPPED);
    }
    Ok(vec![table])
}

/// Loads the program and prints how long that took, as the peer does.
pub(crate) fn once(options: &OnceOptions) -> Result<()> {
    let access = if options.read { FileAccess::Read } else { FileAccess::Map };
    let start = Instant::now();
    let cache = options.weight_cache.clone().map(|folder| &*Box::leak(folder.into_boxed_path()));
    let mut model = load(&options.program, options.ptd.as_deref(), access, cache)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    if options.call {
        let tensors = subject::zeros(&model)?;
        let inputs: Vec<_> = tensors.iter().map(|tensor| Input::Tensor(tensor.view())).collect();
        model.run("forward", &inputs)?;
    }
    let problems: Vec<_> = model.weight_cache_errors().iter().map(ToString::to_string).collect();
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    println!("{}", serde_json::json!({ "load_ms": load_ms, "bytes": model.file().size() }));
    Ok(())
}

fn load(
    program: &Path,
    ptd: Option<&Path>,
    access: FileAccess,
    weight_cache: Option<&Path>,
) -> Result<Model> {
    let ptd: Vec<PathBuf> = ptd.into_iter().map(Path::to_owned).collect();
    let file = ModelFile::open_with(program, &ptd, access)?;
    let weight_cache = weight_cache.map(Arc::from);
    let options = ModelOptions { weight_cache, ..subject::model_options() };
    let mut model = Model::new(file, options);
    model.load_method("forward")?;
    Ok(model)
}

fn own_command(options: &Options, read: bool) -> Result<Vec<String>> {
    let (own, program) = (current_exe()?, &options.file);
    let mut words = vec![own.display().to_string(), "load-once".to_owned()];
    words.push(program.display().to_string());
    words.extend(ptd_words(options.ptd.as_deref()));
    words.extend(read.then(|| "--read".to_owned()));
    Ok(words)
}

fn ptd_words(ptd: Option<&Path>) -> impl Iterator<Item = String> {
    ptd.into_iter().flat_map(|ptd| ["--ptd".to_owned(), ptd.display().to_string()])
}
