//! Attachment of `rmw_zenoh`: what a message carries beside its payload.

use crate::Error;

/// Sequence number, time and sender of a message. Peers discard messages without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// Number of the message of its publisher, from 1.
    pub sequence: i64,
    /// Time of sending, in nanoseconds of Unix time.
    pub source_timestamp_ns: i64,
    /// Identity of the publisher.
    pub gid: [u8; 16],
}

impl Attachment {
    /// Number of bytes.
    pub const LEN: usize = 33;

    /// Bytes of the attachment, in little endian; the identity follows its length.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.source_timestamp_ns.to_le_bytes());
        bytes[16] = 16;
        bytes[17..].copy_from_slice(&self.gid);
        bytes
    }

    /// Reads an attachment.
    ///
    /// # Errors
    /// [`Error::Peer`] for another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let parts = bytes.split_first_chunk().and_then(|(sequence, rest)| {
            let (time, rest) = rest.split_first_chunk()?;
            let gid = rest.strip_prefix(&[16])?.try_into().ok()?;
            Some((sequence, time, gid))
        });
        let (sequence, time, gid) = parts.ok_or_else(|| Error::Peer {
            part: "attachment",
            text: bytes.escape_ascii().to_string(),
            reason: "it must have 33 bytes: sequence number, time, 16, and an identity of 16 bytes",
        })?;
        Ok(Self {
            sequence: i64::from_le_bytes(*sequence),
            source_timestamp_ns: i64::from_le_bytes(*time),
            gid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lengths_are_refused() {
        let attachment = Attachment {
            sequence: 1,
            source_timestamp_ns: -2,
            gid: std::array::from_fn(|at| at as u8),
        };
        let bytes = attachment.to_bytes();
        assert_eq!(Attachment::from_bytes(&bytes), Ok(attachment));
        for len in 0..bytes.len() {
            assert!(Attachment::from_bytes(&bytes[..len]).is_err(), "{len}");
        }
        assert!(Attachment::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        let mut wrong = bytes;
        wrong[16] = 15;
        assert!(Attachment::from_bytes(&wrong).is_err());
    }
}
