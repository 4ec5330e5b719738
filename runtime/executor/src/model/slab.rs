//! Memory for many prepared constants, in large pages.
//!
//! Such pages come with fewer faults, and products that read them once miss fewer entries of page
//! tables. A constant seldom fills one, so that many share a mapping.

#![expect(unsafe_code, reason = "cuts a mapping into pieces that are written one by one")]

use std::{
    io, slice,
    sync::{Arc, Weak},
};

use memmap2::{MmapMut, MmapRaw};

/// Bytes of a mapping that pieces share.
const SLAB: usize = 32 << 20;

/// Pieces begin at multiples of this: the width of the widest vector registers.
const ALIGNMENT: usize = 64;

/// Where the next piece is cut from, as long as another piece of it is in use.
#[derive(Default)]
pub(super) struct Slabs {
    open: Weak<MmapRaw>,
    used: usize,
}

/// Zeros that belong to nobody else.
pub(super) struct Piece {
    map: Arc<MmapRaw>,
    start: usize,
    len: usize,
}

impl Slabs {
    /// A piece of `len` bytes.
    ///
    /// # Errors
    /// When the system gives no memory.
    pub(super) fn cut(&mut self, len: usize) -> io::Result<Piece> {
        if let Some(map) = self.open.upgrade().filter(|map| len <= map.len() - self.used) {
            return Ok(self.next(map, len));
        }
        let map = Arc::new(MmapRaw::from(large_pages(len.max(SLAB))?));
        if len >= SLAB {
            return Ok(Piece { map, start: 0, len });
        }
        self.open = Arc::downgrade(&map);
        self.used = 0;
        Ok(self.next(map, len))
    }

    fn next(&mut self, map: Arc<MmapRaw>, len: usize) -> Piece {
        let start = self.used;
        self.used = (start + len).next_multiple_of(ALIGNMENT).min(map.len());
        Piece { map, start, len }
    }
}

/// A mapping of zeros in large pages; where the system has none, in ordinary ones.
fn large_pages(len: usize) -> io::Result<MmapMut> {
    let map = MmapMut::map_anon(len)?;
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

impl Piece {
    /// The bytes, to be written.
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        let start = self.map.as_mut_ptr().wrapping_add(self.start);
        // SAFETY: the range is inside the mapping, which lives as long as this; `Slabs` gives no
        // byte twice, and this piece is borrowed alone.
        unsafe { slice::from_raw_parts_mut(start, self.len) }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        let start = self.map.as_ptr().wrapping_add(self.start);
        // SAFETY: as above; nobody writes while this is borrowed.
        unsafe { slice::from_raw_parts(start, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_apart_and_aligned() {
        let mut slabs = Slabs::default();
        let lens = [100, 0, 64, 1 << 20, SLAB - 1, 7, SLAB, 5, SLAB + 1, 3];
        let mut pieces: Vec<Piece> = lens.iter().map(|len| slabs.cut(*len).unwrap()).collect();
        for (number, piece) in pieces.iter_mut().enumerate() {
            assert!(piece.as_ref().iter().all(|byte| *byte == 0));
            assert_eq!(piece.as_ref().as_ptr().addr() % ALIGNMENT, 0);
            piece.as_mut_slice().fill(number as u8 + 1);
        }
        for ((number, piece), len) in pieces.iter().enumerate().zip(lens) {
            assert_eq!(piece.as_ref().len(), len);
            assert!(piece.as_ref().iter().all(|byte| *byte == number as u8 + 1));
        }
    }

    #[test]
    fn a_slab_ends_with_its_last_piece() {
        let mut slabs = Slabs::default();
        let first = slabs.cut(10).unwrap();
        let second = slabs.cut(10).unwrap();
        assert!(Arc::ptr_eq(&first.map, &second.map));
        drop((first, second));
        assert!(slabs.open.upgrade().is_none());
        assert_eq!(slabs.cut(10).unwrap().as_ref(), [0; 10]);
    }
}
