//! Samples in, messages out.

use afferent_link::{AUDIO_BYTES, Adpcm, Encoder, MAX_FRAME, Message};
use afferent_wake::{Detected, Listener, Network};

use crate::recent::Recent;

/// Samples of a block: 10 ms.
pub const BLOCK: usize = 160;

/// Samples of 16 bits at 16 kHz.
pub type Block = [i16; BLOCK];

/// Source of samples.
pub trait Microphone {
    /// Waits for the next block, in the sleep of the processor. Returns the number of samples that
    /// were lost before it, or `None` after the last block.
    fn read(&mut self, block: &mut Block) -> Option<u32>;
}

/// Line to the host: a UART, USB, a radio.
pub trait Line {
    /// Writes all bytes. Without a host, they are dropped.
    fn write(&mut self, bytes: &[u8]);
}

/// Blocks from one heartbeat to the next.
const HEARTBEAT_BLOCKS: u32 = 100;

/// Measured state of the battery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Battery {
    /// Voltage; zero if it is not measured.
    pub millivolts: u16,
    /// Charge; 255 if it is not measured.
    pub percent: u8,
}

impl Battery {
    /// No measurement.
    pub const UNKNOWN: Self = Self { millivolts: 0, percent: 255 };
}

/// Device that listens for phrases and tells a host.
///
/// After the label [`Device::WAKE_LABEL`] it also sends sound: [`Device::BEFORE_MS`] from before the
/// detection, and [`Device::SOUND_MS`] from after it. A heartbeat goes out at the start and then once a
/// second.
pub struct Device<N, L> {
    listener: Listener<N>,
    line: L,
    encoder: Encoder,
    frame: [u8; MAX_FRAME],
    recent: Recent,
    sound: Adpcm,
    /// Next block of sound to be sent, and the end of those.
    next_sound: u64,
    end_sound: u64,
    /// Number of blocks.
    blocks: u64,
    /// Blocks until the next heartbeat.
    until_heartbeat: u32,
    lost_samples: u32,
    failed_runs: u32,
    battery: Battery,
}

impl<N: Network, L: Line> Device<N, L> {
    /// Label after which the device sends sound: "hey afferent".
    pub const WAKE_LABEL: usize = 1;
    /// Sound before a detection.
    pub const BEFORE_MS: u32 = 10 * Recent::BLOCKS as u32;
    /// Sound after a detection.
    pub const SOUND_MS: u32 = 8000;

    /// Device that begins to listen.
    pub fn new(network: N, line: L) -> Self {
        Self {
            listener: Listener::new(network),
            line,
            encoder: Encoder::new(),
            frame: [0; MAX_FRAME],
            recent: Recent::new(),
            sound: Adpcm::default(),
            next_sound: 0,
            end_sound: 0,
            blocks: 0,
            until_heartbeat: 0,
            lost_samples: 0,
            failed_runs: 0,
            battery: Battery::UNKNOWN,
        }
    }

    /// Hears everything that a microphone records. `after_block` is called every 10 ms of sound:
    /// it resets a watchdog.
    pub fn run(&mut self, microphone: &mut impl Microphone, mut after_block: impl FnMut()) {
        let mut block = [0; BLOCK];
        while let Some(lost) = microphone.read(&mut block) {
            self.hear(&block, lost);
            after_block();
        }
    }

    /// Hears a block, before which `lost` samples were lost.
    pub fn hear(&mut self, block: &Block, lost: u32) {
        self.lost_samples = self.lost_samples.saturating_add(lost);
        if self.until_heartbeat == 0 {
            self.until_heartbeat = HEARTBEAT_BLOCKS;
            self.send_heartbeat();
        }
        self.until_heartbeat -= 1;
        self.recent.keep(self.blocks, block);
        self.blocks += 1;
        let mut detected: Option<Detected> = None;
        if self.listener.push(block, |step| detected = step.detected).is_err() {
            self.failed_runs = self.failed_runs.saturating_add(1);
        }
        if let Some(Detected { label, score }) = detected {
            let text = Listener::LABELS.get(label).map_or("", |(text, _)| text);
            self.send(&Message::Keyword { at: self.blocks * BLOCK as u64, score, label: text });
            if label == Self::WAKE_LABEL {
                let oldest = self.blocks.saturating_sub(Recent::BLOCKS as u64);
                self.next_sound = self.next_sound.max(oldest);
                self.end_sound = self.blocks + u64::from(Self::SOUND_MS / 10);
            }
        }
        // Two, so that the sound from before the detection does not delay the rest for long.
        for _ in 0..2 {
            if self.next_sound < self.end_sound.min(self.blocks) {
                self.send_sound();
            }
        }
    }

    /// Sets the state of the battery that heartbeats have.
    pub fn set_battery(&mut self, battery: Battery) {
        self.battery = battery;
    }

    /// The line.
    pub fn line(&mut self) -> &mut L {
        &mut self.line
    }

    fn send_heartbeat(&mut self) {
        self.send(&Message::Heartbeat {
            at: self.blocks * BLOCK as u64,
            sample_rate: Listener::SAMPLE_RATE,
            lost_samples: self.lost_samples,
            failed_runs: self.failed_runs,
            battery_mv: self.battery.millivolts,
            battery_percent: self.battery.percent,
        });
    }

    /// Sends the next block of sound.
    fn send_sound(&mut self) {
        let start = self.sound;
        let mut data = [0; BLOCK / 2];
        let block = self.recent.get(self.next_sound);
        for (byte, &pair) in data.iter_mut().zip(block.as_chunks::<2>().0) {
            *byte = self.sound.encode(pair);
        }
        self.send(&Message::Audio { at: self.next_sound * BLOCK as u64, start, data: &data });
        self.next_sound += 1;
    }

    fn send(&mut self, message: &Message<'_>) {
        self.line.write(self.encoder.encode(message, &mut self.frame));
    }
}

const _: () = assert!(BLOCK / 2 <= AUDIO_BYTES);
