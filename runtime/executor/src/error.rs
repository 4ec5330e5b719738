//! Errors of loading and running a method.

use afferent_core::{Error, ScalarType};
use afferent_program::Operator;

use crate::arena::ArenaExhausted;

/// Error of loading a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The program has no method of this name.
    #[error("the program has no such method")]
    MethodMissing,
    /// The runtime cannot load parts of the method. Each [`Problem`] was reported to the caller.
    #[error("{count} parts of the method cannot be loaded")]
    Problems {
        /// Number of problems.
        count: usize,
        /// ExecuTorch's code for the first problem.
        code: u32,
    },
    /// The memory for the method's tables is too small.
    #[error("the memory for the method's tables is smaller than `Method::table_bytes`")]
    TableMemory,
    /// A planned buffer is missing or too small.
    #[error("planned buffer {index} has {found} bytes, but the method needs {needed}")]
    PlannedMemory {
        /// Index of the planned buffer.
        index: usize,
        /// Bytes needed.
        needed: usize,
        /// Bytes provided.
        found: usize,
    },
    /// A tensor of the program is not valid.
    #[error("value {value}: {error}")]
    Value {
        /// Index of the value.
        value: usize,
        /// The cause.
        error: Error,
    },
}

impl LoadError {
    /// ExecuTorch's code for this error.
    pub const fn code(&self) -> u32 {
        match self {
            Self::MethodMissing => 0x12,
            Self::Problems { code, .. } => *code,
            Self::TableMemory | Self::PlannedMemory { .. } => 0x21,
            Self::Value { .. } => 0x23,
        }
    }
}

impl From<ArenaExhausted> for LoadError {
    fn from(_: ArenaExhausted) -> Self {
        Self::TableMemory
    }
}

/// Part of a method that the runtime cannot load.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem<'p> {
    /// No kernel list has this operator.
    #[error("operator {operator} has no kernel in this build")]
    OperatorMissing {
        /// Name and overload.
        operator: Operator<'p>,
    },
    /// No backend has this name, or it is not available on this machine.
    #[error(
        "the program needs the backend {id}, which {}{}{reason}; use a variant of the model without it",
        if *.known { "is not available on this machine" } else { "this build does not have" },
        if reason.is_empty() { "" } else { ": " }
    )]
    BackendMissing {
        /// Name of the backend.
        id: &'p str,
        /// True if this build includes the backend.
        known: bool,
        /// Reason that the backend gives; may be empty.
        reason: &'p str,
    },
    /// A backend rejected the compiled blob of a delegate.
    #[error("backend {id}, delegate {index}: {error}")]
    Delegate {
        /// Name of the backend.
        id: &'p str,
        /// Index of the delegate in the method.
        index: usize,
        /// The cause.
        error: Error,
    },
    /// A backend does not implement an operator of a delegate.
    #[error("backend {id}, delegate {index}: operator {operator} is not implemented")]
    DelegateOperatorMissing {
        /// Name of the backend.
        id: &'p str,
        /// Index of the delegate in the method.
        index: usize,
        /// Name of the operator in the compiled blob.
        operator: &'p str,
    },
    /// An instruction has too few arguments for its operator.
    #[error(
        "instruction {instruction}, {name}: {found} arguments, but the operator takes {needed}; \
         the program was written by another version of the exporter"
    )]
    ArgumentCount {
        /// Index of the instruction.
        instruction: usize,
        /// Operator or backend.
        name: &'p str,
        /// Arguments of the instruction.
        found: usize,
        /// Arguments of the operator.
        needed: usize,
    },
    /// An argument has a kind that its operator does not take.
    #[error("instruction {instruction}, {name}: argument {index} is {found}")]
    ArgumentKind {
        /// Index of the instruction.
        instruction: usize,
        /// Operator or backend.
        name: &'p str,
        /// Index of the argument.
        index: usize,
        /// Kind of the argument.
        found: &'static str,
    },
    /// An output of an instruction overlaps another argument in memory.
    #[error("instruction {instruction}, {name}: argument {index} overlaps another argument")]
    Overlap {
        /// Index of the instruction.
        instruction: usize,
        /// Operator or backend.
        name: &'p str,
        /// Index of the output among the arguments.
        index: usize,
    },
    /// An instruction writes a constant.
    #[error("instruction {instruction}, {name}: argument {index} is an output, but a constant")]
    WritesConstant {
        /// Index of the instruction.
        instruction: usize,
        /// Operator or backend.
        name: &'p str,
        /// Index of the argument.
        index: usize,
    },
    /// An instruction makes a view of a tensor whose memory is assigned while the method runs.
    #[error(
        "instruction {instruction}: argument {index} becomes a view of a tensor that another \
         instruction writes and that has no planned memory"
    )]
    ViewOfUnplanned {
        /// Index of the instruction.
        instruction: usize,
        /// Index of the view among the arguments.
        index: usize,
    },
    /// External data of the program is missing.
    #[error("no data file has the key {name:?}; pass the program's .ptd")]
    ExternalMissing {
        /// Key of the data.
        name: &'p str,
    },
    /// External data has the wrong size.
    #[error("the data of {name:?} has {found} bytes, but the program needs {needed} of {dtype}")]
    ExternalMismatch {
        /// Key of the data.
        name: &'p str,
        /// Bytes of the data.
        found: usize,
        /// Bytes of the tensor.
        needed: usize,
        /// Dtype of the tensor.
        dtype: ScalarType,
    },
    /// A move of a list of tensors, or between a tensor and another kind of value.
    #[error("value {value}: only a tensor can be moved to a tensor; a list of tensors cannot move")]
    UnsupportedMove {
        /// Index of the destination value.
        value: usize,
    },
    /// Parts of the file are referenced so often that loading exceeds its work limit.
    #[error("the parts of the method refer to each other too often to be checked")]
    TooMuchWork,
}

