//! UART of the CMSDK, which both boards have.

use afferent_device::Line;

/// Transmitter of a UART.
pub struct Uart {
    registers: *mut u32,
}

/// Address of the first UART.
const FIRST: usize = if cfg!(cortex_m55) { 0x5930_3000 } else { 0x4000_4000 };
/// Registers, in words, and their bits.
const DATA: usize = 0;
const STATE: usize = 1;
const CONTROL: usize = 2;
const BAUD: usize = 4;
const TRANSMITTER_FULL: u32 = 1;
const TRANSMITTER_ON: u32 = 1;
/// Clock cycles of a bit; the emulator does not need them to be right.
const CYCLES_PER_BIT: u32 = 16;

impl Uart {
    /// The first UART.
    pub fn first() -> Self {
        let registers = FIRST as *mut u32;
        // SAFETY: the board has these registers at this address.
        unsafe {
            registers.add(BAUD).write_volatile(CYCLES_PER_BIT);
            registers.add(CONTROL).write_volatile(TRANSMITTER_ON);
        }
        Self { registers }
    }
}

impl Line for Uart {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // SAFETY: as in `first`.
            unsafe {
                while self.registers.add(STATE).read_volatile() & TRANSMITTER_FULL != 0 {}
                self.registers.add(DATA).write_volatile(byte.into());
            }
        }
    }
}
