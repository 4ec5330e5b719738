//! Loads a [`Method`] from its plan in the program.

#![expect(unsafe_code, reason = "assigns planned memory to tensors")]

use core::{
    cell::{Cell, RefCell, UnsafeCell},
    ptr::NonNull,
};

#[cfg(feature = "alloc")]
use afferent_core::WeightCache;
use afferent_core::{
    Arg, Backend, DelegateHandle, DelegateSource, Dims, Dynamism, EValue, Error, Kernel,
    KernelLists, TensorSlot, find_kernel,
};
use afferent_program::{
    Allocation, ExternalData, MethodPlan, Program, TensorData, TensorMeta, Value,
};

use crate::{
    LoadError, Method, Problem,
    arena::Arena,
    heap::Heap,
    initial_value::{InitialValue, initial_values},
    input::Binding,
    input_alias::{self, MethodTables},
    last_token_slicing::SlicingPass,
    method::Delegates,
    planned_buffer::PlannedBuffer,
    resolve::Resolver,
    tables::{TableBuilder, TableSizes},
    views::{self, MethodTensors},
};

/// Looks up named data by key.
pub type FindData<'s, 'a> = dyn Fn(&str) -> Option<&'a [u8]> + 's;

/// Kernels, backends, data and limits that a method may use besides its program.
#[derive(Clone, Copy, Default)]
pub struct LoadContext<'s, 'a> {
    /// Kernel lists, preferred ones first.
    pub kernels: KernelLists<'s>,
    /// Backends.
    pub backends: &'s [&'s dyn Backend],
    /// Data files of the program.
    pub external: &'s [ExternalData<'a>],
    /// Index of the named data of the program and of its data files. Without it keys are searched
    /// linearly.
    pub named_data: Option<&'s FindData<'s, 'a>>,
    /// Limit in bytes of each delegate's memory for values. `None` means unlimited.
    pub delegate_memory_limit: Option<usize>,
    /// Weight cache for constants that backends pack.
    #[cfg(feature = "alloc")]
    pub weight_cache: Option<&'s dyn WeightCache>,
}

impl<'a> LoadContext<'_, 'a> {
    /// Named data `key` of the program or of a data file.
    fn data(&self, program: &Program<'a>, key: &str) -> Option<&'a [u8]> {
        if let Some(find) = self.named_data {
            return find(key);
        }
        let own = program.named_data(key);
        own.or_else(|| self.external.iter().find_map(|file| file.get(key)))
    }

    /// Number of keys that [`LoadContext::data`] searches in the worst case.
    fn num_data(&self, program: &Program<'a>) -> usize {
        let files = self.external.iter().map(ExternalData::num_keys);
        files.fold(program.num_named_data(), usize::saturating_add)
    }
}

