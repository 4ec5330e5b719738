//! Segments that another process has sent, and that a link sends on without a copy.

use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use afferent_core::{ForeignBytes, Memory};
use memmap2::Mmap;

use super::{LocalLink, segments};
use crate::{frame::Head, link::Link};

/// Most segments of others that a link sends on at a time; further ones are copied.
const MOST: usize = 64;

/// Number of the first one. The segments of the link itself have those below.
const FIRST: u32 = segments::MOST as u32;

/// Mapped segments of this process, with their sizes, by address.
static MAPPED: Mutex<BTreeMap<usize, (usize, Weak<Mapped>)>> = Mutex::new(BTreeMap::new());

/// A segment of the peer of a link.
pub(super) struct Mapped {
    map: Mmap,
    file: Arc<OwnedFd>,
    segment: u32,
    link: Weak<LocalLink>,
}

impl Mapped {
    /// The segment `segment` of the peer of `link`.
    pub(super) fn new(map: Mmap, file: OwnedFd, segment: u32, link: Weak<LocalLink>) -> Arc<Self> {
        let mapped = Arc::new(Self { map, file: Arc::new(file), segment, link });
        let entry = (mapped.map.len(), Arc::downgrade(&mapped));
        registry().insert(mapped.address(), entry);
        mapped
    }

    /// Size in bytes.
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    fn address(&self) -> usize {
        self.map.as_ptr().addr()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Before the memory is unmapped, so no other segment has this address yet.
        registry().remove(&self.address());
    }
}

fn registry() -> std::sync::MutexGuard<'static, BTreeMap<usize, (usize, Weak<Mapped>)>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The segment that holds all of `bytes`, and where they begin in it.
pub(super) fn find(bytes: &[u8]) -> Option<(Arc<Mapped>, u32)> {
    let address = bytes.as_ptr().addr();
    let registry = registry();
    let (from, (len, mapped)) = registry.range(..=address).next_back()?;
    let start = address - from;
    let is_inside = start.checked_add(bytes.len()).is_some_and(|end| end <= *len);
    // Not dropped here, where the registry is locked, if it is another one.
    if !is_inside {
        return None;
    }
    Some((mapped.upgrade()?, u32::try_from(start).ok()?))
}

/// Use of a segment for one packet.
pub(super) struct Used(pub(super) Arc<Mapped>);

impl Memory for Used {
    fn bytes(&self) -> &[u8] {
        &self.0.map
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(link) = self.0.link.upgrade() {
            link.send(&Head::Release(self.0.segment), &[]);
        }
    }
}

/// Segments of others that the receiver of a link knows.
#[derive(Default)]
pub(super) struct Forwarded(Vec<Entry>);

struct Entry {
    source: Weak<Mapped>,
    /// The bytes of each packet that the receiver has.
    held: Vec<ForeignBytes>,
}

impl Forwarded {
    /// Number of `source` for the receiver, and its file if the receiver does not know it yet; `None` if
    /// the receiver has packets in too many others.
    pub(super) fn number(&mut self, source: &Arc<Mapped>) -> Option<(u32, Option<Arc<OwnedFd>>)> {
        let is_known = |entry: &Entry| entry.source.as_ptr() == Arc::as_ptr(source);
        if let Some(index) = self.0.iter().position(is_known) {
            return Some((FIRST + index as u32, None));
        }
        let free = || self.0.iter().enumerate().filter(|(_, entry)| entry.held.is_empty());
        // First those that will not come again.
        let index = match free().find(|(_, entry)| entry.source.strong_count() == 0) {
            Some((index, _)) => index,
            None if self.0.len() < MOST => self.0.len(),
            None => free().next()?.0,
        };
        let entry = Entry { source: Arc::downgrade(source), held: Vec::new() };
        match self.0.get_mut(index) {
            Some(slot) => *slot = entry,
            None => self.0.push(entry),
        }
        Some((FIRST + index as u32, Some(source.file.clone())))
    }

    /// Keeps the bytes of a packet in a segment with a [number](Self::number) until the receiver releases
    /// them.
    pub(super) fn hold(&mut self, segment: u32, held: ForeignBytes) {
        if let Some(entry) = self.0.get_mut((segment - FIRST) as usize) {
            entry.held.push(held);
        }
    }

    /// The receiver has released a packet in a segment; its bytes, if the number is that of a forwarded
    /// one. They are to be dropped without a lock of the link, because that tells their sender.
    pub(super) fn release(&mut self, segment: u32) -> Option<Option<ForeignBytes>> {
        let index = segment.checked_sub(FIRST)?;
        Some(self.0.get_mut(index as usize).and_then(|entry| entry.held.pop()))
    }
}
