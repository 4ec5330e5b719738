//! Networks in int8, exported for the Cortex-M backend.

use afferent_core::KernelLists;
use static_cell::ConstStaticCell;

use crate::network::{Aligned, Failure, Memory, Network, Report};

/// Operators of the keyword spotter.
pub const SPOTTER_OPERATORS: [&str; 8] = [
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
pub const DIGITS_OPERATORS: [&str; 3] = [
    "cortex_m::dequantize_per_tensor.out",
    "cortex_m::quantize_per_tensor.out",
    "cortex_m::quantized_linear.out",
];

/// Operators of MobileNetV2.
pub const MOBILENET_OPERATORS: [&str; 8] = [
    "cortex_m::dequantize_per_tensor.out",
    "cortex_m::quantize_per_tensor.out",
    "cortex_m::quantized_add.out",
    "cortex_m::quantized_avg_pool2d.out",
    "cortex_m::quantized_conv2d.out",
    "cortex_m::quantized_depthwise_conv2d.out",
    "cortex_m::quantized_linear.out",
    "dim_order_ops::_clone_dim_order.out",
];

/// File of a conformance program, aligned.
macro_rules! file {
    ($name:ident, $path:literal $(, $section:meta)?) => {
        $(#[$section])?
        pub(super) static $name: Aligned<{ include_bytes!($path).len() }> = Aligned(*include_bytes!($path));
    };
}

#[cfg(not(cortex_m55))]
mod spotter {
    use super::Aligned;
    file!(PROGRAM, "../../conformance/data/programs/cortex_m4_keyword_spotter/model.pte");
    file!(INPUT, "../../conformance/data/programs/cortex_m4_keyword_spotter/0_in_0.npy");
    file!(EXPECTED, "../../conformance/data/programs/cortex_m4_keyword_spotter/0_out_0.npy");
}

#[cfg(cortex_m55)]
mod spotter {
    use super::Aligned;
    file!(PROGRAM, "../../conformance/data/programs/cortex_m55_keyword_spotter/model.pte");
    file!(INPUT, "../../conformance/data/programs/cortex_m55_keyword_spotter/0_in_0.npy");
    file!(EXPECTED, "../../conformance/data/programs/cortex_m55_keyword_spotter/0_out_0.npy");
}

mod digits {
    use super::Aligned;
    file!(PROGRAM, "../../conformance/data/programs/cortex_m4_mlp/model.pte");
    file!(INPUT, "../../conformance/data/programs/cortex_m4_mlp/0_in_0.npy");
    file!(EXPECTED, "../../conformance/data/programs/cortex_m4_mlp/0_out_0.npy");
}

mod mobilenet {
    use super::Aligned;
    file!(
        PROGRAM,
        "../../conformance/data/programs/cortex_m55_mobilenet_v2/model.pte",
        unsafe(link_section = ".model")
    );
    file!(INPUT, "../../conformance/data/programs/cortex_m55_mobilenet_v2/0_in_0.npy");
    file!(EXPECTED, "../../conformance/data/programs/cortex_m55_mobilenet_v2/0_out_0.npy");
}

/// A network with arenas of its own.
pub struct Example {
    network: Network,
    memory: fn() -> Memory,
}

/// An example whose arenas have these sizes.
macro_rules! example {
    ($module:ident, $sizes:expr, $dim_order:expr, $tables:literal, $planned:literal) => {
        Example {
            network: Network {
                program: &$module::PROGRAM.0,
                sizes: &$sizes,
                dim_order: &$dim_order,
                input: &$module::INPUT.0,
                expected: &$module::EXPECTED.0,
            },
            memory: || {
                static TABLES: ConstStaticCell<Aligned<$tables>> =
                    ConstStaticCell::new(Aligned([0; $tables]));
                static PLANNED: ConstStaticCell<Aligned<$planned>> =
                    ConstStaticCell::new(Aligned([0; $planned]));
                static SCRATCH: ConstStaticCell<Aligned<8192>> =
                    ConstStaticCell::new(Aligned([0; 8192]));
                Memory {
                    tables: &mut TABLES.take().0,
                    planned: &mut PLANNED.take().0,
                    scratch: &mut SCRATCH.take().0,
                }
            },
        }
    };
}

/// Keyword spotter.
pub static SPOTTER: Example = example!(spotter, [1, 1, 49, 10], [0, 2, 3, 1], 16384, 24576);

/// Digit classifier.
pub static DIGITS: Example = example!(digits, [1, 784], [0, 1], 4096, 8192);

/// MobileNetV2. The file is for an M55, whose sums of weights other processors need not.
pub static MOBILENET: Example = example!(mobilenet, [1, 3, 96, 96], [0, 2, 3, 1], 65536, 163840);

impl Example {
    /// Loads the network, runs it and compares the output. Returns the bytes of the tables. Must be
    /// called only once.
    ///
    /// # Errors
    /// [`Failure`] is the failed step.
    pub fn run(&self, kernels: KernelLists<'static>) -> Result<usize, Failure> {
        self.network.run_trusted(kernels, (self.memory)(), |found, expected| found == expected)
    }

    /// As [`Example::run`], and reports the memory.
    ///
    /// # Errors
    /// [`Failure`] is the failed step.
    pub fn report(&self, kernels: KernelLists<'static>) -> Result<Report, Failure> {
        let tables = self.run(kernels)?;
        let planned = self.network.planned_bytes(kernels).ok_or(Failure::Method)?;
        Ok(Report { tables, planned })
    }
}