/// Called once for each problem found while a method is loaded.
pub type Report<'r> = &'r mut dyn FnMut(Problem<'_>);

impl<'a> Method<'a> {
    /// Bytes of the tables of [`Method::load`].
    pub fn table_bytes(plan: &MethodPlan<'_>) -> usize {
        TableSizes::of(plan).bytes()
    }

    /// Loads the method of `plan`.
    ///
    /// Its tables are built in `tables`. `planned` provides one buffer for each of
    /// [`MethodPlan::planned_buffer_sizes`] for mutable buffers and intermediate results. Memory at
    /// run time comes from `heap`, which the method borrows as long as it lives:
    ///
    /// ```compile_fail,E0505
    /// use afferent_runtime::{GlobalHeap, Method, LoadContext, program::MethodPlan};
    ///
    /// fn run(plan: MethodPlan<'_>, tables: &mut [u8], mut heap: GlobalHeap) {
    ///     let context = LoadContext::default();
    ///     let method = Method::load(plan, &context, tables, [], &mut heap, &mut |_| {});
    ///     drop(heap);
    ///     drop(method);
    /// }
    /// ```
    ///
    /// All operators, arguments and memory ranges are checked here. `report` is called for each
    /// problem, so a caller can show all of them at once.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Problems`] if anything was reported.
    pub fn load(
        plan: MethodPlan<'a>,
        context: &LoadContext<'_, 'a>,
        tables: &'a mut [u8],
        planned: impl IntoIterator<Item = PlannedBuffer<'a>>,
        heap: &'a mut dyn Heap,
        report: Report<'_>,
    ) -> Result<Self, LoadError> {
        let sizes = TableSizes::of(&plan);
        let mut arena = Arena::new(tables);
        let buffers = planned_buffers(&plan, &mut arena, planned)?;
        let mut diagnostics = Diagnostics { problems: 0, code: 0, work_left: MAX_WORK, report };

        let mut ids = TableBuilder(arena.alloc(sizes.ids, |_| Ok::<_, LoadError>(0_u32))?);
        let mut doubles = TableBuilder(arena.alloc(sizes.doubles, |_| Ok::<_, LoadError>(0.0))?);
        let mut dims = TableBuilder(arena.alloc(sizes.dims, |_| Ok::<_, LoadError>(0_usize))?);
        let mut next_tensor = 0;
        let values = arena.alloc(sizes.values, |at| {
            value(plan.value(at), &mut next_tensor, &mut ids, &mut doubles).map(Cell::new)
        })?;
        let values: &[Cell<EValue<'a>>] = values;

        let mut tensors = plan.values().enumerate().filter_map(|(at, value)| match value {
            Value::Tensor(meta) => Some((at, meta)),
            _ => None,
        });
        let slots = arena.alloc(sizes.tensors, |_| {
            let (at, meta) = tensors.next().ok_or(LoadError::TableMemory)?;
            let slot = tensor(&meta, &mut dims, buffers, &plan, context, &mut diagnostics);
            slot.map(UnsafeCell::new).map_err(|error| error.at(at))
        })?;
        let slots: &[UnsafeCell<TensorSlot<'a>>] = slots;

        let delegates = arena.alloc(sizes.delegates, |at| {
            Ok::<_, LoadError>(delegate(&plan, at, context, &mut diagnostics))
        })?;
        let delegates = Delegates(delegates);
        let operators = arena.alloc(sizes.operators, |at| {
            Ok::<_, LoadError>(operator(&plan, at, context, &mut diagnostics))
        })?;

        let mut resolver = Resolver::new(plan, values, slots, operators, &delegates, diagnostics);
        let instructions = arena.alloc(sizes.instructions, |at| resolver.resolve(at, &mut ids))?;
        let mut diagnostics = resolver.diagnostics;
        if diagnostics.is_spent() {
            diagnostics.finish()?;
        }

        let roles = arena.alloc(sizes.tensors, |_| Ok::<_, LoadError>(TensorRole::Untouched))?;
        crate::resolve::for_each_written(instructions, values, |slot, arg| {
            if let Some(role) = roles.get_mut(slot as usize) {
                let view = arg == Arg::View && *role != TensorRole::Written;
                *role = if view { TensorRole::Viewed } else { TensorRole::Written };
            }
        });
        MethodTensors { values, slots }.check(instructions, roles, &mut diagnostics);
        diagnostics.finish()?;
        let inputs = plan.inputs();
        let inputs = arena.alloc(sizes.inputs, |at| {
            Ok::<_, LoadError>(binding(inputs.get(at).unwrap_or(0), values, roles))
        })?;
        let tables = MethodTables { values, slots, instructions, inputs, roles };
        let aliases = input_alias::find(&tables, &mut arena, &mut diagnostics)?;
        let mut found = initial_values(plan, |key| context.data(plan.program(), key));
        let initial = arena.alloc(sizes.initial_values, |_| Ok::<_, LoadError>(found.next()))?;
        let outputs = ids.append(sizes.outputs, plan.outputs().iter())?;
        let last_token_slicing =
            SlicingPass::new(plan, tables, operators, &delegates, outputs).run();
        #[cfg(feature = "alloc")]
        crate::residence::assign(plan, &tables, &last_token_slicing, &mut arena)?;
        let mut method = Method {
            plan,
            values,
            slots,
            #[cfg(feature = "alloc")]
            on_device: crate::method::OnDevice(slots),
            instructions,
            delegates,
            inputs,
            aliases,
            outputs,
            planned: buffers,
            initial_values: initial,
            heap,
            has_views: views::exist(instructions),
            last_token_slicing,
            ended_early: false,
        };
        method.write_initial_values();
        method.provide_written(roles);
        Ok(method)
    }

    /// Provides memory for tensors that an instruction writes and the exporter did not plan.
    fn provide_written(&mut self, roles: &[TensorRole]) {
        for (slot, role) in roles.iter().enumerate() {
            if *role == TensorRole::Written
                && let Ok(slot) = u32::try_from(slot)
            {
                self.provide_tensor_memory(slot);
            }
        }
    }

    /// Writes the initial values of mutable buffers, except into shared planned buffers.
    pub(crate) fn write_initial_values(&mut self) {
        for InitialValue { allocation, bytes } in self.initial_values.iter().flatten() {
            let buffer = self.planned.get_mut(allocation.buffer_index);
            if let Some(buffer) = buffer.filter(|buffer| !buffer.is_shared()) {
                buffer.write(allocation.offset, bytes);
            }
        }
    }
}

/// Limit on the work of loading a method, so that a hostile file cannot stall it. The unit is one
/// comparison or one copy of [`COPY_BYTES_PER_WORK`].
pub(crate) const MAX_WORK: u32 = 100_000_000;

/// Bytes copied for one unit of work.
pub(crate) const COPY_BYTES_PER_WORK: usize = 64;

/// Minimum work of initializing a delegate.
const DELEGATE_MIN_WORK: usize = 10_000;

/// Bytes of a delegate's blob for one unit of work.
const BLOB_BYTES_PER_WORK: usize = 1024;

/// Counts and reports problems, and enforces the work limit.
pub(crate) struct Diagnostics<'r> {
    problems: usize,
    code: u32,
    /// Entries of a file may be shared, so a small file can cause unlimited work.
    work_left: u32,
    report: Report<'r>,
}

impl Diagnostics<'_> {
    pub(crate) fn problem(&mut self, problem: Problem<'_>) {
        if self.problems == 0 {
            self.code = problem.code();
        }
        self.problems += 1;
        (self.report)(problem);
    }

    /// Spends `work` units. Returns false once the limit is reached, which is reported as a
    /// problem.
    pub(crate) fn spend(&mut self, work: usize) -> bool {
        let left = self.work_left;
        let work = u32::try_from(work).unwrap_or(u32::MAX);
        self.work_left = left.saturating_sub(work.max(1));
        if left > 0 && self.work_left == 0 {
            self.problem(Problem::TooMuchWork);
        }
        self.work_left > 0
    }

    /// Returns true if the work limit is reached.
    pub(crate) fn is_spent(&self) -> bool {
        self.work_left == 0
    }

    pub(crate) fn finish(&self) -> Result<(), LoadError> {
        let Self { problems: count, code, .. } = *self;
        if count == 0 { Ok(()) } else { Err(LoadError::Problems { count, code }) }
    }
}

fn planned_buffers<'a>(
    plan: &MethodPlan<'_>,
    arena: &mut Arena<'a>,
    planned: impl IntoIterator<Item = PlannedBuffer<'a>>,
) -> Result<&'a mut [PlannedBuffer<'a>], LoadError> {
    let mut given = planned.into_iter();
    arena.alloc(plan.planned_buffer_sizes().len(), |_| {
        Ok(given.next().unwrap_or_else(|| PlannedBuffer::new(&mut [])))
    })
}

