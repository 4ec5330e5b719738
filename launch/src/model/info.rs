//! `afferent model info`: what is in a program, and whether it would run here.

use std::{collections::BTreeMap, process::ExitCode};

use afferent_core::find_kernel;
use afferent_runtime::{
    Method,
    program::{Instruction, MethodPlan, TensorData, Value},
};
use clap::Args;
use serde::Serialize;

use super::{ProgramFile, describe};
use crate::catalogue::{BACKENDS, KERNELS};

#[derive(Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    program: ProgramFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ProgramInfo {
    file: String,
    bytes: usize,
    methods: Vec<MethodInfo>,
    /// Metadata methods: name and what each returns.
    metadata: BTreeMap<String, Vec<String>>,
    named_data: Vec<String>,
}

#[derive(Serialize)]
struct MethodInfo {
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    instructions: usize,
    operators: Vec<OperatorInfo>,
    delegates: Vec<DelegateInfo>,
    /// Bytes of each planned buffer.
    planned_bytes: Vec<usize>,
    /// Bytes of the tables that loading makes.
    table_bytes: usize,
    /// Bytes of constants in the program.
    constant_bytes: usize,
}

#[derive(Serialize)]
struct OperatorInfo {
    name: String,
    calls: usize,
    /// Whether this build has a kernel for it.
    kernel: bool,
}

#[derive(Serialize)]
struct DelegateInfo {
    backend: String,
    bytes: usize,
    calls: usize,
    /// Whether this build has the backend and this machine can run it.
    available: bool,
}

pub(crate) fn info(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    let file = args.program.open()?;
    let program = file.program();
    let is_metadata = |plan: &MethodPlan<'_>| {
        plan.num_instructions() == 0 && plan.inputs().is_empty() && !plan.outputs().is_empty()
    };
    let (metadata, methods): (Vec<_>, Vec<_>) = program.methods().partition(is_metadata);
    let info = ProgramInfo {
        file: file.path().display().to_string(),
        bytes: file.size(),
        methods: methods.iter().map(method_info).collect(),
        metadata: metadata
            .iter()
            .map(|plan| {
                let values = plan.outputs().iter().map(|value| describe(plan, value)).collect();
                (plan.name().to_owned(), values)
            })
            .collect(),
        named_data: program.named_data_keys().map(str::to_owned).collect(),
    };
    if args.json {
        crate::print(&format!("{}\n", serde_json::to_string_pretty(&info)?))?;
    } else {
        crate::print(&text(&info))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn method_info(plan: &MethodPlan<'_>) -> MethodInfo {
    let mut operator_calls = vec![0; plan.num_operators()];
    let mut delegate_calls = vec![0; plan.num_delegates()];
    for instruction in plan.instructions() {
        let calls = match instruction {
            Instruction::Kernel { operator, .. } => operator_calls.get_mut(operator as usize),
            Instruction::Delegate { delegate, .. } => delegate_calls.get_mut(delegate as usize),
            _ => None,
        };
        if let Some(calls) = calls {
            *calls += 1;
        }
    }
    let operators = plan.operators().zip(operator_calls).map(|(operator, calls)| {
        let kernel = find_kernel(KERNELS, operator.name, operator.overload).is_some();
        OperatorInfo { name: operator.to_string(), calls, kernel }
    });
    let delegates = plan.delegates().zip(delegate_calls).map(|(delegate, calls)| DelegateInfo {
        backend: delegate.id.to_owned(),
        bytes: delegate.blob.len(),
        calls,
        available: BACKENDS.iter().any(|b| b.name() == delegate.id && b.is_available()),
    });
    let mut seen: Vec<*const u8> = Vec::new();
    let constants = plan.values().map(|value| match value {
        Value::Tensor(meta) => match meta.data {
            // Views of one constant count once.
            TensorData::Constant(bytes) if !seen.contains(&bytes.as_ptr()) => {
                seen.push(bytes.as_ptr());
                bytes.len()
            }
            _ => 0,
        },
        _ => 0,
    });
    MethodInfo {
        name: plan.name().to_owned(),
        inputs: plan.inputs().iter().map(|value| describe(plan, value)).collect(),
        outputs: plan.outputs().iter().map(|value| describe(plan, value)).collect(),
        instructions: plan.num_instructions(),
        operators: operators.collect(),
        delegates: delegates.collect(),
        planned_bytes: plan.planned_buffer_sizes().iter().collect(),
        constant_bytes: constants.sum(),
        table_bytes: Method::memory_needed(plan),
    }
}

fn text(info: &ProgramInfo) -> String {
    let mut text = format!("{}: {} bytes\n", info.file, info.bytes);
    for method in &info.methods {
        text += &format!("\nmethod {}\n", method.name);
        for (at, input) in method.inputs.iter().enumerate() {
            text += &format!("  input {at}    {input}\n");
        }
        for (at, output) in method.outputs.iter().enumerate() {
            text += &format!("  output {at}   {output}\n");
        }
        text += &format!(
            "  memory     planned {:?} bytes, tables {}, constants {}\n",
            method.planned_bytes, method.table_bytes, method.constant_bytes
        );
        text += &format!("  code       {} instructions\n", method.instructions);
        for operator in &method.operators {
            let missing = if operator.kernel { "" } else { "   NO KERNEL HERE" };
            text += &format!("  {:>5} ×    {}{missing}\n", operator.calls, operator.name);
        }
        for delegate in &method.delegates {
            let missing = if delegate.available { "" } else { "   NOT AVAILABLE HERE" };
            text += &format!(
                "  {:>5} ×    delegate {}, {} bytes{missing}\n",
                delegate.calls, delegate.backend, delegate.bytes
            );
        }
    }
    if !info.metadata.is_empty() {
        text += "\nmetadata\n";
        for (name, values) in &info.metadata {
            text += &format!("  {name}: {}\n", values.join(", "));
        }
    }
    if !info.named_data.is_empty() {
        text += &format!("\nnamed data\n  {}\n", info.named_data.join("\n  "));
    }
    text
}
