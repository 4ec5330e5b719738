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

/// Instructions of one run.
pub const INSTRUCTION_LIMIT: u64 = 2_000;

/// What became of methods.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Refused while they were loaded.
    pub refused: usize,
    /// Failed while they ran.
    pub failed: usize,
    /// Ran to their end.
    pub ran: usize,
}

/// Bytes that may be allocated for a file: a multiple of its size, its planned memory included,
/// and what small files need for tables and first scratch memory. A model is told half of it as
/// its limit.
pub fn allowance(file: usize) -> usize {
    64 * file + (1 << 20)
}

/// Loads every method of a program and runs it some times, on inputs of the shapes that it names.
///
/// Memory of the inputs is given back between runs, so that a run that reads what an earlier one
/// borrowed is found by a sanitizer.
pub fn program(bytes: &[u8], seed: u64) -> Tally {
    let copying =
        ["XnnpackBackend", "First"].map(|name| Arc::new(Copying(name)) as Arc<dyn Backend>);
    program_on(bytes, seed, copying)
}

/// As [`program`], with delegates that really compute.
pub fn delegated(bytes: &[u8], seed: u64) -> Tally {
    program_on(bytes, seed, [Arc::new(Xnnpack) as Arc<dyn Backend>])
}

fn program_on(
    bytes: &[u8],
    seed: u64,
    backends: impl IntoIterator<Item = Arc<dyn Backend>>,
) -> Tally {
    let mut tally = Tally::default();
    let Ok(file) = ModelFile::from_bytes("hostile.pte", bytes) else {
        tally.refused += 1;
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
            tally.refused += 1;
            continue;
        }
        for round in 0..3 {
            let Ok(plan) = file.method(name) else { continue };
            let tensors = inputs(&plan, allowance(bytes.len()), round, seed);
            match model.run(name, &as_inputs(&plan, &tensors)) {
                Ok(outputs) => {
                    (0..outputs.len()).filter_map(|at| outputs.get(at).ok()).for_each(read);
                    tally.ran += 1;
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

/// As [`program`], with a data file, and in memory that is exactly as long as it must be.
pub fn program_with_data(program: &[u8], data: &[u8], seed: u64) -> Tally {
    let mut tally = Tally::default();
    let (Ok(program), Ok(data)) = (Program::parse(program), ExternalData::parse(data)) else {
        tally.refused += 1;
        return tally;
    };
    for plan in program.methods().take(8) {
        in_arenas(plan, &[data], seed, &mut tally);
    }
    tally
}

fn in_arenas(plan: MethodPlan<'_>, external: &[ExternalData<'_>], seed: u64, tally: &mut Tally) {
    const LIMIT: usize = 1 << 20;
    let sizes: Vec<usize> = plan.planned_buffer_sizes().iter().take(64).collect();
    let needed = Method::table_bytes(&plan);
    if needed.max(sizes.iter().fold(0, |sum, &size| sum.saturating_add(size))) > LIMIT {
        tally.refused += 1;
        return;
    }
    let mut tables = vec![0_u8; needed];
    // Rounded up, so that memory is aligned as the program asks for.
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
        tally.refused += 1;
        return;
    };
    let options = RunOptions { instruction_limit: INSTRUCTION_LIMIT, ..RunOptions::default() };
    for round in 0..3 {
        let tensors = inputs(&plan, LIMIT, round, seed);
        match method.run(&as_inputs(&plan, &tensors), &options) {
            Ok(outputs) => {
                (0..outputs.len()).filter_map(|at| outputs.get(at).ok()).for_each(read);
                tally.ran += 1;
            }
            Err(_) => tally.failed += 1,
        }
    }
}

/// Reads all of a result.
fn read(output: Output<'_>) {
    let bytes = match output {
        Output::Tensor(view) => view.bytes(),
        Output::Str(text) => text.as_bytes(),
        _ => &[],
    };
    std::hint::black_box(bytes.iter().fold(0_u8, |sum, &byte| sum ^ byte));
}

/// Tensors of the shapes that the method names, zeros in the first round; `None` where it takes no
/// tensor, or a huge one.
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
            // Small numbers, whatever the dtype, so that indices are often right.
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

/// A backend that copies, under the names that the seeds use: what a delegate gets is under test.
pub const BACKENDS: &[&dyn Backend] = &[&Copying("XnnpackBackend"), &Copying("First")];

struct Copying(&'static str);

impl Backend for Copying {
    fn name(&self) -> &'static str {
        self.0
    }

    fn is_available(&self) -> bool {
        true
    }

    fn init<'a>(&self, source: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
        let specs = (0..4).filter_map(source.spec).count();
        let inputs = source.blob.len() % 4 + specs;
        Ok(DelegateHandle::Owned(Box::new(CopyingDelegate { inputs })))
    }
}

struct CopyingDelegate {
    inputs: usize,
}

impl Delegate for CopyingDelegate {
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
