//! Program files, all their methods, and their memory on the heap.

mod error;
mod file;
mod file_bytes;
mod huge_pages;
mod open_files;
mod packed_constants;
mod saved_file;
mod shared_buffers;
mod signature;
mod state_file;
mod weight_cache_file;

use std::{collections::BTreeMap, iter, path::Path, sync::Arc};

use afferent_core::{AlignedBytes, Backend, Error, KernelLists, Workers};
use afferent_program::{Instruction, MethodPlan, Program, TensorData, Value};
use self_cell::{MutBorrow, self_cell};

use crate::{GlobalHeap, Input, LoadContext, Method, Output, PlannedBuffer, RunError, RunOptions};
use shared_buffers::SharedBuffers;

pub use error::ModelError;
pub use file::ModelFile;
pub use file_bytes::FileAccess;
pub use signature::{Signature, TensorSpec};
pub use state_file::StateFileError;
pub use weight_cache_file::WeightCacheError;

/// Kernels, backends, limits and options of a model.
#[derive(Clone)]
pub struct ModelOptions {
    /// Kernel lists, preferred ones first.
    pub kernels: KernelLists<'static>,
    /// Backends, preferred ones first.
    pub backends: Arc<[Arc<dyn Backend>]>,
    /// Limit in bytes of each of these: planned memory of a method, memory that a method allocates
    /// while it runs, and memory of each delegate for values.
    pub memory_limit: usize,
    /// See [`RunOptions::instruction_limit`].
    pub instruction_limit: u64,
    /// Worker threads that kernels may use. `None` runs everything on the calling thread.
    pub workers: Option<&'static dyn Workers>,
    /// File access of [`Model::open`].
    pub file_access: FileAccess,
    /// Folder of the weight cache, which stores packed weights for later processes. It is created
    /// if it does not exist, and has one file for each model and processor. A file may be deleted
    /// at any time, but not written in place (see [`FileAccess::Map`]).
    pub weight_cache: Option<Arc<Path>>,
    /// Folder with the variants of model packages that were measured as the fastest on this machine
    /// (`afferent model bench`). Without it, the first variant that can run is loaded.
    pub variant_choices: Option<Arc<Path>>,
}

impl afferent_core::Service for ModelOptions {
    const NAME: &'static str = "ModelOptions";
    const HINT: &'static str = "open nodes with `App::open_cx`, or with `OpenCx::with_service(ModelOptions::new(kernels))`";
}

impl ModelOptions {
    /// Options with `kernels`, no backend, the default limits and mapped files.
    pub fn new(kernels: KernelLists<'static>) -> Self {
        Self {
            kernels,
            backends: Arc::from([]),
            memory_limit: 4 << 30,
            instruction_limit: RunOptions::INSTRUCTION_LIMIT,
            workers: None,
            file_access: FileAccess::Map,
            weight_cache: None,
            variant_choices: None,
        }
    }

    /// Adds a backend before the present ones.
    #[must_use]
    pub fn with_backend(self, backend: impl Backend + 'static) -> Self {
        let first: Arc<dyn Backend> = Arc::new(backend);
        let backends = iter::once(first).chain(self.backends.iter().cloned()).collect();
        Self { backends, ..self }
    }

    /// Replaces the backends.
    #[must_use]
    pub fn with_backends(self, backends: impl IntoIterator<Item = Arc<dyn Backend>>) -> Self {
        Self { backends: backends.into_iter().collect(), ..self }
    }

    /// Reason why the backend `name` cannot run on this machine, if it is in the list and tells one.
    pub fn unavailable(&self, name: &str) -> Option<String> {
        let mut backends = self.backends.iter().filter(|backend| backend.name() == name);
        backends.find_map(|backend| backend.unavailable())
    }

    /// True if the backend `name` is in the list and can run on this machine.
    pub fn has_backend(&self, name: &str) -> bool {
        self.backends.iter().any(|backend| backend.name() == name && backend.is_available())
    }
}

