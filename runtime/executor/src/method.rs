//! Loaded method: the interpreter of its instructions, and its outputs.

#![expect(unsafe_code, reason = "lends the tensors of one table to kernels and callers")]

use core::{
    cell::{Cell, UnsafeCell},
    sync::atomic::{AtomicBool, Ordering},
};

use afferent_core::{
    Arg, Args, DelegateHandle, DelegateObserver, Dims, EValue, Error, KernelContext, KernelFn,
    Signature, TensorMut, TensorSlot, TensorView, Workers,
};
use afferent_program::{MethodPlan, Value};

use crate::{
    RunError,
    heap::Heap,
    initial_value::InitialValue,
    input::{Binding, Input, InputAlias},
    last_token_slicing::LastTokenSlicing,
    planned_buffer::PlannedBuffer,
    views::MethodTensors,
};

/// Method of a program, loaded into memory of the caller.
///
/// Loading resolves and checks every operator, argument and tensor, so a run allocates nothing.
/// Mutable buffers are stored in the planned buffers and keep their contents between runs.
pub struct Method<'a> {
    pub(crate) plan: MethodPlan<'a>,
    pub(crate) values: &'a [Cell<EValue<'a>>],
    pub(crate) slots: &'a [UnsafeCell<TensorSlot<'a>>],
    #[cfg(feature = "alloc")]
    #[expect(dead_code, reason = "releases the tensors when it is dropped")]
    pub(crate) on_device: OnDevice<'a>,
    pub(crate) instructions: &'a [LoadedInstruction<'a>],
    pub(crate) delegates: Delegates<'a>,
    pub(crate) inputs: &'a [Binding],
    pub(crate) aliases: &'a [InputAlias],
    pub(crate) outputs: &'a [u32],
    pub(crate) planned: &'a mut [PlannedBuffer<'a>],
    pub(crate) initial_values: &'a [Option<InitialValue<'a>>],
    pub(crate) heap: &'a mut dyn Heap,
    /// True if an instruction makes a view.
    pub(crate) has_views: bool,
    pub(crate) last_token_slicing: LastTokenSlicing,
    /// True if the last run ended early. Loop counters may then have any value.
    pub(crate) ended_early: bool,
}

// SAFETY: the method borrows its tables, planned buffers and heap exclusively, the program never
// changes, and delegates and heaps are `Send`.
unsafe impl Send for Method<'_> {}

/// Delegates of a method. They are in an arena, so they are dropped here.
pub(crate) struct Delegates<'a>(pub(crate) &'a mut [Option<DelegateHandle<'a>>]);

impl Drop for Delegates<'_> {
    fn drop(&mut self) {
        self.0.fill_with(|| None);
    }
}

/// Releases elements on a device. The tensors are in an arena, so nothing else drops them.
#[cfg(feature = "alloc")]
pub(crate) struct OnDevice<'a>(pub(crate) &'a [UnsafeCell<TensorSlot<'a>>]);

#[cfg(feature = "alloc")]
impl Drop for OnDevice<'_> {
    fn drop(&mut self) {
        for slot in self.0 {
            // SAFETY: the method is being dropped, so nothing else accesses the slots.
            unsafe { &mut *slot.get() }.leave_device();
        }
    }
}

/// Resolved instruction.
#[derive(Clone, Copy)]
pub(crate) enum LoadedInstruction<'a> {
    KernelCall {
        run: KernelFn,
        args: &'static [Arg],
        ids: &'a [u32],
    },
    DelegateCall {
        index: usize,
        inputs: usize,
        ids: &'a [u32],
    },
    MoveTensor {
        from: u32,
        to: u32,
    },
    MoveScalar {
        from: u32,
        to: u32,
    },
    JumpFalse {
        condition: u32,
        destination: usize,
    },
    /// No-op: the memory of unbounded tensors is kept for the next run.
    Free,
}

/// Function that an instruction calls.
#[derive(Clone, Copy)]
enum Callee {
    Kernel(KernelFn),
    Delegate(usize),
}

/// Options of a run.
#[derive(Clone, Copy)]
pub struct RunOptions<'r> {
    /// Flag that another thread sets to end the run before its next instruction.
    pub canceled: Option<&'r AtomicBool>,
    /// Maximum number of instructions, so that a program with an endless loop ends.
    pub instruction_limit: u64,
    /// Observer of each instruction, for profiling.
    pub observer: Option<&'r dyn RunObserver>,
    /// Worker threads that kernels may use.
    pub workers: Option<&'r dyn Workers>,
}

