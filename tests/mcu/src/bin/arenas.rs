//! Prints the memory of the networks in int8.

#![no_std]
#![no_main]

use afferent_core::{Kernel, KernelLists, select_kernels};
use afferent_kernels::KERNELS;
use afferent_mcu::{
    end,
    int8::{DIGITS, MOBILENET, MOBILENET_OPERATORS, SPOTTER, SPOTTER_OPERATORS},
};
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;

static OF_SPOTTER: [Kernel; 8] = select_kernels(KERNELS, SPOTTER_OPERATORS);
static OF_MOBILENET: [Kernel; 8] = select_kernels(KERNELS, MOBILENET_OPERATORS);
static LISTS: KernelLists<'static> = &[&[&OF_SPOTTER, &OF_MOBILENET]];

#[entry]
fn main() -> ! {
    let networks = [("keyword_spotter", &SPOTTER), ("mobilenet", &MOBILENET), ("digits", &DIGITS)];
    for (name, network) in networks {
        match network.report(LISTS) {
            Ok(report) => hprintln!("{} {} {}", name, report.tables, report.planned),
            Err(failure) => {
                hprintln!("{} {:?}", name, failure);
                end(false)
            }
        }
    }
    end(true)
}
