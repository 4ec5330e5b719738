//! `afferent model run`: runs one method on NPY files and times it.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

use afferent_core::Tensor;
use afferent_runtime::{
    Input, Model, ModelOptions, ModelOutputs, Output, RunObserver, RunOptions,
    program::{Instruction, MethodPlan},
};
use anyhow::{Context, bail};
use clap::Args;

use super::{ProgramFile, describe, dtype, limits::Limits};
use crate::{
    catalogue::{BACKENDS, KERNELS},
    npy,
};

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    program: ProgramFile,
    /// Method to run
    #[arg(long, default_value = "forward", value_name = "NAME")]
    method: String,
    /// Input: an NPY file, or int:N, double:X, bool:true, none; once for each input, in order
    #[arg(long, value_name = "X.npy")]
    input: Vec<String>,
    /// Write each output tensor to output_0.npy, output_1.npy, … in this folder
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Timed calls
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Calls before the timed ones
    #[arg(long, default_value_t = 0)]
    warmup: u32,
    /// Threads that the model may use; the kernels of this build use one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    #[command(flatten)]
    limits: Limits,
    /// Write the time of each instruction to this file, as JSON
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// An input of the command line.
enum Given {
    Tensor(Tensor),
    Int(i64),
    Double(f64),
    Bool(bool),
    None,
}

impl Given {
    fn parse(text: &str, wants: Option<afferent_core::ScalarType>) -> anyhow::Result<Self> {
        let wrong = || format!("input {text:?} is not a number of its kind");
        Ok(match text.split_once(':') {
            Some(("int", number)) => Self::Int(number.parse().with_context(wrong)?),
            Some(("double", number)) => Self::Double(number.parse().with_context(wrong)?),
            Some(("bool", word)) => Self::Bool(word.parse().with_context(wrong)?),
            _ if text == "none" => Self::None,
            _ => Self::Tensor(npy::read(Path::new(text), wants)?),
        })
    }

