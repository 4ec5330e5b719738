//! Loads a file and runs its methods, within limits.

use std::sync::Arc;

use afferent_backend_xnnpack::Xnnpack;
use afferent_core::{
    Args, Backend, Delegate, DelegateHandle, DelegateSource, Dynamism, Error, KernelContext,
    ScalarType, Tensor,
};
use afferent_runtime::{
    GlobalHeap, Input, LoadContext, Method, Model, ModelFile, ModelOptions, Output, PlannedBuffer,
    RunOptions,
    program::{ExternalData, MethodPlan, Program, Value},
};

use crate::Random;

/// Maximum instructions of a run.
pub const INSTRUCTION_LIMIT: u64 = 2_000;

/// Counts of methods by outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Methods, or files, that were rejected at load.
    pub rejected: usize,
    /// Runs that returned an error.
    pub failed: usize,
    /// Runs that completed.
    pub completed: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.rejected += other.rejected;
        self.failed += other.failed;
        self.completed += other.completed;
    }
}

/// Bytes that a file of `file_bytes` bytes may allocate, including planned memory. The constant
/// covers tables and scratch memory of small files. Half of it is the memory limit of the model.
pub fn allowance(file_bytes: usize) -> usize {
    64 * file_bytes + (1 << 20)
}

/// Loads each method of a program and runs it three times, on inputs of the shapes that it states.
/// Delegates copy their inputs.
///
/// The inputs are freed between runs, so that a sanitizer detects a run that reads memory of an
/// earlier one.
pub fn program(bytes: &[u8], seed: u64) -> Tally {
    let backends =
        ["XnnpackBackend", "First"].map(|name| Arc::new(CopyBackend(name)) as Arc<dyn Backend>);
    program_with_backends(bytes, seed, backends)
}

/// As [`program`], with XNNPACK delegates.
pub fn program_with_xnnpack(bytes: &[u8], seed: u64) -> Tally {
    program_with_backends(bytes, seed, [Arc::new(Xnnpack) as Arc<dyn Backend>])
}

/// As [`program`], with Vulkan delegates on the device that `AFFERENT_GPU` names.
///
/// # Panics
/// Without a device, where the test would pass whatever the backend does.
#[cfg(feature = "vulkan")]
pub fn program_with_vulkan(bytes: &[u8], seed: u64) -> Tally {
    use std::sync::OnceLock;

    use afferent_backend_vulkan::Vulkan;
    use afferent_gpu::{Gpu, GpuOptions};

    static BACKEND: OnceLock<Arc<Vulkan>> = OnceLock::new();
    let backend = BACKEND.get_or_init(|| {
        let backend = Vulkan::new(Gpu::new(GpuOptions::from_env()));
        assert!(backend.is_available(), "there is no Vulkan device");
        Arc::new(backend)
    });
    program_with_backends(bytes, seed, [backend.clone() as Arc<dyn Backend>])
}

fn program_with_backends(
    bytes: &[u8],
    seed: u64,
    backends: impl IntoIterator<Item = Arc<dyn Backend>>,
) -> Tally {
    let mut tally = Tally::default();
    let Ok(file) = ModelFile::from_bytes("hostile.pte", bytes) else {
        tally.rejected += 1;
        return tally;
    };
    let options = ModelOptions {
        memory_limit: allowance(bytes.len()) / 2,
        instruction_limit: INSTRUCTION_LIMIT,
        ..ModelOptions::new(afferent_kernels::KERNELS).with_backends(backends)
    };
    let names: Vec<String> = file.program().method_names().take(8).map(str::to_owned).collect();
    let mut model = Model::new(file.clone(), options);
    for name in &names {
        if model.load_method(name).is_err() {
            tally.rejected += 1;
            continue;
        }
        for round in 0..3 {
            let Ok(plan) = file.method(name) else { continue };
            let tensors = inputs(&plan, allowance(bytes.len()), round, seed);
            match model.run(name, &as_inputs(&plan, &tensors)) {
                Ok(outputs) => {
                    (0..outputs.len()).filter_map(|at| outputs.get(at).ok()).for_each(read_output);
                    tally.completed += 1;
                }
                Err(error) => {
                    assert!(error.code() > 0 && !error.to_string().is_empty());
                    tally.failed += 1;
                }
            }
        }
    }
    tally
}

/// As [`program`], with a data file and buffers of exactly the required size.
pub fn program_with_data(program: &[u8], data: &[u8], seed: u64) -> Tally {
    let mut tally = Tally::default();
    let (Ok(program), Ok(data)) = (Program::parse(program), ExternalData::parse(data)) else {
        tally.rejected += 1;
        return tally;
    };
    for plan in program.methods().take(8) {
        run_in_arenas(plan, &[data], seed, &mut tally);
    }
    tally
}

