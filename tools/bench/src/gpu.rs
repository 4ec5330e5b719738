//! Programs for the GPU: time, shader runs, uploads and readbacks of a call.

use std::{
    fs,
    path::{Path, PathBuf},
};

use afferent_backend_vulkan::Vulkan;
use afferent_backend_xnnpack::Xnnpack;
use afferent_core::Tensor;
use afferent_gpu::{Counts, Gpu, GpuOptions};
use afferent_runtime::{Input, Model, ModelFile, ModelOptions, program::Value};
use anyhow::Context;
use clap::Args;

use crate::{
    bench_target,
    peer::{self, PeerOption},
    table::{Table, format_number},
    timing::{each, median},
};

/// Time, shader runs, uploads and readbacks of programs on the GPU that `AFFERENT_GPU` chooses.
///
/// Programs for XNNPACK and without delegates run on the CPU, on one thread; so a network that was
/// exported for both has two rows. Inputs are zeros of the sizes at export. With a peer, half of the calls
/// are timed before it, and half after.
#[derive(Args)]
pub(crate) struct Options {
    /// Programs, or folders with a `model.pte`; by default those of the conformance tests and the
    /// depth model
    programs: Vec<PathBuf>,
    /// Number of timed calls of each program
    #[arg(long, default_value_t = 20)]
    calls: usize,
    #[command(flatten)]
    peer: PeerOption,
}

/// Programs of the repository.
const DEFAULTS: [&str; 2] = ["tests/conformance/data/vulkan", "pipelines/models/depth"];

pub(crate) fn run(options: &Options) -> anyhow::Result<Vec<Table>> {
    let gpu = Gpu::new(GpuOptions::from_env().with_user_cache(afferent_package::user_cache()));
    let device = gpu.device().context("there is no GPU to measure")?;
    let info = device.info();
    let columns = [
        "program",
        "backend",
        "load ms",
        "call µs",
        "peer µs",
        "ratio",
        "shader runs",
        "uploads",
        "readbacks",
    ];
    let title = format!("Calls on {} ({})", info.name, info.driver);
    let mut table = Table::new(title, &columns);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let defaults = DEFAULTS.map(|path| root.join(path));
    let named = if options.programs.is_empty() { &defaults[..] } else { &options.programs };
    for path in programs(named)? {
        let name = name(&path);
        match measure(&gpu, &path, options) {
            Ok(found) => table.row([
                name,
                found.backend,
                format_number(found.load_ms),
                format_number(found.call_us),
                found.peer_us.map_or_else(|| "-".to_owned(), format_number),
                found
                    .peer_us
                    .map_or_else(|| "-".to_owned(), |peer| format!("{:.2}", found.call_us / peer)),
                found.counts.dispatches.to_string(),
                found.counts.uploads.to_string(),
                found.counts.readbacks.to_string(),
            ]),
            Err(error) => table.note(format!("{name}: {error:#}")),
        }
    }
    if options.peer.program.is_none() {
        table.note(peer::SKIPPED);
    }
    Ok(vec![table])
}

/// Programs in `paths` and in the folders of them, in order.
fn programs(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![];
    for path in paths {
        if path.is_file() {
            found.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
        let mut entries: Vec<PathBuf> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        entries.sort();
        let is_program = |path: &Path| path.extension().is_some_and(|end| end == "pte");
        for entry in entries {
            let model = entry.join("model.pte");
            if is_program(&entry) || model.is_file() {
                found.push(if model.is_file() { model } else { entry });
            }
        }
    }
    Ok(found)
}

/// Name of a program: its folder for `model.pte`.
fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = if stem == "model" { folder } else { stem };
    name.to_string_lossy().into_owned()
}

/// Figures of a program.
struct Figures {
    backend: String,
    load_ms: f64,
    call_us: f64,
    /// Time of the peer, if it runs the program.
    peer_us: Option<f64>,
    /// Commands of one call.
    counts: Counts,
}

fn measure(gpu: &Gpu, path: &Path, settings: &Options) -> anyhow::Result<Figures> {
    let options = ModelOptions::new(afferent_kernels::KERNELS);
    let options = options.with_backend(Vulkan::new(gpu.clone())).with_backend(Xnnpack);
    let start = std::time::Instant::now();
    let file = ModelFile::open(path, &[])?;
    let mut model = Model::new(file.clone(), options);
    model.load_method("forward")?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let plan = file.method("forward")?;
    let backend = plan.delegate(0).map_or("portable", |delegate| delegate.id).to_owned();
    let zeros = |id: u32| match plan.value(id as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
            Tensor::try_zeros(meta.layout.dtype, &sizes).map_err(anyhow::Error::from)
        }
        _ => anyhow::bail!("an input is no tensor"),
    };
    let inputs: Vec<Tensor> = plan.inputs().iter().map(zeros).collect::<Result<_, _>>()?;
    let mut call = || -> anyhow::Result<()> {
        let given: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
        model.run("forward", &given)?;
        Ok(())
    };
    // The first call records the shader runs.
    call()?;
    call()?;
    let device = gpu.device()?;
    let before = device.counts();
    call()?;
    let counts = device.counts() - before;
    let half = settings.calls.div_ceil(2);
    let mut times = each(half, &mut call)?;
    let peer_us = settings.peer.program.as_ref().map(|program| {
        let folder = tempfile::tempdir()?;
        let files = bench_target::write(&inputs, folder.path())?;
        peer::median_us(program, path, &files, settings.calls)
    });
    // A peer that does not run the program is told, and the own time is printed.
    let peer_us = peer_us.and_then(|found| {
        found.inspect_err(|error| eprintln!("{}: {error:#}", path.display())).ok()
    });
    times.extend(each(half, &mut call)?);
    Ok(Figures { backend, load_ms, call_us: median(times), peer_us, counts })
}
