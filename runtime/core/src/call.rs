//! Calls a kernel on owned tensors, without a program. For tests, tools and benchmarks.

#![expect(unsafe_code, reason = "builds the tables that `Args` reads")]

use alloc::{vec, vec::Vec};
use core::{
    cell::{Cell, UnsafeCell},
    ptr::NonNull,
};

use crate::{
    AlignedBytes, Args, Dynamism, EValue, Error, Kernel, KernelContext, Scalar, Signature, Tensor,
    TensorSlot,
};

/// One argument of a [`Call`].
#[derive(Debug)]
pub enum Argument<'t> {
    /// An absent optional.
    None,
    /// A number.
    Scalar(Scalar),
    /// A string.
    Str(&'t str),
    /// Integers.
    Ints(Vec<i64>),
    /// Floating-point numbers.
    Doubles(Vec<f64>),
    /// Booleans.
    Bools(Vec<bool>),
    /// An input tensor.
    Tensor(&'t Tensor),
    /// A list of input tensors; `None` is an absent one.
    Tensors(Vec<Option<&'t Tensor>>),
    /// An output tensor. It is resized to the result; its rank and dtype do not change.
    Out(&'t mut Tensor),
    /// A list of output tensors.
    Outs(Vec<&'t mut Tensor>),
    /// An output scalar.
    OutScalar(&'t mut Scalar),
}

/// Call of a kernel on owned tensors.
///
/// ```
/// use afferent_core::{Arg, Argument, Call, Kernel, Tensor};
///
/// const NEG: Kernel = Kernel::new("example::neg.out", &[Arg::Tensor, Arg::Out], |_, args| {
///     let x = args.tensor(0)?;
///     let mut out = args.out(1)?;
///     out.resize(x.sizes())?;
///     for (y, x) in out.data_mut::<f32>()?.iter_mut().zip(x.data::<f32>()?) {
///         *y = -x;
///     }
///     Ok(())
/// });
///
/// let x = Tensor::from_slice(&[1.0_f32, -2.0]);
/// let mut y = Tensor::from_slice::<f32>(&[]);
/// Call::new(&NEG).run(&mut [Argument::Tensor(&x), Argument::Out(&mut y)])?;
/// assert_eq!(y.data::<f32>()?, [-1.0, 2.0]);
/// # Ok::<(), afferent_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Call<'k> {
    kernel: &'k Kernel,
    scratch: AlignedBytes,
    memory_limit: usize,
}

/// Values and tensor slots of one call, while they are collected.
#[derive(Default)]
struct Tables<'a> {
    values: Vec<Cell<EValue<'a>>>,
    slots: Vec<UnsafeCell<TensorSlot<'a>>>,
}

impl<'k> Call<'k> {
    /// Call of `kernel` without a memory limit.
    pub fn new(kernel: &'k Kernel) -> Self {
        Self::with_memory_limit(kernel, usize::MAX)
    }

    /// Call of `kernel` with at most `memory_limit` bytes of scratch memory, and at most as many
    /// for each output tensor.
    pub fn with_memory_limit(kernel: &'k Kernel, memory_limit: usize) -> Self {
        Self { kernel, scratch: AlignedBytes::default(), memory_limit }
    }

    /// Runs the kernel. Provides missing memory and calls it again, as the executor does.
    ///
    /// # Errors
    /// Errors of the kernel; [`Error::InvalidArgument`] if the number of arguments is wrong.
    pub fn run(&mut self, arguments: &mut [Argument<'_>]) -> Result<(), Error> {
        if arguments.len() != self.kernel.args.len() {
            let expected = "as many arguments as the schema has";
            return Err(Error::InvalidArgument { index: 0, expected });
        }
        loop {
            match self.attempt(arguments) {
                Err(Error::OutOfResources { bytes })
                    if (self.scratch.as_slice().len() + 1..=self.memory_limit).contains(&bytes) =>
                {
                    self.scratch.try_resize(bytes).ok_or(Error::OutOfResources { bytes })?;
                }
                Err(Error::MemoryAllocationFailed { needed, planned })
                    if (planned + 1..=self.memory_limit).contains(&needed) => {}
                result => return result,
            }
        }
    }

    /// Runs the kernel with the present memory. Outputs keep the sizes that the kernel set, so the
    /// next attempt has memory for them.
    fn attempt(&mut self, arguments: &mut [Argument<'_>]) -> Result<(), Error> {
        // The tables borrow sizes, dim orders and lists, so these are built first.
        let mut sizes: Vec<Vec<usize>> = Vec::new();
        for argument in arguments.iter() {
            for tensor in tensors(argument) {
                sizes.push(tensor.sizes().to_vec());
            }
        }
        let orders: Vec<Vec<u8>> =
            arguments.iter().flat_map(tensors).map(|tensor| tensor.dim_order().to_vec()).collect();
        let count = u32::try_from(arguments.len()).unwrap_or(u32::MAX);
        let lists = item_ids(arguments, count);
        let strings: Vec<&str> = arguments
            .iter()
            .map(|argument| if let Argument::Str(text) = argument { *text } else { "" })
            .collect();
        let doubles: Vec<Vec<f64>> = arguments
            .iter()
            .map(|a| if let Argument::Doubles(items) = a { items.clone() } else { vec![] })
            .collect();
        let bools: Vec<Vec<u8>> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Bools(items) => items.iter().map(|&item| u8::from(item)).collect(),
                _ => vec![],
            })
            .collect();

        let mut tables = Tables::default();
        let mut parts = sizes.iter_mut().zip(&orders);
        let mut items = Vec::new();
        for (at, argument) in arguments.iter_mut().enumerate() {
            let value = match argument {
                Argument::None => EValue::None,
                Argument::Scalar(scalar) => scalar.to_value(),
                Argument::OutScalar(scalar) => scalar.to_value(),
                Argument::Str(_) => EValue::Str(strings[at]),
                Argument::Doubles(_) => EValue::DoubleList(&doubles[at]),
                Argument::Bools(_) => EValue::BoolList(&bools[at]),
                Argument::Ints(ints) => {
                    items.extend(ints.iter().map(|&int| EValue::Int(int)));
                    EValue::IntList(&lists[at])
                }
                Argument::Tensor(tensor) => tables.input(tensor, &mut parts)?,
                Argument::Out(tensor) => tables.output(tensor, &mut parts)?,
                Argument::Tensors(list) => {
                    for tensor in list.iter() {
                        items.push(match tensor {
                            Some(tensor) => tables.input(tensor, &mut parts)?,
                            None => EValue::None,
                        });
                    }
                    EValue::OptionalTensorList(&lists[at])
                }
                Argument::Outs(list) => {
                    for tensor in list.iter_mut() {
                        items.push(tables.output(tensor, &mut parts)?);
                    }
                    EValue::TensorList(&lists[at])
                }
            };
            tables.values.push(Cell::new(value));
        }
        tables.values.extend(items.into_iter().map(Cell::new));

        let ids: Vec<u32> = (0..count).collect();
        let signature = Signature::Kernel(self.kernel.args);
        // SAFETY: each slot above refers to its own tensor; output tensors are borrowed mutably by
        // `arguments`, so no other tensor of the call shares their memory.
        let mut args = unsafe { Args::new(&tables.values, &tables.slots, &ids, signature) };
        let mut cx = KernelContext::new(self.scratch.as_mut_slice());
        let result = (self.kernel.run)(&mut cx, &mut args);
        // SAFETY: the call is over, so nothing borrows the slots.
        let outcome = unsafe { read_outcome(&tables) };
        match result {
            Err(Error::MemoryAllocationFailed { needed, .. }) if needed > self.memory_limit => {}
            _ => write_back(arguments, outcome)?,
        }
        result
    }
}

/// Sizes of each tensor and scalar value of each argument after a call.
type Outcome = (Vec<Vec<usize>>, Vec<Option<Scalar>>);

impl<'a> Tables<'a> {
    fn slot(
        &mut self,
        tensor: &Tensor,
        parts: &mut impl Iterator<Item = (&'a mut Vec<usize>, &'a Vec<u8>)>,
    ) -> Result<(&mut TensorSlot<'a>, EValue<'a>), Error> {
        let part = parts.next().ok_or(Error::Internal { reason: "each tensor has sizes" })?;
        let slot = TensorSlot::new(tensor.dtype(), Dynamism::Unbounded, part.0, part.1)?;
        let value = EValue::Tensor(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        self.slots.push(UnsafeCell::new(slot));
        let last = self.slots.last_mut().map(UnsafeCell::get_mut);
        Ok((last.ok_or(Error::Internal { reason: "a slot was pushed" })?, value))
    }

    fn input(
        &mut self,
        tensor: &Tensor,
        parts: &mut impl Iterator<Item = (&'a mut Vec<usize>, &'a Vec<u8>)>,
    ) -> Result<EValue<'a>, Error> {
        let (slot, value) = self.slot(tensor, parts)?;
        // SAFETY: the tensor is borrowed by the arguments of the call, which outlive the tables.
        unsafe { slot.borrow(tensor.view().bytes())? };
        Ok(value)
    }

    fn output(
        &mut self,
        tensor: &mut Tensor,
        parts: &mut impl Iterator<Item = (&'a mut Vec<usize>, &'a Vec<u8>)>,
    ) -> Result<EValue<'a>, Error> {
        let (slot, value) = self.slot(tensor, parts)?;
        let bytes = tensor.bytes_mut();
        let (data, len) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        // SAFETY: the tensor is borrowed mutably by the arguments of the call, which outlive the
        // tables, and no other slot refers to it.
        unsafe { slot.assign_memory(data, len)? };
        Ok(value)
    }
}

/// Reads sizes and scalars from `tables` after a call.
///
/// # Safety
/// Nothing writes the slots during this function.
unsafe fn read_outcome(tables: &Tables<'_>) -> Outcome {
    // SAFETY: guaranteed by the caller.
    let sizes_of = |slot: &UnsafeCell<TensorSlot<'_>>| unsafe { &*slot.get() }.sizes().to_vec();
    let sizes = tables.slots.iter().map(sizes_of).collect();
    let scalars = tables.values.iter().map(|value| match value.get() {
        EValue::Int(value) => Some(Scalar::Int(value)),
        EValue::Double(value) => Some(Scalar::Double(value)),
        EValue::Bool(value) => Some(Scalar::Bool(value)),
        _ => None,
    });
    (sizes, scalars.collect())
}

/// Writes sizes and scalars back to the arguments.
fn write_back(arguments: &mut [Argument<'_>], outcome: Outcome) -> Result<(), Error> {
    let (sizes, scalars) = outcome;
    let mut sizes = sizes.iter();
    for (argument, scalar) in arguments.iter_mut().zip(scalars) {
        match argument {
            Argument::Tensor(_) | Argument::Tensors(_) => {
                sizes.by_ref().take(tensors(argument).len()).for_each(|_| {});
            }
            Argument::Out(tensor) => tensor.resize(sizes.next().map_or(&[], Vec::as_slice))?,
            Argument::Outs(list) => {
                for tensor in list {
                    tensor.resize(sizes.next().map_or(&[], Vec::as_slice))?;
                }
            }
            Argument::OutScalar(target) => **target = scalar.unwrap_or(**target),
            _ => {}
        }
    }
    Ok(())
}

/// Tensors of `argument` in slot order.
fn tensors<'r>(argument: &'r Argument<'_>) -> Vec<&'r Tensor> {
    match argument {
        Argument::Tensor(tensor) => vec![*tensor],
        Argument::Out(tensor) => vec![&**tensor],
        Argument::Tensors(list) => list.iter().flatten().copied().collect(),
        Argument::Outs(list) => list.iter().map(|tensor| &**tensor).collect(),
        _ => vec![],
    }
}

/// Value indices of the list items of each argument. The items are stored after the arguments.
fn item_ids(arguments: &[Argument<'_>], count: u32) -> Vec<Vec<u32>> {
    let mut next = count;
    let mut lists = Vec::new();
    for argument in arguments {
        let len = match argument {
            Argument::Ints(items) => items.len(),
            Argument::Tensors(items) => items.len(),
            Argument::Outs(items) => items.len(),
            _ => 0,
        };
        let end = next + u32::try_from(len).unwrap_or(0);
        lists.push((next..end).collect());
        next = end;
    }
    lists
}