fn run_in_arenas(
    plan: MethodPlan<'_>,
    external: &[ExternalData<'_>],
    seed: u64,
    tally: &mut Tally,
) {
    const LIMIT: usize = 1 << 20;
    let sizes: Vec<usize> = plan.planned_buffer_sizes().iter().take(64).collect();
    let needed = Method::table_bytes(&plan);
    if needed.max(sizes.iter().fold(0, |sum, &size| sum.saturating_add(size))) > LIMIT {
        tally.rejected += 1;
        return;
    }
    let mut tables = vec![0_u8; needed];
    // Whole words, which have the alignment that the program requires.
    let mut memory: Vec<Vec<u128>> = sizes.iter().map(|size| vec![0; size.div_ceil(16)]).collect();
    let buffers = memory
        .iter_mut()
        .zip(&sizes)
        .map(|(words, &size)| PlannedBuffer::new(&mut bytemuck::cast_slice_mut(words)[..size]));
    let kernels = afferent_kernels::KERNELS;
    let context = LoadContext { kernels, backends: BACKENDS, external, ..LoadContext::default() };
    let mut heap = GlobalHeap::new(LIMIT);
    let mut report = |problem: afferent_runtime::Problem<'_>| drop(problem.to_string());
    let method = Method::load(plan, &context, &mut tables, buffers, &mut heap, &mut report);
    let Ok(mut method) = method else {
        tally.rejected += 1;
        return;
    };
    let options = RunOptions { instruction_limit: INSTRUCTION_LIMIT, ..RunOptions::default() };
    for round in 0..3 {
        let tensors = inputs(&plan, LIMIT, round, seed);
        match method.run(&as_inputs(&plan, &tensors), &options) {
            Ok(outputs) => {
                (0..outputs.len()).filter_map(|at| outputs.get(at).ok()).for_each(read_output);
                tally.completed += 1;
            }
            Err(_) => tally.failed += 1,
        }
    }
}

/// Reads all bytes of an output.
fn read_output(output: Output<'_>) {
    let bytes = match output {
        Output::Tensor(view) => view.bytes(),
        Output::Str(text) => text.as_bytes(),
        _ => &[],
    };
    std::hint::black_box(bytes.iter().fold(0_u8, |sum, &byte| sum ^ byte));
}

/// Input tensors of the shapes that the method states: zeros in the first round, smaller than the
/// upper bound in the third. `None` for an input that is not a tensor or exceeds the limit.
fn inputs(plan: &MethodPlan<'_>, limit: usize, round: u64, seed: u64) -> Vec<Option<Tensor>> {
    let mut random = Random(seed ^ round);
    let mut left = limit;
    let mut input = |id: u32| {
        let Value::Tensor(meta) = plan.value(id as usize) else { return None };
        let unbounded = meta.dynamism == Dynamism::Unbounded;
        let dtype = if unbounded { ScalarType::Float } else { meta.layout.dtype };
        let shrink = meta.dynamism != Dynamism::Static && round == 2;
        let sizes = meta.layout.sizes.iter();
        let sizes: Vec<usize> =
            sizes.map(|size| if shrink { size.div_ceil(2) } else { size }).collect();
        let len = afferent_core::numel(&sizes)?.checked_mul(dtype.size())?;
        left = left.checked_sub(len)?;
        let mut bytes = vec![0; len];
        if round > 0 {
            // Bytes of 0 and 1 give small integers, which are often valid indices.
            bytes.iter_mut().for_each(|byte| *byte = u8::from(random.once_in(5)));
        }
        Tensor::from_bytes(dtype, &sizes, meta.layout.dim_order, &bytes).ok()
    };
    plan.inputs().iter().take(64).map(&mut input).collect()
}

fn as_inputs<'t>(plan: &MethodPlan<'_>, tensors: &'t [Option<Tensor>]) -> Vec<Input<'t>> {
    let input = |(id, tensor): (u32, &'t Option<Tensor>)| match (tensor, plan.value(id as usize)) {
        (Some(tensor), _) => Input::Tensor(tensor.view()),
        (_, Value::Int(value)) => Input::Int(value),
        (_, Value::Double(value)) => Input::Double(value),
        (_, Value::Bool(value)) => Input::Bool(value),
        _ => Input::Int(1),
    };
    plan.inputs().iter().zip(tensors).map(input).collect()
}

/// Backends under the names that the seeds use. Their delegates only read and write arguments.
pub const BACKENDS: &[&dyn Backend] = &[&CopyBackend("XnnpackBackend"), &CopyBackend("First")];

struct CopyBackend(&'static str);

impl Backend for CopyBackend {
    fn name(&self) -> &'static str {
        self.0
    }

    fn is_available(&self) -> bool {
        true
    }

    fn init<'a>(&self, source: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
        let specs = (0..4).filter_map(source.spec).count();
        let inputs = source.blob.len() % 4 + specs;
        Ok(DelegateHandle::Owned(Box::new(CopyDelegate { inputs })))
    }
}

struct CopyDelegate {
    inputs: usize,
}

impl Delegate for CopyDelegate {
    fn num_inputs(&self) -> usize {
        self.inputs
    }

    fn execute(&mut self, cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
        let mut sum = cx.scratch::<u8>(16)?.len() as u8;
        for index in 0..self.inputs {
            sum = args.tensor(index)?.bytes().iter().fold(sum, |sum, &byte| sum ^ byte);
        }
        for index in self.inputs..args.len() {
            args.out(index)?.bytes_mut()?.fill(sum);
        }
        Ok(())
    }
}
