//! Errors of [`TrustedMethod`](super::TrustedMethod).

use afferent_core::Error;

/// Error of loading or running a trusted method. It has no texts, so that an image has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustedError {
    /// The file is not an ExecuTorch program, or an offset in it is wrong.
    Program,
    /// There is no such method.
    Method,
    /// The program needs control flow, delegates, external data, mutable buffers with initial
    /// values, or constants inside of the flatbuffer. [`Method`](crate::Method) runs it.
    NotSupported,
    /// No kernel of the list has the name of this operator.
    OperatorMissing {
        /// Index of the operator in the program.
        operator: u32,
    },
    /// An instruction has another number of arguments than the kernel. Export the program with the
    /// version of ExecuTorch that the kernel names.
    Arguments {
        /// Index of the instruction.
        instruction: u32,
    },
    /// The memory for tables is too small.
    Tables,
    /// The planned memory is too small.
    Planned {
        /// Bytes that the program needs.
        needed: u32,
    },
    /// There is no such input or output, or it has another dtype.
    Tensor,
    /// A kernel failed.
    Kernel {
        /// Index of the instruction.
        instruction: u32,
        /// Error of the kernel.
        error: Error,
    },
}

/// [`TrustedError`] without fields, so that results of the reader fit registers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Program,
    NotSupported,
    Tables,
}

impl From<Fault> for TrustedError {
    #[cold]
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Program => Self::Program,
            Fault::NotSupported => Self::NotSupported,
            Fault::Tables => Self::Tables,
        }
    }
}

impl core::fmt::Display for TrustedError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for TrustedError {}
