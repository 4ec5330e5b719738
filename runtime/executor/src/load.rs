//! From the plan of a method to a loaded [`Method`].

#![expect(unsafe_code, reason = "gives tensors their planned memory")]

use core::{
    cell::{Cell, UnsafeCell},
    ptr::NonNull,
};

#[cfg(feature = "alloc")]
use afferent_core::Prepared;
use afferent_core::{
    Arg, Backend, DelegateHandle, DelegateSource, Dims, Dynamism, EValue, Error, Kernel,
    KernelLists, TensorSlot, find_kernel,
};
use afferent_program::{
    Allocation, ExternalData, MethodPlan, Program, TensorData, TensorMeta, Value,
};

use crate::{
    LoadError, Method, Problem,
    alias::{self, Tables},
    bump::Bump,
    heap::Heap,
    initial::{Initial, initial},
    input::Binding,
    method::Delegates,
    one_row::Search,
    planned::PlannedBuffer,
    resolve::Resolver,
    tables::{Cutter, Sizes},
    views::{self, Tensors},
};

/// Finds the data with a key.
pub type FindData<'s, 'a> = dyn Fn(&str) -> Option<&'a [u8]> + 's;

/// What a method may use besides its program.
#[derive(Clone, Copy, Default)]
pub struct Services<'s, 'a> {
    /// The operators, the preferred lists first.
    pub kernels: KernelLists<'s>,
    /// The backends.
    pub backends: &'s [&'s dyn Backend],
    /// Data files of the program.
    pub external: &'s [ExternalData<'a>],
    /// Finds the data with a key, in the program or in a data file, for callers that have an index
    /// of it; otherwise the keys are searched one after the other.
    pub named_data: Option<&'s FindData<'s, 'a>>,
    /// Bytes that each delegate may take for its values; as many as it needs when absent.
    pub delegate_limit: Option<usize>,
    /// Keeps what backends make of constants.
    #[cfg(feature = "alloc")]
    pub prepared: Option<&'s dyn Prepared>,
}

impl<'a> Services<'_, 'a> {
    /// The data called `key`, of the program or of a data file.
    fn data(&self, program: &Program<'a>, key: &str) -> Option<&'a [u8]> {
        if let Some(find) = self.named_data {
            return find(key);
        }
        let own = program.named_data(key);
        own.or_else(|| self.external.iter().find_map(|file| file.get(key)))
    }

    /// How many entries [`Services::data`] may have to look at.
    fn num_data(&self, program: &Program<'a>) -> usize {
        let files = self.external.iter().map(ExternalData::num_keys);
        files.fold(program.num_named_data(), usize::saturating_add)
    }
}