/// Instance of a program: its methods and their mutable buffers. Instances of one [`ModelFile`]
/// share only its constants, packed or not.
pub struct Model {
    file: Arc<ModelFile>,
    options: ModelOptions,
    methods: BTreeMap<String, MethodCell>,
    shared_buffers: SharedBuffers,
    /// Bytes of each shared buffer.
    shared_sizes: Vec<usize>,
    weight_cache_errors: Vec<WeightCacheError>,
}

struct Owner {
    file: Arc<ModelFile>,
    memory: MutBorrow<Memory>,
}

struct Memory {
    tables: AlignedBytes,
    planned: AlignedBytes,
    heap: GlobalHeap,
}

self_cell!(
    struct MethodCell {
        owner: Owner,
        #[not_covariant]
        dependent: Method,
    }
);

impl Model {
    /// New instance of `file`. Methods are loaded by [`Model::load_method`] or at their first run.
    pub fn new(file: Arc<ModelFile>, options: ModelOptions) -> Self {
        let shared_sizes = shared_sizes(file.program());
        Self {
            file,
            options,
            methods: BTreeMap::new(),
            shared_buffers: SharedBuffers::default(),
            shared_sizes,
            weight_cache_errors: Vec::new(),
        }
    }

    /// Opens the program at `path`, without data files, and loads its method `forward`.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn open(path: impl AsRef<Path>, options: ModelOptions) -> Result<Self, ModelError> {
        let file = ModelFile::open_with(path, &[], options.file_access)?;
        let mut model = Self::new(file, options);
        model.load_method("forward")?;
        Ok(model)
    }

    /// Program file of the instance.
    pub fn file(&self) -> &Arc<ModelFile> {
        &self.file
    }

    /// Errors of the weight cache. The model runs in spite of them.
    pub fn weight_cache_errors(&self) -> &[WeightCacheError] {
        &self.weight_cache_errors
    }

    /// Options of the instance.
    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// Loads method `name` if it is not loaded yet.
    ///
    /// # Errors
    /// [`ModelError::MethodMissing`], [`ModelError::Memory`], [`ModelError::NoMemory`] and
    /// [`ModelError::Load`].
    pub fn load_method(&mut self, name: &str) -> Result<(), ModelError> {
        if self.methods.contains_key(name) {
            return Ok(());
        }
        let file = Arc::clone(&self.file);
        let plan = file.method(name)?;
        let mut sizes = planned_sizes(&plan);
        for (size, &largest) in sizes.iter_mut().skip(1).zip(&self.shared_sizes) {
            *size = largest;
        }
        let needed = sizes.iter().fold(0, |sum: usize, &size| sum.saturating_add(size));
        let limit = self.options.memory_limit;
        if needed > limit {
            let (path, method) = (file.path().to_owned(), name.to_owned());
            return Err(ModelError::Memory { path, method, needed, limit });
        }
        let zeroed = |needed| {
            let bytes = AlignedBytes::try_zeroed(needed);
            bytes.ok_or_else(|| ModelError::no_memory(&file, name, needed))
        };
        let memory = Memory {
            tables: zeroed(Method::table_bytes(&plan))?,
            planned: zeroed(sizes.first().copied().unwrap_or(0))?,
            heap: GlobalHeap::new(limit),
        };
        let shared = self.shared_buffers.get(&file, name, sizes.get(1..).unwrap_or_default())?;
        let ModelOptions { backends, weight_cache, .. } = &self.options;
        let opened = weight_cache.as_ref().map(|folder| file.open_cache(folder, backends));
        let method = self.build(name, memory, shared)?;
        let written = weight_cache.as_ref().map(|_| file.write_cache(backends));
        let results = opened.into_iter().chain(written);
        self.weight_cache_errors.extend(results.filter_map(Result::err));
        self.methods.insert(name.to_owned(), method);
        Ok(())
    }

    fn build(
        &self,
        name: &str,
        memory: Memory,
        shared: Vec<PlannedBuffer<'static>>,
    ) -> Result<MethodCell, ModelError> {
        let owner = Owner { file: Arc::clone(&self.file), memory: MutBorrow::new(memory) };
        let kernels = self.options.kernels;
        let backends: Vec<&dyn Backend> = self.options.backends.iter().map(|b| &**b).collect();
        MethodCell::try_new(owner, |owner| {
            let named_data = |key: &str| owner.file.named_data(key);
            let context = LoadContext {
                kernels,
                backends: &backends,
                named_data: Some(&named_data),
                external: &[],
                delegate_memory_limit: Some(self.options.memory_limit),
                weight_cache: Some(&*owner.file),
            };
            let Memory { tables, planned, heap } = owner.memory.borrow_mut();
            let own = PlannedBuffer::new(planned.as_mut_slice());
            let buffers = iter::once(own).chain(shared);
            let mut problems = Vec::new();
            let mut report = |problem: crate::Problem<'_>| problems.push(problem.to_string());
            let plan = owner.file.method(name)?;
            let tables = tables.as_mut_slice();
            Method::load(plan, &context, tables, buffers, heap, &mut report).map_err(|error| {
                let (path, method) = (owner.file.path().to_owned(), name.to_owned());
                ModelError::Load { path, method, error, problems }
            })
        })
    }

    /// Runs method `name`, and loads it first if necessary. Outputs may refer to inputs.
    ///
    /// # Errors
    /// [`ModelError::Run`], and those of [`Model::load_method`].
    pub fn run<'s>(
        &'s mut self,
        name: &str,
        inputs: &[Input<'s>],
    ) -> Result<ModelOutputs<'s>, ModelError> {
        let ModelOptions { instruction_limit, workers, .. } = self.options;
        let options = RunOptions { instruction_limit, workers, ..RunOptions::default() };
        self.run_with(name, inputs, &options)
    }

    /// As [`Model::run`], with `options` instead of those of the model.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn run_with<'s>(
        &'s mut self,
        name: &str,
        inputs: &[Input<'s>],
        options: &RunOptions<'_>,
    ) -> Result<ModelOutputs<'s>, ModelError> {
        if !self.methods.contains_key(name) {
            self.load_method(name)?;
        }
        let Some(method) = self.methods.get_mut(name) else {
            self.file.method(name)?;
            unreachable!("the method was loaded above");
        };
        let result = method.with_dependent_mut(|_, method| {
            method.run(inputs, options).map(|_| ()).map_err(|error| ModelError::Run {
                method: name.to_owned(),
                operator: match error {
                    RunError::Instruction { instruction, .. } => {
                        callee(&method.plan(), instruction)
                    }
                    _ => None,
                },
                error,
            })
        });
        result.map(|()| ModelOutputs { method })
    }

    /// Lets delegates leave the outputs of method `name` on their device, and loads the method first
    /// if necessary. [`ModelOutputs::store`] then passes them on without a copy.
    ///
    /// # Errors
    /// Those of [`Model::load_method`].
    pub fn keep_outputs_on_device(&mut self, name: &str) -> Result<(), ModelError> {
        self.load_method(name)?;
        if let Some(method) = self.methods.get_mut(name) {
            method.with_dependent_mut(|_, method| method.keep_outputs_on_device());
        }
        Ok(())
    }

    /// Resets the mutable buffers of all loaded methods, including shared ones, to the state after
    /// loading.
    pub fn reset(&mut self) {
        for method in self.methods.values_mut() {
            method.with_dependent_mut(|_, method| method.reset());
        }
        self.shared_buffers.reset(&self.file);
    }

    /// Calls `visit` for all planned buffers of the loaded methods: their own ones by method, then the
    /// shared ones.
    fn for_each_buffer(&self, mut visit: impl FnMut(&PlannedBuffer<'_>)) {
        for method in self.methods.values() {
            method.with_dependent(|_, method| {
                method.planned.iter().filter(|buffer| !buffer.is_shared()).for_each(&mut visit);
            });
        }
        self.shared_buffers.planned().for_each(|buffer| visit(&buffer));
    }

    /// As [`Self::for_each_buffer`].
    fn for_each_buffer_mut(&mut self, mut visit: impl FnMut(&mut PlannedBuffer<'_>)) {
        for method in self.methods.values_mut() {
            method.with_dependent_mut(|_, method| {
                let own = method.planned.iter_mut().filter(|buffer| !buffer.is_shared());
                own.for_each(&mut visit);
            });
        }
        self.shared_buffers.planned().for_each(|mut buffer| visit(&mut buffer));
    }
}

/// Outputs of a run. They borrow the model until its next run.
pub struct ModelOutputs<'s> {
    method: &'s MethodCell,
}

