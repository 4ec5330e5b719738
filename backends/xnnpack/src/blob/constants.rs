//! Constant data of a blob: inline, in the constant section, or named data of the program.

use std::collections::HashSet;

use afferent_core::Error;
use afferent_flatbuffer::{Field, TableVector};

use super::{
    entry::Entry,
    schema::{BUFFER_STORAGE, CONSTANT_KEY, CONSTANT_OFFSET, CONSTANT_SIZE},
};

/// Looks up named data of the program by key.
pub(super) type NamedData<'c, 'a> = &'c dyn Fn(&str) -> Option<&'a [u8]>;

/// Tables that locate constants.
pub(super) struct Constants<'a, 'c> {
    pub(super) inline: TableVector<'a>,
    pub(super) external: TableVector<'a>,
    /// Constant section; `None` if constants are inline.
    pub(super) data: Option<&'a [u8]>,
    pub(super) named: NamedData<'c, 'a>,
}

impl<'a> Constants<'a, '_> {
    /// Returns the bytes of constant `index`, or `None` for index 0, which means no constant.
    /// Named data is added to `constant_use`.
    pub(super) fn get(
        &self,
        constant_use: &mut ConstantUse,
        at: Entry,
        field: Field,
        index: u32,
    ) -> Result<Option<&'a [u8]>, Error> {
        if index == 0 {
            return Ok(None);
        }
        let Some(data) = self.data else {
            let buffer = at.read(self.inline.get(index as usize))?;
            let bytes = at.read(buffer.bytes(BUFFER_STORAGE))?;
            return at.read(BUFFER_STORAGE.required(bytes)).map(Some);
        };
        let entry = at.read(self.external.get(index as usize))?;
        let size = at.read(entry.scalar::<u64>(CONSTANT_SIZE))?;
        let key = at.read(entry.name(CONSTANT_KEY))?.filter(|key| !key.is_empty());
        let Some(key) = key else {
            let offset = at.read(entry.scalar::<u64>(CONSTANT_OFFSET))?;
            return at.read(CONSTANT_OFFSET.slice(data, offset, size)).map(Some);
        };
        let bytes = (self.named)(key);
        let reason = "names data that is missing; load the program with its .ptd file";
        let bytes = bytes.ok_or(at.invalid(field, reason))?;
        constant_use.add_named_data(bytes);
        at.read(CONSTANT_SIZE.slice(bytes, 0, size)).map(Some)
    }
}

/// Counts the constant bytes that values use against the bytes that exist. The limit keeps a small
/// blob from creating many copies of one constant, or of overlapping parts of it.
pub(super) struct ConstantUse {
    /// Start addresses of the named data in `available`.
    named: HashSet<usize>,
    /// Bytes of the blob and of its named data.
    available: usize,
    used: usize,
}

impl ConstantUse {
    /// Maximum number of uses of a byte, on average.
    const MAX_USES: usize = 8;

    /// Minimum of the available bytes for which the limit is computed.
    const MIN_AVAILABLE_BYTES: usize = 1 << 20;

    /// Starts with the bytes of the blob.
    pub(super) fn new(blob_bytes: usize) -> Self {
        Self { named: HashSet::new(), available: blob_bytes, used: 0 }
    }

    /// Adds named data, once for each start address.
    fn add_named_data(&mut self, data: &[u8]) {
        if self.named.insert(data.as_ptr().addr()) {
            self.available = self.available.saturating_add(data.len());
        }
    }

    /// Counts one more use of `bytes`. Returns false if the limit is exceeded.
    pub(super) fn count(&mut self, bytes: &[u8]) -> bool {
        self.used = self.used.saturating_add(bytes.len());
        self.used / Self::MAX_USES <= self.available.max(Self::MIN_AVAILABLE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_constants_count_in_full() {
        let data = vec![0; 4 << 20];
        let mut uses = ConstantUse::new(data.len());
        let counted = (0..1000).take_while(|at| uses.count(&data[4 * at..][..2 << 20])).count();
        assert_eq!(counted, 2 * ConstantUse::MAX_USES);
        // Named data raises the limit once, even if it is named again.
        let more = vec![0; 8 << 20];
        uses.add_named_data(&more);
        uses.add_named_data(&more);
        let counted = (0..1000).take_while(|_| uses.count(&more)).count();
        assert_eq!(counted, ConstantUse::MAX_USES - 1);
    }
}
