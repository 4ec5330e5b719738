//! Loads a [`TrustedMethod`] in one pass over its values.

use core::{
    cell::{Cell, UnsafeCell},
    mem::{MaybeUninit, align_of, size_of},
    ptr::NonNull,
    slice,
};

use afferent_core::{Dynamism, EValue, Kernel, KernelLists, ScalarType, TensorSlot, find_kernel};

use super::{
    Instruction, TrustedError, TrustedMethod,
    error::Fault,
    file::{Layout, Result, Table, Vector, header_u32, ids},
};

impl<'a> TrustedMethod<'a> {
    /// Loads method `name` of `program`, whose bytes are aligned to 16.
    ///
    /// The tables of the method are built in `tables`, aligned to 8. `planned` is the memory of its
    /// tensors, aligned to 16. Kernels get `scratch`.
    ///
    /// # Errors
    /// [`TrustedError`].
    ///
    /// # Safety
    /// The memory plan of the program is right: no instruction writes a tensor that shares memory
    /// with another tensor of its arguments, except a value that it updates in place. The exporter
    /// guarantees it; a file that could have been changed since is not trusted.
    pub unsafe fn load(
        program: &'a [u8],
        name: &str,
        kernels: KernelLists<'a>,
        tables: &'a mut [u8],
        planned: &'a mut [u8],
        scratch: &'a mut [u8],
    ) -> core::result::Result<Self, TrustedError> {
        let file = File::new(program, name)?.ok_or(TrustedError::Method)?;
        let buffers = Buffers::new(&file.plan, planned)?;
        let needed = buffers.range(buffers.sizes.len() / 8)?[0];
        if needed > buffers.len {
            return Err(TrustedError::Planned { needed: needed as u32 });
        }
        let mut tables = Tables::new(tables);
        let (values, slots) = Values::new(&file, buffers)?.read(&mut tables)?;

        let operators = file.plan.vector(6)?;
        let found = tables.alloc::<&'a Kernel>(operators.len)?;
        for (at, found) in found.iter_mut().enumerate() {
            let operator = operators.table(at)?;
            let text = |field| {
                let bytes = operator.vector(field)?.elements(1)?;
                core::str::from_utf8(bytes).map_err(|_| Fault::Program)
            };
            let kernel = find_kernel(kernels, text(0)?, text(1)?);
            found.write(kernel.ok_or(TrustedError::OperatorMissing { operator: at as u32 })?);
        }
        let chains = file.plan.vector(5)?;
        if chains.len != 1 {
            return Err(TrustedError::NotSupported);
        }
        let calls = chains.table(0)?.vector(2)?;
        let instructions = tables.alloc::<Instruction<'a>>(calls.len)?;
        for (at, instruction) in instructions.iter_mut().enumerate() {
            let call = calls.table(at)?;
            if call.u8(0)? != 1 {
                return Err(TrustedError::NotSupported);
            }
            let call = call.table(1)?;
            let kernel = found.get(call.u32(0)? as usize).ok_or(TrustedError::Program)?;
            // SAFETY: the loop above has written all elements.
            let kernel: &'a Kernel = unsafe { kernel.assume_init() };
            let args = ids(call.vector(1)?)?;
            // The exporter repeats the output as the last argument.
            if args.len() != kernel.args.len() + 1 {
                return Err(TrustedError::Arguments { instruction: at as u32 });
            }
            instruction.write(Instruction { kernel, args });
        }
        Ok(Self {
            values,
            slots,
            // SAFETY: the loop above has written all elements.
            instructions: unsafe { written(instructions) },
            inputs: ids(file.plan.vector(3)?)?,
            outputs: ids(file.plan.vector(4)?)?,
            scratch,
        })
    }
}

/// Parts of a program file.
struct File<'a> {
    bytes: &'a [u8],
    plan: Table<'a>,
    /// Segment of constants.
    constants: &'a [u8],
    /// Offset of each constant: 64-bit numbers.
    offsets: &'a [u8],
}

