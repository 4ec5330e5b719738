//! A value on its way between nodes.

use std::{
    any::Any,
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Weak, atomic::Ordering},
};

use crossbeam::queue::ArrayQueue;

use crate::{
    AnyPayload, Flight, Payload, Timestamp,
    threading::{AtomicUsize, step},
};

#[cfg(all(test, shuttle))]
mod model;

/// What the engine knows about a packet without looking inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// When the first sample, row or event of the value happened.
    pub at: Timestamp,
    /// Place in its stream, from zero, without gaps where it was sent.
    pub sequence: u64,
    /// The epoch in which it came to a node that can be interrupted, or what it descends from did;
    /// zero before. Each interrupt begins an epoch, and makes packets of earlier ones obsolete.
    pub epoch: u32,
    /// How often its sender has been restarted.
    pub restarts: u32,
    /// The packet of a source that it descends from; zero for none.
    pub trace: u64,
    /// When that packet left its source, in nanoseconds of the real clock since the start.
    pub entered_ns: u64,
    /// How long models have run for it since then, in nanoseconds.
    pub model_ns: u64,
}

/// A shared, immutable value with its header. Cloning copies no value.
pub struct Packet {
    /// What the engine knows about it.
    pub header: Header,
    /// Present while an edge counts what is under way behind it, and this belongs to it.
    pub flight: Option<Flight>,
    /// Present until the packet is dropped.
    cell: Option<Arc<dyn AnyCell>>,
}

/// Memory for the values of one stream: cells whose packets are gone, ready for new values.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Cells>);

#[derive(Debug)]
struct Cells {
    free: ArrayQueue<Arc<dyn AnyCell>>,
    made: AtomicUsize,
}

/// A value that is being made and that nobody else sees yet.
///
/// It comes out of a pool and may hold what an earlier packet held; unless it is sent, it goes
/// back there.
pub struct Loan<T: Payload> {
    /// Present until the loan is sealed or dropped.
    cell: Option<Arc<Cell<T>>>,
}

/// A value, the number of packets that hold it, and the pool that it returns to.
struct Cell<T> {
    holders: AtomicUsize,
    home: Weak<Cells>,
    value: T,
}

trait AnyCell: Any + Send + Sync {
    fn holders(&self) -> &AtomicUsize;
    fn home(&self) -> &Weak<Cells>;
    fn payload(&self) -> &dyn AnyPayload;
}

impl<T: Payload> AnyCell for Cell<T> {
    fn holders(&self) -> &AtomicUsize {
        &self.holders
    }

    fn home(&self) -> &Weak<Cells> {
        &self.home
    }

    fn payload(&self) -> &dyn AnyPayload {
        &self.value
    }
}

/// The cell, when it is one of a `T`.
#[inline]
fn cell_of<T: Payload>(cell: Arc<dyn AnyCell>) -> Option<Arc<Cell<T>>> {
    let cell: Arc<dyn Any + Send + Sync> = cell;
    cell.downcast().ok()
}

impl fmt::Debug for dyn AnyCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.payload().type_name())
    }
}

impl Pool {
    /// A pool that keeps at most `capacity` unused values.
    pub fn new(capacity: usize) -> Self {
        let free = ArrayQueue::new(capacity.max(1));
        Self(Arc::new(Cells { free, made: AtomicUsize::new(0) }))
    }

    /// How many unused values it keeps at most.
    pub fn capacity(&self) -> usize {
        self.0.free.capacity()
    }

    /// How many values it has made.
    pub fn made(&self) -> usize {
        self.0.made.load(Ordering::Relaxed)
    }

    /// How many values wait to be filled again.
    pub fn free(&self) -> usize {
        self.0.free.len()
    }

    /// A value to fill: one that came back, or a new one.
    pub fn loan<T: Payload>(&self) -> Loan<T> {
        // A cell whose last holder is just letting go of it is not free yet: look at the next.
        for _ in 0..self.0.free.len() {
            let Some(cell) = self.0.free.pop() else { break };
            step();
            let Some(mut cell) = cell_of::<T>(cell) else { continue };
            if Arc::get_mut(&mut cell).is_some() {
                cell.holders.store(1, Ordering::Relaxed);
                return Loan { cell: Some(cell) };
            }
            drop(self.0.free.push(cell));
        }
        self.0.made.fetch_add(1, Ordering::Relaxed);
        Loan::of(T::default(), Arc::downgrade(&self.0))
    }
}

impl<T: Payload> Loan<T> {
    /// A value outside any pool.
    pub fn new(value: T) -> Self {
        Self::of(value, Weak::new())
    }

    fn of(value: T, home: Weak<Cells>) -> Self {
        Self { cell: Some(Arc::new(Cell { holders: AtomicUsize::new(1), home, value })) }
    }

    /// Seals the value; from now on it does not change.
    #[inline]
    pub fn into_packet(mut self, header: Header) -> Packet {
        let cell = self.cell.take().map(|cell| cell as Arc<dyn AnyCell>);
        Packet { header, flight: None, cell }
    }
}

impl<T: Payload> Deref for Loan<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.cell.as_ref().expect(UNSEALED).value
    }
}

impl<T: Payload> DerefMut for Loan<T> {
    fn deref_mut(&mut self) -> &mut T {
        let cell = self.cell.as_mut().and_then(Arc::get_mut);
        &mut cell.expect(UNSEALED).value
    }
}

