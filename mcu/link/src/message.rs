//! Messages and their bytes.

use crate::Adpcm;

/// Most bytes of ADPCM in a message: 20 ms at 16 kHz.
pub const AUDIO_BYTES: usize = 160;

/// Message of a device. Times count samples since the device started.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// Kind 1: state of the device, once a second.
    Heartbeat {
        /// Samples since the start.
        at: u64,
        /// Samples per second.
        sample_rate: u32,
        /// Samples that the device could not process in time.
        lost_samples: u32,
        /// Failed runs of the network.
        failed_runs: u32,
        /// Voltage of the battery; zero if it is not measured.
        battery_mv: u16,
        /// Charge of the battery; 255 if it is not measured.
        battery_percent: u8,
    },
    /// Kind 2: a phrase was detected.
    Keyword {
        /// End of the sound that decided.
        at: u64,
        /// Mean score.
        score: f32,
        /// Text of the label, at most 32 bytes.
        label: &'a str,
    },
    /// Kind 3: sound after a phrase.
    Audio {
        /// First sample.
        at: u64,
        /// State of the decoder at the first sample.
        start: Adpcm,
        /// Two samples a byte, at most [`AUDIO_BYTES`].
        data: &'a [u8],
    },
}

/// Most bytes of a label.
const MAX_TEXT: usize = 32;

impl<'a> Message<'a> {
    /// Number of the kind.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Heartbeat { .. } => 1,
            Self::Keyword { .. } => 2,
            Self::Audio { .. } => 3,
        }
    }

    /// Passes the bytes of the message to `write`. Texts and sound are cut at their limits.
    pub(crate) fn write(&self, mut write: impl FnMut(&[u8])) {
        match *self {
            Self::Heartbeat {
                at,
                sample_rate,
                lost_samples,
                failed_runs,
                battery_mv,
                battery_percent,
            } => {
                write(&at.to_le_bytes());
                for number in [sample_rate, lost_samples, failed_runs] {
                    write(&number.to_le_bytes());
                }
                write(&battery_mv.to_le_bytes());
                write(&[battery_percent]);
            }
            Self::Keyword { at, score, label } => {
                write(&at.to_le_bytes());
                write(&score.to_bits().to_le_bytes());
                write(label.as_bytes().get(..MAX_TEXT).unwrap_or(label.as_bytes()));
            }
            Self::Audio { at, start, data } => {
                write(&at.to_le_bytes());
                write(&start.predictor.to_le_bytes());
                write(&[start.step]);
                write(data.get(..AUDIO_BYTES).unwrap_or(data));
            }
        }
    }

    /// Message of these bytes; `None` if they are not one.
    pub(crate) fn read(kind: u8, bytes: &'a [u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let message = match kind {
            1 => Self::Heartbeat {
                at: u64::from_le_bytes(rest.take()?),
                sample_rate: u32::from_le_bytes(rest.take()?),
                lost_samples: u32::from_le_bytes(rest.take()?),
                failed_runs: u32::from_le_bytes(rest.take()?),
                battery_mv: u16::from_le_bytes(rest.take()?),
                battery_percent: u8::from_le_bytes(rest.take()?),
            },
            2 => {
                let at = u64::from_le_bytes(rest.take()?);
                let score = f32::from_bits(u32::from_le_bytes(rest.take()?));
                let label = core::str::from_utf8(rest.all()).ok()?;
                Self::Keyword { at, score, label }
            }
            3 => {
                let at = u64::from_le_bytes(rest.take()?);
                let predictor = i16::from_le_bytes(rest.take()?);
                let [step] = rest.take()?;
                Self::Audio { at, start: Adpcm { predictor, step }, data: rest.all() }
            }
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

/// Bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn all(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
}
