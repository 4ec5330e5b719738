//! Contracts of programs, among those that the nodes of this build accept.

use std::sync::Arc;

use afferent_core::ScalarType;
use afferent_inspect::{MethodContents, ProgramContents, TensorContents, ValueContents};
use afferent_nodes_speech::contracts as speech;
use afferent_nodes_vision::contracts::{self, MethodSpec, TensorSpec};
use afferent_package::Contract;
use afferent_runtime::ModelFile;
use afferent_text::ContractOptions;

use super::{companions::Companions, program::Program};
use crate::App;

/// Task and contract of a model, and the node that runs it, if one is known.
pub(super) struct Named {
    pub(super) task: String,
    pub(super) contract: String,
    pub(super) node: Option<&'static str>,
    /// True if the classes of the model may have names.
    pub(super) has_labels: bool,
}

impl Named {
    pub(super) fn of(contract: &Contract) -> Self {
        let (task, name) = (contract.task.to_owned(), contract.contract.to_owned());
        let (node, has_labels) = (Some(contract.node), contract.has_labels);
        Self { task, contract: name, node, has_labels }
    }
}

/// Forms of other models than those of images and speech, for messages.
const ACCEPTED: &[&str] = &[
    "log_mel: f32[1, samples] -> f32[1, rows, bins], with sample_rate, window_size, context_size and \
     hop_size",
    "turn_detector: f32[1, window_size] -> f32[1, 1], with sample_rate and window_size",
    "llm: (i64[1, tokens], i64 positions) -> [1, vocabulary] or [1, tokens, vocabulary], with \
     get_max_context_len or get_max_seq_len",
];

/// Contracts that a model of these programs may have. `groups` holds the variants of each program by its
/// key in model.yaml.
pub(super) fn contracts(
    groups: &[(String, Vec<&Program>)],
    companions: &Companions,
) -> Vec<Contract> {
    let role = |key: &str| key.strip_prefix("programs.").unwrap_or_default().to_owned();
    let roles: Vec<String> = groups.iter().map(|(key, _)| role(key)).collect();
    let files = groups.iter().map(|(_, variants)| &*variants[0].file);
    let programs: Vec<(&str, &ModelFile)> = roles.iter().map(String::as_str).zip(files).collect();
    let mut found = match groups {
        [(_, variants)] => of_images(variants[0], companions),
        _ => Vec::new(),
    };
    // An Ultralytics export says its task.
    if let Some(task) = &companions.task {
        found.retain(|one| one.task == task);
    }
    if found.is_empty() {
        found = speech::recognize(&programs, companions.labels.len());
    }
    match programs.as_slice() {
        [(_, file)] if found.is_empty() => of_program(file),
        _ => found,
    }
}

/// Contract of one program, by its methods alone.
pub(crate) fn contracts_of(app: &App, file: &Arc<ModelFile>) -> Vec<Contract> {
    let contents = ProgramContents::of(file, app.models());
    let program = Program::of_file(Arc::clone(file), contents);
    contracts(&[("variants".to_owned(), vec![&program])], &Companions::default())
}

/// Contracts of models for images.
fn of_images(program: &Program, companions: &Companions) -> Vec<Contract> {
    let tensors = |values: &[ValueContents]| -> Option<Vec<TensorSpec>> {
        values.iter().map(|value| value.tensor.as_ref().map(spec)).collect()
    };
    let method_spec = |method: &MethodContents| -> Option<MethodSpec> {
        Some((tensors(&method.inputs)?, tensors(&method.outputs)?))
    };
    if let Some(forward) = program.method("forward") {
        let found = method_spec(forward).map(|(inputs, outputs)| {
            contracts::recognize(&inputs, &outputs, companions.labels.len())
        });
        return found.unwrap_or_default();
    }
    // Methods for inputs of several sizes, such as `forward_320`.
    let is_sized = |method: &&MethodContents| {
        method.name.strip_prefix("forward_").is_some_and(|size| size.parse::<usize>().is_ok())
    };
    let methods: Option<Vec<_>> =
        program.contents.methods.iter().filter(is_sized).map(method_spec).collect();
    contracts::recognize_sized(&methods.unwrap_or_default())
}

/// Contract of a program for features, turns, or text.
fn of_program(file: &ModelFile) -> Vec<Contract> {
    let contract =
        |node, task, contract| vec![Contract { node, task, contract, has_labels: false }];
    let has = |name: &str| file.metadata_int(name).is_some();
    let sizes = || {
        let signature = file.signature("forward").ok()?;
        let (inputs, outputs) = (signature.tensor_inputs()?, signature.tensor_outputs()?);
        let ([input], [result]) = (inputs.as_slice(), outputs.as_slice()) else { return None };
        Some((input.sizes.len(), result.sizes.clone()))
    };
    if has("window_size") && has("sample_rate") {
        match sizes().as_ref().map(|(rank, result)| (rank, result.as_slice())) {
            Some((2, [1, 1])) => return contract("turn_detector", "end_of_turn", "end_of_turn"),
            Some((2, [1, _, _])) if has("hop_size") => {
                return contract("log_mel", "features", "log_mel");
            }
            _ => {}
        }
    }
    // One of several methods, such as those with adapters, is named by `method` in model.yaml.
    let reads_text = |method: &str| {
        let options = ContractOptions { method: Some(method.to_owned()), ..Default::default() };
        afferent_text::Contract::with_options(file, &options).is_ok()
    };
    if let Some(contract) = contracts::recognize_methods(file) {
        return vec![contract];
    }
    let is_language_model = afferent_text::Contract::from_file(file).is_ok()
        || file.program().method_names().any(reads_text);
    if is_language_model { contract("llm", "chat", "llama") } else { Vec::new() }
}

fn spec(tensor: &TensorContents) -> TensorSpec {
    let dtype = match tensor.dtype {
        "f32" => ScalarType::Float,
        "f16" => ScalarType::Half,
        "bf16" => ScalarType::BFloat16,
        "u8" => ScalarType::Byte,
        "i32" => ScalarType::Int,
        "i64" => ScalarType::Long,
        // No contract has another one.
        _ => ScalarType::Bool,
    };
    TensorSpec { sizes: tensor.sizes.clone(), dim_order: tensor.dim_order.clone(), dtype }
}

/// Message for programs that are not recognized: their methods, and what was expected.
pub(super) fn explanation(programs: &[Program], groups: usize) -> String {
    let mut text = match groups {
        1 => "the contract of the program is not recognized\n".to_owned(),
        _ => format!("a model of {groups} different programs is not recognized\n"),
    };
    for program in programs {
        text += &format!("\n{}\n", program.path.display());
        let metadata = &program.contents.metadata;
        let constants =
            metadata.iter().map(|(name, values)| format!("{name} = {}", values.join(", ")));
        let signature = program.signature();
        let lines = signature.lines().map(str::to_owned).chain(constants);
        lines.for_each(|line| text += &format!("  {line}\n"));
    }
    text += "\nexpected is a program with a method forward, where no other is named:\n";
    let accepted = contracts::ACCEPTED.iter().chain(speech::ACCEPTED).chain(ACCEPTED);
    accepted.for_each(|line| text += &format!("  {line}\n"));
    text
}
