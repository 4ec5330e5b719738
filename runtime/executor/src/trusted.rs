//! Method of a trusted program: a loader and an executor in a few kilobytes.
//!
//! A microcontroller runs an image that was checked and signed as a whole. [`TrustedMethod`] reads
//! the program where it lies in flash, once, and does without what such a program does not need:
//! the work limit, the checks for memory that one instruction both reads and writes, reports of
//! several problems, control flow, delegates, external data, and graph rewrites. A host uses
//! [`Method`](crate::Method).

#![expect(unsafe_code, reason = "tensors of a method share its planned memory")]

mod error;
mod file;
mod load;

use core::cell::{Cell, UnsafeCell};

use afferent_core::{
    Args, EValue, Error, Kernel, KernelContext, Signature, TensorMut, TensorSlot, TensorView,
};

pub use error::TrustedError;

/// Method of a trusted program.
///
/// Inputs are written in place ([`TrustedMethod::input`]), in the planned memory. A run may reuse
/// that memory, so every run needs its inputs again.
///
/// ```no_run
/// use afferent_runtime::{TrustedError, TrustedMethod};
///
/// fn run(program: &[u8], kernels: afferent_core::KernelLists<'_>) -> Result<i8, TrustedError> {
///     let (mut tables, mut planned, mut scratch) = ([0; 8192], [0; 4096], [0; 1024]);
///     // SAFETY: the image is signed, and the exporter has planned the memory of the program.
///     let method = unsafe {
///         TrustedMethod::load(program, "forward", kernels, &mut tables, &mut planned, &mut scratch)
///     };
///     let mut method = method?;
///     method.input(0)?.data_mut::<f32>()?.fill(0.5);
///     method.run()?;
///     let output = method.output(0)?.data::<i8>()?.first();
///     Ok(output.copied().unwrap_or_default())
/// }
/// ```
pub struct TrustedMethod<'a> {
    values: &'a [Cell<EValue<'a>>],
    slots: &'a [UnsafeCell<TensorSlot<'a>>],
    instructions: &'a [Instruction<'a>],
    inputs: &'a [u32],
    outputs: &'a [u32],
    scratch: &'a mut [u8],
    free: usize,
}

/// Call of a kernel.
struct Instruction<'a> {
    kernel: &'a Kernel,
    args: &'a [u32],
}

impl<'a> TrustedMethod<'a> {
    /// Runs the method.
    ///
    /// # Errors
    /// [`TrustedError::Kernel`] with the instruction that failed.
    pub fn run(&mut self) -> Result<(), TrustedError> {
        for (at, Instruction { kernel, args }) in self.instructions.iter().enumerate() {
            let signature = Signature::Kernel(kernel.args);
            // SAFETY: `self` is borrowed, so nothing else accesses the slots, and the caller of
            // `load` guarantees that the tensors that a call writes share no memory with others.
            let mut args = unsafe { Args::new(self.values, self.slots, args, signature) };
            let mut cx = KernelContext::new(self.scratch);
            if let Err(error) = (kernel.run)(&mut cx, &mut args) {
                return Err(TrustedError::Kernel { instruction: at as u32, error });
            }
        }
        Ok(())
    }

    /// Bytes of the memory for tables that are left.
    pub fn free_table_bytes(&self) -> usize {
        self.free
    }

    /// Input tensor at `index`, to be written before each run.
    ///
    /// # Errors
    /// [`TrustedError::Tensor`] if there is none.
    pub fn input(&mut self, index: usize) -> Result<TensorMut<'_, 'a>, TrustedError> {
        let slot = self.slot(self.inputs, index).ok_or(TrustedError::Tensor)?;
        // SAFETY: `self` is borrowed, and loading has checked that the tensor has planned memory.
        Ok(unsafe { TensorMut::new(slot) })
    }

    /// Output tensor at `index`, after a run.
    ///
    /// # Errors
    /// [`TrustedError::Tensor`] if there is none.
    pub fn output(&self, index: usize) -> Result<TensorView<'_>, TrustedError> {
        let slot = self.slot(self.outputs, index).ok_or(TrustedError::Tensor)?;
        // SAFETY: `self` is borrowed, so nothing writes the slots.
        Ok(unsafe { &*slot.get() }.view()?)
    }

    fn slot(&self, ids: &[u32], index: usize) -> Option<&'a UnsafeCell<TensorSlot<'a>>> {
        match self.values.get(*ids.get(index)? as usize)?.get() {
            EValue::Tensor(slot) => self.slots.get(slot as usize),
            _ => None,
        }
    }
}

impl From<Error> for TrustedError {
    fn from(_: Error) -> Self {
        Self::Tensor
    }
}
