//! A program in flash with an input and its output.

use afferent_core::{KernelLists, ScalarType, TensorView};
use afferent_runtime::{
    FixedScratch, Input, LoadContext, LoadError, Method, PlannedBuffer, RunError, RunOptions,
    TrustedError, TrustedMethod,
    program::{Program, ProgramError},
};

use crate::marks::{mark_begin, mark_end};

/// Bytes with the alignment of programs, tensors and planned memory.
#[repr(C, align(16))]
pub struct Aligned<const N: usize>(pub [u8; N]);

/// Bytes before the elements of an NPY file with a short header.
const NPY_HEADER: usize = 128;

/// Program with one input and one output of dtype f32.
pub struct Network {
    /// The program file, aligned.
    pub program: &'static [u8],
    /// Sizes of the input.
    pub sizes: &'static [usize],
    /// Dim order of the input.
    pub dim_order: &'static [u8],
    /// NPY file of the input, aligned.
    pub input: &'static [u8],
    /// NPY file of the output of PyTorch, aligned.
    pub expected: &'static [u8],
}

/// Arenas of the caller.
pub struct Memory {
    /// Tables of the method.
    pub tables: &'static mut [u8],
    /// Planned memory, aligned.
    pub planned: &'static mut [u8],
    /// Scratch memory of kernels.
    pub scratch: &'static mut [u8],
}

/// Failed step of a run.
#[derive(Debug)]
pub enum Failure {
    /// The program is invalid.
    Program(ProgramError),
    /// The program has no method `forward`.
    Method,
    /// The planned memory, in bytes, exceeds the arena.
    Planned(usize),
    /// The method cannot be loaded.
    Load(LoadError),
    /// The run failed.
    Run(RunError),
    /// Input or output is not a tensor of the expected size.
    Tensor,
    /// The trusted method failed.
    Trusted(TrustedError),
    /// The output differs from that of PyTorch.
    Output,
}

/// Memory use of a run.
#[derive(Debug)]
pub struct Report {
    /// Bytes of tables.
    pub tables: usize,
    /// Bytes of planned memory.
    pub planned: usize,
}

impl Network {
    /// Elements of an NPY file.
    fn elements(file: &[u8]) -> &[u8] {
        file.get(NPY_HEADER..).unwrap_or_default()
    }

    /// Planned memory of the program in bytes; `None` if it is not a valid trusted program.
    pub fn planned_bytes(&self, kernels: KernelLists<'static>) -> Option<usize> {
        // SAFETY: the program is part of the image, as the exporter wrote it.
        let method = unsafe {
            TrustedMethod::load(self.program, "forward", kernels, &mut [], &mut [], &mut [])
        };
        match method.err()? {
            TrustedError::Planned { needed } => Some(needed as usize),
            _ => None,
        }
    }

    /// As [`Network::run`], with the loader for trusted programs. The marks enclose the load, then
    /// the run. Returns the bytes of the tables.
    ///
    /// # Errors
    /// [`Failure`] is the failed step.
    pub fn run_trusted(
        &self,
        kernels: KernelLists<'static>,
        memory: Memory,
        matches: fn(&[u8], &[u8]) -> bool,
    ) -> Result<usize, Failure> {
        let Memory { tables, planned, scratch } = memory;
        let table_bytes = tables.len();
        mark_begin();
        // SAFETY: the program is part of the image, as the exporter wrote it.
        let method = unsafe {
            TrustedMethod::load(self.program, "forward", kernels, tables, planned, scratch)
        };
        mark_end();
        let mut method = method.map_err(Failure::Trusted)?;
        let mut input = method.input(0).map_err(Failure::Trusted)?;
        let input = input.bytes_mut().map_err(|_| Failure::Tensor)?;
        let elements = Self::elements(self.input).get(..input.len()).ok_or(Failure::Tensor)?;
        input.copy_from_slice(elements);
        mark_begin();
        let result = method.run();
        mark_end();
        result.map_err(Failure::Trusted)?;
        let output = method.output(0).map_err(Failure::Trusted)?;
        if matches(output.bytes(), Self::elements(self.expected)) {
            Ok(table_bytes - method.free_table_bytes())
        } else {
            Err(Failure::Output)
        }
    }

    /// Loads the program, runs it, and compares the output with `matches`.
    ///
    /// # Errors
    /// [`Failure`] is the failed step.
    pub fn run(
        &self,
        kernels: KernelLists<'_>,
        memory: Memory,
        matches: fn(&[u8], &[u8]) -> bool,
    ) -> Result<Report, Failure> {
        let program = Program::parse(self.program).map_err(Failure::Program)?;
        let plan = program.method("forward").ok_or(Failure::Method)?;
        let planned = plan.planned_buffer_sizes().get(0).ok_or(Failure::Method)?;
        let buffer = memory.planned.get_mut(..planned).ok_or(Failure::Planned(planned))?;
        let buffers = core::iter::once(PlannedBuffer::new(buffer));
        let context = LoadContext { kernels, ..LoadContext::default() };
        let mut scratch = FixedScratch(memory.scratch);
        let mut method =
            Method::load(plan, &context, memory.tables, buffers, &mut scratch, &mut |_| {})
                .map_err(Failure::Load)?;

        let input = Self::elements(self.input);
        let view = TensorView::with_dim_order(ScalarType::Float, self.sizes, self.dim_order, input);
        let inputs = [Input::Tensor(view.map_err(|_| Failure::Tensor)?)];
        let outputs = method.run(&inputs, &RunOptions::default());
        let output = outputs.map_err(Failure::Run)?.tensor(0).map_err(|_| Failure::Tensor)?;
        if !matches(output.bytes(), Self::elements(self.expected)) {
            return Err(Failure::Output);
        }
        Ok(Report { tables: Method::table_bytes(&plan), planned })
    }
}