/// Where problems of loading are reported, one call each.
pub type Report<'r> = &'r mut dyn FnMut(Problem<'_>);

impl<'a> Method<'a> {
    /// Bytes that [`Method::load`] needs for its tables.
    pub fn memory_needed(plan: &MethodPlan<'_>) -> usize {
        Sizes::of(plan).bytes()
    }

    /// Loads the method of `plan`: tables into `tables`, state and intermediate results into
    /// `planned`, one buffer for each of [`MethodPlan::planned_buffer_sizes`]. What it asks for while
    /// it runs comes from `heap`, which nothing may take from it:
    ///
    /// ```compile_fail,E0505
    /// use afferent_runtime::{GlobalHeap, Method, Services, program::MethodPlan};
    ///
    /// fn run(plan: MethodPlan<'_>, tables: &mut [u8], mut heap: GlobalHeap) {
    ///     let services = Services::default();
    ///     let method = Method::load(plan, &services, tables, [], &mut heap, &mut |_| {});
    ///     drop(heap);
    ///     drop(method);
    /// }
    /// ```
    ///
    /// Everything is checked here: operators, arguments, memory. Each part that does not fit is
    /// given to `report`, so that a caller can show all of them at once.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Problems`] after something was reported.
    pub fn load(
        plan: MethodPlan<'a>,
        services: &Services<'_, 'a>,
        tables: &'a mut [u8],
        planned: impl IntoIterator<Item = PlannedBuffer<'a>>,
        heap: &'a mut dyn Heap,
        report: Report<'_>,
    ) -> Result<Self, LoadError> {
        let sizes = Sizes::of(&plan);
        let mut bump = Bump::new(tables);
        let buffers = planned_buffers(&plan, &mut bump, planned)?;
        let mut count = Count { problems: 0, code: 0, work_left: WORK, report };

        let mut ids = Cutter(bump.slice(sizes.ids, |_| Ok::<_, LoadError>(0_u32))?);
        let mut doubles = Cutter(bump.slice(sizes.doubles, |_| Ok::<_, LoadError>(0.0))?);
        let mut dims = Cutter(bump.slice(sizes.dims, |_| Ok::<_, LoadError>(0_usize))?);
        let mut next_tensor = 0;
        let values = bump.slice(sizes.values, |at| {
            value(plan.value(at), &mut next_tensor, &mut ids, &mut doubles).map(Cell::new)
        })?;
        let values: &[Cell<EValue<'a>>] = values;

        let mut tensors = plan.values().enumerate().filter_map(|(at, value)| match value {
            Value::Tensor(meta) => Some((at, meta)),
            _ => None,
        });
        let slots = bump.slice(sizes.tensors, |_| {
            let (at, meta) = tensors.next().ok_or(LoadError::TableMemory)?;
            let slot = tensor(&meta, &mut dims, buffers, &plan, services, &mut count);
            slot.map(UnsafeCell::new).map_err(|error| error.at(at))
        })?;
        let slots: &[UnsafeCell<TensorSlot<'a>>] = slots;

        let delegates = bump.slice(sizes.delegates, |at| {
            Ok::<_, LoadError>(delegate(&plan, at, services, &mut count))
        })?;
        let delegates = Delegates(delegates);
        let operators = bump.slice(sizes.operators, |at| {
            Ok::<_, LoadError>(operator(&plan, at, services, &mut count))
        })?;

        let mut resolver = Resolver::new(plan, values, slots, operators, &delegates, count);
        let steps = bump.slice(sizes.steps, |at| resolver.step(at, &mut ids))?;
        let mut count = resolver.count;
        if count.is_spent() {
            count.finish()?;
        }

        let roles = bump.slice(sizes.tensors, |_| Ok::<_, LoadError>(Role::Untouched))?;
        crate::resolve::for_each_written(steps, values, |slot, arg| {
            if let Some(role) = roles.get_mut(slot as usize) {
                let view = arg == Arg::View && *role != Role::Written;
                *role = if view { Role::Viewed } else { Role::Written };
            }
        });
        Tensors { values, slots }.check(steps, roles, &mut count);
        count.finish()?;
        let inputs = plan.inputs();
        let inputs = bump.slice(sizes.inputs, |at| {
            Ok::<_, LoadError>(binding(inputs.get(at).unwrap_or(0), values, roles))
        })?;
        let tables = Tables { values, slots, steps, inputs, roles };
        let aliases = alias::find(&tables, &mut bump, &mut count)?;
        let mut found = initial(plan, |key| services.data(plan.program(), key));
        let initial = bump.slice(sizes.initial, |_| Ok::<_, LoadError>(found.next()))?;
        let outputs = ids.cut(sizes.outputs, plan.outputs().iter())?;
        let one_row = Search::new(plan, tables, operators, &delegates, outputs).run();
        let mut method = Method {
            plan,
            values,
            slots,
            steps,
            delegates,
            inputs,
            aliases,
            outputs,
            planned: buffers,
            initial,
            heap,
            has_views: views::exist(steps),
            one_row,
            interrupted: false,
        };
        method.write_initial();
        for (slot, role) in roles.iter().enumerate() {
            if *role == Role::Written
                && let Ok(slot) = u32::try_from(slot)
            {
                method.provide_tensor(slot);
            }
        }
        Ok(method)
    }

    /// Writes what state holds at first into the buffers that no other method has.
    pub(crate) fn write_initial(&mut self) {
        for Initial { allocation, bytes } in self.initial.iter().flatten() {
            let buffer = self.planned.get_mut(allocation.buffer_index);
            if let Some(buffer) = buffer.filter(|buffer| !buffer.is_shared()) {
                buffer.write(allocation.offset, bytes);
            }
        }
    }
}

/// How much work a hostile file may cause: comparisons, and blocks of bytes that are copied.
pub(crate) const WORK: u32 = 100_000_000;

/// Bytes that are copied for one piece of work.
pub(crate) const BLOCK: usize = 64;

/// What a delegate costs at least, and bytes of its blob that cost as much as a comparison.
const DELEGATE: usize = 10_000;
const BLOB_BLOCK: usize = 1024;

/// Reports problems and counts them.
pub(crate) struct Count<'r> {
    problems: usize,
    code: u32,
    /// Objects of a file may be shared, so that a small one asks for endless work.
    work_left: u32,
    report: Report<'r>,
}

impl Count<'_> {
    pub(crate) fn problem(&mut self, problem: Problem<'_>) {
        if self.problems == 0 {
            self.code = problem.code();
        }
        self.problems += 1;
        (self.report)(problem);
    }

    /// Takes `work`; `false`, and a problem once, when too much was asked for.
    pub(crate) fn spend(&mut self, work: usize) -> bool {
        let left = self.work_left;
        let work = u32::try_from(work).unwrap_or(u32::MAX);
        self.work_left = left.saturating_sub(work.max(1));
        if left > 0 && self.work_left == 0 {
            self.problem(Problem::TooMuchWork);
        }
        self.work_left > 0
    }

    /// Whether too much work was asked for.
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
    bump: &mut Bump<'a>,
    planned: impl IntoIterator<Item = PlannedBuffer<'a>>,
) -> Result<&'a mut [PlannedBuffer<'a>], LoadError> {
    let mut given = planned.into_iter();
    bump.slice(plan.planned_buffer_sizes().len(), |_| {
        Ok(given.next().unwrap_or_else(|| PlannedBuffer::new(&mut [])))
    })
}

