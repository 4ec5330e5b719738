//! Code size of the loader and the executor of trusted programs, without operators and messages.

#![no_std]
#![no_main]

use afferent_core::KernelLists;
use afferent_mcu::{end, int8::DIGITS, network::Failure};
use afferent_runtime::TrustedError;
use cortex_m_rt::entry;

static LISTS: KernelLists<'static> = &[];

#[entry]
fn main() -> ! {
    // Load fails, because the program needs operators.
    let result = DIGITS.run(LISTS);
    end(matches!(result, Err(Failure::Trusted(TrustedError::OperatorMissing { .. }))))
}
