//! Code size of loader and executor, without operators and messages.

#![no_std]
#![no_main]

use afferent_core::{Kernel, select_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{end, float_mlp::run, network::Failure};
use cortex_m_rt::entry;

static SELECTED: [Kernel; 0] = select_kernels(KERNELS, []);

#[entry]
fn main() -> ! {
    // Load fails, because the program needs more operators.
    end(matches!(run(&[&[&SELECTED]]), Err(Failure::Load(_))))
}
