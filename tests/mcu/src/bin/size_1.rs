//! One operator, no messages.

#![no_std]
#![no_main]

use afferent_core::{Kernel, pick_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{Failure, end, run};
use cortex_m_rt::entry;

static PICKED: [Kernel; 1] = pick_kernels(KERNELS, ["aten::relu.out"]);

#[entry]
fn main() -> ! {
    // The program needs more operators than that, and says so.
    end(matches!(run(&[&[&PICKED]]), Err(Failure::Load(_))))
}