fn value<'a>(
    value: Value<'a>,
    next_tensor: &mut u32,
    ids: &mut Cutter<'a, u32>,
    doubles: &mut Cutter<'a, f64>,
) -> Result<EValue<'a>, LoadError> {
    Ok(match value {
        Value::None => EValue::None,
        Value::Int(value) => EValue::Int(value),
        Value::Bool(value) => EValue::Bool(value),
        Value::Double(value) => EValue::Double(value),
        Value::Str(text) => EValue::Str(text),
        Value::BoolList(items) => EValue::BoolList(items),
        Value::DoubleList(items) => EValue::DoubleList(doubles.cut(items.len(), items.iter())?),
        Value::IntList(items) => EValue::IntList(ids.cut(items.len(), items.iter())?),
        Value::TensorList(items) => EValue::TensorList(ids.cut(items.len(), items.iter())?),
        Value::OptionalTensorList(items) => {
            EValue::OptionalTensorList(ids.cut(items.len(), items.iter())?)
        }
        Value::Tensor(_) => {
            *next_tensor += 1;
            EValue::Tensor(*next_tensor - 1)
        }
    })
}

/// A fault of one tensor.
enum TensorFault {
    Tensor(Error),
    Load(LoadError),
}

impl TensorFault {
    fn at(self, value: usize) -> LoadError {
        match self {
            Self::Tensor(error) => LoadError::Value { value, error },
            Self::Load(error) => error,
        }
    }
}

impl From<Error> for TensorFault {
    fn from(error: Error) -> Self {
        Self::Tensor(error)
    }
}

