//! A loaded method: runs it, over and over.

#![expect(unsafe_code, reason = "lends the tensors of one table to kernels and callers")]

use core::{
    cell::{Cell, UnsafeCell},
    sync::atomic::{AtomicBool, Ordering},
};

use afferent_core::{
    Arg, Args, DelegateHandle, Dims, EValue, Error, KernelContext, KernelFn, Signature, TensorMut,
    TensorSlot, TensorView, Workers,
};
use afferent_program::{MethodPlan, Value};

use crate::{
    RunError,
    heap::Heap,
    initial::Initial,
    input::{Alias, Binding, Input},
    one_row::OneRow,
    planned::PlannedBuffer,
    views::Tensors,
};

/// One method of a program, loaded into memory of the caller.
///
/// Running it allocates nothing: every operator, argument and tensor was resolved and checked when
/// it was loaded. State (mutable buffers) lives in the planned buffers, from run to run.
pub struct Method<'a> {
    pub(crate) plan: MethodPlan<'a>,
    pub(crate) values: &'a [Cell<EValue<'a>>],
    pub(crate) slots: &'a [UnsafeCell<TensorSlot<'a>>],
    pub(crate) steps: &'a [Step<'a>],
    pub(crate) delegates: Delegates<'a>,
    pub(crate) inputs: &'a [Binding],
    pub(crate) aliases: &'a [Alias],
    pub(crate) outputs: &'a [u32],
    pub(crate) planned: &'a mut [PlannedBuffer<'a>],
    pub(crate) initial: &'a [Option<Initial<'a>>],
    pub(crate) heap: &'a mut dyn Heap,
    /// Whether an instruction makes a view.
    pub(crate) has_views: bool,
    pub(crate) one_row: OneRow,
    /// Whether the last run ended early, so that counters of loops may stand anywhere.
    pub(crate) interrupted: bool,
}

// SAFETY: everything that the method points to is borrowed by it alone (tables, planned buffers and
// heap) or never changes (the program), and delegates and heaps are `Send`.
unsafe impl Send for Method<'_> {}

/// The delegates of a method; they are dropped with it.
pub(crate) struct Delegates<'a>(pub(crate) &'a mut [Option<DelegateHandle<'a>>]);

impl Drop for Delegates<'_> {
    fn drop(&mut self) {
        self.0.fill_with(|| None);
    }
}

/// One resolved instruction.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    Kernel {
        run: KernelFn,
        args: &'static [Arg],
        ids: &'a [u32],
    },
    Delegate {
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
    /// Memory of tensors without bound is kept for the next run.
    Free,
}

/// What an instruction calls.
#[derive(Clone, Copy)]
enum Callee {
    Kernel(KernelFn),
    Delegate(usize),
}

/// How a run may end early.
#[derive(Clone, Copy)]
pub struct RunOptions<'r> {
    /// Set by another thread to end the run before its next instruction.
    pub cancelled: Option<&'r AtomicBool>,
    /// Instructions after which the run is given up: an endless loop in a program ends here.
    pub instruction_limit: u64,
    /// Is told of each instruction, for a profile.
    pub observer: Option<&'r dyn RunObserver>,
    /// Threads that kernels may use.
    pub workers: Option<&'r dyn Workers>,
}

/// Looks on while a method runs.
pub trait RunObserver {
    /// The instruction at this place begins.
    fn begin(&self, instruction: usize);

    /// The instruction at this place has ended.
    fn end(&self, instruction: usize);
}

impl RunOptions<'_> {
    /// The instruction limit when the caller sets none.
    pub const INSTRUCTION_LIMIT: u64 = 100_000_000;
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        let instruction_limit = Self::INSTRUCTION_LIMIT;
        Self { cancelled: None, instruction_limit, observer: None, workers: None }
    }
}