/// Observer of the instructions of a run.
pub trait RunObserver {
    /// Called before the instruction with this index.
    fn begin(&self, instruction: usize);

    /// Called after the instruction with this index.
    fn end(&self, instruction: usize);

    /// Observer of the parts of a delegate, if they are wanted: they may make its calls slower.
    fn delegate_observer(&self) -> Option<&dyn DelegateObserver> {
        None
    }
}

impl RunOptions<'_> {
    /// Default of [`RunOptions::instruction_limit`].
    pub const INSTRUCTION_LIMIT: u64 = 100_000_000;
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        let instruction_limit = Self::INSTRUCTION_LIMIT;
        Self { canceled: None, instruction_limit, observer: None, workers: None }
    }
}

impl<'a> Method<'a> {
    /// Plan of the method in the program.
    pub fn plan(&self) -> MethodPlan<'a> {
        self.plan
    }

    /// Runs the method.
    ///
    /// Inputs are borrowed; those that the method writes are copied. Outputs may refer to inputs,
    /// so both have the same lifetime.
    ///
    /// # Errors
    /// [`RunError`] if an input is rejected or an instruction fails. The method can be run again;
    /// mutable buffers keep the changes of the failed run.
    pub fn run<'s>(
        &'s mut self,
        inputs: &[Input<'s>],
        options: &RunOptions<'_>,
    ) -> Result<Outputs<'s, 'a>, RunError> {
        if core::mem::replace(&mut self.ended_early, true) {
            self.restore_scalars();
            self.last_token_slicing.unslice(self.slots);
        }
        if self.has_views {
            MethodTensors { values: self.values, slots: self.slots }.clear(self.instructions);
        }
        self.heap.free_outgrown();
        self.bind_inputs(inputs)?;
        options.workers.inspect(|workers| workers.wake());
        self.execute(options)?;
        self.ended_early = false;
        Ok(self.outputs())
    }

    /// Lets delegates leave the outputs on their device. [`Outputs::store`] then passes them on
    /// without a copy, and everything else reads them back.
    #[cfg(feature = "alloc")]
    pub fn keep_outputs_on_device(&mut self) {
        crate::residence::keep(self.values, self.slots, self.outputs);
    }

    /// Outputs of the last run. Valid only while its inputs live.
    pub(crate) fn outputs(&self) -> Outputs<'_, 'a> {
        Outputs { values: self.values, slots: self.slots, ids: self.outputs }
    }

    /// Resets mutable buffers and loop counters to the state after loading. Shared planned buffers
    /// do not change.
    pub fn reset(&mut self) {
        for buffer in self.planned.iter_mut().filter(|buffer| !buffer.is_shared()) {
            buffer.zero();
        }
        self.restore_scalars();
        self.write_initial_values();
    }

    fn execute(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        let mut at = 0;
        let mut remaining = options.instruction_limit;
        while let Some(loaded) = self.instructions.get(at) {
            let failed = |error| RunError::Instruction { instruction: at, error };
            if remaining == 0 {
                return Err(RunError::InstructionLimit { limit: options.instruction_limit });
            }
            remaining -= 1;
            if options.canceled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Err(failed(Error::Canceled));
            }
            let instruction = at;
            self.last_token_slicing.before(instruction, self.slots);
            if let Some(observer) = options.observer {
                observer.begin(instruction);
            }
            at = match *loaded {
                LoadedInstruction::KernelCall { run, args, ids } => {
                    let signature = Signature::Kernel(args);
                    self.call(Callee::Kernel(run), signature, ids, options).map_err(failed)?;
                    at + 1
                }
                LoadedInstruction::DelegateCall { index, inputs, ids } => {
                    let signature = Signature::Delegate { inputs };
                    self.call(Callee::Delegate(index), signature, ids, options).map_err(failed)?;
                    at + 1
                }
                LoadedInstruction::MoveTensor { from, to } => {
                    self.move_tensor(from, to).map_err(failed)?;
                    at + 1
                }
                LoadedInstruction::MoveScalar { from, to } => {
                    self.values[to as usize].set(self.values[from as usize].get());
                    at + 1
                }
                LoadedInstruction::JumpFalse { condition, destination } => {
                    if self.condition(condition).map_err(failed)? { at + 1 } else { destination }
                }
                LoadedInstruction::Free => at + 1,
            };
            self.last_token_slicing.after(instruction, self.slots);
            if let Some(observer) = options.observer {
                observer.end(instruction);
            }
        }
        Ok(())
    }

    /// Calls a kernel or a delegate. Repeats the call after providing memory that it lacked.
    fn call(
        &mut self,
        callee: Callee,
        signature: Signature,
        ids: &'a [u32],
        options: &RunOptions<'_>,
    ) -> Result<(), Error> {
        loop {
            // SAFETY: loading checked that the outputs of this instruction share no memory with its
            // other arguments, and `self` is borrowed, so nothing else accesses the tensors.
            let mut args = unsafe { Args::new(self.values, self.slots, ids, signature) };
            let observer = options.observer.and_then(RunObserver::delegate_observer);
            let cx = KernelContext::new(self.heap.scratch()).with_workers(options.workers);
            let mut cx = cx.with_observer(observer);
            let result = match callee {
                Callee::Kernel(run) => run(&mut cx, &mut args),
                Callee::Delegate(index) => {
                    let delegate = self.delegates.0.get_mut(index).and_then(Option::as_mut);
                    let reason = "a loaded method has all its delegates";
                    delegate.ok_or(Error::Internal { reason })?.execute(&mut cx, &mut args)
                }
            };
            match result {
                Ok(()) => return Ok(()),
                Err(error) if self.provide_memory(error, signature, ids) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Provides the memory that a call lacked. Returns false if the memory cannot be provided or
    /// the call failed for another reason.
    fn provide_memory(&mut self, error: Error, signature: Signature, ids: &[u32]) -> bool {
        match error {
            Error::OutOfResources { bytes } => {
                bytes > self.heap.scratch().len() && self.heap.grow_scratch(bytes)
            }
            Error::MemoryAllocationFailed { .. } => {
                let mut provided = false;
                crate::resolve::for_each_output(signature, ids, self.values, |slot, _| {
                    provided |= self.provide_tensor_memory(slot);
                });
                provided
            }
            _ => false,
        }
    }

    /// Provides memory for the present sizes of a tensor that has too little. Returns false if the
    /// tensor has enough, or the heap has not.
    pub(crate) fn provide_tensor_memory(&mut self, slot: u32) -> bool {
        let Some(cell) = self.slots.get(slot as usize) else { return false };
        // SAFETY: no call is active, so nothing else accesses the slots.
        let tensor = unsafe { &mut *cell.get() };
        if tensor.leave_device() {
            return false;
        }
        let Some((data, len)) = self.heap.tensor(slot as usize, tensor.nbytes()) else {
            return false;
        };
        // SAFETY: the heap returns initialized memory that nothing else uses. It is borrowed for
        // `'a`, so it lives as long as the method, and it keeps the old block until
        // `free_outgrown`.
        unsafe { tensor.relocate(data, len) }.is_ok()
    }

    fn move_tensor(&mut self, from: u32, to: u32) -> Result<(), Error> {
        let slots = self.slots;
        let slot = |id: u32| {
            let found = slots.get(id as usize);
            found.ok_or(Error::Internal { reason: "a move has two tensors" })
        };
        let (source, target) = (slot(from)?, slot(to)?);
        // SAFETY: loading checked that the two are different tensors that share no memory, and no
        // call is active.
        let source = unsafe { &*source.get() };
        let sizes = Dims::new(source.sizes());
        let sizes =
            sizes.ok_or(Error::Internal { reason: "a tensor has at most 16 dimensions" })?;
        // SAFETY: no call is active, so nothing else accesses the slots.
        let present = unsafe { &*target.get() };
        let (start, end) = present.address_range();
        if start < end && !present.is_writable() {
            let reason = "a move to a view of a constant or of an input";
            return Err(Error::InvalidTensor { reason });
        }
        // SAFETY: as above; the target is writable.
        let mut tensor = unsafe { TensorMut::new(target) };
        if tensor.resize(&sizes).is_err() {
            self.provide_tensor_memory(to);
        }
        // SAFETY: as above; the previous borrow has ended.
        let mut tensor = unsafe { TensorMut::new(target) };
        tensor.resize(&sizes)?;
        tensor.bytes_mut()?.copy_from_slice(source.view()?.bytes());
        Ok(())
    }

    /// Truth of a bool, or of all elements of a tensor.
    fn condition(&self, value: u32) -> Result<bool, Error> {
        match self.values.get(value as usize).map(Cell::get) {
            Some(EValue::Bool(truth)) => Ok(truth),
            Some(EValue::Tensor(slot)) => {
                let cell = self.slots.get(slot as usize);
                let cell = cell.ok_or(Error::Internal { reason: "a tensor value has a slot" })?;
                // SAFETY: no call is active, so nothing writes the slots.
                let view = unsafe { &*cell.get() }.view()?;
                Ok(view.data::<afferent_core::Bool>()?.iter().all(|truth| truth.get()))
            }
            _ => Err(Error::InvalidTensor { reason: "a condition is a boolean" }),
        }
    }

    /// Resets scalars, such as loop counters, to their values in the program.
    fn restore_scalars(&mut self) {
        for (id, cell) in self.values.iter().enumerate() {
            match self.plan.value(id) {
                Value::Int(value) => cell.set(EValue::Int(value)),
                Value::Double(value) => cell.set(EValue::Double(value)),
                Value::Bool(value) => cell.set(EValue::Bool(value)),
                _ => {}
            }
        }
    }
}

/// Outputs of a run. They borrow the method until its next run.
#[derive(Clone, Copy)]
pub struct Outputs<'s, 'a> {
    values: &'s [Cell<EValue<'a>>],
    slots: &'s [UnsafeCell<TensorSlot<'a>>],
    ids: &'s [u32],
}

