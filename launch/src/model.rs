//! `afferent model`: looks into a program, or runs it.

mod info;
mod limits;
mod run;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use afferent_core::ScalarType;
use afferent_runtime::{
    ModelFile,
    program::{MethodPlan, Value},
};
use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Show methods, inputs, outputs, operators, delegates and memory of a program
    Info(info::InfoArgs),
    /// Run one method on NPY files and print how long it took, as one JSON object
    Run(run::RunArgs),
}

pub(crate) fn model(command: &ModelCommand) -> anyhow::Result<ExitCode> {
    match command {
        ModelCommand::Info(args) => info::info(args),
        ModelCommand::Run(args) => run::run(args),
    }
}

/// A program and its data files.
#[derive(Args)]
struct ProgramFile {
    /// Program file (.pte)
    file: PathBuf,
    /// Data file of the program (.ptd); may be given several times
    #[arg(long, value_name = "FILE")]
    ptd: Vec<PathBuf>,
}

impl ProgramFile {
    fn open(&self) -> anyhow::Result<Arc<ModelFile>> {
        Ok(ModelFile::open(&self.file, &self.ptd)?)
    }
}

/// A value of a method in words, such as `f32[1, 576]`.
fn describe(plan: &MethodPlan<'_>, value: u32) -> String {
    match plan.value(value as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<String> = meta.layout.sizes.iter().map(|n| n.to_string()).collect();
            let bound = match meta.dynamism {
                afferent_core::Dynamism::Static => "",
                afferent_core::Dynamism::Bounded => " at most",
                afferent_core::Dynamism::Unbounded => " without bound",
            };
            let order = meta.layout.dim_order;
            let order =
                if order.is_sorted() { String::new() } else { format!(" dim order {order:?}") };
            format!("{}[{}]{bound}{order}", meta.layout.dtype, sizes.join(", "))
        }
        Value::Int(value) => format!("int {value}"),
        Value::Double(value) => format!("double {value}"),
        Value::Bool(value) => format!("bool {value}"),
        Value::Str(text) => format!("string {text:?}"),
        Value::None => "any int, or none".to_owned(),
        _ => "list".to_owned(),
    }
}

/// Dtype of a value, if it is a tensor.
fn dtype(plan: &MethodPlan<'_>, value: u32) -> Option<ScalarType> {
    match plan.value(value as usize) {
        Value::Tensor(meta) => Some(meta.layout.dtype),
        _ => None,
    }
}
