//! Protocol between a microcontroller and a host, on a serial line or a TCP connection.
//!
//! A frame is encoded with COBS and ends with a zero byte. Numbers are little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | [`VERSION`] |
//! | 1 | kind of the message |
//! | 2 | sequence number, one more than that of the frame before |
//! | 0 to [`MAX_PAYLOAD`] | message, see [`Message`] |
//! | 2 | CRC-16/IBM-3740 of all bytes before it |
//!
//! | module | holds |
//! |---|---|
//! | `message` | messages and their bytes |
//! | `frame` | [`Encoder`] of the device, [`Decoder`] of the host |
//! | `adpcm` | IMA ADPCM: 4 bits for a sample |
//! | `crc` | checksum |
//!
//! Begin with `message`. The code allocates nothing, and no bytes make it panic.

#![cfg_attr(not(test), no_std)]

mod adpcm;
mod crc;
mod frame;
mod message;

pub use adpcm::Adpcm;
pub use frame::{Decoder, Encoder, Fault, Frame, MAX_FRAME};
pub use message::{AUDIO_BYTES, Message};

/// Version of the protocol. A host refuses other versions.
pub const VERSION: u8 = 1;

/// Most bytes of a message.
pub const MAX_PAYLOAD: usize = 192;