impl<'a> Method<'a> {
    /// What the program says about the method.
    pub fn plan(&self) -> MethodPlan<'a> {
        self.plan
    }

    /// Runs the method once.
    ///
    /// Inputs are read where they are, unless the method changes one: that one is copied. The
    /// outputs may refer to the inputs, which is why both live equally long.
    ///
    /// # Errors
    /// [`RunError`] when an input does not fit or an instruction fails. The method can be run
    /// again afterwards; mutable buffers keep what the run wrote before it ended.
    pub fn run<'s>(
        &'s mut self,
        inputs: &[Input<'s>],
        options: &RunOptions<'_>,
    ) -> Result<Outputs<'s, 'a>, RunError> {
        if core::mem::replace(&mut self.interrupted, true) {
            self.restore_scalars();
            self.one_row.show(self.slots);
        }
        if self.has_views {
            Tensors { values: self.values, slots: self.slots }.clear(self.steps);
        }
        self.heap.sweep();
        self.bind_inputs(inputs)?;
        options.workers.inspect(|workers| workers.wake());
        self.execute(options)?;
        self.interrupted = false;
        Ok(self.outputs())
    }

    /// The results of the last run. Only meaningful while its inputs live.
    pub(crate) fn outputs(&self) -> Outputs<'_, 'a> {
        Outputs { values: self.values, slots: self.slots, ids: self.outputs }
    }

    /// Returns mutable buffers and loop counters to the state after loading. Buffers that methods
    /// share stay as they are.
    pub fn reset(&mut self) {
        for buffer in self.planned.iter_mut().filter(|buffer| !buffer.is_shared()) {
            buffer.zero();
        }
        self.restore_scalars();
        self.write_initial();
    }

    fn execute(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        let mut at = 0;
        let mut left = options.instruction_limit;
        while let Some(step) = self.steps.get(at) {
            let failed = |error| RunError::Instruction { instruction: at, error };
            if left == 0 {
                return Err(RunError::InstructionLimit { limit: options.instruction_limit });
            }
            left -= 1;
            if options.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Err(failed(Error::Cancelled));
            }
            let instruction = at;
            self.one_row.before(instruction, self.slots);
            if let Some(observer) = options.observer {
                observer.begin(instruction);
            }
            at = match *step {
                Step::Kernel { run, args, ids } => {
                    let signature = Signature::Kernel(args);
                    self.call(Callee::Kernel(run), signature, ids, options).map_err(failed)?;
                    at + 1
                }
                Step::Delegate { index, inputs, ids } => {
                    let signature = Signature::Delegate { inputs };
                    self.call(Callee::Delegate(index), signature, ids, options).map_err(failed)?;
                    at + 1
                }
                Step::MoveTensor { from, to } => {
                    self.move_tensor(from, to).map_err(failed)?;
                    at + 1
                }
                Step::MoveScalar { from, to } => {
                    self.values[to as usize].set(self.values[from as usize].get());
                    at + 1
                }
                Step::JumpFalse { condition, destination } => {
                    if self.condition(condition).map_err(failed)? { at + 1 } else { destination }
                }
                Step::Free => at + 1,
            };
            self.one_row.behind(instruction, self.slots);
            if let Some(observer) = options.observer {
                observer.end(instruction);
            }
        }
        Ok(())
    }

    /// Calls a kernel or a delegate; again when it lacked memory that could be provided.
    fn call(
        &mut self,
        callee: Callee,
        signature: Signature,
        ids: &'a [u32],
        options: &RunOptions<'_>,
    ) -> Result<(), Error> {
        loop {
            // SAFETY: loading checked that what this instruction writes shares no memory with its
            // other arguments, and `self` is borrowed, so that nothing else reaches the tensors.
            let mut args = unsafe { Args::new(self.values, self.slots, ids, signature) };
            let mut cx = KernelContext::new(self.heap.scratch()).with_workers(options.workers);
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
                Err(error) if self.provide(error, signature, ids) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Provides the memory that a call lacked; `false` when it failed for another reason.
    fn provide(&mut self, error: Error, signature: Signature, ids: &[u32]) -> bool {
        match error {
            Error::OutOfResources { bytes } => {
                bytes > self.heap.scratch().len() && self.heap.grow_scratch(bytes)
            }
            Error::MemoryAllocationFailed { .. } => {
                let mut provided = false;
                crate::resolve::for_written(signature, ids, self.values, |slot, _| {
                    provided |= self.provide_tensor(slot);
                });
                provided
            }
            _ => false,
        }
    }

    /// Provides memory for the present sizes of a tensor that has too little.
    pub(crate) fn provide_tensor(&mut self, slot: u32) -> bool {
        let Some(cell) = self.slots.get(slot as usize) else { return false };
        // SAFETY: no call is under way, so nothing else reaches the slots.
        let tensor = unsafe { &mut *cell.get() };
        if tensor.has_memory() {
            return false;
        }
        let Some((data, len)) = self.heap.tensor(slot as usize, tensor.bytes_needed()) else {
            return false;
        };
        // SAFETY: the heap gives initialised memory that nothing else uses. It is borrowed for `'a`,
        // so that it lives as long as the method, and the memory of before stays until it is swept.
        unsafe { tensor.relocate(data, len) }.is_ok()
    }

    fn move_tensor(&mut self, from: u32, to: u32) -> Result<(), Error> {
        let slots = self.slots;
        let slot = |id: u32| {
            let found = slots.get(id as usize);
            found.ok_or(Error::Internal { reason: "a move names two tensors" })
        };
        let (source, target) = (slot(from)?, slot(to)?);
        // SAFETY: loading checked that the two are different tensors without common memory, and
        // no call is under way.
        let source = unsafe { &*source.get() };
        let sizes = Dims::new(source.sizes());
        let sizes =
            sizes.ok_or(Error::Internal { reason: "a tensor has at most 16 dimensions" })?;
        // SAFETY: no call is under way, so nothing else reaches the slots.
        let present = unsafe { &*target.get() };
        let (start, end) = present.extent();
        if start < end && !present.is_writable() {
            let reason = "a move to a view of a constant or of an input";
            return Err(Error::InvalidTensor { reason });
        }
        // SAFETY: as above; the target may be written.
        let mut tensor = unsafe { TensorMut::new(target) };
        if tensor.resize(&sizes).is_err() {
            self.provide_tensor(to);
        }
        // SAFETY: as above; the borrow of before has ended.
        let mut tensor = unsafe { TensorMut::new(target) };
        tensor.resize(&sizes)?;
        tensor.bytes_mut()?.copy_from_slice(source.view()?.bytes());
        Ok(())
    }

    fn condition(&self, value: u32) -> Result<bool, Error> {
        match self.values.get(value as usize).map(Cell::get) {
            Some(EValue::Bool(truth)) => Ok(truth),
            Some(EValue::Int(number)) => Ok(number != 0),
            Some(EValue::Tensor(slot)) => {
                let cell = self.slots.get(slot as usize);
                let cell = cell.ok_or(Error::Internal { reason: "a value names its tensor" })?;
                // SAFETY: no call is under way, so nothing writes the slots.
                let view = unsafe { &*cell.get() }.view()?;
                match view.data::<afferent_core::Bool>()? {
                    [truth] => Ok(truth.get()),
                    _ => Err(Error::InvalidTensor { reason: "a condition has one element" }),
                }
            }
            _ => Err(Error::InvalidTensor { reason: "a condition is a truth value" }),
        }
    }

    /// Gives scalars the values that the program says; loops count in them.
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

/// The results of a run, until the next one.
#[derive(Clone, Copy)]
pub struct Outputs<'s, 'a> {
    values: &'s [Cell<EValue<'a>>],
    slots: &'s [UnsafeCell<TensorSlot<'a>>],
    ids: &'s [u32],
}

/// One result of a run.
#[derive(Debug, Clone, Copy)]
pub enum Output<'s> {
    /// A tensor.
    Tensor(TensorView<'s>),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(&'s str),
    /// Nothing.
    None,
}

impl<'s> Outputs<'s, '_> {
    /// Number of results.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The result at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there is none, or the method never wrote it.
    pub fn get(&self, index: usize) -> Result<Output<'s>, Error> {
        let place = u8::try_from(index).unwrap_or(u8::MAX);
        let absent = Error::InvalidArgument { index: place, expected: "the place of an output" };
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

    /// The tensor at `index`.
    ///
    /// # Errors
    /// As [`Outputs::get`], and when the result is not a tensor.
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
