//! No operator, no messages: loader and executor alone.

#![no_std]
#![no_main]

use afferent_core::{Kernel, pick_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{Failure, end, run};
use cortex_m_rt::entry;

static PICKED: [Kernel; 0] = pick_kernels(KERNELS, []);

#[entry]
fn main() -> ! {
    // The program needs more operators than that, and says so.
    end(matches!(run(&[&[&PICKED]]), Err(Failure::Load(_))))
}