    fn input(&self) -> Input<'_> {
        match self {
            Self::Tensor(tensor) => Input::Tensor(tensor.view()),
            Self::Int(value) => Input::Int(*value),
            Self::Double(value) => Input::Double(*value),
            Self::Bool(value) => Input::Bool(*value),
            Self::None => Input::None,
        }
    }
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let file = args.program.open()?;
    let instruction_limit = args.limits.instruction_limit;
    let memory_limit = args.limits.memory_limit << 20;
    let options = ModelOptions { memory_limit, instruction_limit, ..ModelOptions::new(KERNELS) };
    let options = options.with_backends(BACKENDS);
    let mut model = Model::new(file, options);
    model.load_method(&args.method)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;

    let given = inputs(args, &model)?;
    let inputs: Vec<Input<'_>> = given.iter().map(Given::input).collect();
    let profile = args.profile.is_some().then(Profile::default);
    let observer = profile.as_ref().map(|profile| profile as &dyn RunObserver);
    let cancelled = args.limits.start();
    let options = RunOptions { cancelled: Some(&cancelled), instruction_limit, observer };
    let mut times_us = Vec::with_capacity(args.repeat as usize);
    for _ in 0..args.warmup {
        model.run_with(&args.method, &inputs, &RunOptions { observer: None, ..options })?;
    }
    for _ in 1..args.repeat {
        let start = Instant::now();
        model.run_with(&args.method, &inputs, &options)?;
        times_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let file = Arc::clone(model.file());
    let start = Instant::now();
    let outputs = model.run_with(&args.method, &inputs, &options)?;
    times_us.push(start.elapsed().as_secs_f64() * 1e6);
    times_us.sort_by(f64::total_cmp);

    if let (Some(path), Some(profile)) = (&args.profile, &profile) {
        let json = profile.json(&file.method(&args.method)?);
        fs::write(path, serde_json::to_string_pretty(&json)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(folder) = &args.output_dir {
        write_outputs(&outputs, folder)?;
    }
    crate::print(&format!("{}\n", line(load_ms, &times_us, &outputs)))?;
    Ok(ExitCode::SUCCESS)
}

/// The inputs of the command line, as many as the method takes.
fn inputs(args: &RunArgs, model: &Model) -> anyhow::Result<Vec<Given>> {
    let plan = model.file().method(&args.method)?;
    let wanted: Vec<u32> = plan.inputs().iter().collect();
    if args.input.len() != wanted.len() {
        let wanted: Vec<_> = wanted.iter().map(|value| describe(&plan, *value)).collect();
        bail!(
            "method {:?} takes {} inputs ({}), but --input is given {} times",
            args.method,
            wanted.len(),
            wanted.join("; "),
            args.input.len()
        );
    }
    let given = args.input.iter().zip(wanted);
    given.map(|(text, value)| Given::parse(text, dtype(&plan, value))).collect()
}

fn write_outputs(outputs: &ModelOutputs<'_>, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut number = 0;
    for at in 0..outputs.len() {
        if let Output::Tensor(view) = outputs.get(at)? {
            npy::write(&folder.join(format!("output_{number}.npy")), &view)?;
            number += 1;
        }
    }
    Ok(())
}

/// The line that the command prints. Outputs that are not tensors stand in it too.
fn line(load_ms: f64, sorted_us: &[f64], outputs: &ModelOutputs<'_>) -> serde_json::Value {
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    let mut line = serde_json::json!({
        "load_ms": round(load_ms),
        "min_us": round(sorted_us[0]),
        "median_us": round(sorted_us[sorted_us.len() / 2]),
        "p99_us": round(sorted_us[sorted_us.len() * 99 / 100]),
        "repeat": sorted_us.len(),
    });
    let scalars = (0..outputs.len()).filter_map(|at| match outputs.get(at) {
        Ok(Output::Int(value)) => Some(value.into()),
        Ok(Output::Double(value)) => Some(value.into()),
        Ok(Output::Bool(value)) => Some(value.into()),
        Ok(Output::Str(text)) => Some(text.into()),
        _ => None,
    });
    let scalars: Vec<serde_json::Value> = scalars.collect();
    if let (false, Some(object)) = (scalars.is_empty(), line.as_object_mut()) {
        object.insert("scalars".to_owned(), scalars.into());
    }
    line
}

/// How often and how long each instruction ran.
#[derive(Default)]
struct Profile {
    begun: Cell<Option<Instant>>,
    /// Calls and nanoseconds of each instruction.
    instructions: RefCell<BTreeMap<usize, (u64, u64)>>,
}

impl RunObserver for Profile {
    fn begin(&self, _: usize) {
        self.begun.set(Some(Instant::now()));
    }

    fn end(&self, instruction: usize) {
        let took = self.begun.take().map_or(0, |begun| begun.elapsed().as_nanos());
        let mut instructions = self.instructions.borrow_mut();
        let (calls, nanos) = instructions.entry(instruction).or_default();
        *calls += 1;
        *nanos += u64::try_from(took).unwrap_or(u64::MAX);
    }
}

impl Profile {
    fn json(&self, plan: &MethodPlan<'_>) -> serde_json::Value {
        let instructions = self.instructions.borrow();
        let rows = instructions.iter().map(|(&at, &(calls, nanos))| {
            serde_json::json!({
                "instruction": at,
                "name": instruction_name(plan, at),
                "calls": calls,
                "mean_us": nanos as f64 / 1e3 / calls as f64,
            })
        });
        serde_json::json!({"method": plan.name(), "instructions": rows.collect::<Vec<_>>()})
    }
}

fn instruction_name(plan: &MethodPlan<'_>, at: usize) -> String {
    let name = match plan.instruction(at) {
        Some(Instruction::Kernel { operator, .. }) => {
            plan.operator(operator as usize).map(|operator| operator.to_string())
        }
        Some(Instruction::Delegate { delegate, .. }) => {
            plan.delegate(delegate as usize).map(|delegate| delegate.id.to_owned())
        }
        Some(Instruction::Move { .. }) => Some("move".to_owned()),
        Some(Instruction::JumpFalse { .. }) => Some("jump_false".to_owned()),
        Some(Instruction::Free { .. }) => Some("free".to_owned()),
        None => None,
    };
    name.unwrap_or_default()
}
