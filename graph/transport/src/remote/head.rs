//! First part of what machines send to each other: 32 bytes, little endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version of the protocol |
//! | 1 | kind |
//! | 8 | instance of the sender, u64 |
//! | 16 | instance of the receiver as the sender knows it, u64; 0 if it knows none |
//! | 24 | number of the message in its stream, u64 |
//!
//! | kind | what follows |
//! |---|---|
//! | message | a message of [`frame`](crate::frame) |
//! | hello | [`Hello`] as JSON |
//! | acknowledgments | for each stream its number, u16, and the next expected message, u64 |
//! | ping | time of sending, i64 |
//! | pong | times of sending and arrival of the ping and of sending of the pong, and the start of the session, i64 |

use serde::{Deserialize, Serialize};

use crate::frame::{FrameError, VERSION};

/// Length of the head in bytes.
pub const LINK_HEAD: usize = 32;

/// Kind of what follows the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message = 0,
    Hello = 1,
    Acks = 2,
    Ping = 3,
    Pong = 4,
}

/// The head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkHead {
    pub(super) kind: Kind,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) number: u64,
}

/// First message to a machine, and again whenever something in it changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Next expected message of each stream of the receiver, where any has arrived.
    pub(super) acks: Vec<(u16, u64)>,
    /// Session that the sender runs or will run.
    pub(super) session: Option<SessionInfo>,
    /// True if the sender was greeted, too.
    pub(super) is_up: bool,
}

/// Session of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Start of the session, in nanoseconds since the UNIX epoch.
    pub unix_ns: u64,
    /// True if it has started.
    pub has_started: bool,
}

impl LinkHead {
    pub(super) fn bytes(&self) -> [u8; LINK_HEAD] {
        let mut bytes = [0; LINK_HEAD];
        (bytes[0], bytes[1]) = (VERSION, self.kind as u8);
        for (index, word) in [self.from, self.to, self.number].into_iter().enumerate() {
            bytes[8 + 8 * index..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// # Errors
    /// The field that is wrong.
    pub(super) fn read(bytes: &[u8; LINK_HEAD]) -> Result<Self, FrameError> {
        if bytes[0] != VERSION {
            return Err(FrameError::Version { found: bytes[0] });
        }
        let kinds = [Kind::Message, Kind::Hello, Kind::Acks, Kind::Ping, Kind::Pong];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == bytes[1]);
        let kind = kind.ok_or(FrameError::Kind(bytes[1]))?;
        let [from, to, number] = [8, 16, 24]
            .map(|at| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index])));
        Ok(Self { kind, from, to, number })
    }
}

/// Acknowledgments as bytes.
pub(super) fn acks_bytes(acks: &[(u16, u64)]) -> Vec<u8> {
    acks.iter()
        .flat_map(|(stream, next)| stream.to_le_bytes().into_iter().chain(next.to_le_bytes()))
        .collect()
}

/// Reads acknowledgments.
///
/// # Errors
/// If their length is wrong.
pub(super) fn read_acks(bytes: &[u8]) -> Result<Vec<(u16, u64)>, FrameError> {
    let (acks, []) = bytes.as_chunks::<10>() else {
        return Err(FrameError::Field("acknowledgments have 10 bytes each"));
    };
    let ack = |ack: &[u8; 10]| {
        let next = u64::from_le_bytes(std::array::from_fn(|index| ack[2 + index]));
        (u16::from_le_bytes([ack[0], ack[1]]), next)
    };
    Ok(acks.iter().map(ack).collect())
}

/// Reads numbers of a ping or a pong.
///
/// # Errors
/// If their length is wrong.
pub(super) fn times<const N: usize>(bytes: &[u8]) -> Result<[i64; N], FrameError> {
    match bytes.as_chunks::<8>() {
        (times, []) if times.len() == N => {
            Ok(std::array::from_fn(|index| i64::from_le_bytes(times[index])))
        }
        _ => Err(FrameError::Field("a clock message has the wrong length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_acknowledgments_round_trip_and_are_checked() {
        let head = LinkHead { kind: Kind::Pong, from: 1, to: u64::MAX, number: 1 << 40 };
        let mut bytes = head.bytes();
        assert_eq!(LinkHead::read(&bytes), Ok(head));
        bytes[1] = 9;
        assert_eq!(LinkHead::read(&bytes), Err(FrameError::Kind(9)));
        bytes[0] = 9;
        assert_eq!(LinkHead::read(&bytes), Err(FrameError::Version { found: 9 }));
        let acks = [(0, 7), (u16::MAX, u64::MAX)];
        let mut bytes = acks_bytes(&acks);
        assert_eq!(read_acks(&bytes), Ok(acks.to_vec()));
        bytes.pop();
        assert!(read_acks(&bytes).is_err() && times::<2>(&bytes).is_err());
        assert_eq!(times::<2>(&[1; 16]), Ok([0x0101_0101_0101_0101; 2]));
    }
}
