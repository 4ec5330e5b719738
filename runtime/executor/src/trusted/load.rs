//! Loads a [`TrustedMethod`] in one pass over its values.

#![expect(unsafe_code, reason = "builds tables in memory of the caller")]

use core::{
    cell::{Cell, UnsafeCell},
    mem::{MaybeUninit, align_of, size_of},
    ptr::NonNull,
    slice,
};

use afferent_core::{Dynamism, EValue, Kernel, KernelLists, ScalarType, TensorSlot};

use super::{
    Instruction, TrustedError, TrustedMethod,
    error::Fault,
    file::{Table, Vector},
};

type Result<T> = core::result::Result<T, Fault>;

impl<'a> TrustedMethod<'a> {
    /// Loads method `name` of `program`, whose bytes are aligned to 16.
    ///
    /// The tables of the method are built in `tables`, aligned to 8. `planned` is the memory of its
    /// tensors, aligned to 16. Kernels get `scratch`.
    ///
    /// [`TrustedError::Planned`] tells the size of `planned`, also if `tables` is empty, and
    /// [`TrustedMethod::free_table_bytes`] how much of `tables` was not needed.
    ///
    /// # Errors
    /// [`TrustedError`].
    ///
    /// # Safety
    /// `program` is a program as ExecuTorch's exporter wrote it, not changed since: its tables and
    /// offsets are read without checks, and so are the values of its memory plan that keep the
    /// results of an instruction apart from its inputs.
    pub unsafe fn load(
        program: &'a [u8],
        name: &str,
        kernels: KernelLists<'a>,
        tables: &'a mut [u8],
        planned: &'a mut [u8],
        scratch: &'a mut [u8],
    ) -> core::result::Result<Self, TrustedError> {
        if program.get(4..6) != Some(b"ET") {
            return Err(TrustedError::Program);
        }
        // SAFETY: guaranteed by the caller.
        let root = unsafe { Table::root(program) };
        let file = File::new(program, root, name)?.ok_or(TrustedError::Method)?;
        let buffers = Buffers::new(file.plan, planned);
        let needed = buffers.range(buffers.sizes.len)[0];
        if needed > buffers.len {
            return Err(TrustedError::Planned { needed: needed as u32 });
        }
        let mut tables = Tables::new(tables);
        let (values, slots) = Values { file: &file, buffers }.read(&mut tables)?;

        let operators = file.plan.vector(6);
        let found = tables.alloc::<&'a Kernel>(operators.len)?;
        for (at, found) in found.iter_mut().enumerate() {
            let operator = operators.table(at);
            let (name, overload) = (operator.vector(0).bytes(), operator.vector(1).bytes());
            let kernel = find_kernel(kernels, name, overload);
            found.write(kernel.ok_or(TrustedError::OperatorMissing { operator: at as u32 })?);
        }
        // SAFETY: the loop above has written all elements.
        let found: &[&'a Kernel] = unsafe { written(found) };
        let chains = file.plan.vector(5);
        if chains.len != 1 {
            return Err(TrustedError::NotSupported);
        }
        let calls = chains.table(0).vector(2);
        let instructions = tables.alloc::<Instruction<'a>>(calls.len)?;
        for (at, instruction) in instructions.iter_mut().enumerate() {
            let call = calls.table(at);
            if call.number::<u8>(0) != 1 {
                return Err(TrustedError::NotSupported);
            }
            let call = call.table(1);
            let kernel = found.get(call.number::<u32>(0) as usize).ok_or(TrustedError::Program)?;
            let args = call.vector(1).ids();
            // The exporter repeats the output as the last argument.
            if args.len() != kernel.args.len() + 1 {
                return Err(TrustedError::Arguments { instruction: at as u32 });
            }
            instruction.write(Instruction { kernel, args });
        }
        // SAFETY: the loop above has written all elements.
        let instructions: &[Instruction<'a>] = unsafe { written(instructions) };
        let (inputs, outputs) = (file.plan.vector(3).ids(), file.plan.vector(4).ids());
        let free = tables.free.len();
        Ok(Self { values, slots, instructions, inputs, outputs, scratch, free })
    }
}

/// Finds the kernel of an operator with overload. As in `afferent_core`, of bytes.
fn find_kernel<'a>(lists: KernelLists<'a>, name: &[u8], overload: &[u8]) -> Option<&'a Kernel> {
    let separator = usize::from(!overload.is_empty());
    let len = name.len() + separator + overload.len();
    for kernel in lists.iter().flat_map(|list| list.iter()).flat_map(|file| file.iter()) {
        let found = kernel.name.as_bytes();
        if found.len() == len
            && found.ends_with(overload)
            && found.starts_with(name)
            && found[name.len()..len - overload.len()].iter().all(|&byte| byte == b'.')
        {
            return Some(kernel);
        }
    }
    None
}

