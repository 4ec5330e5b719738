//! The network of the listener, run from flash.

use afferent_core::{Kernel, KernelLists, select_kernels};
use afferent_kernels::KERNELS;
use afferent_runtime::{TrustedError, TrustedMethod};
use afferent_wake::Network;

use crate::movement;

/// Operators of the network, besides those of `movement`.
const OPERATORS: [&str; 5] = [
    "cortex_m::quantized_add.out",
    "cortex_m::quantized_conv2d.out",
    "cortex_m::quantized_depthwise_conv2d.out",
    "cortex_m::quantized_linear.out",
    "cortex_m::softmax.out",
];

static SELECTED: [Kernel; OPERATORS.len()] = select_kernels(KERNELS, OPERATORS);
static LISTS: KernelLists<'static> = &[&[&movement::KERNELS, &SELECTED]];

/// Memory of a network, which belongs to it while it lives.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Memory {
    planned: [u8; PLANNED_BYTES],
    tables: [u8; TABLES_BYTES],
    scratch: [u8; SCRATCH_BYTES],
}

const PLANNED_BYTES: usize = 8 << 10;
/// Half of them are addresses, so a host needs more.
const TABLES_BYTES: usize = size_of::<usize>() * (8 << 10) / 2;
const SCRATCH_BYTES: usize = 2 << 10;

impl Memory {
    /// Memory without content.
    pub const fn new() -> Self {
        Self { planned: [0; PLANNED_BYTES], tables: [0; TABLES_BYTES], scratch: [0; SCRATCH_BYTES] }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// Network of the package `wake_word_int8`.
pub struct FlashNetwork<'a>(TrustedMethod<'a>);

impl<'a> FlashNetwork<'a> {
    /// Loads `program`, whose bytes are aligned to 16.
    ///
    /// # Errors
    /// [`TrustedError`].
    ///
    /// # Safety
    /// As [`TrustedMethod::load`]: the program is as the exporter wrote it.
    #[expect(unsafe_code, reason = "the caller vouches for the program")]
    pub unsafe fn load(program: &'a [u8], memory: &'a mut Memory) -> Result<Self, TrustedError> {
        let Memory { planned, tables, scratch } = memory;
        // SAFETY: guaranteed by the caller.
        unsafe { TrustedMethod::load(program, "forward", LISTS, tables, planned, scratch) }
            .map(Self)
    }
}

impl Network for FlashNetwork<'_> {
    type Error = TrustedError;

    fn write(&mut self, input: usize, at: usize, values: &[i8]) -> Result<(), TrustedError> {
        let mut tensor = self.0.input(input)?;
        let data = tensor.data_mut::<i8>()?;
        let part = data.get_mut(at..).and_then(|data| data.get_mut(..values.len()));
        copy(part.ok_or(TrustedError::Tensor)?, values);
        Ok(())
    }

    fn run(&mut self) -> Result<(), TrustedError> {
        self.0.run()
    }

    fn read(&self, output: usize, values: &mut [i8]) -> Result<(), TrustedError> {
        let tensor = self.0.output(output)?;
        let data = tensor.data::<i8>()?.get(..values.len());
        copy(values, data.ok_or(TrustedError::Tensor)?);
        Ok(())
    }
}

fn copy(to: &mut [i8], from: &[i8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
