//! Messages between processes: a head of 64 bytes, little endian, and what follows it.
//!
//! | bytes | packet, watermark, end, skip | acknowledgment |
//! |---|---|---|
//! | 0 | version | version |
//! | 1 | kind | kind |
//! | 2 | index of the edge, u16 | index of the edge, u16 |
//! | 4 | epoch, u32 | incarnation, u32 |
//! | 8 | timestamp, i64 | received, u64 |
//! | 16 | sequence, u64 | taken, u64 |
//! | 24 | post, u64 | dropped, u64 |
//! | 32 | trace, u64 | duplicates, u64 |
//! | 40 | entered, u64 | last post, u64 |
//! | 48 | model time, u64 | closed, u64 |
//! | 56 | restarts, u32 | |
//! | 60 | incarnation, u32 | |
//!
//! A packet is followed by the length of its metadata, where its bulk bytes are (in the message, in a
//! segment of shared memory or after the message), the number of the segment and their start in it,
//! their length, and the metadata. Bulk bytes in the message itself begin at a multiple of 64.

use afferent_graph::{Header, Timestamp};

/// Version of the protocol.
pub const VERSION: u8 = 1;

/// Length of a head in bytes.
pub const HEAD: usize = 64;

/// Length of the head of a packet, with the lengths of its parts.
pub const PACKET_HEAD: usize = HEAD + 24;

/// Alignment of bulk bytes.
pub const ALIGNMENT: usize = 64;

/// Largest length of the metadata of a packet.
pub const MAX_META: usize = 1 << 20;

/// A message that cannot be from this version of Afferent, or is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is shorter than its parts.
    #[error("a message of {len} bytes is too short: at least {least} are needed")]
    Short {
        /// Length.
        len: usize,
        /// Length of its parts.
        least: usize,
    },
    /// It is of another version of the protocol.
    #[error(
        "the peer uses version {found} of the protocol, and this program version {VERSION}: update one of them"
    )]
    Version {
        /// Version of the message.
        found: u8,
    },
    /// Its kind is unknown.
    #[error("a message of the unknown kind {0}")]
    Kind(u8),
    /// A field has an impossible value.
    #[error("{0}")]
    Field(&'static str),
}

/// First part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// A packet.
    Packet(PacketHead),
    /// The sender will send no packet before this watermark.
    Watermark(PacketHead),
    /// The stream has ended; `post` is the number of its packets.
    End(PacketHead),
    /// The packet with this post is lost: its sender did not send it again after an interruption.
    Skip(PacketHead),
    /// Counters of the receiver.
    Ack(Ack),
    /// A control message in JSON follows.
    Control,
    /// The receiver uses the segment with this number no more.
    Release(u32),
}

/// Edge, position and header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketHead {
    /// Index of the edge in the graph.
    pub edge: u16,
    /// Number of the packet on its edge, from 1, without gaps.
    pub post: u64,
    /// Number of times the process of the sender was started again.
    pub incarnation: u32,
    /// Header of the packet.
    pub header: Header,
}

/// Counters of the receiver of an edge; each replaces those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ack {
    /// Index of the edge in the graph.
    pub edge: u16,
    /// Incarnation of the sender that is acknowledged.
    pub incarnation: u32,
    /// Packets that have arrived, without duplicates.
    pub received: u64,
    /// Those that have left the queue of the receiver: delivered or dropped.
    pub taken: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Post of the last one.
    pub last_post: u64,
    /// True if the receiver takes no more packets.
    pub closed: bool,
}

/// Metadata and bulk bytes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'m> {
    /// Metadata.
    pub meta: &'m [u8],
    /// Position of the bulk bytes.
    pub bulk: Bulk<'m>,
}

/// Position of the bulk bytes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bulk<'m> {
    /// In the message.
    Inline(&'m [u8]),
    /// In a segment of shared memory.
    Segment {
        /// Number of the segment.
        segment: u32,
        /// Position of the first byte in the segment.
        start: usize,
        /// Number of bytes.
        len: usize,
    },
    /// After the message, from the next multiple of 64 of its length on.
    After {
        /// Number of bytes.
        len: usize,
    },
}

const PACKET: u8 = 0;
const END: u8 = 1;
const WATERMARK: u8 = 2;
const SKIP: u8 = 3;
const ACK: u8 = 4;
const CONTROL: u8 = 5;
const RELEASE: u8 = 6;

const INLINE: u32 = 0;
const SEGMENT: u32 = 1;
const AFTER: u32 = 2;