/// Parts of a program file.
struct File<'a> {
    plan: Table<'a>,
    /// Segment of constants.
    constants: &'a [u8],
    /// Offset of each constant: numbers of 64 bits.
    offsets: Vector<'a>,
}

impl<'a> File<'a> {
    /// Finds method `name`; `None` if there is none.
    fn new(bytes: &'a [u8], root: Table<'a>, name: &str) -> Result<Option<Self>> {
        let plans = root.vector(1);
        let mut all = (0..plans.len).map(|at| plans.table(at));
        let Some(plan) = all.find(|plan| plan.vector(0).bytes() == name.as_bytes()) else {
            return Ok(None);
        };
        if plan.vector(7).len > 0 {
            return Err(Fault::NotSupported);
        }
        let (mut constants, mut offsets) = (&bytes[..0], root.vector(usize::MAX / 4));
        let segments = root.vector(4);
        if let Some(segment) = root.opt_table(5)
            && segments.len > 0
        {
            offsets = segment.vector(1);
            let data = segments.table(segment.number::<u32>(0) as usize);
            let base = match bytes.get(24..28).and_then(|base| base.first_chunk()) {
                Some(&base) if bytes.get(8..12) == Some(b"eh00") => u32::from_le_bytes(base),
                _ => 0,
            };
            let start = base.wrapping_add(data.number::<u32>(0)) as usize;
            constants = bytes.get(start..).ok_or(Fault::Program)?;
        }
        Ok(Some(Self { plan, constants, offsets }))
    }

    /// The `len` bytes of constant `index`.
    fn constant(&self, index: usize, len: usize) -> Result<&'a [u8]> {
        if index >= self.offsets.len {
            return Err(Fault::NotSupported); // constants inside of the flatbuffer
        }
        let start = self.offsets.number(index, 8) as usize;
        let data = self.constants.get(start..).and_then(|rest| rest.get(..len));
        data.ok_or(Fault::Program)
    }
}

/// Planned memory. Each buffer of the program is a part of it.
struct Buffers<'a> {
    memory: NonNull<u8>,
    len: usize,
    /// Bytes of the buffers, as in the program: numbers of 64 bits. Buffer 0 is reserved.
    sizes: Vector<'a>,
}

impl<'a> Buffers<'a> {
    fn new(plan: Table<'a>, planned: &'a mut [u8]) -> Self {
        let len = planned.len();
        Self { memory: NonNull::from(planned).cast(), len, sizes: plan.vector(8) }
    }

    /// Start and size of buffer `id`. For the number of buffers: the end of the last one.
    fn range(&self, id: usize) -> [usize; 2] {
        let size = |at: usize| {
            if at < self.sizes.len { self.sizes.number(at, 8) as usize } else { 0 }
        };
        let mut start = 0_usize;
        for at in 1..id {
            start = start.saturating_add(size(at)).saturating_add(15) & !15;
        }
        [start, size(id)]
    }

