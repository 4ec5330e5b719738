//! XCDR1: a header of 4 bytes, then the fields of a message.

use byteorder::{BigEndian, LittleEndian};
use cdr_encoding::{from_bytes, to_writer};
use serde::{Deserialize, Serialize};

use crate::{Error, msg::RosMessage};

/// Plain CDR in little endian, without options.
const LITTLE_ENDIAN: [u8; 4] = [0, 1, 0, 0];

/// Plain CDR in big endian.
const BIG_ENDIAN: [u8; 2] = [0, 0];

/// A payload of the middleware may be padded to a multiple of 4 bytes.
const MAX_PADDING: usize = 3;

/// Replaces the content of `bytes` by `message` in little endian.
///
/// # Errors
/// [`Error::Cdr`] if a sequence has more than `u32::MAX` elements.
pub fn encode<M: RosMessage + Serialize>(message: &M, bytes: &mut Vec<u8>) -> Result<(), Error> {
    bytes.clear();
    bytes.extend(LITTLE_ENDIAN);
    to_writer::<_, LittleEndian, _>(bytes, message).map_err(|error| fault::<M>(error.to_string()))
}

/// Reads a message in either byte order. Byte sequences of the message borrow `bytes`.
///
/// # Errors
/// [`Error::Cdr`] if the bytes are not a message of this type.
pub fn decode<'b, M: RosMessage + Deserialize<'b>>(bytes: &'b [u8]) -> Result<M, Error> {
    let Some((header, body)) = bytes.split_first_chunk::<4>() else {
        return Err(fault::<M>(format!("{} bytes are less than a CDR header", bytes.len())));
    };
    let message = if header[..2] == LITTLE_ENDIAN[..2] {
        from_bytes::<M, LittleEndian>(body)
    } else if header[..2] == BIG_ENDIAN {
        from_bytes::<M, BigEndian>(body)
    } else {
        let [first, second, ..] = header;
        return Err(fault::<M>(format!(
            "encoding {first:02x} {second:02x} is not supported; accepted are 00 00 and 00 01 \
             (XCDR1)"
        )));
    };
    let (message, len) = message.map_err(|error| fault::<M>(error.to_string()))?;
    match body.len().saturating_sub(len) {
        0..=MAX_PADDING => Ok(message),
        left => Err(fault::<M>(format!("{left} bytes follow the last field"))),
    }
}

fn fault<M: RosMessage>(reason: String) -> Error {
    Error::Cdr { message: M::NAME.to_owned(), reason }
}
