//! Runs a program with eight operators and compares its output with PyTorch's.

#![no_std]
#![no_main]

use afferent_core::{Kernel, select_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{OPERATORS, end, run};
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;

static SELECTED: [Kernel; 8] = select_kernels(KERNELS, OPERATORS);

#[entry]
fn main() -> ! {
    let matches = match run(&[&[&SELECTED]]) {
        Ok(report) => {
            let [found, expected] = &report.outputs;
            hprintln!("tables {} bytes, planned {} bytes", report.tables, report.planned);
            hprintln!("output  {:?}", found);
            hprintln!("PyTorch {:?}", expected);
            report.matches()
        }
        Err(failure) => {
            hprintln!("{:?}", failure);
            false
        }
    };
    hprintln!("{}", if matches { "the output matches PyTorch" } else { "FAILED" });
    end(matches)
}
