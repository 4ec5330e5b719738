//! The table by which SentencePiece normalises characters.
//!
//! A double-array trie of [darts-clone](https://github.com/s-yata/darts-clone) from what is written
//! to a place in a text of null-terminated replacements.

/// The table of a model.
#[derive(Debug, Default)]
pub(super) struct Charsmap {
    /// Units of the trie: label, offset, and whether a word ends.
    units: Vec<u32>,
    replacements: Vec<u8>,
}

impl Charsmap {
    /// Reads the table; an empty one replaces nothing.
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

    /// What the longest entry at the start of `text` becomes, and its length.
    pub(super) fn replacement(&self, text: &str) -> Option<(&str, usize)> {
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
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
            if node >> 8 & 1 == 1 {
                found = unit(at).map(|leaf| (leaf & !(1 << 31), index + 1));
            }
        }
        let (place, len) = found?;
        let replacement = self.replacements.get(place as usize..)?;
        let end = replacement.iter().position(|&byte| byte == 0)?;
        Some((str::from_utf8(&replacement[..end]).ok()?, len))
            .filter(|&(_, len)| text.is_char_boundary(len))
    }
}
