//! Code size with eight operators, without messages.

#![no_std]
#![no_main]

use afferent_core::{Kernel, select_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{
    end,
    float_mlp::{OPERATORS, run},
};
use cortex_m_rt::entry;

static SELECTED: [Kernel; 8] = select_kernels(KERNELS, OPERATORS);

#[entry]
fn main() -> ! {
    end(run(&[&[&SELECTED]]).is_ok())
}