    /// Planned memory of `len` bytes that `allocation` describes.
    fn allocation(&self, allocation: Table<'_>, len: usize) -> Result<NonNull<u8>> {
        let offset = allocation.number::<u32>(1) as usize;
        let [start, size] = self.range(allocation.number::<u32>(0) as usize);
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(Fault::Program);
        }
        // SAFETY: the buffer is in the planned memory, and the range is in the buffer.
        Ok(unsafe { self.memory.add(start + offset) })
    }
}

/// Reader of the values of a method.
struct Values<'f, 'a> {
    file: &'f File<'a>,
    buffers: Buffers<'a>,
}

impl<'a> Values<'_, 'a> {
    /// Reads all values. Tensors are numbered in order.
    #[expect(clippy::type_complexity, reason = "two tables")]
    fn read(
        &self,
        tables: &mut Tables<'a>,
    ) -> Result<(&'a [Cell<EValue<'a>>], &'a [UnsafeCell<TensorSlot<'a>>])> {
        let values = self.file.plan.vector(2);
        let cells = tables.alloc::<Cell<EValue<'a>>>(values.len)?;
        let mut slots = Slots::new(tables);
        for (at, cell) in cells.iter_mut().enumerate() {
            let table = values.table(at);
            let value = match table.number::<u8>(0) {
                1 => EValue::None,
                2 => EValue::Int(table.table(1).number(0)),
                5 => {
                    self.tensor(table.table(1), &mut slots, tables)?;
                    EValue::Tensor(slots.len - 1)
                }
                kind => Self::other(kind, table.table(1), tables)?,
            };
            cell.write(Cell::new(value));
        }
        // SAFETY: the loop above has written all elements.
        Ok((unsafe { written(cells) }, slots.finish()))
    }

    /// Value of type `kind`, neither a tensor nor an integer.
    fn other(kind: u8, table: Table<'a>, tables: &mut Tables<'a>) -> Result<EValue<'a>> {
        Ok(match kind {
            3 => EValue::Bool(table.number::<u8>(0) != 0),
            4 => EValue::Double(table.number(0)),
            6 => EValue::Str(table.vector(0).text()),
            7 => EValue::IntList(copied(table.vector(0), 8, tables)?),
            8 => EValue::DoubleList(table.vector(0).doubles()),
            9 => EValue::BoolList(table.vector(0).bytes()),
            10 => EValue::TensorList(table.vector(0).ids()),
            11 => EValue::OptionalTensorList(table.vector(0).ids()),
            _ => return Err(Fault::NotSupported),
        })
    }

    /// Adds the tensor that `table` describes.
    #[inline(always)]
    fn tensor(
        &self,
        table: Table<'a>,
        slots: &mut Slots<'a>,
        tables: &mut Tables<'a>,
    ) -> Result<()> {
        let dtype = ScalarType::from_code(table.number::<u8>(0).into()).ok_or(Fault::Program)?;
        let dynamism = match table.number::<u8>(8) {
            0 => Dynamism::Static,
            1 => Dynamism::Bounded,
            _ => return Err(Fault::NotSupported),
        };
        if table.opt_table(9).is_some_and(|extra| extra.number::<u8>(2) != 0) {
            return Err(Fault::NotSupported); // external data
        }
        let dims = table.vector(2);
        let sizes = tables.alloc::<usize>(dims.len)?;
        let mut len = dtype.size();
        for (at, size) in sizes.iter_mut().enumerate() {
            let number = dims.number(at, 4) as usize;
            len = len.wrapping_mul(number);
            size.write(number);
        }
        // SAFETY: the loop above has written all elements.
        let sizes = unsafe { written(sizes) };
        let constant = table.number::<u32>(5) as usize;
        let (data, writable) = match table.opt_table(6) {
            None if constant > 0 => {
                (NonNull::from(self.file.constant(constant, len)?).cast(), false)
            }
            Some(allocation) if constant == 0 => (self.buffers.allocation(allocation, len)?, true),
            _ => return Err(Fault::NotSupported),
        };
        let order = table.vector(3).bytes();
        // SAFETY: the file is trusted. The memory is in the program or in the planned memory, which
        // are borrowed for `'a`; the latter belongs to the tensors of the method.
        slots.push(
            unsafe { TensorSlot::from_parts(dtype, dynamism, sizes, order, data, len, writable) },
            tables,
        )
    }
}