fn value<'a>(
    value: Value<'a>,
    next_tensor: &mut u32,
    ids: &mut TableBuilder<'a, u32>,
    doubles: &mut TableBuilder<'a, f64>,
) -> Result<EValue<'a>, LoadError> {
    Ok(match value {
        Value::None => EValue::None,
        Value::Int(value) => EValue::Int(value),
        Value::Bool(value) => EValue::Bool(value),
        Value::Double(value) => EValue::Double(value),
        Value::Str(text) => EValue::Str(text),
        Value::BoolList(items) => EValue::BoolList(items),
        Value::DoubleList(items) => EValue::DoubleList(doubles.append(items.len(), items.iter())?),
        Value::IntList(items) => EValue::IntList(ids.append(items.len(), items.iter())?),
        Value::TensorList(items) => EValue::TensorList(ids.append(items.len(), items.iter())?),
        Value::OptionalTensorList(items) => {
            EValue::OptionalTensorList(ids.append(items.len(), items.iter())?)
        }
        Value::Tensor(_) => {
            *next_tensor += 1;
            EValue::Tensor(*next_tensor - 1)
        }
    })
}

/// Error in the description of one tensor.
enum TensorError {
    Tensor(Error),
    Load(LoadError),
}

impl TensorError {
    fn at(self, value: usize) -> LoadError {
        match self {
            Self::Tensor(error) => LoadError::Value { value, error },
            Self::Load(error) => error,
        }
    }
}

