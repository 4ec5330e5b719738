//! Frames: COBS, checksum, sequence number.

use core::{error::Error, fmt};

use crate::{MAX_PAYLOAD, Message, VERSION, crc::crc};

/// Version, kind and sequence number.
const HEADER: usize = 4;
const CHECKSUM: usize = 2;
/// Bytes of the largest frame before its encoding. COBS has one byte for 254 then.
const MAX_BYTES: usize = HEADER + MAX_PAYLOAD + CHECKSUM;

/// Bytes of the largest frame on the line.
pub const MAX_FRAME: usize = MAX_BYTES + 2;

/// Encodes the messages of a device.
#[derive(Debug, Clone, Default)]
pub struct Encoder {
    sequence: u16,
}

impl Encoder {
    /// Encoder of a new sequence, which begins with zero.
    pub const fn new() -> Self {
        Self { sequence: 0 }
    }

    /// Writes the frame of `message` into `frame`, and returns its bytes.
    pub fn encode<'f>(
        &mut self,
        message: &Message<'_>,
        frame: &'f mut [u8; MAX_FRAME],
    ) -> &'f [u8] {
        let mut bytes = [0; MAX_BYTES];
        let mut len = 0;
        let mut append = |part: &[u8]| {
            for (to, &from) in bytes.iter_mut().skip(len).zip(part) {
                *to = from;
                len += 1;
            }
        };
        append(&[VERSION, message.kind()]);
        append(&self.sequence.to_le_bytes());
        message.write(&mut append);
        self.sequence = self.sequence.wrapping_add(1);
        let checksum = crc(bytes.get(..len).unwrap_or_default()).to_le_bytes();
        for (to, from) in bytes.iter_mut().skip(len).zip(checksum) {
            *to = from;
        }
        len += CHECKSUM;
        let len = stuff(bytes.get(..len).unwrap_or_default(), frame);
        frame.get(..len).unwrap_or_default()
    }
}

/// Writes `bytes` in COBS, and a zero. There are fewer than 255 of them.
fn stuff(bytes: &[u8], frame: &mut [u8; MAX_FRAME]) -> usize {
    let mut end = 0;
    // Position of the byte that tells the distance to the next zero.
    let mut code = 0;
    for (at, byte) in bytes.iter().copied().chain([0]).enumerate() {
        end = at + 1;
        if byte == 0 {
            if let Some(position) = frame.get_mut(code) {
                *position = (end - code) as u8;
            }
            code = end;
        }
        if let Some(position) = frame.get_mut(end) {
            *position = byte;
        }
    }
    end + 1
}

/// Message, and the number of messages that were lost before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame<'a> {
    /// The message.
    pub message: Message<'a>,
    /// Missing sequence numbers.
    pub lost: u16,
}

/// Bytes that are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Noise on the line: no frame, or a wrong checksum.
    Garbage,
    /// A frame of another version of the protocol.
    Version(u8),
    /// A valid frame with an unknown message.
    Unknown {
        /// Kind of the message.
        kind: u8,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbage => write!(f, "noise on the line"),
            Self::Version(version) => write!(
                f,
                "the device speaks version {version} of the protocol, this program version \
                 {VERSION}; update the older one"
            ),
            Self::Unknown { kind } => write!(f, "unknown message of kind {kind}"),
        }
    }
}

impl Error for Fault {}

/// Decodes the messages of a device. After noise it finds the next frame by its zero byte.
#[derive(Debug, Clone)]
pub struct Decoder {
    bytes: [u8; MAX_FRAME],
    len: usize,
    is_too_long: bool,
    /// Sequence number of the next frame; `None` before the first.
    next: Option<u16>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Decoder of a new connection.
    pub const fn new() -> Self {
        Self { bytes: [0; MAX_FRAME], len: 0, is_too_long: false, next: None }
    }

    /// Adds a byte; returns the frame or the fault that it completes.
    pub fn push(&mut self, byte: u8) -> Option<Result<Frame<'_>, Fault>> {
        if byte != 0 {
            match self.bytes.get_mut(self.len) {
                Some(free) => *free = byte,
                None => self.is_too_long = true,
            }
            self.len = (self.len + 1).min(MAX_FRAME);
            return None;
        }
        let (len, is_too_long) = (core::mem::take(&mut self.len), self.is_too_long);
        self.is_too_long = false;
        // Zeros between frames are allowed: a device may send one to end noise.
        if len == 0 {
            return None;
        }
        if is_too_long {
            return Some(Err(Fault::Garbage));
        }
        Some(self.decode(len))
    }

    fn decode(&mut self, len: usize) -> Result<Frame<'_>, Fault> {
        let Self { bytes, next, .. } = self;
        let stuffed = bytes.get_mut(..len).unwrap_or_default();
        let frame = &*unstuff(stuffed).ok_or(Fault::Garbage)?;
        let (checked, checksum) = frame.split_last_chunk::<CHECKSUM>().ok_or(Fault::Garbage)?;
        if crc(checked) != u16::from_le_bytes(*checksum) {
            return Err(Fault::Garbage);
        }
        let (&[version, kind, low, high], payload) =
            checked.split_first_chunk::<HEADER>().ok_or(Fault::Garbage)?;
        if version != VERSION {
            return Err(Fault::Version(version));
        }
        let sequence = u16::from_le_bytes([low, high]);
        let expected = next.replace(sequence.wrapping_add(1)).unwrap_or(sequence);
        let message = Message::read(kind, payload).ok_or(Fault::Unknown { kind })?;
        Ok(Frame { message, lost: sequence.wrapping_sub(expected) })
    }
}

