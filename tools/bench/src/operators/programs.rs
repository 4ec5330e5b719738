//! Operators in exported programs, compared with the official runtime.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use afferent_core::Tensor;
use afferent_inspect::npy;
use afferent_program::Value;
use afferent_runtime::{Input, Model, ModelFile};
use anyhow::{Context, Result, ensure};

use super::Options;
use crate::{
    bench_target::model_options,
    peer,
    table::{Table, format_number},
    timing,
};

/// Duration of a side in a round, in microseconds.
const ROUND_US: f64 = 2e4;

/// Limits of the number of calls of a side in a round.
const CALLS: (usize, usize) = (3, 20_000);

/// Ratios that the last lines of a table count.
const BOUNDS: [f64; 2] = [1.0, 1.1];

/// Measures the methods of all programs in `folder`, one table for each program.
pub(super) fn run(options: &Options, folder: &Path) -> Result<Vec<Table>> {
    let mut groups = Vec::new();
    let entries = fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pte")
            && path.with_extension("json").exists()
        {
            groups.push(path);
        }
    }
    groups.sort_unstable();
    ensure!(!groups.is_empty(), "{} has no program with a list of inputs", folder.display());
    groups.iter().map(|program| group(options, program)).collect()
}

fn group(options: &Options, program: &Path) -> Result<Table> {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let title = format!("{name}, one thread, medians of {} rounds", options.rounds);
    let mut table =
        Table::new(title, &["program", "afferent µs", "official µs", "afferent / official"]);
    let list = program.with_extension("json");
    let text = fs::read(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let inputs: BTreeMap<String, Vec<PathBuf>> =
        serde_json::from_slice(&text).with_context(|| format!("{}", list.display()))?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let file = ModelFile::open(program, &[])?;
    let mut ratios = Vec::new();
    for (method, names) in inputs.iter().filter(|(name, _)| name.contains(&options.only)) {
        let files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        let mut target = Target::new(&file, method, files)?;
        let [own, official, ratio] =
            target.times(options).with_context(|| format!("{name} {method}"))?;
        table.row([method.clone()].into_iter().chain([own, official, ratio].map(format_number)));
        ratios.push(ratio);
    }
    if options.peer.program.is_none() {
        table.note(peer::SKIPPED);
    } else {
        let counts = BOUNDS.map(|bound| {
            format!("{} above {bound:.1}", ratios.iter().filter(|&&ratio| ratio > bound).count())
        });
        table.note(format!("{} programs: {}", ratios.len(), counts.join(", ")));
    }
    Ok(table)
}

/// Loaded method with its inputs, in memory and as files.
struct Target<'m> {
    path: &'m Path,
    method: &'m str,
    model: Model,
    inputs: Vec<Tensor>,
    files: Vec<PathBuf>,
}

impl<'m> Target<'m> {
    fn new(
        file: &'m std::sync::Arc<ModelFile>,
        method: &'m str,
        files: Vec<PathBuf>,
    ) -> Result<Self> {
        let plan = file.method(method)?;
        let mut inputs = Vec::new();
        for (path, id) in files.iter().zip(plan.inputs().iter()) {
            let expected = match plan.value(id as usize) {
                Value::Tensor(meta) => Some(meta.layout.dtype),
                _ => None,
            };
            inputs.push(npy::read(path, expected)?);
        }
        let model = Model::new(file.clone(), model_options());
        Ok(Self { path: file.path(), method, model, inputs, files })
    }

    /// Median times of both sides in microseconds, and the median of their ratios. Those of a
    /// missing peer are NaN.
    fn times(&mut self, options: &Options) -> Result<[f64; 3]> {
        let own_calls = calls(timing::median(timing::each(3, || self.call())?));
        let peer = options.peer.program.as_deref();
        let peer_calls =
            peer.map(|program| Ok::<_, anyhow::Error>(calls(self.official(program, 1)?)));
        let peer_calls = peer_calls.transpose()?;
        let (mut own, mut official) = (vec![], vec![]);
        for _ in 0..options.rounds {
            own.push(timing::median(timing::each(own_calls, || self.call())?));
            if let Some((program, calls)) = peer.zip(peer_calls) {
                official.push(self.official(program, calls)?);
            }
        }
        let ratios = own.iter().zip(&official).map(|(own, official)| own / official).collect();
        Ok([own, official, ratios].map(timing::median))
    }

    fn call(&mut self) -> Result<()> {
        let inputs: Vec<Input<'_>> =
            self.inputs.iter().map(|input| Input::Tensor(input.view())).collect();
        self.model.run(self.method, &inputs)?;
        Ok(())
    }

    /// Median time of `calls` calls with the official runtime, in microseconds.
    fn official(&self, program: &Path, calls: usize) -> Result<f64> {
        let mut command = peer::command(program, self.path, &self.files, calls, calls / 10 + 1);
        command.extend(["--method".to_owned(), self.method.to_owned()]);
        peer::read_number(&command, "median_us")
    }
}

/// Number of calls in a round, for calls of `micros`.
fn calls(micros: f64) -> usize {
    ((ROUND_US / micros) as usize).clamp(CALLS.0, CALLS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fill_a_round() {
        assert_eq!([0.0, 0.5, 100.0, 1e6].map(calls), [20_000, 20_000, 200, 3]);
    }
}