impl From<Error> for TensorError {
    fn from(error: Error) -> Self {
        Self::Tensor(error)
    }
}

fn tensor<'a>(
    meta: &TensorMeta<'a>,
    dims: &mut TableBuilder<'a, usize>,
    buffers: &[PlannedBuffer<'a>],
    plan: &MethodPlan<'a>,
    context: &LoadContext<'_, 'a>,
    diagnostics: &mut Diagnostics<'_>,
) -> Result<TensorSlot<'a>, TensorError> {
    let layout = &meta.layout;
    let sizes = dims.append(layout.sizes.len(), layout.sizes.iter()).map_err(TensorError::Load)?;
    let mut slot = TensorSlot::new(layout.dtype, meta.dynamism, sizes, layout.dim_order)?;
    let work = match meta.data {
        TensorData::Planned { initial: Some(initial), .. } => initial.len() / COPY_BYTES_PER_WORK,
        TensorData::External { allocation: None, .. } => context.num_data(plan.program()),
        // The key is searched again when the elements are copied.
        TensorData::External { .. } => {
            2 * context.num_data(plan.program()) + layout.nbytes / COPY_BYTES_PER_WORK
        }
        _ => 0,
    };
    if !diagnostics.spend(work) {
        return Ok(slot);
    }
    let allocation = match meta.data {
        // SAFETY: the program outlives the method, and a run writes no borrowed tensor.
        TensorData::Constant(bytes) => return Ok(unsafe { slot.borrow(bytes) }.map(|()| slot)?),
        TensorData::Planned { allocation, .. } => allocation,
        TensorData::Unplanned => {
            if meta.dynamism == Dynamism::Unbounded {
                // The sizes in the file are arbitrary. The first result allocates memory.
                slot.set_sizes(&Dims::filled(layout.sizes.len(), 0))?;
            }
            return Ok(slot);
        }
        TensorData::External { name, allocation } => {
            let Some(bytes) = context.data(plan.program(), name) else {
                diagnostics.problem(Problem::ExternalMissing { name });
                return Ok(slot);
            };
            if bytes.len() != layout.nbytes {
                let (found, needed, dtype) = (bytes.len(), layout.nbytes, layout.dtype);
                diagnostics.problem(Problem::ExternalMismatch { name, found, needed, dtype });
                return Ok(slot);
            }
            let Some(allocation) = allocation else {
                // SAFETY: as for a constant.
                return Ok(unsafe { slot.borrow(bytes) }.map(|()| slot)?);
            };
            allocation
        }
    };
    let data = planned_address(buffers, allocation, layout.nbytes).ok_or_else(|| {
        let index = allocation.buffer_index;
        let needed = allocation.offset.saturating_add(layout.nbytes);
        let found = buffers.get(index).map_or(0, PlannedBuffer::len);
        TensorError::Load(LoadError::PlannedMemory { index, needed, found })
    })?;
    // SAFETY: the memory belongs to the method for `'a`, and only its tensors access it.
    unsafe { slot.assign_memory(data, layout.nbytes)? };
    Ok(slot)
}

