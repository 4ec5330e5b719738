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
            if is_end(node) {
                found = unit(at).map(|leaf| (leaf & !(1 << 31), index + 1));
            }
        }
        let (place, len) = found?;
        let replacement = self.replacements.get(place as usize..)?;
        let end = replacement.iter().position(|&byte| byte == 0)?;
        Some((str::from_utf8(&replacement[..end]).ok()?, len))
            .filter(|&(_, len)| text.is_char_boundary(len))
    }

    /// Whether every way through the trie stays in it and ends at a text. That is not so of every
    /// table: [`Charsmap::replacement`] then finds nothing, but the library of Hugging Face panics.
    pub(super) fn is_sound(&self) -> bool {
        let Ok(replacements) = str::from_utf8(&self.replacements) else { return false };
        // What comes behind a node lies at its base changed by a byte.
        let leads_inside = |at: usize, node: u32| {
            let base = at ^ offset(node) as usize;
            let ends = |leaf: u32| replacements.is_char_boundary((leaf & !(1 << 31)) as usize);
            (base | 0xff) < self.units.len() && (!is_end(node) || ends(self.units[base]))
        };
        // Bit 31 is set where no node is, but a place; the first unit is the root.
        let mut nodes = (0..).zip(&self.units).filter(|&(at, unit)| at == 0 || unit >> 31 == 0);
        !self.units.is_empty() && nodes.all(|(at, &node)| leads_inside(at, node))
    }
}

/// How far the base of a node is from it.
fn offset(node: u32) -> u32 {
    (node >> 10) << ((node & (1 << 9)) >> 6)
}

/// Whether a word ends at a node.
fn is_end(node: u32) -> bool {
    node >> 8 & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::protobuf::{Fields, Value};

    /// The bytes of a field of a message.
    fn field(message: &[u8], wanted: u64) -> &[u8] {
        let found = Fields(message).flatten().find_map(|(number, value)| match value {
            Value::Bytes(bytes) if number == wanted => Some(bytes),
            _ => None,
        });
        found.expect("the message has the field")
    }

    #[test]
    fn tables_that_lead_out_of_themselves_are_found() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/unigram.model");
        let model = std::fs::read(model).expect("the file is there");
        let good = || Charsmap::read(field(field(&model, 3), 2)).expect("a table");
        assert!(good().is_sound());
        assert!(!Charsmap::default().is_sound());
        let check = |damage: fn(&mut Charsmap)| {
            let mut table = good();
            damage(&mut table);
            assert!(!table.is_sound());
        };
        check(|table| table.units.truncate(table.units.len() - 256));
        check(|table| table.units[0] = u32::MAX >> 1);
        check(|table| table.replacements.truncate(1));
        check(|table| table.replacements.push(0xff));
    }
}