impl Head {
    /// The head as bytes.
    pub fn bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let kind = match self {
            Self::Packet(_) => PACKET,
            Self::End(_) => END,
            Self::Watermark(_) => WATERMARK,
            Self::Skip(_) => SKIP,
            Self::Ack(_) => ACK,
            Self::Control => CONTROL,
            Self::Release(_) => RELEASE,
        };
        put(0, &[VERSION, kind]);
        match self {
            Self::Packet(head) | Self::End(head) | Self::Watermark(head) | Self::Skip(head) => {
                let PacketHead { edge, post, incarnation, header } = head;
                put(2, &edge.to_le_bytes());
                put(4, &header.epoch.to_le_bytes());
                put(8, &header.at.0.to_le_bytes());
                let words =
                    [header.sequence, *post, header.trace, header.entered_ns, header.model_ns];
                for (index, word) in words.into_iter().enumerate() {
                    put(16 + 8 * index, &word.to_le_bytes());
                }
                put(56, &header.restarts.to_le_bytes());
                put(60, &incarnation.to_le_bytes());
            }
            Self::Ack(ack) => {
                put(2, &ack.edge.to_le_bytes());
                put(4, &ack.incarnation.to_le_bytes());
                let words = [
                    ack.received,
                    ack.taken,
                    ack.dropped,
                    ack.duplicates,
                    ack.last_post,
                    u64::from(ack.closed),
                ];
                for (index, word) in words.into_iter().enumerate() {
                    put(8 + 8 * index, &word.to_le_bytes());
                }
            }
            Self::Control => {}
            Self::Release(segment) => put(4, &segment.to_le_bytes()),
        }
        bytes
    }

    /// Reads the head of a message.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn read(message: &[u8]) -> Result<Self, FrameError> {
        let (len, least) = (message.len(), HEAD);
        let head: &[u8; HEAD] = message.first_chunk().ok_or(FrameError::Short { len, least })?;
        if head[0] != VERSION {
            return Err(FrameError::Version { found: head[0] });
        }
        let half = |at| u32::from_le_bytes(std::array::from_fn(|index| head[at + index]));
        let word = |at| u64::from_le_bytes(std::array::from_fn(|index| head[at + index]));
        let edge = u16::from_le_bytes([head[2], head[3]]);
        let packet = || PacketHead {
            edge,
            post: word(24),
            incarnation: half(60),
            header: Header {
                at: Timestamp(word(8).cast_signed()),
                sequence: word(16),
                epoch: half(4),
                restarts: half(56),
                trace: word(32),
                entered_ns: word(40),
                model_ns: word(48),
            },
        };
        Ok(match head[1] {
            PACKET => Self::Packet(packet()),
            END => Self::End(packet()),
            WATERMARK => Self::Watermark(packet()),
            SKIP => Self::Skip(packet()),
            ACK => Self::Ack(Ack {
                edge,
                incarnation: half(4),
                received: word(8),
                taken: word(16),
                dropped: word(24),
                duplicates: word(32),
                last_post: word(40),
                closed: word(48) != 0,
            }),
            CONTROL => Self::Control,
            RELEASE => Self::Release(half(4)),
            kind => return Err(FrameError::Kind(kind)),
        })
    }
}

/// Starts the message of a packet in `message`; the metadata is to be appended.
pub fn begin_packet(message: &mut Vec<u8>, head: &PacketHead) {
    message.clear();
    message.extend(Head::Packet(*head).bytes());
    message.resize(PACKET_HEAD, 0);
}

