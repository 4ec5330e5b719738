//! The listening device on an nRF52840 with a PDM microphone. It builds, but was not run.
//!
//! | pin | signal |
//! |---|---|
//! | P0.25 | clock of the microphone, 1.032 MHz |
//! | P0.24 | data of the microphone |
//! | P0.06 | line to the host, 460,800 Bd |
//!
//! The processor sleeps between two blocks. The watchdog resets the chip if blocks stay away.

#![no_std]
#![no_main]

use core::panic::PanicInfo;

use afferent_device::{BLOCK, Device, FlashNetwork, Line, Memory};
use cortex_m_rt::entry;
use embassy_executor::Executor;
use embassy_nrf::{
    bind_interrupts,
    pdm::{self, Pdm, SamplerState},
    peripherals::{PDM, UARTE0},
    uarte::{self, Baudrate, UarteTx},
    wdt::{self, Watchdog, WatchdogHandle},
};
use static_cell::{ConstStaticCell, StaticCell};

bind_interrupts!(struct Interrupts {
    PDM => pdm::InterruptHandler<PDM>;
    UARTE0 => uarte::InterruptHandler<UARTE0>;
});

/// Bytes with the alignment of a program.
#[repr(C, align(16))]
struct Aligned<const N: usize>([u8; N]);

const MODEL: &[u8] =
    include_bytes!("../../../../pipelines/models/wake_word_int8/wake_word_int8.pte");
static PROGRAM: Aligned<{ MODEL.len() }> =
    Aligned(*include_bytes!("../../../../pipelines/models/wake_word_int8/wake_word_int8.pte"));
static MEMORY: ConstStaticCell<Memory> = ConstStaticCell::new(Memory::new());
static DEVICE: StaticCell<Listener> = StaticCell::new();
static EXECUTOR: StaticCell<Executor> = StaticCell::new();
static BLOCKS: ConstStaticCell<[[i16; BLOCK]; 2]> = ConstStaticCell::new([[0; BLOCK]; 2]);

type Listener = Device<FlashNetwork<'static>, Uart>;

/// Ticks of 32,768 Hz until the watchdog resets the chip.
const WATCHDOG_TICKS: u32 = 32_768;

/// Transmitter of a UART. The calls take frames from RAM, as its DMA needs them.
struct Uart(UarteTx<'static>);

impl Line for Uart {
    fn write(&mut self, bytes: &[u8]) {
        // Errors are those of the length and the location of the bytes, which a frame does not have.
        let _ = self.0.blocking_write_from_ram(bytes);
    }
}

#[entry]
fn main() -> ! {
    let chip = embassy_nrf::init(embassy_nrf::config::Config::default());
    let mut line = uarte::Config::default();
    line.baudrate = Baudrate::Baud460800;
    let uart = Uart(UarteTx::new(chip.UARTE0, Interrupts, chip.P0_06, line));
    let config = pdm::Config::default();
    let microphone = Pdm::new(chip.PDM, Interrupts, chip.P0_25, chip.P0_24, config);
    let mut config = wdt::Config::default();
    config.timeout_ticks = WATCHDOG_TICKS;
    let watchdog = Watchdog::try_new::<_, 1>(chip.WDT, config);
    let Some(memory) = MEMORY.try_take() else { halt() };
    // SAFETY: the program is part of the image, as the exporter wrote it.
    let network = unsafe { FlashNetwork::load(&PROGRAM.0, memory) };
    let (Ok(network), Ok((_, [watchdog]))) = (network, watchdog) else { halt() };
    let device = DEVICE.init_with(|| Device::new(network, uart));
    EXECUTOR.init(Executor::new()).run(|spawner| {
        if let Ok(task) = listen(device, microphone, watchdog) {
            spawner.spawn(task);
        }
    })
}

/// Hears each block within the 10 ms of the next one.
#[embassy_executor::task]
async fn listen(
    device: &'static mut Listener,
    mut microphone: Pdm<'static>,
    mut watchdog: WatchdogHandle,
) {
    let heard = microphone.run_task_sampler(BLOCKS.take(), |block| {
        device.hear(block, 0);
        watchdog.pet();
        SamplerState::Sampled
    });
    // It ends only if the microphone runs already; then the watchdog resets the chip.
    let _ = heard.await;
}

/// Waits for the watchdog.
fn halt() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    halt()
}