impl<'a> File<'a> {
    /// Finds method `name`; `None` if there is none.
    fn new(bytes: &'a [u8], name: &str) -> Result<Option<Self>> {
        if bytes.get(4..6) != Some(b"ET") {
            return Err(Fault::Program);
        }
        let root = Table::root(bytes)?;
        let plans = root.vector(1)?;
        let mut at = 0;
        let plan = loop {
            if at == plans.len {
                return Ok(None);
            }
            let plan = plans.table(at)?;
            if plan.vector(0)?.elements(1)? == name.as_bytes() {
                break plan;
            }
            at += 1;
        };
        if plan.vector(7)?.len > 0 {
            return Err(Fault::NotSupported);
        }
        let (mut constants, mut offsets) = (&bytes[..0], &bytes[..0]);
        let segments = root.vector(4)?;
        if let Some(segment) = root.opt_table(5)?
            && segments.len > 0
        {
            offsets = segment.vector(1)?.elements(8)?;
            let data = segments.table(segment.u32(0)? as usize)?;
            let base = if bytes.get(8..12) == Some(b"eh00") { header_u32(bytes, 24)? } else { 0 };
            let start = base.wrapping_add(data.low_u32(0)?);
            let rest = bytes.get(start..).ok_or(Fault::Program)?;
            constants = rest.get(..data.low_u32(1)?).ok_or(Fault::Program)?;
        }
        Ok(Some(Self { bytes, plan, constants, offsets }))
    }

    /// The `len` bytes of constant `index`.
    fn constant(&self, index: usize, len: usize) -> Result<&'a [u8]> {
        if self.offsets.is_empty() {
            return Err(Fault::NotSupported);
        }
        let start = header_u32(self.offsets, 8 * index)?;
        let data = self.constants.get(start..).and_then(|rest| rest.get(..len));
        data.ok_or(Fault::Program)
    }
}

/// Reader of the values of a method.
struct Values<'f, 'a> {
    file: &'f File<'a>,
    values: Vector<'a>,
    buffers: Buffers<'a>,
    value: Layout<2>,
    scalar: Layout<1>,
    tensor: Layout<10>,
    allocation: Layout<3>,
}

/// Planned memory. Each buffer of the program is a part of it.
struct Buffers<'a> {
    memory: NonNull<u8>,
    len: usize,
    /// Bytes of the buffers, as in the program. Buffer 0 is reserved.
    sizes: &'a [u8],
}

impl<'a> Buffers<'a> {
    fn new(plan: &Table<'a>, planned: &'a mut [u8]) -> Result<Self> {
        let sizes = plan.vector(8)?.elements(8)?;
        let len = planned.len();
        Ok(Self { memory: NonNull::from(planned).cast(), len, sizes })
    }

    /// Start and size of buffer `id`. For the number of buffers: the end of the last one.
    fn range(&self, id: usize) -> Result<[usize; 2]> {
        let mut start = 0_usize;
        for at in 1..id {
            start = start.saturating_add(header_u32(self.sizes, 8 * at)?).next_multiple_of(16);
        }
        let size = if 8 * id < self.sizes.len() { header_u32(self.sizes, 8 * id)? } else { 0 };
        Ok([start, size])
    }
}

impl<'f, 'a> Values<'f, 'a> {
    fn new(file: &'f File<'a>, buffers: Buffers<'a>) -> Result<Self> {
        Ok(Self {
            file,
            values: file.plan.vector(2)?,
            buffers,
            value: Layout::default(),
            scalar: Layout::default(),
            tensor: Layout::default(),
            allocation: Layout::default(),
        })
    }