/// Ends the message of a packet after its metadata, with `len` bulk bytes in the message, which
/// `fill` writes.
///
/// # Errors
/// If the metadata is too long.
pub fn end_inline(
    message: &mut Vec<u8>,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(), FrameError> {
    put_parts(message, INLINE, [0, 0], len)?;
    if len > 0 {
        let start = message.len().next_multiple_of(ALIGNMENT);
        message.resize(start + len, 0);
        fill(&mut message[start..]);
    }
    Ok(())
}

/// Ends the message of a packet after its metadata, with `len` bulk bytes from `start` on in a segment.
///
/// # Errors
/// If the metadata is too long.
pub fn end_in_segment(
    message: &mut [u8],
    segment: u32,
    (start, len): (u32, usize),
) -> Result<(), FrameError> {
    put_parts(message, SEGMENT, [segment, start], len)
}

/// Ends the message of a packet after its metadata, with `len` bulk bytes that will follow it.
///
/// # Errors
/// If the metadata is too long.
pub fn end_before_bulk(message: &mut Vec<u8>, len: usize) -> Result<(), FrameError> {
    put_parts(message, AFTER, [0, 0], len)?;
    message.resize(message.len().next_multiple_of(ALIGNMENT), 0);
    Ok(())
}

fn put_parts(
    message: &mut [u8],
    position: u32,
    [segment, start]: [u32; 2],
    len: usize,
) -> Result<(), FrameError> {
    let meta = message.len() - PACKET_HEAD;
    let meta = u32::try_from(meta).ok().filter(|_| meta <= MAX_META);
    let meta = meta.ok_or(FrameError::Field("the metadata is longer than 1 MiB"))?;
    let halves = [meta, position, segment, start];
    for (index, half) in halves.into_iter().enumerate() {
        message[HEAD + 4 * index..][..4].copy_from_slice(&half.to_le_bytes());
    }
    message[HEAD + 16..][..8].copy_from_slice(&(len as u64).to_le_bytes());
    Ok(())
}

/// Length of the metadata of a packet, by the first [`PACKET_HEAD`] bytes of its message.
///
/// # Errors
/// If it is too long, or the message too short.
pub fn meta_len(message: &[u8]) -> Result<usize, FrameError> {
    let short = FrameError::Short { len: message.len(), least: PACKET_HEAD };
    let len = message.get(HEAD..PACKET_HEAD).and_then(<[u8]>::first_chunk).ok_or(short)?;
    let len = u32::from_le_bytes(*len) as usize;
    match len <= MAX_META {
        true => Ok(len),
        false => Err(FrameError::Field("the metadata is longer than 1 MiB")),
    }
}

/// Parts of the message of a packet.
///
/// # Errors
/// The length that is wrong.
pub fn parts(message: &[u8]) -> Result<Parts<'_>, FrameError> {
    let short = |least| FrameError::Short { len: message.len(), least };
    let lengths = message.get(HEAD..PACKET_HEAD).ok_or(short(PACKET_HEAD))?;
    let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| lengths[at + index]));
    let len = u64::from_le_bytes(std::array::from_fn(|index| lengths[16 + index]));
    let len = usize::try_from(len).map_err(|_| FrameError::Field("the bulk bytes are too long"))?;
    let meta_len = meta_len(message)?;
    let end = PACKET_HEAD + meta_len;
    let meta = message.get(PACKET_HEAD..end).ok_or(short(end))?;
    let bulk = match half(4) {
        INLINE if len == 0 => Bulk::Inline(&[]),
        INLINE => {
            let start = end.next_multiple_of(ALIGNMENT);
            let stop = start.checked_add(len).ok_or(short(usize::MAX))?;
            Bulk::Inline(message.get(start..stop).ok_or(short(stop))?)
        }
        SEGMENT => Bulk::Segment { segment: half(8), start: half(12) as usize, len },
        AFTER => Bulk::After { len },
        _ => return Err(FrameError::Field("the bulk bytes are at an unknown position")),
    };
    Ok(Parts { meta, bulk })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> PacketHead {
        PacketHead {
            edge: 3,
            post: 9,
            incarnation: 2,
            header: Header {
                at: Timestamp(-5),
                sequence: 8,
                epoch: 7,
                restarts: 6,
                trace: u64::MAX,
                entered_ns: 4,
                model_ns: 3,
            },
        }
    }

    #[test]
    fn heads_round_trip() {
        let ack = Ack {
            edge: 1,
            incarnation: 2,
            received: 3,
            taken: 4,
            dropped: 5,
            duplicates: 6,
            last_post: 7,
            closed: true,
        };
        let heads = [
            Head::Packet(head()),
            Head::End(head()),
            Head::Watermark(head()),
            Head::Skip(head()),
            Head::Ack(ack),
            Head::Control,
            Head::Release(77),
        ];
        for head in heads {
            let bytes = head.bytes();
            assert_eq!(Head::read(&bytes), Ok(head));
            let short = FrameError::Short { len: 63, least: 64 };
            assert_eq!(Head::read(&bytes[..63]), Err(short));
        }
        let mut bytes = Head::Control.bytes();
        bytes[1] = 99;
        assert_eq!(Head::read(&bytes), Err(FrameError::Kind(99)));
        bytes[0] = 9;
        assert_eq!(Head::read(&bytes), Err(FrameError::Version { found: 9 }));
    }

    #[test]
    fn parts_round_trip_and_are_checked() {
        for bulk in [&[][..], &[1, 2, 3]] {
            let mut message = Vec::new();
            begin_packet(&mut message, &head());
            message.extend(b"metadata");
            end_inline(&mut message, bulk.len(), |slot| slot.copy_from_slice(bulk)).unwrap();
            let found = parts(&message).unwrap();
            assert_eq!(found, Parts { meta: b"metadata", bulk: Bulk::Inline(bulk) });
            if let Bulk::Inline([_, ..]) = found.bulk {
                assert_eq!((message.len() - bulk.len()) % ALIGNMENT, 0);
            }
            for len in 0..message.len() {
                assert!(parts(&message[..len]).is_err(), "{len}");
            }
        }
        let mut message = Vec::new();
        begin_packet(&mut message, &head());
        end_in_segment(&mut message, 5, (128, 6_220_800)).unwrap();
        let bulk = Bulk::Segment { segment: 5, start: 128, len: 6_220_800 };
        assert_eq!(parts(&message), Ok(Parts { meta: &[], bulk }));
        end_before_bulk(&mut message, 77).unwrap();
        assert_eq!(parts(&message), Ok(Parts { meta: &[], bulk: Bulk::After { len: 77 } }));
        assert_eq!(message.len() % ALIGNMENT, 0);
        message[HEAD + 4] = 9;
        assert!(parts(&message).is_err());
        message[HEAD..HEAD + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parts(&message).is_err());
    }
}