fn tensor<'a>(
    meta: &TensorMeta<'a>,
    dims: &mut Cutter<'a, usize>,
    buffers: &[PlannedBuffer<'a>],
    plan: &MethodPlan<'a>,
    services: &Services<'_, 'a>,
    count: &mut Count<'_>,
) -> Result<TensorSlot<'a>, TensorFault> {
    let layout = &meta.layout;
    let sizes = dims.cut(layout.sizes.len(), layout.sizes.iter()).map_err(TensorFault::Load)?;
    let mut slot = TensorSlot::new(layout.dtype, meta.dynamism, sizes, layout.dim_order)?;
    let copied = match meta.data {
        TensorData::Planned { initial: Some(initial), .. } => initial.len() / BLOCK,
        TensorData::External { allocation: None, .. } => services.num_data(plan.program()),
        // It is looked up once more when its elements are copied.
        TensorData::External { .. } => {
            2 * services.num_data(plan.program()) + layout.nbytes / BLOCK
        }
        _ => 0,
    };
    if !count.spend(copied) {
        return Ok(slot);
    }
    let allocation = match meta.data {
        // SAFETY: the program outlives the method, and no run writes a tensor that only reads.
        TensorData::Constant(bytes) => return Ok(unsafe { slot.borrow(bytes) }.map(|()| slot)?),
        TensorData::Planned { allocation, .. } => allocation,
        TensorData::Unplanned => {
            if meta.dynamism == Dynamism::Unbounded {
                // The file's sizes mean nothing; memory comes with the first result.
                slot.set_sizes(&Dims::filled(layout.sizes.len(), 0))?;
            }
            return Ok(slot);
        }
        TensorData::External { name, allocation } => {
            let Some(bytes) = services.data(plan.program(), name) else {
                count.problem(Problem::ExternalMissing { name });
                return Ok(slot);
            };
            if bytes.len() != layout.nbytes {
                let (found, needed, dtype) = (bytes.len(), layout.nbytes, layout.dtype);
                count.problem(Problem::ExternalMismatch { name, found, needed, dtype });
                return Ok(slot);
            }
            let Some(allocation) = allocation else {
                // SAFETY: as for a constant.
                return Ok(unsafe { slot.borrow(bytes) }.map(|()| slot)?);
            };
            allocation
        }
    };
    let data = place(buffers, allocation, layout.nbytes).ok_or_else(|| {
        let index = allocation.buffer_index;
        let needed = allocation.offset.saturating_add(layout.nbytes);
        let found = buffers.get(index).map_or(0, PlannedBuffer::len);
        TensorFault::Load(LoadError::PlannedMemory { index, needed, found })
    })?;
    // SAFETY: the memory belongs to the method for `'a`, and only its tensors reach it.
    unsafe { slot.place(data, layout.nbytes)? };
    Ok(slot)
}

fn place(buffers: &[PlannedBuffer<'_>], allocation: Allocation, len: usize) -> Option<NonNull<u8>> {
    buffers.get(allocation.buffer_index)?.part(allocation.offset, len)
}

fn delegate<'a>(
    plan: &MethodPlan<'a>,
    index: usize,
    services: &Services<'_, 'a>,
    count: &mut Count<'_>,
) -> Option<DelegateHandle<'a>> {
    let delegate = plan.delegate(index)?;
    let id = delegate.id;
    let backend = services.backends.iter().find(|backend| backend.name() == id);
    let Some(backend) = backend.filter(|backend| backend.is_available()) else {
        count.problem(Problem::BackendMissing { id, known: backend.is_some() });
        return None;
    };
    // Entries may share a blob, which each of them compiles.
    if !count.spend(DELEGATE + delegate.blob.len() / BLOB_BLOCK) {
        return None;
    }
    let source = DelegateSource {
        blob: delegate.blob,
        spec: &|at| delegate.compile_spec(at),
        named_data: &|key| services.data(plan.program(), key),
        memory_limit: services.delegate_limit.unwrap_or(usize::MAX),
        #[cfg(feature = "alloc")]
        prepared: services.prepared,
    };
    match backend.init(&source) {
        Ok(handle) => Some(handle),
        Err(error) => {
            count.problem(Problem::Delegate { id, index, error });
            None
        }
    }
}

fn operator(
    plan: &MethodPlan<'_>,
    index: usize,
    services: &Services<'_, '_>,
    count: &mut Count<'_>,
) -> Option<Kernel> {
    let operator = plan.operator(index)?;
    let kernel = find_kernel(services.kernels, operator.name, operator.overload);
    if kernel.is_none() {
        count.problem(Problem::OperatorMissing { operator });
    }
    kernel.copied()
}

/// What the instructions and the inputs do with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Neither writes it: a constant, state, or a view that the exporter resolved.
    Untouched,
    /// An instruction writes it.
    Written,
    /// An instruction makes it a view of another one, and none writes it.
    Viewed,
    /// It is an input that no instruction writes.
    Input,
}

fn binding(value: u32, values: &[Cell<EValue<'_>>], roles: &mut [Role]) -> Binding {
    let Some(EValue::Tensor(slot)) = values.get(value as usize).map(Cell::get) else {
        return Binding::Scalar { value };
    };
    match roles.get_mut(slot as usize) {
        Some(Role::Written | Role::Viewed) => Binding::Copy { slot },
        Some(role) => {
            *role = Role::Input;
            Binding::Borrow { slot }
        }
        None => Binding::Scalar { value },
    }
}
