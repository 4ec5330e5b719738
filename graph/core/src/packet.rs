//! A value on its way between nodes.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Weak, atomic::Ordering},
};

use crossbeam::queue::ArrayQueue;

use crate::{AnyPayload, Flight, Payload, Timestamp, threading::AtomicUsize};

mod cell;
#[cfg(all(test, shuttle))]
mod interleavings;

use cell::{Idle, Shared, Unique};

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

impl Header {
    /// What is handed down to packets that descend from this one.
    ///
    /// Field by field, because what was just written in parts is slow to read as a whole.
    #[inline]
    pub fn handed_down(&self) -> Self {
        let Self { at, epoch, trace, entered_ns, model_ns, .. } = *self;
        Self { at, epoch, trace, entered_ns, model_ns, ..Self::default() }
    }
}

/// A shared, immutable value with its header. Cloning copies no value.
///
/// The default holds none.
#[derive(Default)]
pub struct Packet {
    /// What the engine knows about it.
    pub header: Header,
    /// Present while an edge counts what is under way behind it, and this belongs to it.
    pub flight: Option<Flight>,
    /// Present until the value is taken or the packet is dropped.
    cell: Option<Shared>,
}

/// Memory for the values of one stream: cells whose packets are gone, ready for new values.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Cells>);

/// The free cells of a pool.
struct Cells {
    free: ArrayQueue<Idle>,
    made: AtomicUsize,
}

/// A value that is being made and that nobody else sees yet.
///
/// It comes out of a pool and may hold what an earlier packet held; unless it is sent, it goes
/// back there.
pub struct Loan<T: Payload> {
    /// Present until the loan is sealed or dropped.
    cell: Option<Unique<T>>,
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
        while let Some(idle) = self.0.free.pop() {
            if let Some(cell) = idle.into_unique() {
                return Loan { cell: Some(cell) };
            }
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
        Self { cell: Some(Unique::new(value, home)) }
    }

    /// Seals the value; from now on it does not change.
    #[inline]
    pub fn into_packet(self, header: Header) -> Packet {
        let mut packet = Packet { header, flight: None, cell: None };
        self.seal(&mut packet);
        packet
    }

    /// The same in a packet that holds no value.
    #[inline]
    pub(crate) fn seal(mut self, packet: &mut Packet) {
        packet.cell = self.cell.take().map(Unique::share);
    }
}

impl<T: Payload> Deref for Loan<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.cell.as_ref().expect(UNSEALED)
    }
}

impl<T: Payload> DerefMut for Loan<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.cell.as_mut().expect(UNSEALED)
    }
}

/// What a loan relies on: sealing and dropping consume it.
const UNSEALED: &str = "a loan has a value until it is sealed or dropped";

impl<T: Payload> Drop for Loan<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            go_home(cell.into_idle());
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
        self.cell.as_ref()?.get()
    }

    /// The value; `None` once it was taken.
    #[inline]
    pub fn payload(&self) -> Option<&dyn AnyPayload> {
        self.cell.as_ref().map(Shared::payload)
    }

    /// The value, when it is a `T`, to change it: in place when nobody else holds it, otherwise a
    /// copy, in memory of `pool` where there is one.
    pub fn into_loan<T: Payload>(mut self, pool: Option<&Pool>) -> Option<Loan<T>> {
        self.take(|| pool)
    }

    /// The same, of which only the header is left then.
    #[inline]
    pub(crate) fn take<'p, T: Payload>(
        &mut self,
        pool: impl FnOnce() -> Option<&'p Pool>,
    ) -> Option<Loan<T>> {
        match self.cell.take()?.into_unique() {
            Ok(cell) => Some(Loan { cell: Some(cell) }),
            Err(cell) => self.copy(cell, pool()),
        }
    }

    /// A copy of the value in `cell`, which this packet has held, when it is a `T`.
    #[cold]
    fn copy<T: Payload>(&mut self, cell: Shared, pool: Option<&Pool>) -> Option<Loan<T>> {
        let value = self.cell.insert(cell).get::<T>()?;
        let mut copy = pool.map_or_else(|| Loan::new(T::default()), Pool::loan);
        copy.clone_from(value);
        self.empty();
        Some(copy)
    }

    /// A clone that is under way as this one is, for another edge.
    pub fn share(&self) -> Self {
        let mut shared = self.clone();
        shared.flight.clone_from(&self.flight);
        shared
    }

    /// Lets go of the value; the header stays.
    #[inline]
    pub fn empty(&mut self) {
        if self.flight.is_some() {
            self.flight = None;
        }
        if let Some(cell) = self.cell.take() {
            let_go(cell);
        }
    }
}

impl Clone for Packet {
    /// The same value and header. A clone is not under way: a node may keep it.
    #[inline]
    fn clone(&self) -> Self {
        Self { header: self.header, flight: None, cell: self.cell.clone() }
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        self.empty();
    }
}

fn let_go(cell: Shared) {
    if let Some(idle) = cell.release() {
        go_home(idle);
    }
}

/// Takes a cell that nobody holds to its pool.
fn go_home(idle: Idle) {
    if let Some(home) = idle.home().upgrade() {
        // A full pool has enough; the value is freed.
        drop(home.free.push(idle));
    }
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} free", self.free.len(), self.made.load(Ordering::Relaxed))
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
        assert!(packet.get::<crate::test_payload::Sample>().is_none());
        assert!(packet.into_loan::<crate::test_payload::Sample>(None).is_none());
    }
}