    /// Reads all values. Tensors are numbered in order.
    #[expect(clippy::type_complexity, reason = "two tables")]
    fn read(
        mut self,
        tables: &mut Tables<'a>,
    ) -> Result<(&'a [Cell<EValue<'a>>], &'a [UnsafeCell<TensorSlot<'a>>])> {
        let cells = tables.alloc::<Cell<EValue<'a>>>(self.values.len)?;
        let mut slots = Slots::new(tables);
        for (at, cell) in cells.iter_mut().enumerate() {
            let table = self.value.read(self.file.bytes, self.values.target(at)?)?;
            let kind = table.u8(0)?;
            let value = if kind == 1 {
                EValue::None
            } else {
                let at = table.target(1)?;
                self.value(kind, at, tables, &mut slots)?
            };
            cell.write(Cell::new(value));
        }
        // SAFETY: the loop above has written all elements.
        Ok((unsafe { written(cells) }, slots.finish()))
    }

    /// Value of type `kind`, whose table is at `at`.
    #[inline]
    fn value(
        &mut self,
        kind: u8,
        at: usize,
        tables: &mut Tables<'a>,
        slots: &mut Slots<'a>,
    ) -> Result<EValue<'a>> {
        if kind == 5 {
            let slot = self.slot(at, tables)?;
            return slots.push(slot, tables).map(EValue::Tensor);
        }
        let table = self.scalar.read(self.file.bytes, at)?;
        Ok(match kind {
            2 => EValue::Int(i64::from_le_bytes(table.bytes(0)?)),
            3 => EValue::Bool(table.u8(0)? != 0),
            4 => EValue::Double(f64::from_le_bytes(table.bytes(0)?)),
            7 => {
                let items = table.vector(0)?;
                let list = tables.alloc::<u32>(items.len)?;
                let (numbers, _) = items.elements(8)?.as_chunks::<8>();
                for (item, &[a, b, c, d, ..]) in list.iter_mut().zip(numbers) {
                    item.write(u32::from_le_bytes([a, b, c, d]));
                }
                // SAFETY: there are as many numbers as elements, and the loop has written all.
                EValue::IntList(unsafe { written(list) })
            }
            9 => EValue::BoolList(table.vector(0)?.elements(1)?),
            10 => EValue::TensorList(ids(table.vector(0)?)?),
            11 => EValue::OptionalTensorList(ids(table.vector(0)?)?),
            _ => return Err(Fault::NotSupported),
        })
    }

    /// Tensor whose table is at `at`.
    fn slot(&mut self, at: usize, tables: &mut Tables<'a>) -> Result<TensorSlot<'a>> {
        let table = self.tensor.read(self.file.bytes, at)?;
        let dtype = ScalarType::from_code(table.u8(0)?.into()).ok_or(Fault::Program)?;
        let dims = table.vector(2)?;
        let sizes = tables.alloc::<usize>(dims.len)?;
        let (numbers, _) = dims.elements(4)?.as_chunks::<4>();
        for (size, &number) in sizes.iter_mut().zip(numbers) {
            size.write(u32::from_le_bytes(number) as usize);
        }
        // SAFETY: there are as many numbers as elements, and the loop has written all.
        let sizes = unsafe { written(sizes) };
        let dynamism = match table.u8(8)? {
            0 => Dynamism::Static,
            1 => Dynamism::Bounded,
            _ => return Err(Fault::NotSupported),
        };
        let order = table.vector(3)?.elements(1)?;
        let mut slot =
            TensorSlot::new(dtype, dynamism, sizes, order).map_err(|_| Fault::Program)?;
        let extra = table.opt_target(9)?.map(|at| Table::at(self.file.bytes, at)).transpose()?;
        if extra.map_or(Ok(0), |extra| extra.u8(2))? != 0 {
            return Err(Fault::NotSupported); // external data
        }
        let (constant, allocation) = (table.u32(5)? as usize, table.opt_target(6)?);
        match allocation {
            None if constant > 0 => {
                let data = self.file.constant(constant, slot.nbytes())?;
                // SAFETY: the program is borrowed for `'a`, and no kernel writes a constant.
                unsafe { slot.borrow(data) }.map_err(|_| Fault::Program)?;
            }
            Some(at) if constant == 0 => {
                let (data, len) = self.allocation(at, slot.nbytes())?;
                // SAFETY: the planned memory belongs to the tensors of the method for `'a`.
                unsafe { slot.assign_memory(data, len) }.map_err(|_| Fault::Program)?;
            }
            _ => return Err(Fault::NotSupported),
        }
        Ok(slot)
    }

    /// Planned memory of `len` bytes, whose table is at `at`.
    fn allocation(&mut self, at: usize, len: usize) -> Result<(NonNull<u8>, usize)> {
        let table = self.allocation.read(self.file.bytes, at)?;
        let (id, offset) = (table.u32(0)? as usize, table.u32(1)? as usize);
        let [start, size] = self.buffers.range(id)?;
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(Fault::Program);
        }
        // SAFETY: the buffer is in the planned memory, and the range is in the buffer.
        Ok((unsafe { self.buffers.memory.add(start + offset) }, len))
    }
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

    #[inline]
    fn push(&mut self, slot: TensorSlot<'a>, tables: &mut Tables<'a>) -> Result<u32> {
        let free = core::mem::take(&mut tables.free);
        let (position, rest) = free
            .split_at_mut_checked(size_of::<UnsafeCell<TensorSlot<'a>>>())
            .ok_or(Fault::Tables)?;
        tables.free = rest;
        let position = position.as_mut_ptr().cast::<UnsafeCell<TensorSlot<'a>>>();
        // SAFETY: the size of a slot is a multiple of its alignment, so the position is aligned.
        unsafe { position.write(UnsafeCell::new(slot)) };
        self.len += 1;
        Ok(self.len - 1)
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
