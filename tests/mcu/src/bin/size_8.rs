//! Eight operators, no messages.

#![no_std]
#![no_main]

use afferent_core::{Kernel, pick_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{OPERATORS, end, run};
use cortex_m_rt::entry;

static PICKED: [Kernel; 8] = pick_kernels(KERNELS, OPERATORS);

#[entry]
fn main() -> ! {
    end(run(&[&[&PICKED]]).is_ok_and(|report| report.holds()))
}
