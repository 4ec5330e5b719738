//! Shared memory of the sender of a link.

use std::os::fd::OwnedFd;

use memmap2::{MmapMut, MmapOptions};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    io::Errno,
};

use crate::link::LinkError;

/// Most segments of a link. The receiver may hold as many packets with bulk bytes.
pub(super) const MOST: usize = 256;

/// Sizes of segments are multiples of this, so that packets of about one size share them.
const GRANULE: usize = 64 * 1024;

/// Segments that this process sends from.
#[derive(Default)]
pub(super) struct Segments(Vec<Segment>);

struct Segment {
    map: MmapMut,
    /// True if the receiver holds it.
    is_used: bool,
}

/// Bulk bytes in a segment.
pub(super) struct Placed {
    pub(super) segment: u32,
    /// The segment, if the receiver does not know it yet.
    pub(super) file: Option<OwnedFd>,
}

impl Segments {
    /// Takes a free segment and lets `fill` write its first `len` bytes.
    pub(super) fn fill(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Placed, LinkError> {
        let free = || self.0.iter().enumerate().filter(|(_, segment)| !segment.is_used);
        let fits = free().filter(|(_, segment)| segment.map.len() >= len);
        let smallest = fits.min_by_key(|(_, segment)| segment.map.len()).map(|(index, _)| index);
        let (index, file) = match (smallest, free().map(|(index, _)| index).next()) {
            (Some(index), _) => (index, None),
            // One that is too small gives its number to a larger one.
            (None, Some(index)) => {
                let (map, file) = new(len)?;
                self.0[index].map = map;
                (index, Some(file))
            }
            (None, None) if self.0.len() < MOST => {
                let (map, file) = new(len)?;
                self.0.push(Segment { map, is_used: false });
                (self.0.len() - 1, Some(file))
            }
            (None, None) => return Err(LinkError::Full),
        };
        let segment = &mut self.0[index];
        segment.is_used = true;
        fill(&mut segment.map[..len]);
        Ok(Placed { segment: index as u32, file })
    }

    /// The receiver does not hold the segment any more; true if it held all of them.
    pub(super) fn release(&mut self, segment: u32) -> bool {
        let was_full = self.0.len() == MOST && self.0.iter().all(|segment| segment.is_used);
        if let Some(segment) = self.0.get_mut(segment as usize) {
            segment.is_used = false;
        }
        was_full
    }
}

/// A segment for `len` bytes or more, whose size can never change.
fn new(len: usize) -> Result<(MmapMut, OwnedFd), LinkError> {
    let bytes = len.next_multiple_of(GRANULE);
    let memory = |reason: String| LinkError::Memory { bytes, reason };
    let system = |error: Errno| memory(error.to_string());
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(c"afferent", flags).map_err(system)?;
    ftruncate(&file, bytes as u64).map_err(system)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(system)?;
    // SAFETY: its size is sealed, so every mapped byte exists. The receiver maps it for reading.
    let map = unsafe { MmapOptions::new().len(bytes).map_mut(&file) };
    Ok((map.map_err(|error| memory(error.to_string()))?, file))
}