/// Copy of the low 32 bits of numbers of `width` bytes.
fn copied<'a>(numbers: Vector<'_>, width: usize, tables: &mut Tables<'a>) -> Result<&'a [u32]> {
    let copy = tables.alloc::<u32>(numbers.len)?;
    for (at, item) in copy.iter_mut().enumerate() {
        item.write(numbers.number(at, width));
    }
    // SAFETY: the loop above has written all elements.
    Ok(unsafe { written(copy) })
}

/// Memory for tables. Slots are taken from its start, everything else from its end.
struct Tables<'a> {
    free: &'a mut [MaybeUninit<u8>],
}

impl<'a> Tables<'a> {
    fn new(memory: &'a mut [u8]) -> Self {
        let len = memory.len();
        // SAFETY: initialized bytes are valid `MaybeUninit` ones, and the borrow moves.
        Self { free: unsafe { slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), len) } }
    }

    /// Takes memory for `len` elements from the end.
    #[inline]
    fn alloc<T>(&mut self, len: usize) -> Result<&'a mut [MaybeUninit<T>]> {
        let free = core::mem::take(&mut self.free);
        let bytes = len.checked_mul(size_of::<T>()).ok_or(Fault::Tables)?;
        let start = free.len().checked_sub(bytes).ok_or(Fault::Tables)?;
        let address = free.as_ptr().addr() + start;
        let start = start.checked_sub(address % align_of::<T>()).ok_or(Fault::Tables)?;
        let (rest, taken) = free.split_at_mut(start);
        self.free = rest;
        // SAFETY: the memory is aligned, holds `len` elements, and is borrowed by nothing else.
        Ok(unsafe { slice::from_raw_parts_mut(taken.as_mut_ptr().cast(), len) })
    }
}

/// Slots of tensors, one after the other from the start of the tables.
struct Slots<'a> {
    start: NonNull<UnsafeCell<TensorSlot<'a>>>,
    len: u32,
}

impl<'a> Slots<'a> {
    fn new(tables: &mut Tables<'a>) -> Self {
        let free = core::mem::take(&mut tables.free);
        let skip = free.as_ptr().align_offset(align_of::<TensorSlot<'_>>()).min(free.len());
        let (_, free) = free.split_at_mut(skip);
        let start = NonNull::from(&mut *free).cast();
        tables.free = free;
        Self { start, len: 0 }
    }

    #[inline(always)]
    fn push(&mut self, slot: TensorSlot<'a>, tables: &mut Tables<'a>) -> Result<()> {
        let free = core::mem::take(&mut tables.free);
        let (position, rest) = free
            .split_at_mut_checked(size_of::<UnsafeCell<TensorSlot<'a>>>())
            .ok_or(Fault::Tables)?;
        tables.free = rest;
        let position = position.as_mut_ptr().cast::<UnsafeCell<TensorSlot<'a>>>();
        // SAFETY: the size of a slot is a multiple of its alignment, so the position is aligned.
        unsafe { position.write(UnsafeCell::new(slot)) };
        self.len += 1;
        Ok(())
    }

    fn finish(self) -> &'a [UnsafeCell<TensorSlot<'a>>] {
        // SAFETY: the slots were written one after the other into memory borrowed for `'a`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

/// # Safety
/// All elements are written.
unsafe fn written<T>(elements: &mut [MaybeUninit<T>]) -> &mut [T] {
    // SAFETY: guaranteed by the caller.
    unsafe { &mut *(core::ptr::from_mut(elements) as *mut [T]) }
}
