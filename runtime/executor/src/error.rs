//! Why a method cannot be loaded or run.

use afferent_core::{Error, ScalarType};
use afferent_program::Operator;

use crate::bump::Exhausted;

/// Why a method could not be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The program has no method of this name.
    #[error("the program has no such method")]
    MethodMissing,
    /// Parts of the method do not fit this runtime; each was reported to the caller.
    #[error("{count} parts of the method cannot be loaded here")]
    Problems {
        /// How many.
        count: usize,
        /// ExecuTorch's number for the first.
        code: u32,
    },
    /// The memory for the method's tables is too small.
    #[error("the memory for the method's tables is smaller than `Method::memory_needed` says")]
    TableMemory,
    /// A planned buffer is missing or too small.
    #[error("planned buffer {index} has {found} bytes, but the method needs {needed}")]
    PlannedMemory {
        /// Place among the planned buffers.
        index: usize,
        /// Bytes needed.
        needed: usize,
        /// Bytes provided.
        found: usize,
    },
    /// A tensor of the program is not valid.
    #[error("value {value}: {error}")]
    Value {
        /// Its number in the method.
        value: usize,
        /// What is wrong.
        error: Error,
    },
}

impl LoadError {
    /// The number of this error in ExecuTorch.
    pub const fn code(&self) -> u32 {
        match self {
            Self::MethodMissing => 0x12,
            Self::Problems { code, .. } => *code,
            Self::TableMemory | Self::PlannedMemory { .. } => 0x21,
            Self::Value { .. } => 0x23,
        }
    }
}

impl From<Exhausted> for LoadError {
    fn from(_: Exhausted) -> Self {
        Self::TableMemory
    }
}

/// One part of a method that does not fit this runtime.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem<'p> {
    /// No kernel list has this operator.
    #[error("operator {operator} has no kernel here")]
    OperatorMissing {
        /// Its name and overload.
        operator: Operator<'p>,
    },
    /// No backend has this name, or it is not available on this machine.
    #[error(
        "the program needs the backend {id}, which {}; use a variant of the model without it",
        if *.known { "is not available on this machine" } else { "this build does not have" }
    )]
    BackendMissing {
        /// Name of the backend.
        id: &'p str,
        /// Whether this build has the backend at all.
        known: bool,
    },
    /// A backend refused its blob.
    #[error("backend {id}, delegate {index}: {error}")]
    Delegate {
        /// Name of the backend.
        id: &'p str,
        /// Number of the delegate in the method.
        index: usize,
        /// What is wrong.
        error: Error,
    },
    /// An instruction has too few arguments for its operator.
    #[error(
        "instruction {instruction}, {name}: {found} arguments, but the operator takes {needed}; \
         the program was made by another version of the exporter"
    )]
    ArgumentCount {
        /// Place of the instruction.
        instruction: usize,
        /// Operator.
        name: &'p str,
        /// Arguments of the instruction.
        found: usize,
        /// Arguments of the operator.
        needed: usize,
    },
    /// An argument is of another kind than its operator takes.
    #[error("instruction {instruction}, {name}: argument {index} is {found}")]
    ArgumentKind {
        /// Place of the instruction.
        instruction: usize,
        /// Operator.
        name: &'p str,
        /// Place of the argument.
        index: usize,
        /// What it is.
        found: &'static str,
    },
    /// An instruction writes where it also reads or writes something else.
    #[error("instruction {instruction}, {name}: it writes argument {index} over another argument")]
    Overlap {
        /// Place of the instruction.
        instruction: usize,
        /// Operator or backend.
        name: &'p str,
        /// Place of the argument that is written.
        index: usize,
    },
    /// An instruction writes a constant.
    #[error("instruction {instruction}, {name}: it writes argument {index}, which is a constant")]
    WritesConstant {
        /// Place of the instruction.
        instruction: usize,
        /// Operator or backend.
        name: &'p str,
        /// Place of the argument.
        index: usize,
    },
    /// An instruction makes a view of a tensor that gets its memory while the method runs.
    #[error(
        "instruction {instruction}: argument {index} becomes a view of a tensor that another \
         instruction writes and that has no planned memory"
    )]
    ViewOfMoving {
        /// Place of the instruction.
        instruction: usize,
        /// Place of the view among the arguments.
        index: usize,
    },
    /// Data that the program expects in another file is not there.
    #[error("the data of {name:?} is in no data file; pass the program's .ptd")]
    ExternalMissing {
        /// Key of the data.
        name: &'p str,
    },
    /// Data in another file is of another dtype or size.
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
    /// A move of a list of tensors, or between a tensor and something else.
    #[error(
        "value {value}: a tensor can only be moved to a tensor, and a list of tensors not at all"
    )]
    Control {
        /// Number of the value.
        value: usize,
    },
    /// Many parts of the file refer to one, so that loading would take too long.
    #[error("the parts of the method refer to each other more often than can be checked")]
    TooMuchWork,
}

impl Problem<'_> {
    /// The number of this error in ExecuTorch.
    pub const fn code(&self) -> u32 {
        match self {
            Self::OperatorMissing { .. } => 0x14,
            Self::BackendMissing { .. } => 0x20,
            Self::Delegate { error, .. } => error.code(),
            Self::ExternalMissing { .. } | Self::ExternalMismatch { .. } => 0x24,
            _ => 0x23,
        }
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There are more or fewer inputs than the method takes.
    #[error("{found} inputs were given, but the method takes {needed}")]
    InputCount {
        /// Given.
        found: usize,
        /// Taken.
        needed: usize,
    },
    /// An input does not fit.
    #[error("input {index}: {error}")]
    Input {
        /// Place of the input.
        index: usize,
        /// What is wrong.
        error: Error,
    },
    /// An input has another dtype or kind than the method takes.
    #[error("input {index} is {found}, but the method takes {needed}")]
    InputKind {
        /// Place of the input.
        index: usize,
        /// What was given: a dtype or a kind of value.
        found: &'static str,
        /// What is taken.
        needed: &'static str,
    },
    /// A dimension of an input has another size than the method takes.
    #[error("input {index} has size {found} in dimension {dim}, but the method takes {needed}")]
    InputSize {
        /// Place of the input.
        index: usize,
        /// The first dimension that differs.
        dim: usize,
        /// Given.
        found: usize,
        /// Taken.
        needed: usize,
    },
    /// A dimension of an input is larger than the method takes.
    #[error(
        "input {index} has size {found} in dimension {dim}, but the method takes at most {limit}"
    )]
    InputTooLarge {
        /// Place of the input.
        index: usize,
        /// The first dimension that is too large.
        dim: usize,
        /// Given.
        found: usize,
        /// The most that is taken.
        limit: usize,
    },
    /// An input has more or fewer dimensions than the method takes.
    #[error("input {index} has {found} dimensions, but the method takes {needed}")]
    InputRank {
        /// Place of the input.
        index: usize,
        /// Given.
        found: usize,
        /// Taken.
        needed: usize,
    },
    /// A scalar input differs from the one that the program was exported with.
    #[error("input {index} was fixed when the program was exported; only that value runs")]
    InputFixed {
        /// Place of the input.
        index: usize,
    },
    /// An instruction failed.
    #[error("instruction {instruction}: {error}")]
    Instruction {
        /// Its place.
        instruction: usize,
        /// What is wrong.
        error: Error,
    },
    /// The run took more instructions than allowed.
    #[error("stopped after {limit} instructions; raise the limit if the program is trusted")]
    InstructionLimit {
        /// Instructions allowed.
        limit: u64,
    },
}

impl RunError {
    /// The number of this error in ExecuTorch.
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
