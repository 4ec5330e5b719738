//! Firmware: a program in flash, arenas of fixed size, and no heap.
//!
//! | binary            | purpose                                                                    |
//! |-------------------|----------------------------------------------------------------------------|
//! | `mlp`             | runs a program with eight operators and compares its output with PyTorch's |
//! | `keyword_spotter` | runs a DS-CNN in int8, between marks that count instructions               |
//! | `digits`          | the same for an MLP in int8                                                |
//! | `mobilenet`       | the same for MobileNetV2 in int8, width 0.35, 96 pixels                    |
//! | `arenas`          | prints the memory of these three networks                                  |
//! | `size_8`          | as `mlp` without messages: code size with eight operators of `f32`         |
//! | `size_8_trusted`  | the same for trusted programs                                              |
//! | `size_1`          | code size with one operator                                                |
//! | `size_0`          | code size of loader and executor                                           |
//! | `size_trusted`    | code size of those for trusted programs                                    |

#![no_std]

use core::panic::PanicInfo;

use cortex_m_semihosting::debug::{EXIT_FAILURE, EXIT_SUCCESS, exit};

pub mod float_mlp;
pub mod int8;
pub mod marks;
pub mod network;

/// Ends the emulation.
pub fn end(success: bool) -> ! {
    loop {
        exit(if success { EXIT_SUCCESS } else { EXIT_FAILURE });
    }
}

/// Prints nothing, so that a build without messages contains no formatting code.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    end(false)
}
