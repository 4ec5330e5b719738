//! Microphone that hears a file of the machine on which the emulator runs.

use afferent_device::{BLOCK, Block, Microphone};
use cortex_m::peripheral::{Peripherals, SYST, syst::SystClkSource};
use cortex_m_semihosting::syscall;

/// Sound file, opened by semihosting.
pub struct SoundFile {
    file: usize,
    /// Timer of live sound.
    timer: Option<SYST>,
}

/// Semihosting call that tells the command line.
const SYS_GET_CMDLINE: usize = 0x15;
/// Mode `rb` of the call that opens files.
const READ_BINARY: usize = 1;
const WAV_HEADER: usize = 44;
/// Clock cycles in 10 ms.
const BLOCK_CYCLES: u32 = if cfg!(cortex_m55) { 320_000 } else { 250_000 };

impl SoundFile {
    /// Opens the file that the command line names.
    pub fn open() -> Option<Self> {
        let mut line = [0_u8; 256];
        let call = [line.as_mut_ptr() as usize, line.len()];
        // SAFETY: the call writes a text of at most `line.len()` bytes, and its length.
        if unsafe { cortex_m_semihosting::syscall(SYS_GET_CMDLINE, &call) } != 0 {
            return None;
        }
        let mut words = line.split_mut(|&byte| byte == 0).next()?.split_mut(|&byte| byte == b' ');
        let (path, is_live) = (words.nth(1)?, words.next().is_some_and(|word| word == b"live"));
        // The call needs a zero at the end.
        let mut name = [0_u8; 256];
        let len = path.len().min(name.len() - 1);
        for (to, from) in name.iter_mut().zip(path.iter().take(len)) {
            *to = *from;
        }
        // SAFETY: `name` has a zero after its `len` bytes.
        let file = unsafe { syscall!(OPEN, name.as_ptr(), READ_BINARY, len) };
        let mut sound = Self { file, timer: None };
        let mut header = [0; WAV_HEADER];
        if file == usize::MAX || sound.fill(&mut header) > 0 {
            return None;
        }
        if is_live {
            let mut timer = Peripherals::take()?.SYST;
            timer.set_clock_source(SystClkSource::Core);
            timer.set_reload(BLOCK_CYCLES - 1);
            timer.clear_current();
            timer.enable_counter();
            timer.enable_interrupt();
            sound.timer = Some(timer);
        }
        Some(sound)
    }

    /// Reads `bytes`; returns the number of those that are missing at the end of the file.
    fn fill(&mut self, bytes: &mut [u8]) -> usize {
        // SAFETY: the call writes at most `bytes.len()` bytes.
        unsafe { syscall!(READ, self.file, bytes.as_mut_ptr(), bytes.len()) }
    }
}

impl Microphone for SoundFile {
    fn read(&mut self, block: &mut Block) -> Option<u32> {
        if let Some(timer) = &mut self.timer {
            while !timer.has_wrapped() {
                cortex_m::asm::wfi();
            }
        }
        let mut bytes = [0; 2 * BLOCK];
        let missing = self.fill(&mut bytes);
        if missing >= bytes.len() && self.timer.is_none() {
            return None;
        }
        for (sample, &pair) in block.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *sample = i16::from_le_bytes(pair);
        }
        Some(0)
    }
}
