//! Decodes values of payload types from arbitrary parts.

use afferent_core::{AlignedBytes, ForeignBytes};
use afferent_graph::{Dynamic, Header, PayloadType, WireCodec};
use afferent_messages::PAYLOADS;

/// Every payload type that travels between processes.
pub fn types() -> impl Iterator<Item = PayloadType> {
    PAYLOADS.iter().cloned().chain([PayloadType::of::<Dynamic>()])
}

/// Decodes the parts of a value that `data` holds: one byte selects the payload type, one the
/// offset of the bulk bytes in memory, two are the length of the metadata; then follow both parts.
/// Returns true if they are a value.
///
/// # Panics
/// If a decoded value cannot be encoded, or changes when it is encoded and decoded again.
pub fn decode(data: &[u8]) -> bool {
    let Some(([ty, offset, len @ ..], parts)) = data.split_first_chunk::<4>() else {
        return false;
    };
    let ty = types().nth(usize::from(*ty) % types().count()).and_then(|ty| ty.wire);
    let codec = ty.expect("every payload type has a wire codec");
    let len = usize::from(u16::from_le_bytes(*len)).min(parts.len());
    let (meta, bulk) = parts.split_at(len);
    decode_parts(codec, meta, bulk, usize::from(*offset % 64))
}

/// Decodes a value whose bulk bytes start `offset` bytes after an aligned address. Returns true if
/// the parts are a value.
///
/// # Panics
/// As [`decode`].
pub fn decode_parts(codec: &dyn WireCodec, meta: &[u8], bulk: &[u8], offset: usize) -> bool {
    let mut memory = AlignedBytes::zeroed(offset + bulk.len());
    memory.as_mut_slice()[offset..].copy_from_slice(bulk);
    let part = ForeignBytes::from(memory).part(offset, bulk.len()).expect("the part is inside");
    let Ok(packet) = codec.decode(meta, part, Header::default()) else {
        return false;
    };
    let mut again = Vec::new();
    let value = packet.payload().expect("a decoded packet has a value");
    let found = codec.encode(value, &mut again).expect("a decoded value can be encoded");
    assert!(found == bulk, "the bulk bytes of a value do not change");
    let packet = codec.decode(&again, found.to_vec().into(), Header::default());
    let packet = packet.expect("an encoded value can be decoded");
    let mut third = Vec::new();
    let value = packet.payload().expect("a decoded packet has a value");
    let found = codec.encode(value, &mut third).expect("a decoded value can be encoded");
    assert!(found == bulk && third == again, "a value does not change on its way");
    true
}
