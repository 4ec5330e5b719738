//! Firmware: a program in flash, arenas of fixed size, and no heap.
//!
//! | binary   | purpose                                                                    |
//! |----------|----------------------------------------------------------------------------|
//! | `mlp`    | runs a program with eight operators and compares its output with PyTorch's |
//! | `size_8` | the same without messages: code size with eight operators                  |
//! | `size_1` | code size with one operator                                                |
//! | `size_0` | code size of loader and executor                                           |

#![no_std]

use core::panic::PanicInfo;

use afferent_core::{KernelLists, TensorView};
use afferent_runtime::{
    FixedScratch, Input, LoadContext, LoadError, Method, PlannedBuffer, RunError, RunOptions,
    program::{Program, ProgramError},
};
use cortex_m_semihosting::debug::{EXIT_FAILURE, EXIT_SUCCESS, exit};
use static_cell::ConstStaticCell;

/// Operators of the program.
pub const OPERATORS: [&str; 8] = [
    "aten::_softmax.out",
    "aten::addmm.out",
    "aten::gelu.out",
    "aten::mul.out",
    "aten::native_layer_norm.out",
    "aten::permute_copy.out",
    "aten::relu.out",
    "aten::sigmoid.out",
];

/// Bytes with the alignment of programs and planned memory.
#[repr(C, align(16))]
struct Aligned<const N: usize>([u8; N]);

/// Program in flash. Its constants are read from there.
static PROGRAM: Aligned<{ FILE.len() }> = Aligned(*FILE);
const FILE: &[u8; 7216] = include_bytes!("../../conformance/data/programs/mlp/model.pte");

/// Input and output of PyTorch: NPY files of f32.
const INPUT: &[u8] = include_bytes!("../../conformance/data/programs/mlp/0_in_0.npy");
const EXPECTED: &[u8] = include_bytes!("../../conformance/data/programs/mlp/0_out_0.npy");

/// Tolerance of the conformance test.
const TOLERANCE: f32 = 1e-5;

/// Arenas of the caller.
static TABLES: ConstStaticCell<[u8; 8192]> = ConstStaticCell::new([0; 8192]);
static PLANNED: ConstStaticCell<Aligned<1536>> = ConstStaticCell::new(Aligned([0; 1536]));
static SCRATCH: ConstStaticCell<Aligned<1024>> = ConstStaticCell::new(Aligned([0; 1024]));

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
}

/// Memory use and output of a run.
#[derive(Debug)]
pub struct Report {
    /// Bytes of tables.
    pub tables: usize,
    /// Bytes of planned memory.
    pub planned: usize,
    /// Output, and that of PyTorch.
    pub outputs: [[f32; 12]; 2],
}

impl Report {
    /// Returns true if the output matches that of PyTorch within the tolerance.
    pub fn matches(&self) -> bool {
        let [found, expected] = &self.outputs;
        let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= TOLERANCE * (1.0 + b.abs());
        found.iter().zip(expected).all(is_close)
    }
}

/// Loads the program and runs it. Must be called only once, because it takes the arenas.
///
/// # Errors
/// [`Failure`] is the failed step.
pub fn run(kernels: KernelLists<'_>) -> Result<Report, Failure> {
    let program = Program::parse(&PROGRAM.0).map_err(Failure::Program)?;
    let plan = program.method("forward").ok_or(Failure::Method)?;
    let memory = &mut PLANNED.take().0;
    let planned = plan.planned_buffer_sizes().get(0).ok_or(Failure::Method)?;
    let buffer = memory.get_mut(..planned).ok_or(Failure::Planned(planned))?;
    let buffer = PlannedBuffer::new(buffer);
    let context = LoadContext { kernels, ..LoadContext::default() };
    let mut scratch = FixedScratch(&mut SCRATCH.take().0);
    let (tables, buffers) = (TABLES.take(), core::iter::once(buffer));
    let mut method = Method::load(plan, &context, tables, buffers, &mut scratch, &mut |_| {})
        .map_err(Failure::Load)?;

    let input: [f32; 24] = npy(INPUT);
    let view = TensorView::new(&[3, 8], &input).map_err(|_| Failure::Tensor)?;
    let outputs = method.run(&[Input::Tensor(view)], &RunOptions::default());
    let output = outputs.map_err(Failure::Run)?.tensor(0).map_err(|_| Failure::Tensor)?;
    let found = output.data::<f32>().ok().and_then(|data| data.try_into().ok());
    let outputs = [found.ok_or(Failure::Tensor)?, npy(EXPECTED)];
    Ok(Report { tables: Method::table_bytes(&plan), planned, outputs })
}

/// Reads the `N` numbers of an NPY file of f32.
fn npy<const N: usize>(file: &[u8]) -> [f32; N] {
    let data = file.get(file.len().saturating_sub(4 * N)..).unwrap_or_default();
    let mut numbers = [0.0; N];
    for (number, bytes) in numbers.iter_mut().zip(data.chunks_exact(4)) {
        *number = bytes.first_chunk().map_or(0.0, |&bytes| f32::from_le_bytes(bytes));
    }
    numbers
}

/// Ends the emulation.
pub fn end(success: bool) -> ! {
    loop {
        exit(if success { EXIT_SUCCESS } else { EXIT_FAILURE });
    }
}

/// Prints nothing, so that a build without messages contains no formatting code.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    end(false)
}