/// What a loan relies on: sealing and dropping consume it.
const UNSEALED: &str = "a loan is the only holder of its cell until it is sealed";

impl<T: Payload> Drop for Loan<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            release(cell);
        }
    }
}

impl Packet {
    /// A packet with `value`, outside any pool.
    pub fn new<T: Payload>(value: T, header: Header) -> Self {
        Loan::new(value).into_packet(header)
    }

    /// The value, when it is a `T`.
    #[inline]
    pub fn get<T: Payload>(&self) -> Option<&T> {
        let cell: &dyn Any = self.cell.as_deref()?;
        cell.downcast_ref::<Cell<T>>().map(|cell| &cell.value)
    }

    /// The value; `None` only while the packet is being dropped.
    #[inline]
    pub fn payload(&self) -> Option<&dyn AnyPayload> {
        self.cell.as_deref().map(AnyCell::payload)
    }

    /// The value, when it is a `T`, to change it: in place when nobody else holds it, otherwise a
    /// copy, in memory of `pool` where there is one.
    pub fn into_loan<T: Payload>(self, pool: Option<&Pool>) -> Option<Loan<T>> {
        self.try_into_loan(pool).ok()
    }

    /// The same, which gives the packet back when its value is no `T`.
    #[inline]
    pub(crate) fn try_into_loan<T: Payload>(
        mut self,
        pool: Option<&Pool>,
    ) -> Result<Loan<T>, Self> {
        if self.get::<T>().is_none() {
            return Err(self);
        }
        match self.cell.take() {
            Some(cell) => change(cell, pool).ok_or(self),
            None => Err(self),
        }
    }
}

/// The value of a cell that holds a `T`, in place or as a copy.
#[inline]
fn change<T: Payload>(cell: Arc<dyn AnyCell>, pool: Option<&Pool>) -> Option<Loan<T>> {
    let is_alone = cell.holders().load(Ordering::Acquire) == 1;
    let cell = cell_of::<T>(cell)?;
    step();
    // Nobody has a weak reference to a cell, and only a holder makes others, so that who is alone
    // stays alone; a former holder may still be letting go.
    if is_alone && Arc::strong_count(&cell) == 1 {
        return Some(Loan { cell: Some(cell) });
    }
    let mut copy = pool.map_or_else(|| Loan::new(T::default()), Pool::loan);
    copy.clone_from(&cell.value);
    release(cell);
    Some(copy)
}

impl Clone for Packet {
    #[inline]
    fn clone(&self) -> Self {
        if let Some(cell) = &self.cell {
            cell.holders().fetch_add(1, Ordering::Relaxed);
        }
        Self { header: self.header, flight: self.flight.clone(), cell: self.cell.clone() }
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            release(cell);
        }
    }
}

/// Counts one holder less; the last one takes the cell home.
fn release(cell: Arc<dyn AnyCell>) {
    let is_last = cell.holders().fetch_sub(1, Ordering::AcqRel) == 1;
    step();
    if is_last && let Some(home) = cell.home().upgrade() {
        // A full pool has enough; the value is freed.
        drop(home.free.push(cell));
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.payload().map_or("nothing", AnyPayload::type_name);
        write!(f, "Packet({name} at {})", self.header.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Bytes(Vec<u8>);

    impl Payload for Bytes {
        const TYPE: &'static str = "test/Bytes";
    }

    fn packet(pool: &Pool) -> (Packet, *const u8) {
        let mut loan = pool.loan::<Bytes>();
        loan.0.resize(16, 1);
        let address = loan.0.as_ptr();
        (loan.into_packet(Header::default()), address)
    }

    #[test]
    fn the_last_holder_changes_in_place() {
        let pool = Pool::new(4);
        let (packet, address) = packet(&pool);
        assert_eq!(packet.into_loan::<Bytes>(Some(&pool)).unwrap().0.as_ptr(), address);
    }

    #[test]
    fn a_shared_packet_is_copied_for_who_changes_it() {
        let pool = Pool::new(4);
        let (packet, address) = packet(&pool);
        let other = packet.clone();
        let mut loan = packet.into_loan::<Bytes>(Some(&pool)).unwrap();
        loan.0[0] = 9;
        assert_ne!(loan.0.as_ptr(), address);
        assert_eq!(other.get::<Bytes>().unwrap().0[0], 1);
    }

    #[test]
    fn memory_comes_back_to_the_pool() {
        let pool = Pool::new(4);
        let (first, address) = packet(&pool);
        let second = first.clone();
        drop(first);
        assert_ne!(packet(&pool).1, address, "it is still held");
        drop(second);
        let again: Vec<_> = (0..2).map(|_| packet(&pool)).collect();
        assert!(again.iter().any(|(_, a)| *a == address));
    }

    #[test]
    fn a_packet_outlives_its_pool() {
        let pool = Pool::new(1);
        let (packet, _) = packet(&pool);
        drop(pool);
        assert_eq!(packet.get::<Bytes>().unwrap().0.len(), 16);
    }

    #[test]
    fn the_wrong_type_is_refused() {
        let pool = Pool::new(1);
        let (packet, _) = packet(&pool);
        assert!(packet.get::<crate::KeywordEvent>().is_none());
        assert!(packet.into_loan::<crate::KeywordEvent>(None).is_none());
    }
}
