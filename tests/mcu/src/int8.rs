//! Networks in int8, exported for the Cortex-M backend.

use afferent_core::KernelLists;
use static_cell::ConstStaticCell;

use crate::network::{Aligned, Failure, Memory, Network};

/// Operators of the keyword spotter.
pub const SPOTTER: [&str; 8] = [
    "cortex_m::dequantize_per_tensor.out",
    "cortex_m::pad.out",
    "cortex_m::quantize_per_tensor.out",
    "cortex_m::quantized_avg_pool2d.out",
    "cortex_m::quantized_conv2d.out",
    "cortex_m::quantized_depthwise_conv2d.out",
    "cortex_m::quantized_linear.out",
    "dim_order_ops::_clone_dim_order.out",
];

/// Operators of the digit classifier.
pub const DIGITS: [&str; 3] = [
    "cortex_m::dequantize_per_tensor.out",
    "cortex_m::quantize_per_tensor.out",
    "cortex_m::quantized_linear.out",
];

/// File of a conformance program, aligned.
macro_rules! file {
    ($name:ident, $path:literal) => {
        static $name: Aligned<{ include_bytes!($path).len() }> = Aligned(*include_bytes!($path));
    };
}

#[cfg(not(cortex_m55))]
mod spotter {
    use super::Aligned;
    file!(PROGRAM, "../../conformance/data/programs/cortex_m4_keyword_spotter/model.pte");
    file!(INPUT, "../../conformance/data/programs/cortex_m4_keyword_spotter/0_in_0.npy");
    file!(EXPECTED, "../../conformance/data/programs/cortex_m4_keyword_spotter/0_out_0.npy");
    pub(super) static FILES: [&[u8]; 3] = [&PROGRAM.0, &INPUT.0, &EXPECTED.0];
}

#[cfg(cortex_m55)]
mod spotter {
    use super::Aligned;
    file!(PROGRAM, "../../conformance/data/programs/cortex_m55_keyword_spotter/model.pte");
    file!(INPUT, "../../conformance/data/programs/cortex_m55_keyword_spotter/0_in_0.npy");
    file!(EXPECTED, "../../conformance/data/programs/cortex_m55_keyword_spotter/0_out_0.npy");
    pub(super) static FILES: [&[u8]; 3] = [&PROGRAM.0, &INPUT.0, &EXPECTED.0];
}

mod digits {
    use super::Aligned;
    file!(PROGRAM, "../../conformance/data/programs/cortex_m4_mlp/model.pte");
    file!(INPUT, "../../conformance/data/programs/cortex_m4_mlp/0_in_0.npy");
    file!(EXPECTED, "../../conformance/data/programs/cortex_m4_mlp/0_out_0.npy");
    pub(super) static FILES: [&[u8]; 3] = [&PROGRAM.0, &INPUT.0, &EXPECTED.0];
}

static TABLES: ConstStaticCell<[u8; 16384]> = ConstStaticCell::new([0; 16384]);
static PLANNED: ConstStaticCell<Aligned<24576>> = ConstStaticCell::new(Aligned([0; 24576]));
static SCRATCH: ConstStaticCell<Aligned<4096>> = ConstStaticCell::new(Aligned([0; 4096]));

/// Loads the keyword spotter and runs it. Of both functions, only one may be called, once.
///
/// # Errors
/// [`Failure`] is the failed step.
pub fn spot(kernels: KernelLists<'static>) -> Result<(), Failure> {
    run(spotter::FILES, &[1, 1, 49, 10], &[0, 2, 3, 1], kernels)
}

/// Loads the digit classifier and runs it. Of both functions, only one may be called, once.
///
/// # Errors
/// [`Failure`] is the failed step.
pub fn classify(kernels: KernelLists<'static>) -> Result<(), Failure> {
    run(digits::FILES, &[1, 784], &[0, 1], kernels)
}

fn run(
    [program, input, expected]: [&'static [u8]; 3],
    sizes: &'static [usize],
    dim_order: &'static [u8],
    kernels: KernelLists<'static>,
) -> Result<(), Failure> {
    let network = Network { program, sizes, dim_order, input, expected };
    let memory = Memory {
        tables: TABLES.take(),
        planned: &mut PLANNED.take().0,
        scratch: &mut SCRATCH.take().0,
    };
    network.run_trusted(kernels, memory, |found, expected| found == expected)
}
