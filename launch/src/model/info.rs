//! `afferent model info`: prints the contents of a program.

use std::{process::ExitCode, sync::Arc};

use afferent_inspect::{
    DelegateContents, MethodContents, NamedBytes, ProgramContents, ValueContents,
};
use afferent_package::Contract;
use afferent_runtime::ModelFile;
use afferent_text::Cache;
use clap::Args;

use super::ProgramFile;
use crate::{App, package::recognize::contracts_of, table::aligned};

/// Prints the contents of a program: inputs and outputs, operators with the number of their calls,
/// delegates with their compile specs, planned memory by memory id, constants, mutable buffers,
/// named data and segments, and the nodes that run a model of this program alone. Marks operators and
/// backends that this build does not have.
#[derive(Args)]
#[command(after_help = "Examples:
  afferent model info model.pte
  afferent model info models/vad
  afferent model info model.pte --ptd weights.ptd
  afferent model info model.pte --json | jq '.methods[].operators[] | select(.kernel | not).name'")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    program: ProgramFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn info(app: &App, args: &InfoArgs) -> anyhow::Result<ExitCode> {
    let file = args.program.open(app)?;
    let contents = ProgramContents::of(&file, app.models());
    if args.json {
        crate::print(&format!("{}\n", serde_json::to_string_pretty(&contents)?))?;
    } else {
        crate::print(&(text(&contents) + &language_model(&file)))?;
        crate::print(&section("contract", &contract_rows(app, &file)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Contracts that the program may have, with the nodes that run it.
fn contract_rows(app: &App, file: &Arc<ModelFile>) -> Vec<[String; 2]> {
    let found = contracts_of(app, file);
    let row = |one: &Contract| {
        [one.contract.to_owned(), format!("task {}, for the node {}", one.task, one.node)]
    };
    found.iter().map(row).collect()
}

fn text(contents: &ProgramContents) -> String {
    let segments: usize = contents.segment_bytes.iter().sum();
    let mut text = format!(
        "{}: {} bytes: flatbuffer {}, {} segments {segments} {:?}\n",
        contents.file,
        contents.bytes,
        contents.flatbuffer_bytes,
        contents.segment_bytes.len(),
        contents.segment_bytes,
    );
    text.extend(contents.methods.iter().map(method));
    if !contents.metadata.is_empty() {
        let rows = contents.metadata.iter().map(|(name, values)| [name.clone(), values.join(", ")]);
        text += &section("metadata", &rows.collect::<Vec<_>>());
    }
    text += &section("named data", &named(&contents.named_data));
    let cases = contents.test_cases.iter();
    let cases = cases.map(|suite| [suite.method.clone(), suite.cases.to_string()]);
    text += &section("test cases", &cases.collect::<Vec<_>>());
    text
}

/// Contract of a language model, with the kind of its state as far as the program tells it.
fn language_model(file: &ModelFile) -> String {
    let Ok(contract) = afferent_text::Contract::from_file(file) else { return String::new() };
    let mut methods = contract.method.clone();
    if let Some(decode) = &contract.decode {
        methods += &format!(" and {}", decode.method);
    }
    let cache = match contract.cache {
        _ if !contract.has_cache => "none: each run reads the whole context".to_owned(),
        Cache::Positional => "positional, unless `cache` in model.yaml says otherwise".to_owned(),
        Cache::Ring { window, .. } => format!("ring, window {window} (sliding_window)"),
        Cache::Recurrent => "recurrent".to_owned(),
    };
    section(
        "language model",
        &[
            ["methods".to_owned(), methods],
            ["context".to_owned(), format!("{} tokens", contract.max_context_len)],
            ["chunk".to_owned(), format!("{} tokens", contract.max_prefill_chunk)],
            ["vocabulary".to_owned(), format!("{} tokens", contract.vocab_size)],
            ["cache".to_owned(), cache],
        ],
    )
}

fn method(method: &MethodContents) -> String {
    let mut text = format!("\nmethod {}: {} bytes when loaded\n", method.name, method.bytes);
    let mut rows = value_rows("input", &method.inputs);
    rows.extend(value_rows("output", &method.outputs));
    text += &aligned(&rows);
    let mut memory: Vec<[String; 3]> = Vec::new();
    for (id, bytes) in &method.planned_bytes {
        memory.push([format!("planned, id {id}"), bytes.to_string(), String::new()]);
    }
    memory.push(["tables".to_owned(), method.table_bytes.to_string(), String::new()]);
    let constants = &method.constants;
    let count = format!("in {} tensors", constants.count);
    memory.push(["constants".to_owned(), constants.bytes.to_string(), count]);
    if !method.external.is_empty() {
        let bytes = method.external.iter().map(|named| named.bytes);
        let bytes = bytes.fold(0, usize::saturating_add);
        let count = format!("in {} tensors", method.external.len());
        memory.push(["external constants".to_owned(), bytes.to_string(), count]);
    }
    text += &section("memory, bytes", &memory);
    let buffers = method.mutable_buffers.iter().map(|buffer| {
        let start = if buffer.initialized { "starts with a value" } else { "starts with zeros" };
        let name = buffer.name.clone().unwrap_or_else(|| "(no name)".to_owned());
        [name, buffer.description.clone(), buffer.bytes.to_string(), start.to_owned()]
    });
    text += &section("mutable buffers, bytes", &buffers.collect::<Vec<_>>());
    let title = format!("{} instructions, {} values", method.instructions, method.values);
    text += &section(&title, &calls(method));
    for delegate in method.delegates.iter().filter(|delegate| !delegate.compile_specs.is_empty()) {
        text += &section(&format!("compile specs of {}", delegate.backend), &specs(delegate));
    }
    text
}

fn value_rows(title: &str, values: &[ValueContents]) -> Vec<Vec<String>> {
    let rows = values.iter().enumerate().map(|(at, value)| {
        let mut row = vec![format!("{title} {at}"), value.description.clone()];
        if let Some(tensor) = &value.tensor {
            let location = match tensor.planned_at {
                Some((id, offset)) => format!("planned, id {id}, offset {offset}"),
                None => "not planned".to_owned(),
            };
            row.extend([format!("{} bytes", tensor.bytes), location]);
            row.extend(tensor.name.clone());
        }
        row
    });
    rows.collect()
}

fn calls(method: &MethodContents) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    for operator in &method.operators {
        let note = if operator.kernel { "" } else { "NO KERNEL IN THIS BUILD" };
        rows.push([operator.calls.to_string(), operator.name.clone(), note.to_owned()]);
    }
    for delegate in &method.delegates {
        let missing = if delegate.available { "" } else { "   NOT AVAILABLE" };
        rows.push([
            delegate.calls.to_string(),
            format!("delegate {}", delegate.backend),
            format!("{} bytes{missing}", delegate.bytes),
        ]);
    }
    rows
}

fn specs(delegate: &DelegateContents) -> Vec<[String; 3]> {
    let specs = delegate.compile_specs.iter();
    let rows = specs.map(|spec| {
        [spec.key.clone(), format!("{} bytes", spec.bytes), spec.value.clone().unwrap_or_default()]
    });
    rows.collect()
}

fn named(entries: &[NamedBytes]) -> Vec<[String; 2]> {
    entries.iter().map(|entry| [entry.name.clone(), entry.bytes.to_string()]).collect()
}

/// Rows under a title; empty if there are none.
fn section<R: AsRef<[String]>>(title: &str, rows: &[R]) -> String {
    if rows.is_empty() { String::new() } else { format!("\n {title}\n{}", aligned(rows)) }
}
