//! Code size of a trusted program with eight operators of `f32`, without messages.

#![no_std]
#![no_main]

use afferent_core::{Kernel, KernelLists, select_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{
    end,
    float_mlp::{OPERATORS, run_trusted},
};
use cortex_m_rt::entry;

static SELECTED: [Kernel; 8] = select_kernels(KERNELS, OPERATORS);
static LISTS: KernelLists<'static> = &[&[&SELECTED]];

#[entry]
fn main() -> ! {
    end(run_trusted(LISTS).is_ok())
}