impl<'s> ModelOutputs<'s> {
    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.method.with_dependent(|_, method| method.outputs().len())
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Output at `index`.
    ///
    /// # Errors
    /// As [`Outputs::get`](crate::Outputs::get).
    pub fn get(&self, index: usize) -> Result<Output<'s>, Error> {
        self.method.with_dependent(|_, method| method.outputs().get(index))
    }

    /// Stores the output tensor at `index` in `to`. Elements on a device stay there.
    ///
    /// # Errors
    /// As [`Outputs::store`](crate::Outputs::store).
    pub fn store(&self, index: usize, to: &mut afferent_core::Tensor) -> Result<(), Error> {
        self.method.with_dependent(|_, method| method.outputs().store(index, to))
    }

    /// Output tensor at `index`.
    ///
    /// # Errors
    /// As [`Outputs::tensor`](crate::Outputs::tensor).
    pub fn tensor(&self, index: usize) -> Result<afferent_core::TensorView<'s>, Error> {
        self.method.with_dependent(|_, method| method.outputs().tensor(index))
    }
}

/// Operator or backend that the instruction at index `instruction` calls, as text; `None` if it
/// calls none.
pub fn callee(plan: &MethodPlan<'_>, instruction: usize) -> Option<String> {
    match plan.instruction(instruction)? {
        Instruction::Kernel { operator, .. } => {
            plan.operator(operator as usize).map(|operator| operator.to_string())
        }
        Instruction::Delegate { delegate, .. } => {
            plan.delegate(delegate as usize).map(|delegate| delegate.id.to_owned())
        }
        _ => None,
    }
}

/// Bytes of each shared planned buffer: the maximum over all methods, so the buffer never moves.
fn shared_sizes(program: &Program<'_>) -> Vec<usize> {
    let mut largest: Vec<usize> = Vec::new();
    for plan in program.methods() {
        let sizes = planned_sizes(&plan);
        largest.resize(largest.len().max(sizes.len().saturating_sub(1)), 0);
        for (largest, size) in largest.iter_mut().zip(sizes.iter().skip(1)) {
            *largest = (*largest).max(*size);
        }
    }
    largest
}

/// Bytes of each planned buffer up to the end of its last tensor. The file may declare more, which
/// is not allocated.
fn planned_sizes(plan: &MethodPlan<'_>) -> Vec<usize> {
    let mut sizes = vec![0; plan.planned_buffer_sizes().len()];
    for value in plan.values() {
        let Value::Tensor(meta) = value else { continue };
        let allocation = match meta.data {
            TensorData::Planned { allocation, .. } => allocation,
            TensorData::External { allocation: Some(allocation), .. } => allocation,
            _ => continue,
        };
        if let Some(size) = sizes.get_mut(allocation.buffer_index) {
            *size = allocation.offset.saturating_add(meta.layout.nbytes).max(*size);
        }
    }
    sizes
}
