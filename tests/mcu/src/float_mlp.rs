//! MLP in f32 with eight operators.

use afferent_core::KernelLists;
use static_cell::ConstStaticCell;

use crate::network::{Aligned, Failure, Memory, Network, Report};

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

static PROGRAM: Aligned<7216> =
    Aligned(*include_bytes!("../../conformance/data/programs/mlp/model.pte"));
static INPUT: Aligned<224> =
    Aligned(*include_bytes!("../../conformance/data/programs/mlp/0_in_0.npy"));
static EXPECTED: Aligned<176> =
    Aligned(*include_bytes!("../../conformance/data/programs/mlp/0_out_0.npy"));

/// Tolerance of the conformance test.
const TOLERANCE: f32 = 1e-5;

static TABLES: ConstStaticCell<[u8; 8192]> = ConstStaticCell::new([0; 8192]);
static PLANNED: ConstStaticCell<Aligned<1536>> = ConstStaticCell::new(Aligned([0; 1536]));
static SCRATCH: ConstStaticCell<Aligned<1024>> = ConstStaticCell::new(Aligned([0; 1024]));

/// Loads the program and runs it. Of both functions, only one may be called, once.
///
/// # Errors
/// [`Failure`] is the failed step.
pub fn run(kernels: KernelLists<'_>) -> Result<Report, Failure> {
    NETWORK.run(kernels, memory(), matches)
}

/// As [`run`], with the loader for trusted programs. Returns the bytes of the tables.
///
/// # Errors
/// [`Failure`] is the failed step.
pub fn run_trusted(kernels: KernelLists<'static>) -> Result<usize, Failure> {
    NETWORK.run_trusted(kernels, memory(), matches)
}

static NETWORK: Network = Network {
    program: &PROGRAM.0,
    sizes: &[3, 8],
    dim_order: &[0, 1],
    input: &INPUT.0,
    expected: &EXPECTED.0,
};

fn memory() -> Memory {
    Memory { tables: TABLES.take(), planned: &mut PLANNED.take().0, scratch: &mut SCRATCH.take().0 }
}

/// Returns true if all numbers are within the tolerance.
fn matches(found: &[u8], expected: &[u8]) -> bool {
    let number = |bytes: &[u8], at: usize| {
        let number = bytes.chunks_exact(4).nth(at).and_then(|bytes| bytes.first_chunk());
        number.map_or(f32::NAN, |&bytes| f32::from_le_bytes(bytes))
    };
    (0..expected.len() / 4).all(|at| {
        let (a, b) = (number(found, at), number(expected, at));
        (a - b).abs() <= TOLERANCE * (1.0 + b.abs())
    })
}
