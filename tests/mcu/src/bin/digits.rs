//! Digit classifier in int8, without messages: code size and instructions.

#![no_std]
#![no_main]

use afferent_core::{Kernel, KernelLists, select_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{
    end,
    int8::{DIGITS, DIGITS_OPERATORS},
};
use cortex_m_rt::entry;

static SELECTED: [Kernel; 3] = select_kernels(KERNELS, DIGITS_OPERATORS);
static LISTS: KernelLists<'static> = &[&[&SELECTED]];

#[entry]
fn main() -> ! {
    end(DIGITS.run(LISTS).is_ok())
}