/// Decodes COBS in place; `None` if it is not.
fn unstuff(bytes: &mut [u8]) -> Option<&mut [u8]> {
    let mut code = 0;
    while code < bytes.len() {
        let position = bytes.get_mut(code)?;
        let distance = usize::from(*position);
        *position = 0;
        if distance == 0 || distance == 255 {
            return None;
        }
        code += distance;
    }
    if code == bytes.len() { bytes.get_mut(1..) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Adpcm;

    fn messages() -> Vec<Message<'static>> {
        vec![
            Message::Heartbeat {
                at: 1 << 40,
                sample_rate: 16_000,
                lost_samples: 3,
                failed_runs: 0,
                battery_mv: 3700,
                battery_percent: 80,
            },
            Message::Keyword { at: 640, score: 0.75, label: "hey afferent" },
            Message::Keyword { at: 0, score: 0.0, label: "" },
            Message::Audio {
                at: 9,
                start: Adpcm { predictor: -5, step: 44 },
                data: &[0; crate::AUDIO_BYTES],
            },
            Message::Audio { at: 9, start: Adpcm::default(), data: &[1, 0, 255, 0, 0] },
        ]
    }

    /// Decodes `line`; returns the messages as text, the lost ones, and the faults.
    fn decode(line: &[u8]) -> (Vec<String>, u32, Vec<Fault>) {
        let (mut decoder, mut found) = (Decoder::new(), (Vec::new(), 0, Vec::new()));
        for &byte in line {
            match decoder.push(byte) {
                Some(Ok(Frame { message, lost })) => {
                    found.0.push(format!("{message:?}"));
                    found.1 += u32::from(lost);
                }
                Some(Err(fault)) => found.2.push(fault),
                None => {}
            }
        }
        found
    }

    fn frames() -> (Vec<Vec<u8>>, Vec<String>) {
        let mut encoder = Encoder::new();
        let mut encode =
            |message: &Message<'_>| encoder.encode(message, &mut [0; MAX_FRAME]).to_vec();
        let frames = messages().iter().map(&mut encode).collect();
        (frames, messages().iter().map(|message| format!("{message:?}")).collect())
    }

    #[test]
    fn messages_arrive() {
        let (frames, expected) = frames();
        assert!(frames.iter().all(|frame| !frame[..frame.len() - 1].contains(&0)));
        assert_eq!(decode(&frames.concat()), (expected, 0, vec![]));
    }

    #[test]
    fn lost_frames_are_counted() {
        let (mut frames, mut expected) = frames();
        frames.drain(1..3);
        expected.drain(1..3);
        assert_eq!(decode(&frames.concat()), (expected, 2, vec![]));
    }

    #[test]
    fn garbage_is_skipped() {
        let (mut frames, expected) = frames();
        frames.insert(1, vec![7; 1000]);
        frames[1].push(0);
        frames.insert(3, vec![3, 1, 4, 1, 5, 0, 0, 0]);
        let faults = vec![Fault::Garbage; 2];
        assert_eq!(decode(&frames.concat()), (expected, 0, faults));
    }

    #[test]
    fn any_changed_byte_is_found() {
        let (frames, expected) = frames();
        for (at, frame) in frames.iter().enumerate() {
            for position in 0..frame.len() - 1 {
                let mut line = frames.clone();
                line[at][position] ^= 0x41;
                let (found, _, faults) = decode(&line.concat());
                assert!(!faults.is_empty(), "frame {at}, byte {position}");
                assert!(found.len() < expected.len());
                assert!(found.iter().all(|message| expected.contains(message)));
            }
        }
    }

    #[test]
    fn random_bytes_are_no_messages() {
        let mut random = 1_u32;
        let line = (0..100_000).map(|_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8 & if random & 0x80_0000 == 0 { 15 } else { 255 }
        });
        let (found, _, faults) = decode(&line.collect::<Vec<_>>());
        assert!(found.is_empty() && faults.len() > 1000, "{found:?}");
    }

    /// Frame with these bytes before the checksum.
    fn raw(bytes: &[u8]) -> Vec<u8> {
        let checked = [bytes, &crc(bytes).to_le_bytes()].concat();
        let mut frame = [0; MAX_FRAME];
        let len = stuff(&checked, &mut frame);
        frame[..len].to_vec()
    }

    #[test]
    fn other_versions_and_messages_are_refused() {
        assert_eq!(decode(&raw(&[2, 1, 0, 0])).2, [Fault::Version(2)]);
        assert_eq!(decode(&raw(&[1, 9, 0, 0])).2, [Fault::Unknown { kind: 9 }]);
        // A heartbeat without its end, and one with a byte too many.
        for len in [22, 24] {
            let bytes = [&[1, 1, 0, 0][..], &vec![0; len]].concat();
            assert_eq!(decode(&raw(&bytes)).2, [Fault::Unknown { kind: 1 }]);
        }
        assert!(Fault::Version(2).to_string().contains("version 2 of the protocol"));
    }

    #[test]
    fn long_texts_are_cut() {
        let label = &"a".repeat(100);
        let message = Message::Keyword { at: 0, score: 0.0, label };
        let frame = Encoder::new().encode(&message, &mut [0; MAX_FRAME]).to_vec();
        let expected = Message::Keyword { at: 0, score: 0.0, label: &label[..32] };
        assert_eq!(decode(&frame).0, [format!("{expected:?}")]);
    }
}