impl Problem<'_> {
    /// ExecuTorch's code for this problem.
    pub const fn code(&self) -> u32 {
        match self {
            Self::OperatorMissing { .. } | Self::DelegateOperatorMissing { .. } => 0x14,
            Self::BackendMissing { .. } => 0x20,
            Self::Delegate { error, .. } => error.code(),
            Self::ExternalMissing { .. } | Self::ExternalMismatch { .. } => 0x24,
            _ => 0x23,
        }
    }
}

/// Error of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The number of inputs is wrong.
    #[error("{found} inputs were given, but the method takes {needed}")]
    InputCount {
        /// Number of inputs of the run.
        found: usize,
        /// Number of inputs of the method.
        needed: usize,
    },
    /// An input cannot be bound to the method.
    #[error("input {index}: {error}")]
    Input {
        /// Index of the input.
        index: usize,
        /// The cause.
        error: Error,
    },
    /// An input has the wrong dtype or kind.
    #[error("input {index} is {found}, but the method takes {needed}")]
    InputKind {
        /// Index of the input.
        index: usize,
        /// Dtype or kind of the input.
        found: &'static str,
        /// Dtype or kind that the method takes.
        needed: &'static str,
    },
    /// A dimension of an input has the wrong size.
    #[error("input {index} has size {found} in dimension {dim}, but the method takes {needed}")]
    InputSize {
        /// Index of the input.
        index: usize,
        /// First dimension that differs.
        dim: usize,
        /// Size of the input.
        found: usize,
        /// Size that the method takes.
        needed: usize,
    },
    /// A dimension of an input is too large.
    #[error(
        "input {index} has size {found} in dimension {dim}, but the method takes at most {limit}"
    )]
    InputTooLarge {
        /// Index of the input.
        index: usize,
        /// First dimension that is too large.
        dim: usize,
        /// Size of the input.
        found: usize,
        /// Upper bound of the method.
        limit: usize,
    },
    /// An input has the wrong rank.
    #[error("input {index} has {found} dimensions, but the method takes {needed}")]
    InputRank {
        /// Index of the input.
        index: usize,
        /// Rank of the input.
        found: usize,
        /// Rank that the method takes.
        needed: usize,
    },
    /// A scalar input differs from the constant that the program was exported with.
    #[error("input {index} was specialized at export; only that value is accepted")]
    InputFixed {
        /// Index of the input.
        index: usize,
    },
    /// An instruction failed.
    #[error("instruction {instruction}: {error}")]
    Instruction {
        /// Index of the instruction.
        instruction: usize,
        /// The cause.
        error: Error,
    },
    /// The run exceeded its instruction limit.
    #[error("stopped after {limit} instructions; raise the limit if the program is trusted")]
    InstructionLimit {
        /// The limit.
        limit: u64,
    },
}

impl RunError {
    /// ExecuTorch's code for this error.
    pub const fn code(&self) -> u32 {
        match self {
            Self::InputCount { .. }
            | Self::InputFixed { .. }
            | Self::InputKind { .. }
            | Self::InputSize { .. }
            | Self::InputTooLarge { .. }
            | Self::InputRank { .. }
            | Self::Input { .. } => 0x12,
            Self::Instruction { error, .. } => error.code(),
            Self::InstructionLimit { .. } => 0x02,
        }
    }
}
