//! Character normalization table of SentencePiece (`precompiled_charsmap`).
//!
//! A double-array trie of [darts-clone](https://github.com/s-yata/darts-clone) maps character
//! sequences to offsets of null-terminated replacements.

/// Normalization table.
#[derive(Debug, Clone, Default)]
pub(super) struct Charsmap {
    /// Units of the trie: label, offset, and end-of-key flag.
    units: Vec<u32>,
    /// Null-terminated UTF-8 strings.
    replacements: Vec<u8>,
}

impl Charsmap {
    /// Reads a table; an empty one replaces nothing.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let (len, rest) = bytes.split_first_chunk()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        let (units, replacements) = rest.split_at_checked(len)?;
        let (units, tail) = units.as_chunks();
        if !tail.is_empty() || units.is_empty() {
            return None;
        }
        let units = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Some(Self { units, replacements: replacements.to_vec() })
    }

    /// Replacement for the longest key at the start of `text`, and the length of the key in bytes.
    pub(super) fn replacement(&self, text: &str) -> Option<(&str, usize)> {
        let unit = |at: u32| self.units.get(at as usize).copied();
        let mut at = offset(unit(0)?);
        let mut found = None;
        for (index, &byte) in text.as_bytes().iter().enumerate() {
            at ^= u32::from(byte);
            let Some(node) = unit(at) else { break };
            if node & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            at ^= offset(node);
            if is_key_end(node) {
                found = unit(at).map(|leaf| (leaf & !(1 << 31), index + 1));
            }
        }
        let (start, len) = found?;
        let replacement = self.replacements.get(start as usize..)?;
        let end = replacement.iter().position(|&byte| byte == 0)?;
        Some((str::from_utf8(&replacement[..end]).ok()?, len))
            .filter(|&(_, len)| text.is_char_boundary(len))
    }

    /// True if all offsets in the table are in bounds.
    ///
    /// With an invalid table [`Charsmap::replacement`] finds nothing, but the crate `tokenizers`
    /// panics.
    pub(super) fn is_valid(&self) -> bool {
        let Ok(replacements) = str::from_utf8(&self.replacements) else { return false };
        // The index of a child is the base of its parent XOR the label, one byte.
        let is_in_bounds = |at: usize, node: u32| {
            let base = at ^ offset(node) as usize;
            let is_valid_leaf =
                |leaf: u32| replacements.is_char_boundary((leaf & !(1 << 31)) as usize);
            (base | 0xff) < self.units.len()
                && (!is_key_end(node) || is_valid_leaf(self.units[base]))
        };
        // Bit 31 marks leaves, which contain an offset. Unit 0 is the root.
        let mut nodes = (0..).zip(&self.units).filter(|&(at, unit)| at == 0 || unit >> 31 == 0);
        !self.units.is_empty() && nodes.all(|(at, &node)| is_in_bounds(at, node))
    }
}

/// Offset from a node to its base, combined by XOR.
fn offset(node: u32) -> u32 {
    (node >> 10) << ((node & (1 << 9)) >> 6)
}

/// True if a key ends at a node.
fn is_key_end(node: u32) -> bool {
    node >> 8 & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::protobuf::{Fields, Value};

    /// Bytes of field `number` of a message.
    fn field(message: &[u8], number: u64) -> &[u8] {
        let found = Fields(message).flatten().find_map(|(found, value)| match value {
            Value::Bytes(bytes) if found == number => Some(bytes),
            _ => None,
        });
        found.expect("the message has the field")
    }

    #[test]
    fn tables_with_offsets_out_of_bounds_are_invalid() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/unigram.model");
        let model = std::fs::read(model).expect("the file exists");
        let valid = || Charsmap::read(field(field(&model, 3), 2)).expect("a valid table");
        assert!(valid().is_valid());
        assert!(!Charsmap::default().is_valid());
        let check = |damage: fn(&mut Charsmap)| {
            let mut table = valid();
            damage(&mut table);
            assert!(!table.is_valid());
        };
        check(|table| table.units.truncate(table.units.len() - 256));
        check(|table| table.units[0] = u32::MAX >> 1);
        check(|table| table.replacements.truncate(1));
        check(|table| table.replacements.push(0xff));
    }
}
