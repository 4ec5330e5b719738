//! Shared memory of the sender of a link.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use memmap2::{MmapOptions, MmapRaw};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    io::Errno,
};

use super::Out;
use crate::{link::LinkError, lock};

/// Most segments of a link. The receiver may hold as many packets with bulk bytes.
pub(super) const MOST: usize = 256;

/// Sizes of segments are multiples of this, so that packets of about one size share them.
const GRANULE: usize = 64 * 1024;

/// Segments that this process sends from.
#[derive(Default)]
pub(super) struct Segments(Vec<Segment>);

struct Segment {
    map: Arc<MmapRaw>,
    /// The segment as a file, until the receiver knows it.
    file: Option<Arc<OwnedFd>>,
    /// True if a loan or the receiver has it.
    is_used: bool,
}

impl Segments {
    /// Takes a free segment for `len` bytes or more. Returns its number and its memory.
    pub(super) fn take(&mut self, len: usize) -> Result<(u32, Arc<MmapRaw>), LinkError> {
        let free = || self.0.iter().enumerate().filter(|(_, segment)| !segment.is_used);
        let fits = free().filter(|(_, segment)| segment.map.len() >= len);
        let smallest = fits.min_by_key(|(_, segment)| segment.map.len()).map(|(index, _)| index);
        let index = match (smallest, free().map(|(index, _)| index).next()) {
            (Some(index), _) => index,
            // One that is too small gives its number to a larger one.
            (None, Some(index)) => {
                self.0[index] = new(len)?;
                index
            }
            (None, None) if self.0.len() < MOST => {
                self.0.push(new(len)?);
                self.0.len() - 1
            }
            (None, None) => return Err(LinkError::Full),
        };
        let segment = &mut self.0[index];
        segment.is_used = true;
        Ok((index as u32, segment.map.clone()))
    }

    /// File of a segment that is being sent, if the receiver does not know the segment yet.
    pub(super) fn file(&mut self, segment: u32) -> Option<Arc<OwnedFd>> {
        self.0.get_mut(segment as usize)?.file.take()
    }

    /// Returns for each segment whether a loan or the receiver holds it.
    #[cfg(test)]
    pub(super) fn used(&self) -> Vec<bool> {
        self.0.iter().map(|segment| segment.is_used).collect()
    }

    /// The segment is free again; true if none was.
    pub(super) fn release(&mut self, segment: u32) -> bool {
        let was_full = self.0.len() == MOST && self.0.iter().all(|segment| segment.is_used);
        if let Some(segment) = self.0.get_mut(segment as usize) {
            segment.is_used = false;
        }
        was_full
    }
}

/// A segment for `len` bytes or more, whose size can never change.
fn new(len: usize) -> Result<Segment, LinkError> {
    let bytes = len.checked_next_multiple_of(GRANULE).unwrap_or(usize::MAX);
    let memory = |reason: String| LinkError::Memory { bytes, reason };
    let system = |error: Errno| memory(error.to_string());
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(c"afferent", flags).map_err(system)?;
    ftruncate(&file, bytes as u64).map_err(system)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(system)?;
    let map = MmapOptions::new().len(bytes).map_raw(&file);
    let map = Arc::new(map.map_err(|error| memory(error.to_string()))?);
    Ok(Segment { map, file: Some(Arc::new(file)), is_used: false })
}

/// Shared memory that the program fills before it is sent: [`LocalLink::loan`](super::LocalLink::loan).
pub struct Loan {
    pub(super) map: Arc<MmapRaw>,
    pub(super) segment: u32,
    /// The link that it is of.
    pub(super) out: Weak<Mutex<Out>>,
    /// True once the receiver has it.
    pub(super) is_sent: AtomicBool,
}

impl Loan {
    /// First byte, at a multiple of the page size. There are as many bytes as were asked for, or more.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// True if the memory belongs to the receiver, which gives it back for later packets: it must not be
    /// written to, and what is read from it may change.
    pub fn is_sent(&self) -> bool {
        self.is_sent.load(Ordering::Acquire)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if !self.is_sent()
            && let Some(out) = self.out.upgrade()
        {
            lock(&out).segments.release(self.segment);
        }
    }
}
