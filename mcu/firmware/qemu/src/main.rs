//! The listening device on emulated boards: mps2-an386 (Cortex-M4F) and mps3-an547 (Cortex-M55).
//!
//! | argument of semihosting | meaning |
//! |---|---|
//! | 1 | name of the program, ignored |
//! | 2 | WAV file that the microphone hears: 16 bits, mono, 16 kHz, 44 bytes of header |
//! | 3, `live` | the sound takes its time, and silence follows it without end |
//!
//! Without `live` the emulation ends after the file. The first UART is the line to the host.

#![no_std]
#![no_main]

mod sound_file;
mod uart;

use core::panic::PanicInfo;

use afferent_device::{Device, FlashNetwork, Memory};
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::debug::{EXIT_FAILURE, EXIT_SUCCESS, exit};
use static_cell::ConstStaticCell;

use sound_file::SoundFile;
use uart::Uart;

/// Bytes with the alignment of a program.
#[repr(C, align(16))]
struct Aligned<const N: usize>([u8; N]);

const MODEL: &[u8] =
    include_bytes!("../../../../pipelines/models/wake_word_int8/wake_word_int8.pte");
static PROGRAM: Aligned<{ MODEL.len() }> =
    Aligned(*include_bytes!("../../../../pipelines/models/wake_word_int8/wake_word_int8.pte"));
static MEMORY: ConstStaticCell<Memory> = ConstStaticCell::new(Memory::new());

#[entry]
fn main() -> ! {
    let Some(memory) = MEMORY.try_take() else { end(false) };
    // SAFETY: the program is part of the image, as the exporter wrote it.
    let network = unsafe { FlashNetwork::load(&PROGRAM.0, memory) };
    let (Ok(network), Some(mut sound)) = (network, SoundFile::open()) else { end(false) };
    let mut device = Device::new(network, Uart::first());
    let mut block = [0; afferent_device::BLOCK];
    while let Some(lost) = afferent_device::Microphone::read(&mut sound, &mut block) {
        mark_begin();
        device.hear(&block, lost);
        mark_end();
    }
    end(true)
}

/// Begins a region in which the plugin of `tests/mcu` counts instructions.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn mark_begin() {
    core::hint::black_box(1_u32);
}

/// Ends the region.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn mark_end() {
    core::hint::black_box(2_u32);
}

/// Wakes the processor for the next block.
#[exception]
fn SysTick() {}

/// Ends the emulation.
fn end(success: bool) -> ! {
    loop {
        exit(if success { EXIT_SUCCESS } else { EXIT_FAILURE });
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    end(false)
}
