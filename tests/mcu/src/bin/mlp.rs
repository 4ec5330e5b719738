//! Runs a program with eight operators and compares its output with PyTorch's.

#![no_std]
#![no_main]

use afferent_core::{Kernel, select_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{
    end,
    float_mlp::{OPERATORS, run},
};
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;

static SELECTED: [Kernel; 8] = select_kernels(KERNELS, OPERATORS);

#[entry]
fn main() -> ! {
    let result = run(&[&[&SELECTED]]);
    match &result {
        Ok(report) => {
            hprintln!("tables {} bytes, planned {} bytes", report.tables, report.planned);
            hprintln!("the output matches PyTorch");
        }
        Err(failure) => hprintln!("{:?}", failure),
    }
    end(result.is_ok())
}
