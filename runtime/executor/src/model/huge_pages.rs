//! Allocator for packed constants in huge pages.
//!
//! Huge pages cause fewer page faults, and GEMMs that stream the constants miss the TLB less often.
//! A constant seldom fills a huge page, so several share a mapping.

#![expect(unsafe_code, reason = "splits a mapping into blocks that are written one by one")]

use std::{
    io, slice,
    sync::{Arc, Weak},
};

use memmap2::{MmapMut, MmapRaw};

/// Bytes of a mapping that blocks share.
const MAPPING_BYTES: usize = 32 << 20;

/// Alignment of a block in bytes: the width of the widest vector registers.
const ALIGNMENT: usize = 64;

/// Bump allocator over the current mapping. The mapping lives as long as its blocks.
#[derive(Default)]
pub(super) struct HugePagePool {
    current: Weak<MmapRaw>,
    used: usize,
}

/// Zeroed memory with one owner.
pub(super) struct HugePageBlock {
    map: Arc<MmapRaw>,
    start: usize,
    len: usize,
}

impl HugePagePool {
    /// Allocates `len` zero bytes.
    ///
    /// # Errors
    /// The mapping fails.
    pub(super) fn alloc(&mut self, len: usize) -> io::Result<HugePageBlock> {
        if let Some(map) = self.current.upgrade().filter(|map| len <= map.len() - self.used) {
            return Ok(self.bump(map, len));
        }
        let map = Arc::new(MmapRaw::from(map_huge_pages(len.max(MAPPING_BYTES))?));
        if len >= MAPPING_BYTES {
            return Ok(HugePageBlock { map, start: 0, len });
        }
        self.current = Arc::downgrade(&map);
        self.used = 0;
        Ok(self.bump(map, len))
    }

    fn bump(&mut self, map: Arc<MmapRaw>, len: usize) -> HugePageBlock {
        let start = self.used;
        self.used = (start + len).next_multiple_of(ALIGNMENT).min(map.len());
        HugePageBlock { map, start, len }
    }
}

/// Maps zeroed memory and requests huge pages; the system falls back to ordinary ones.
fn map_huge_pages(len: usize) -> io::Result<MmapMut> {
    let map = MmapMut::map_anon(len)?;
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

impl HugePageBlock {
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        let start = self.map.as_mut_ptr().wrapping_add(self.start);
        // SAFETY: the range is inside the mapping, which lives as long as the block; the pool
        // allocates no byte twice, and this block is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(start, self.len) }
    }
}

impl AsRef<[u8]> for HugePageBlock {
    fn as_ref(&self) -> &[u8] {
        let start = self.map.as_ptr().wrapping_add(self.start);
        // SAFETY: as above; nothing writes while the block is borrowed.
        unsafe { slice::from_raw_parts(start, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_disjoint_and_aligned() {
        let mut pool = HugePagePool::default();
        let lens =
            [100, 0, 64, 1 << 20, MAPPING_BYTES - 1, 7, MAPPING_BYTES, 5, MAPPING_BYTES + 1, 3];
        let mut blocks: Vec<_> = lens.iter().map(|len| pool.alloc(*len).unwrap()).collect();
        for (index, block) in blocks.iter_mut().enumerate() {
            assert!(block.as_ref().iter().all(|byte| *byte == 0));
            assert_eq!(block.as_ref().as_ptr().addr() % ALIGNMENT, 0);
            block.as_mut_slice().fill(index as u8 + 1);
        }
        for ((index, block), len) in blocks.iter().enumerate().zip(lens) {
            assert_eq!(block.as_ref().len(), len);
            assert!(block.as_ref().iter().all(|byte| *byte == index as u8 + 1));
        }
    }

    #[test]
    fn a_mapping_is_freed_with_its_last_block() {
        let mut pool = HugePagePool::default();
        let first = pool.alloc(10).unwrap();
        let second = pool.alloc(10).unwrap();
        assert!(Arc::ptr_eq(&first.map, &second.map));
        drop((first, second));
        assert!(pool.current.upgrade().is_none());
        assert_eq!(pool.alloc(10).unwrap().as_ref(), [0; 10]);
    }
}
