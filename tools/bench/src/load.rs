//! Loading time of a program, compared with the official runtime.

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
    bench_target,
    peer::{self, PeerOption},
    table::{Table, format_number},
    timing,
};

/// Time to load a program.
///
/// Opens and validates the program and loads its method `forward`, which resolves operators,
/// allocates memory and initializes constants. Each time is that of the first load in a new process,
/// with the file in the page cache. Rounds alternate with the peer, which maps the file and runs the
/// method once. `warm weight cache` reads the packed weights of an earlier process.
/// `tools/bench/export_models.py` writes programs of 14 and 47 MB.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Program (.pte).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// External data file (.ptd) of the program.
    #[arg(long)]
    ptd: Option<PathBuf>,
    #[command(flatten)]
    peer: PeerOption,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
}

/// Loads a program once and prints the time; run in a new process.
#[derive(Debug, clap::Args)]
pub(crate) struct OnceOptions {
    program: PathBuf,
    #[arg(long)]
    ptd: Option<PathBuf>,
    /// Read the files instead of mapping them.
    #[arg(long)]
    read: bool,
    /// Run the method once, with zeros.
    #[arg(long)]
    call: bool,
    /// Folder of the weight cache.
    #[arg(long)]
    weight_cache: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let ptd = options.ptd.as_deref();
    let inputs = bench_target::zeros(&load(&options.file, ptd, FileAccess::Map, None)?)?;
    let folder = TempDir::with_prefix("afferent-bench-")?;
    let cache = folder.path().join("weights").display().to_string();
    let with_cache =
        [own_command(options, false)?, vec!["--weight-cache".to_owned(), cache]].concat();
    peer::read_number(&with_cache, "load_ms")?;
    let inputs = bench_target::write(&inputs, folder.path())?;
    let (mut mapped, mut read, mut cached, mut official) = (vec![], vec![], vec![], vec![]);
    for _ in 0..options.rounds {
        mapped.push(peer::read_number(&own_command(options, false)?, "load_ms")?);
        read.push(peer::read_number(&own_command(options, true)?, "load_ms")?);
        cached.push(peer::read_number(&with_cache, "load_ms")?);
        if let Some(program) = &options.peer.program {
            let mut command = peer::command(program, &options.file, &inputs, 1, 0);
            command.extend(ptd_args(ptd));
            official.push(peer::read_number(&command, "load_ms")?);
        }
    }
    let name = options.file.file_name().unwrap_or_default().display();
    let title = format!("first load of {name}, {} rounds", options.rounds);
    let mut table = Table::new(title, &["runtime", "ms"]);
    let ratios = mapped.iter().zip(&official).map(|(own, peer)| own / peer);
    let ratio = timing::median(ratios.collect());
    table.row(["afferent, mapped".to_owned(), format_number(timing::median(mapped))]);
    table.row(["afferent, read".to_owned(), format_number(timing::median(read))]);
    let name = "afferent, mapped, warm weight cache".to_owned();
    table.row([name, format_number(timing::median(cached))]);
    if options.peer.program.is_some() {
        table.row(["official runtime, mapped".to_owned(), format_number(timing::median(official))]);
        let name = "afferent / official, mapped, median of rounds".to_owned();
        table.row([name, format_number(ratio)]);
    } else {
        table.note(peer::SKIPPED);
    }
    Ok(vec![table])
}

/// Loads the program and prints the time in the format of the peer.
pub(crate) fn once(options: &OnceOptions) -> Result<()> {
    let access = if options.read { FileAccess::Read } else { FileAccess::Map };
    let start = Instant::now();
    let weight_cache = options.weight_cache.as_deref();
    let mut model = load(&options.program, options.ptd.as_deref(), access, weight_cache)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    if options.call {
        let tensors = bench_target::zeros(&model)?;
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
    let options = ModelOptions { weight_cache, ..bench_target::model_options() };
    let mut model = Model::new(file, options);
    model.load_method("forward")?;
    Ok(model)
}

fn own_command(options: &Options, read: bool) -> Result<Vec<String>> {
    let (own, program) = (current_exe()?, &options.file);
    let mut command = vec![own.display().to_string(), "load-once".to_owned()];
    command.push(program.display().to_string());
    command.extend(ptd_args(options.ptd.as_deref()));
    command.extend(read.then(|| "--read".to_owned()));
    Ok(command)
}

fn ptd_args(ptd: Option<&Path>) -> impl Iterator<Item = String> {
    ptd.into_iter().flat_map(|ptd| ["--ptd".to_owned(), ptd.display().to_string()])
}