fn planned_address(
    buffers: &[PlannedBuffer<'_>],
    allocation: Allocation,
    len: usize,
) -> Option<NonNull<u8>> {
    buffers.get(allocation.buffer_index)?.address(allocation.offset, len)
}

fn delegate<'a>(
    plan: &MethodPlan<'a>,
    index: usize,
    context: &LoadContext<'_, 'a>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<DelegateHandle<'a>> {
    let delegate = plan.delegate(index)?;
    let id = delegate.id;
    let backend = context.backends.iter().find(|backend| backend.name() == id);
    let Some(backend) = backend.filter(|backend| backend.is_available()) else {
        #[cfg(feature = "alloc")]
        let told = backend.and_then(|backend| backend.unavailable()).unwrap_or_default();
        #[cfg(feature = "alloc")]
        let reason = told.as_str();
        #[cfg(not(feature = "alloc"))]
        let reason = "";
        diagnostics.problem(Problem::BackendMissing { id, known: backend.is_some(), reason });
        return None;
    };
    // Several delegates may share a blob, and each initializes it.
    if !diagnostics.spend(DELEGATE_MIN_WORK + delegate.blob.len() / BLOB_BYTES_PER_WORK) {
        return None;
    }
    let shared = RefCell::new(diagnostics);
    let missing_operator = |operator: &str| {
        shared.borrow_mut().problem(Problem::DelegateOperatorMissing { id, index, operator });
    };
    let source = DelegateSource {
        blob: delegate.blob,
        spec: &|at| delegate.compile_spec(at),
        named_data: &|key| context.data(plan.program(), key),
        missing_operator: &missing_operator,
        memory_limit: context.delegate_memory_limit.unwrap_or(usize::MAX),
        #[cfg(feature = "alloc")]
        weight_cache: context.weight_cache,
    };
    match backend.init(&source) {
        Ok(handle) => Some(handle),
        Err(error) => {
            shared.borrow_mut().problem(Problem::Delegate { id, index, error });
            None
        }
    }
}

fn operator(
    plan: &MethodPlan<'_>,
    index: usize,
    context: &LoadContext<'_, '_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Kernel> {
    let operator = plan.operator(index)?;
    let kernel = find_kernel(context.kernels, operator.name, operator.overload);
    if kernel.is_none() {
        diagnostics.problem(Problem::OperatorMissing { operator });
    }
    kernel.copied()
}

/// Use of a tensor by instructions and inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorRole {
    /// No instruction writes it and it is no input: a constant, a mutable buffer that is only read,
    /// or a view that the exporter resolved.
    Untouched,
    /// An instruction writes it.
    Written,
    /// An instruction makes it a view of another tensor, and none writes it.
    Viewed,
    /// It is an input, and no instruction writes it.
    Input,
}

fn binding(value: u32, values: &[Cell<EValue<'_>>], roles: &mut [TensorRole]) -> Binding {
    let Some(EValue::Tensor(slot)) = values.get(value as usize).map(Cell::get) else {
        return Binding::Scalar { value };
    };
    match roles.get_mut(slot as usize) {
        Some(TensorRole::Written | TensorRole::Viewed) => Binding::Copy { slot },
        Some(role) => {
            *role = TensorRole::Input;
            Binding::Borrow { slot }
        }
        None => Binding::Scalar { value },
    }
}