/// Output of a run.
#[derive(Debug, Clone, Copy)]
pub enum Output<'s> {
    /// A tensor.
    Tensor(TensorView<'s>),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Str(&'s str),
    /// `None`, or a list.
    None,
}

impl<'s> Outputs<'s, '_> {
    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Output at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none, [`Error::InvalidTensor`] if the method never
    /// wrote it.
    pub fn get(&self, index: usize) -> Result<Output<'s>, Error> {
        let argument = u8::try_from(index).unwrap_or(u8::MAX);
        let absent = Error::InvalidArgument { index: argument, expected: "the index of an output" };
        let id = self.ids.get(index).ok_or(absent)?;
        Ok(match self.values.get(*id as usize).ok_or(absent)?.get() {
            EValue::Tensor(slot) => {
                let cell = self.slots.get(slot as usize).ok_or(absent)?;
                // SAFETY: the method stays borrowed for `'s`, so nothing writes the slots.
                Output::Tensor(unsafe { &*cell.get() }.view()?)
            }
            EValue::Int(value) => Output::Int(value),
            EValue::Double(value) => Output::Double(value),
            EValue::Bool(value) => Output::Bool(value),
            EValue::Str(text) => Output::Str(text),
            _ => Output::None,
        })
    }

    /// Stores the output tensor at `index` in `to`. Elements on a device stay there.
    ///
    /// # Errors
    /// As [`Outputs::tensor`], and [`Error::OutOfResources`] if the allocation fails.
    #[cfg(feature = "alloc")]
    pub fn store(&self, index: usize, to: &mut afferent_core::Tensor) -> Result<(), Error> {
        let argument = u8::try_from(index).unwrap_or(u8::MAX);
        let absent = Error::InvalidArgument { index: argument, expected: "the index of an output" };
        let id = *self.ids.get(index).ok_or(absent)?;
        if let Some(EValue::Tensor(slot)) = self.values.get(id as usize).map(Cell::get)
            && let Some(cell) = self.slots.get(slot as usize)
        {
            // SAFETY: the method stays borrowed for `'s`, so nothing writes the slots.
            let slot = unsafe { &*cell.get() };
            if let Some(elements) = slot.device_elements() {
                let part = elements.part(0, slot.nbytes());
                let reason = "a tensor on a device has its elements";
                let part = part.ok_or(Error::Internal { reason })?;
                let (sizes, order) = (slot.sizes(), slot.dim_order());
                *to = afferent_core::Tensor::from_foreign(slot.dtype(), sizes, order, part)?;
                return Ok(());
            }
        }
        to.copy_from(&self.tensor(index)?)
    }

    /// Output tensor at `index`.
    ///
    /// # Errors
    /// As [`Outputs::get`], and [`Error::InvalidArgument`] if the output is not a tensor.
    pub fn tensor(&self, index: usize) -> Result<TensorView<'s>, Error> {
        match self.get(index)? {
            Output::Tensor(view) => Ok(view),
            _ => Err(Error::InvalidArgument {
                index: u8::try_from(index).unwrap_or(u8::MAX),
                expected: "an output that is a tensor",
            }),
        }
    }
}
