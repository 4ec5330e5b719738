//! Contracts of programs, among those that the nodes of this build accept.

use afferent_core::ScalarType;
use afferent_inspect::{TensorContents, ValueContents};
use afferent_nodes_vision::contracts::{self, Contract, TensorSpec};

use super::{companions::Companions, program::Program};

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

/// Forms of other models than those of images, for messages.
const ACCEPTED: &[&str] = &[
    "vad: (f32[1, samples], f32 state) -> (f32[1, 1], f32 state)",
    "wake_word, asr: (f32 features, f32 state) -> (f32[rows, labels], f32 state)",
    "log_mel: f32[1, samples] -> f32[1, rows, bins], with sample_rate, window_size, context_size and \
     hop_size",
    "turn_detector: f32[1, window_size] -> f32[1, 1], with sample_rate and window_size",
    "llm: (i64[1, tokens], i64 positions) -> [1, vocabulary] or [1, tokens, vocabulary], with \
     get_max_context_len or get_max_seq_len",
];

/// Contracts that the program may have.
pub(super) fn contracts(program: &Program, companions: &Companions) -> Vec<Contract> {
    let Some(forward) = program.method("forward") else { return Vec::new() };
    let tensors = |values: &[ValueContents]| -> Option<Vec<TensorSpec>> {
        values.iter().map(|value| value.tensor.as_ref().map(spec)).collect()
    };
    let of_images = || {
        let (inputs, outputs) = (tensors(&forward.inputs)?, tensors(&forward.outputs)?);
        Some(contracts::recognize(&inputs, &outputs, companions.labels.len()))
    };
    let mut found = of_images().unwrap_or_default();
    // An Ultralytics export says its task.
    if let Some(task) = &companions.task {
        found.retain(|one| one.task == task);
    }
    if found.is_empty() {
        found = sound(program, &forward.inputs, &forward.outputs);
    }
    if found.is_empty() && afferent_text::Contract::from_file(&program.file).is_ok() {
        let (node, task, contract) = ("llm", "chat", "llama");
        found.push(Contract { node, task, contract, has_labels: false });
    }
    found
}

/// Contracts of models for sound.
fn sound(program: &Program, inputs: &[ValueContents], outputs: &[ValueContents]) -> Vec<Contract> {
    let float = |value: &ValueContents| -> Option<Vec<usize>> {
        let tensor = value.tensor.as_ref()?;
        (tensor.dtype == "f32" && tensor.shape == "static").then(|| tensor.sizes.clone())
    };
    let floats = |values: &[ValueContents]| -> Option<Vec<Vec<usize>>> {
        values.iter().map(float).collect()
    };
    let (Some(inputs), Some(outputs)) = (floats(inputs), floats(outputs)) else {
        return Vec::new();
    };
    let contract = |node, task, contract, has_labels| Contract { node, task, contract, has_labels };
    let has = |name: &str| program.file.metadata_int(name).is_some();
    match (inputs.as_slice(), outputs.as_slice()) {
        ([input, state], [result, next]) if state == next => match result.as_slice() {
            [1, 1] if matches!(input.as_slice(), [1, _]) => {
                vec![contract("vad", "voice_activity", "silero_vad", false)]
            }
            _ => vec![
                contract("wake_word", "keyword_spotting", "keyword_scores", true),
                contract("asr", "speech_recognition", "streaming_ctc", true),
            ],
        },
        ([input], [result]) if input.len() == 2 && has("window_size") && has("sample_rate") => {
            match result.as_slice() {
                [1, 1] => vec![contract("turn_detector", "end_of_turn", "end_of_turn", false)],
                [1, _, _] if has("hop_size") => {
                    vec![contract("log_mel", "features", "log_mel", false)]
                }
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

fn spec(tensor: &TensorContents) -> TensorSpec {
    let dtype = match tensor.dtype {
        "f32" => ScalarType::Float,
        "f16" => ScalarType::Half,
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
    text += "\nexpected is one program with a method forward:\n";
    contracts::ACCEPTED.iter().chain(ACCEPTED).for_each(|line| text += &format!("  {line}\n"));
    text
}
